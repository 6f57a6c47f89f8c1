"""regard: learn to turn one sequence into another, and look inside while it works.

    import regard
    model = regard.train("pairs.tsv")
    model = regard.load("runs/demo")
    model.predict("the cat sleeps .").text

Names are looked up when they are first used, so that `import regard` costs nothing and needs no torch. The first of
them that needs torch settles what must be settled before torch is loaded, unless the program has loaded it itself.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from regard.lazy import look_up

if TYPE_CHECKING:
    from regard.recipe.schema import Recipe
    from regard.run.api import load, train
    from regard.run.joint import JointModel
    from regard.run.model import Model

__version__ = "0.1.0"
__all__ = ["JointModel", "Model", "Recipe", "__version__", "load", "train"]

_HOMES = {
    "JointModel": "regard.run.joint",
    "Model": "regard.run.model",
    "Recipe": "regard.recipe.schema",
    "load": "regard.run.api",
    "train": "regard.run.api",
}


def __getattr__(name: str) -> object:
    if _HOMES.get(name, "").startswith("regard.run."):
        with suppress(ModuleNotFoundError):  # in regard-runtime, which has no runs either
            from regard.process import keep_heap

            keep_heap()
    return look_up("regard", _HOMES, name)

"""regard: learn to turn one sequence into another, and look inside while it works.

    import regard
    model = regard.train("pairs.tsv")
    model = regard.load("runs/demo")
    model.predict("the cat sleeps .").text

Names are looked up when they are first used, so that `import regard` costs nothing and needs no torch. The first of
them that needs torch settles what must be settled before torch is loaded, unless the program has loaded it itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    try:
        if _HOMES[name].startswith("regard.run."):
            from regard.process import keep_heap

            keep_heap()
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("regard."):
            error.add_note(
                f"regard.{name} is in regard, but not in regard-runtime, which only predicts with prepared runs"
            )
        raise

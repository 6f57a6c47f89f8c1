"""Our training by its own command; only its log has a line for every so many steps instead of 20, and it tells its
memory with each.

python regard_training.py RECIPE WINDOW
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from measuring import memory, tell

from regard.process import settle

if TYPE_CHECKING:
    from regard.recipe import Recipe
    from regard.run.watching import Watching
    from regard.training import Event
    from regard.training.settings import Settings


def main(recipe: str, window: int) -> None:
    # Before torch allocates, as the command does it.
    settle()
    from regard.cli.main import main as command
    from regard.run import training
    from regard.training import Stepped

    usual: Callable[[Recipe], Settings] = vars(training)["training_settings"]
    watch: Callable[..., Watching] = vars(training)["watch"]

    def often(recipe: "Recipe") -> "Settings":
        return replace(usual(recipe), log_every=window)

    def tell_memory(event: "Event") -> None:
        if isinstance(event, Stepped):
            tell(step=event.progress.step, **memory())

    def watch_memory(*given: Any, **named: Any) -> "Watching":
        watching = watch(*given, **named)
        watching.listeners = [*watching.listeners, tell_memory]
        return watching

    vars(training)["training_settings"] = often
    vars(training)["watch"] = watch_memory
    sys.argv = ["regard", "train", recipe]
    command()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

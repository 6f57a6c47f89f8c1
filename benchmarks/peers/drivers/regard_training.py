"""Our training by its own command; only its log has a line for every so many steps instead of 20.

python regard_training.py RECIPE WINDOW
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.process import keep_heap, spin_shortly

if TYPE_CHECKING:
    from regard.recipe import Recipe
    from regard.training.settings import Settings


def main(recipe: str, window: int) -> None:
    # Before torch allocates, as the command does it.
    spin_shortly()
    keep_heap()
    from regard.cli.main import main as command
    from regard.run import training

    usual: Callable[[Recipe], Settings] = vars(training)["training_settings"]

    def often(recipe: "Recipe") -> "Settings":
        return replace(usual(recipe), log_every=window)

    vars(training)["training_settings"] = often
    sys.argv = ["regard", "train", recipe]
    command()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

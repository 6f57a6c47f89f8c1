"""One run in a process of its own: `python -m regard.run.child`, started by `regard.run.series`.

The first line of standard input says what to train. Standard input then stays open as long as the process that asked
for the run; where that one ends, however it ends, so does this one, and saves its state first.
"""

import json
import os
import signal
import sys
import threading

from regard.errors import RegardError, ResourceError, out_of_memory
from regard.process import settle


def watch_parent() -> None:
    """Ask this process to save and leave as soon as nobody waits for it any more."""

    descriptor = sys.stdin.fileno()

    def wait() -> None:
        while os.read(descriptor, 1):  # not through a buffer, whose lock would be held when the interpreter ends
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Train, remember that it is done, and leave with the exit code that says what happened."""
    request = json.loads(sys.stdin.buffer.readline())
    settle()
    import torch

    from regard.recipe import parse_recipe
    from regard.run.series import remember
    from regard.run.training import train

    torch.set_num_threads(request["threads"])
    try:
        recipe = parse_recipe(request["recipe"], request["name"])
        watch_parent()
        remember(recipe, train(recipe, overwrite=request["overwrite"]))
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Exception as error:
        if not out_of_memory(error):
            raise
        print("regard: there is not enough memory; try a smaller model, batch or beam", file=sys.stderr)
        sys.exit(ResourceError.exit_code)


if __name__ == "__main__":
    main()

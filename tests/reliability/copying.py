"""A model that answers each line with itself, so that a lost, mixed up or doubled line shows; and commands on it."""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from regard.cli.main import main
from regard.recipe import recipe_from
from regard.run.model import Model
from regard.run.training import train

LETTERS = "abcdefgh"


def line_of(number: int) -> str:
    """Another line for each number up to 8⁶: its digits in base 8."""
    return " ".join(LETTERS[number // 8**place % 8] for place in range(6))


def copying_model(folder: Path) -> Model:
    """A transducer whose tags are the words."""
    for name, start in (("train", 0), ("valid", 3000), ("test", 3100)):
        lines = [line_of(start + 977 * step) for step in range(120)]
        (folder / f"{name}.tsv").write_text("".join(f"{line}\t{line}\n" for line in lines), encoding="utf-8")
    recipe = recipe_from(
        {
            "run": str(folder / "run"),
            "data": {name: str(folder / f"{name}.tsv") for name in ("train", "valid", "test")},
            "text": {"unit": "word", "size": 50, "shared": False, "target": {"unit": "word"}},
            "model": {
                "shape": "transducer",
                "width": 16,
                "layers": 1,
                "dropout": 0.0,
                "encoder": {"kind": "transformer", "heads": 2},
            },
            "training": {"steps": 60, "batch_tokens": 400, "learning_rate": 0.02, "warmup": 10, "validate_every": 60},
            "search": {"batch_sentences": 128},
            "evaluation": {"metrics": ["exact"], "resamples": 10},
        }
    )
    return train(recipe).model


def forked(arguments: Sequence[str], *, stdin: int, stdout: int, stderr: int) -> int:
    """Start the command in a child of this process, which has loaded everything already; its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for place, handle in enumerate((stdin, stdout, stderr)):
            os.dup2(handle, place)
        last = max(int(handle.name) for handle in Path("/dev/fd").iterdir())
        os.closerange(3, last + 1)  # a pipe whose other end were kept here would never end
        sys.stdin, sys.stdout, sys.stderr = (
            open(place, mode, encoding="utf-8")  # noqa: SIM115, PTH123
            for place, mode in enumerate(("r", "w", "w"))
        )
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        sys.argv = ["regard", *arguments]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

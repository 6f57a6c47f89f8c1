"""CTranslate2 on an exported model.

Batches go to as many workers of one thread as there are cores, single sentences to one: its fastest ways.

python ctranslate2_decoding.py MODEL PIECES SETTINGS COMPUTE_TYPE CORES
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import ctranslate2
from measuring import LONGEST, Setting, chosen, measure, read_settings

Rows = Sequence[list[int]]


SIZES = (16, 32, 64)
"""Sentences that a worker takes at once; the size that is fastest on the first sentences is measured."""


def main(folder: str, path: str, settings: list[Setting], compute: str, cores: int) -> None:
    pieces = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    # Rows are numbers for `measure`, which chooses among them; their pieces are looked up here.
    rows = [[number] for number in range(len(pieces))]
    translators = {
        workers: ctranslate2.Translator(
            folder, device="cpu", compute_type=compute, inter_threads=workers, intra_threads=1
        )
        for workers in {1, cores}
    }
    for setting in settings:
        forced, single = setting.ends == "forced", setting.batch == 1
        translator = translators[1 if single else cores]

        def translate(
            wanted: Rows,
            size: int,
            setting: Setting = setting,
            forced: bool = forced,
            translator: ctranslate2.Translator = translator,
        ) -> int:
            results = translator.translate_batch(
                [pieces[number] for (number,) in wanted],
                beam_size=setting.beam,
                max_batch_size=size,
                min_decoding_length=setting.steps if forced else 1,
                max_decoding_length=setting.steps if forced else LONGEST,
            )
            return sum(len(result.hypotheses[0]) for result in results)

        def one_by_one(wanted: Rows, translate: Callable[[Rows, int], int] = translate) -> int:
            return sum(translate([row], 1) for row in wanted)

        if single:
            measure(setting, rows, one_by_one)
        else:
            size = fastest(translate, chosen(rows, setting.sentences // 2))
            measure(setting, rows, partial(translate, size=size), size=size)


def fastest(translate: Callable[[Rows, int], int], rows: Rows) -> int:
    """The size of batches with which some sentences are done first."""
    taken = {}
    translate(rows[: SIZES[0]], SIZES[0])
    for size in SIZES:
        began = time.perf_counter()
        translate(rows, size)
        taken[size] = time.perf_counter() - began
    return min(SIZES, key=taken.__getitem__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], read_settings(sys.argv[3]), sys.argv[4], int(sys.argv[5]))

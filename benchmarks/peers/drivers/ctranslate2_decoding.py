"""CTranslate2 on an exported model.

Batches go to as many workers of one thread as there are cores, single sentences to one: its fastest ways.

python ctranslate2_decoding.py MODEL PIECES SETTINGS COMPUTE_TYPE CORES
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import ctranslate2
from measuring import Setting, measure, read_settings

Rows = Sequence[list[int]]


def main(folder: str, path: str, settings: list[Setting], compute: str, cores: int) -> None:
    pieces = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    # Rows are numbers for `measure`, which chooses among them; their pieces are looked up here.
    rows = [[number] for number in range(len(pieces))]
    for setting in settings:
        forced = setting.ends == "forced"
        workers = 1 if setting.batch == 1 else cores
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type=compute, inter_threads=workers, intra_threads=1
        )

        def translate(
            wanted: Rows,
            setting: Setting = setting,
            forced: bool = forced,
            translator: ctranslate2.Translator = translator,
        ) -> int:
            results = translator.translate_batch(
                [pieces[number] for (number,) in wanted],
                beam_size=setting.beam,
                max_batch_size=setting.batch,
                min_decoding_length=setting.steps if forced else 1,
                max_decoding_length=setting.steps if forced else 100,
            )
            return sum(len(result.hypotheses[0]) for result in results)

        def one_by_one(wanted: Rows, translate: Callable[[Rows], int] = translate) -> int:
            return sum(translate([row]) for row in wanted)

        measure(setting, rows, one_by_one if setting.batch == 1 else translate)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], read_settings(sys.argv[3]), sys.argv[4], int(sys.argv[5]))

"""Our native engine on a prepared run, ids to ids as the other engines; no torch is loaded.

Batches go to as many workers as there are cores, single sentences to one.

python native_decoding.py ENGINE PAIRS SETTINGS CORES
"""

import sys
from collections.abc import Callable, Sequence

from measuring import END, LONGEST, Ids, Setting, measure, read_pairs, read_settings

from regard.engine import Engine, EngineOptions, EngineRequest


def main(path: str, pairs: str, settings: list[Setting], cores: int) -> None:
    engine = Engine(path)
    rows = [source for source, _ in read_pairs(pairs)]
    for setting in settings:
        forced = setting.ends == "forced"
        options = EngineOptions(beam=setting.beam, min_length=setting.steps if forced else 1, stopping="early")
        limit = setting.steps if forced else LONGEST

        def search(wanted: Sequence[Ids], workers: int, options: EngineOptions = options, limit: int = limit) -> int:
            asked = [EngineRequest(ids=[*row, END], limit=limit) for row in wanted]
            found = engine.search(asked, options=options, workers=workers)
            return sum(len(outputs[0].tokens) for outputs in found)

        def in_batches(wanted: Sequence[Ids], search: Callable[[Sequence[Ids], int], int] = search) -> int:
            return search(sorted(wanted, key=len), cores)

        def one_by_one(wanted: Sequence[Ids], search: Callable[[Sequence[Ids], int], int] = search) -> int:
            return sum(search([row], 1) for row in wanted)

        measure(setting, rows, one_by_one if setting.batch == 1 else in_batches)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], read_settings(sys.argv[3]), int(sys.argv[4]))

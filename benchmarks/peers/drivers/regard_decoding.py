"""Our search in one process, by the same call as `regard predict`.

python regard_decoding.py RUN TEXT SETTINGS
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from measuring import LONGEST, Setting, measure, read_settings

from regard.process import settle


def main(run: str, path: str, settings: list[Setting]) -> None:
    settle()
    from regard.run.model import Model
    from regard.search import SearchOptions

    model = Model.load(run)
    assert {setting.batch for setting in settings} <= {1, model.recipe.search.batch_sentences}
    texts = Path(path).read_text(encoding="utf-8").splitlines()
    # Rows are numbers for `measure`, which chooses among them; their texts are looked up here.
    rows = [[number] for number in range(len(texts))]
    for setting in settings:
        options = model.options(beam=setting.beam)
        limits = {"min_length": setting.steps, "max_length": setting.steps} if setting.ends == "forced" else {}
        stopping = "exact" if setting.ends == "exact" else "early"
        options = replace(options, **{"max_length": LONGEST, "max_ratio": None, "stopping": stopping, **limits})
        ahead = 1 if setting.batch == 1 else None

        def decode(wanted: Sequence[list[int]], options: SearchOptions = options, ahead: int | None = ahead) -> int:
            found = model.predict_many((texts[number] for (number,) in wanted), options=options, ahead=ahead)
            return sum(len(one.outputs[0].pieces) for one in found)

        measure(setting, rows, decode)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], read_settings(sys.argv[3]))

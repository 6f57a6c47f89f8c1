"""A run folder away from torch: `engine.bin`, the tokenizers, and `engine.json`, which says how they are used.

What is written is what `regard predict --engine native` writes, for a line of text in and a line of text out.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regard.engine.runtime import Engine, EngineOptions, EngineRequest
from regard.errors import ModelError, UsageError
from regard.files import replace_file
from regard.special import END
from regard.text.backwards import BackwardTokenizer
from regard.text.beginning import encode_beginning
from regard.text.build import load_tokenizer

NAME: Final = "engine.bin"
SETTINGS: Final = "engine.json"
WEIGHTS: Final = "weights"
FORMAT: Final = 1
MOST: Final = 2**32 - 1
"""The largest number that a setting can be: a checksum."""

AHEAD: Final = 1024
"""So many lines are read before the first is answered, and sorted by length."""

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "source": (str,),
    "target": (str,),
    "reverse_target": (bool,),
    "tabs": (bool,),
    "max_source": (int,),
    "beam": (int,),
    "length_penalty": (int, float),
    "length_formula": (str,),
    "min_length": (int,),
    "block_ngrams": (int,),
    "stopping": (str,),
    "max_length": (int,),
    "max_ratio": (int, float, type(None)),
    "weights": (int,),
}


@dataclass(frozen=True, slots=True)
class Line:
    """What was made of a line; `remark` says what was not done as asked."""

    text: str
    remark: str = ""


def write_settings(folder: Path, settings: Mapping[str, object]) -> None:
    """Put what the runtime must know beside the engine file."""
    assert settings.keys() == _KINDS.keys()
    content = json.dumps({"format": FORMAT, **settings}, indent=2) + "\n"
    replace_file(folder / SETTINGS, content.encode())


def read_settings(folder: Path) -> dict[str, object]:
    """The settings of a prepared run, each of its kind; ModelError for anything else."""
    path = folder / SETTINGS
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{path}: there is no such file; `regard prepare {folder}` writes it, with regard") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read: {error}; write it again with `regard prepare`") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ModelError(f"{path}: is not of format {FORMAT}; write it again with `regard prepare`")
    found.setdefault("stopping", "exact")  # before there was a choice
    for name, kinds in _KINDS.items():
        value = found.get(name, "")
        wrong_text = isinstance(value, str) and value not in _TEXTS.get(name, ())
        wrong_number = isinstance(value, int | float) and not 0 <= value <= MOST  # NaN is neither
        if type(value) not in kinds or wrong_text or wrong_number:
            raise ModelError(f"{path}: {name} cannot be {value!r}; write it again with `regard prepare`")
    return found


_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "source": ("text", "source"),
    "target": ("text", "target"),
    "length_formula": ("plain", "gnmt"),
    "stopping": ("exact", "early"),
}


class Prepared:
    """A prepared run that answers lines."""

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder)
        settings = read_settings(path)
        self.engine = Engine(path / NAME)
        if self.engine.setting(WEIGHTS) != settings["weights"]:
            raise ModelError(f"{path}: {NAME} and {SETTINGS} are of different weights; prepare the run again")
        self.source = load_tokenizer(path, str(settings["source"]))
        same = settings["source"] == settings["target"]
        target = self.source if same else load_tokenizer(path, str(settings["target"]))
        sizes = self.source.size, target.size
        if (self.engine.source_vocabulary, self.engine.target_vocabulary) != sizes:
            raise ModelError(f"{path}: {NAME} is of other vocabularies than the tokenizers here; prepare the run again")
        self.target = BackwardTokenizer(target) if settings["reverse_target"] else target
        self._settings = settings

    def options(self, beam: int | None = None) -> EngineOptions:
        """Search as the recipe says, with another beam where one is asked for."""
        settings = self._settings
        wide = settings["beam"] if beam is None else beam
        if not isinstance(wide, int) or not 1 <= wide <= 64:
            raise UsageError(f"the beam must be from 1 to 64, not {wide}")
        return EngineOptions(
            beam=wide,
            length_penalty=float(str(settings["length_penalty"])),
            length_formula="gnmt" if settings["length_formula"] == "gnmt" else "plain",
            min_length=int(str(settings["min_length"])),
            block_ngrams=int(str(settings["block_ngrams"])),
            stopping="early" if settings["stopping"] == "early" else "exact",
        )

    def predict(self, lines: Iterable[str], *, beam: int | None = None, workers: int | None = None) -> Iterator[Line]:
        """A line for each line, in order; blank for blank."""
        options = self.options(beam)
        window: list[str] = []
        for line in lines:
            window.append(line)
            if len(window) == AHEAD:
                yield from self._answered(window, options, workers)
                window = []
        yield from self._answered(window, options, workers)

    def _answered(self, lines: list[str], options: EngineOptions, workers: int | None) -> list[Line]:
        answers = [Line("") for _ in lines]
        requests: list[tuple[int, EngineRequest]] = []
        cuts: dict[int, int] = {}
        longest = int(str(self._settings["max_source"]))
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            if not self._settings["tabs"] and "\t" in line:
                answers[number] = Line("", "a source of one text was expected, and there are tabs in it")
                continue
            ids = encode_beginning(self.source, line).ids
            if not ids:
                answers[number] = Line("", "its text is empty")
                continue
            cuts[number] = max(0, len(ids) - longest)
            kept = ids[:longest]
            requests.append((number, EngineRequest(ids=[*kept, END], limit=self._limit(len(kept)))))
        requests.sort(key=lambda one: len(one[1].ids))
        found = self.engine.answer([request for _, request in requests], options=options, workers=workers)
        for (number, _), answer in zip(requests, found, strict=True):
            text = self.target.decode(answer.found[0].tokens).replace("\n", " ") if answer.found else ""
            cut = f"{cuts[number]} tokens beyond the {longest} that the model reads" if cuts[number] else ""
            lost = "" if answer.found else answer.fault or "the model holds nothing for possible that could go on"
            answers[number] = Line(text, lost or cut)
        return answers

    def _limit(self, items: int) -> int:
        """The most tokens of an output, as `SearchOptions.limit` has it."""
        longest, ratio = int(str(self._settings["max_length"])), self._settings["max_ratio"]
        if ratio is None:
            return longest
        return max(int(str(self._settings["min_length"])), min(longest, 10 + int(float(str(ratio)) * items)))

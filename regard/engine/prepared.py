"""A run folder away from torch: `engine.bin`, the tokenizers, and `engine.json`, which says how they are used.

What is written is what `regard predict --engine native` writes, for a line of text in and a line of text out.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypedDict, Unpack

from regard.engine.links import Side, links
from regard.engine.requests import EngineOptions, EngineReading, EngineRequest
from regard.engine.runtime import Engine
from regard.errors import ModelError, UsageError
from regard.files import replace_file
from regard.special import END
from regard.text.backwards import BackwardTokenizer
from regard.text.beginning import encode_beginning, read_part
from regard.text.build import load_tokenizer

NAME: Final = "engine.bin"
SETTINGS: Final = "engine.json"
WEIGHTS: Final = "weights"
FORMAT: Final = 1
MOST: Final = 2**32 - 1
"""The largest number that a setting can be: a checksum."""

AHEAD: Final = 1024
"""So many lines are read before the first is answered, and sorted by length."""

ALIGNED: Final = 64
"""So many outputs are aligned together: their weights take the memory of tokens times tokens."""

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
    "coverage_penalty": (int, float),
    "alignment_layer": (int, type(None)),
    "alignment_head": (int, type(None)),
    "alignment_shift": (int,),
    "aligns_words": (bool,),
    "max_length": (int,),
    "max_ratio": (int, float, type(None)),
    "weights": (int,),
}


_LATER: Final[Mapping[str, object]] = {
    "stopping": "exact",
    "coverage_penalty": 0.0,
    "alignment_layer": None,
    "alignment_head": None,
    "alignment_shift": 0,
    "aligns_words": True,
}
"""What is not in files of before there was a choice."""


class Asking(TypedDict, total=False):
    """The settings of `EngineOptions` that a caller may ask for beside the beam."""

    coverage_penalty: float
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical: float
    seed: int


@dataclass(frozen=True, slots=True)
class Line:
    """What was made of a line; `remark` says what was not done as asked, `links` are those of words if asked for.

    An output that is not `complete` reached the limit of length before its end.
    """

    text: str
    remark: str = ""
    links: str = ""
    complete: bool = True


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
        raise ModelError(
            f"{path}: there is no such file; `regard prepare {folder}` writes it, with regard, or says why this run "
            "needs torch"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read: {error}; write it again with `regard prepare`") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ModelError(f"{path}: is not of format {FORMAT}; write it again with `regard prepare`")
    found = {**_LATER, **found}
    for name, kinds in _KINDS.items():
        value = found.get(name, "")
        wrong_text = isinstance(value, str) and value not in _TEXTS.get(name, ())
        least, most = _RANGES.get(name, (0, MOST))
        wrong_number = isinstance(value, int | float) and not least <= value <= most  # NaN is neither
        if type(value) not in kinds or wrong_text or wrong_number:
            raise ModelError(f"{path}: {name} cannot be {value!r}; write it again with `regard prepare`")
    return found


_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "source": ("text", "source"),
    "target": ("text", "target"),
    "length_formula": ("plain", "gnmt"),
    "stopping": ("exact", "early"),
}


_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "max_source": (1, MOST),
    "alignment_layer": (-MOST, MOST),  # it may be counted from the last
    "alignment_shift": (0, 1),
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
        self._reading = self._alignment_reading(path / SETTINGS)

    def _alignment_reading(self, path: Path) -> EngineReading | None:
        """Which attention links are made of; None: there is none, or it was prepared before that could be told."""
        layer, head = self._settings["alignment_layer"], self._settings["alignment_head"]
        if layer is None:
            return None
        reading = EngineReading(layer=int(str(layer)), head=None if head is None else int(str(head)))
        try:
            self.engine.attention([], reading=reading)
        except ModelError as error:
            raise ModelError(f"{path}: {error}; write it again with `regard prepare`") from None
        return reading

    def options(self, beam: int | None = None, **asked: Unpack[Asking]) -> EngineOptions:
        """Search as the recipe says, with what is asked for in its place; a sample is not ranked, and has no beam."""
        settings, sample = self._settings, asked.get("sample", False)
        wide = settings["beam"] if beam is None else beam
        if not isinstance(wide, int) or not 1 <= wide <= 64:
            raise UsageError(f"the beam must be from 1 to 64, not {wide}")
        if sample and beam is not None:
            raise UsageError(f"a beam ({beam}) has no effect on samples; leave it out")
        coverage = 0.0 if sample else float(str(settings["coverage_penalty"]))
        further: Asking = {"coverage_penalty": coverage, **asked}
        return EngineOptions(
            beam=wide,
            length_penalty=float(str(settings["length_penalty"])),
            length_formula="gnmt" if settings["length_formula"] == "gnmt" else "plain",
            min_length=int(str(settings["min_length"])),
            block_ngrams=int(str(settings["block_ngrams"])),
            stopping="early" if settings["stopping"] == "early" and not sample else "exact",
            **further,
        )

    def predict(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        workers: int | None = None,
        align: bool = False,
        first: int = 0,
        **asked: Unpack[Asking],
    ) -> Iterator[Line]:
        """A line for each line, in order; blank for blank. With `align`, with the links of words.

        Samples are drawn by a line's number, which counts from `first`.
        """
        options = self.options(beam, **asked)
        if align and self._reading is None:
            raise UsageError(
                "this model has no attention to a source text to read an alignment from, or it was prepared before "
                "that could be told; prepare the run again with `regard prepare`, or leave out --align"
            )
        told = partial(self._told, options=options, workers=workers, align=align)
        window: list[str] = []
        for line in lines:
            window.append(line)
            if len(window) == AHEAD:
                yield from told(window, first)
                window, first = [], first + AHEAD
        yield from told(window, first)

    def _told(
        self, lines: list[str], first: int, *, options: EngineOptions, workers: int | None, align: bool
    ) -> list[Line]:
        answers = self._answered(lines, first, options, workers)
        if align:
            numbers = [number for number, answer in enumerate(answers) if answer.text.strip()]
            for start in range(0, len(numbers), ALIGNED):
                self._align(lines, answers, numbers[start : start + ALIGNED], workers)
        return answers

    def _align(self, lines: list[str], answers: list[Line], numbers: list[int], workers: int | None) -> None:
        """Put links to some answers.

        Outputs are read again, as `Model.align` does: a search may write a text in other tokens than its tokenizer.
        """
        longest = int(str(self._settings["max_source"]))
        sources = [read_part(self.source, lines[number], longest) for number in numbers]
        encoded = [
            (self.source.encode(source), self.target.encode(answers[number].text))
            for source, number in zip(sources, numbers, strict=True)
        ]
        assert self._reading is not None
        pairs = [([*source.ids, END], target.ids) for source, target in encoded]
        attention = self.engine.attention(pairs, reading=self._reading, workers=workers)
        shift = int(str(self._settings["alignment_shift"]))
        for number, text, (source, target), weights in zip(numbers, sources, encoded, attention, strict=True):
            if self._settings["aligns_words"]:
                sides = Side.of_words(text, source), Side.of_words(answers[number].text, target)
            else:
                sides = Side.of_source_tokens(source), Side.of_target_tokens(target)
            answers[number] = replace(answers[number], links=links(weights, *sides, shift=shift))

    def _answered(self, lines: list[str], first: int, options: EngineOptions, workers: int | None) -> list[Line]:
        answers = [Line("") for _ in lines]
        requests: list[tuple[int, EngineRequest]] = []
        cut: set[int] = set()
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
            if len(ids) > longest:
                cut.add(number)
            kept = ids[:longest]
            asked = EngineRequest(ids=[*kept, END], limit=self._limit(len(kept)), number=first + number)
            requests.append((number, asked))
        requests.sort(key=lambda one: len(one[1].ids))
        found = self.engine.answer([request for _, request in requests], options=options, workers=workers)
        for (number, _), answer in zip(requests, found, strict=True):
            text = self.target.decode(answer.found[0].tokens).replace("\n", " ") if answer.found else ""
            short = f"longer than {longest:,} tokens, of which only these were read" if number in cut else ""
            lost = "" if answer.found else answer.fault or "the model holds nothing for possible that could go on"
            answers[number] = Line(text, lost or short, complete=not answer.found or answer.found[0].complete)
        return answers

    def _limit(self, items: int) -> int:
        """The most tokens of an output, as `SearchOptions.limit` has it."""
        longest, ratio = int(str(self._settings["max_length"])), self._settings["max_ratio"]
        if ratio is None:
            return longest
        return max(int(str(self._settings["min_length"])), min(longest, 10 + int(float(str(ratio)) * items)))

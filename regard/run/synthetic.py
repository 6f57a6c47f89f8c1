"""Synthetic pairs: texts of one language, each beside what a model makes of it, and their mixture with real pairs.

Translations are made by bulk prediction: in bounded memory, in processes if there are several workers, and going on
after the last shard where a call was stopped. What a sample is follows from the seed and the number of the line.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.batches import random_order
from regard.data.example import Example
from regard.errors import DataError
from regard.files import replace_file
from regard.run.bulk import Begun, Event, Predicted, predict_files
from regard.run.crews import Crew, Here, Processes
from regard.run.model import Model
from regard.run.shards import Asked, ShardPredictor, fingerprint
from regard.run.written import Form
from regard.text import Tokenizer

Draw = Literal["sample", "beam"]
Tell = Callable[[str], None]

MIXTURE = 3
"""The purpose of the random order by which a part of the real pairs is repeated once more."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a target."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Lines that were translated: how many there were, and how many were left out for each reason."""

    lines: int
    kept: int
    dropped: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """A mixture: pairs and tokens of its parts. `copies` says how often each real pair is in it, on average."""

    real_pairs: int
    real_tokens: int
    synthetic_pairs: int
    synthetic_tokens: int
    copies: float

    @property
    def share(self) -> float:
        """The share of the tokens that are of real pairs."""
        return self.copies * self.real_tokens / (self.copies * self.real_tokens + self.synthetic_tokens)


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs as JSON, a line each, under the keys source and target; a file that has them is left alone."""
    lines = (json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False) for pair in pairs)
    content = "".join(f"{line}\n" for line in lines).encode()
    if not (path.is_file() and path.read_bytes() == content):
        replace_file(path, content)


def read_pairs(path: Path) -> Iterator[Pair]:
    """What `write_pairs` wrote."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            record = json.loads(line)
            yield Pair(record["source"], record["target"])


def pair_of(example: Example) -> Pair:
    return Pair(example.source, example.target)


def translate(run: Path, mono: Path, output: Path, *, draw: Draw, seed: int, workers: int, tell: Tell) -> None:
    """Translate the lines of a file into records of JSON, a line each; what is finished is not made again.

    Translations of another model, another text or another way of drawing are replaced.
    """
    model = Model.load(run)
    options = model.options() if draw == "beam" else model.options(sample=True, seed=seed)
    asked = Asked(options=options, form=Form(jsonl=True))
    files = fingerprint(run)
    crew: Crew = (
        Here(ShardPredictor(model, asked)) if workers == 1 else Processes(run, asked, files=files, workers=workers)
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    predict_files([str(mono)], str(output), crew=crew, asked=asked, model=files, overwrite=True, observe=_Telling(tell))


class _Telling:
    """Says how many lines are translated, as they are."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.done = self.all = 0

    def __call__(self, event: Event) -> None:
        match event:
            case Begun(lines=lines, finished=finished):
                self.done, self.all = finished, lines
            case Predicted(lines=lines):
                self.done += lines
            case _:
                return
        self.tell(f"{self.done:,} of {self.all:,} lines translated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translations:
    """What `translate` wrote: the output of a model becomes the source of a pair, what it read the target.

    Lines that it could not read as a whole, left blank, or did not bring to an end would teach a model wrong ends: they
    are left out. `tokenizer` and `longest` say how many tokens of a line it read.
    """

    path: Path
    tokenizer: Tokenizer
    longest: int

    def pairs(self) -> Iterator[Pair]:
        """Those that can be learned from."""
        return (pair for pair, fault in self._all() if not fault)

    def made(self) -> Made:
        """How many there are."""
        faults = Counter(fault for _, fault in self._all())
        kept = faults.pop("", 0)
        made = Made(lines=kept + faults.total(), kept=kept, dropped=dict(sorted(faults.items())))
        if not kept:
            told = ", ".join(f"{count:,} {reason}" for reason, count in made.dropped.items()) or "there are none"
            raise DataError(f"{self.path}: not one of {made.lines:,} lines became a synthetic pair: {told}")
        return made

    def _all(self) -> Iterator[tuple[Pair, str]]:
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                record = json.loads(line)
                yield Pair(record["text"], record["source"]), self._fault(record)

    def _fault(self, record: Mapping[str, Any]) -> str:
        """Why a translation cannot be learned from; nothing where it can."""
        if not record["source"].strip():
            return "blank lines"
        if "fault" in record:
            return "lines that cannot be read"
        if len(self.tokenizer.encode(record["source"]).ids) > self.longest:
            return "lines longer than data.max_length"
        if not record["complete"]:
            return "outputs at the limit of length"
        return "" if record["text"].strip() else "empty outputs"


def mix(
    real: Sequence[Pair],
    synthetic: Iterable[Pair],
    path: Path,
    *,
    tag: str,
    share: float,
    seed: int,
    tokenizer: Tokenizer,
) -> Mixed:
    """Write real and synthetic pairs into one file, with `share` of the target tokens from real ones.

    Real pairs are repeated as often as that takes, never left out; tokens are those that batches are filled by. With a
    tag, synthetic sources begin with it (Caswell et al. 2019), so that the model can tell them from real ones.
    """
    lengths = [len(tokenizer.encode(pair.target).ids) for pair in real]
    made = [Pair(f"{tag} {pair.source}" if tag else pair.source, pair.target) for pair in synthetic]
    made_tokens = sum(len(tokenizer.encode(pair.target).ids) for pair in made)
    wanted = max(sum(lengths), round(made_tokens * share / (1 - share)))
    whole, rest = divmod(wanted, sum(lengths))
    partly: list[int] = []
    for index in random_order(len(real), seed=seed, epoch=0, purpose=MIXTURE).tolist():
        if rest < lengths[index] / 2:
            break
        partly.append(index)
        rest -= lengths[index]
    repeated = (*[real] * whole, [real[index] for index in sorted(partly)])
    write_pairs(path, (pair for pairs in (*repeated, made) for pair in pairs))
    return Mixed(
        real_pairs=len(real),
        real_tokens=sum(lengths),
        synthetic_pairs=len(made),
        synthetic_tokens=made_tokens,
        copies=whole + sum(lengths[index] for index in partly) / sum(lengths),
    )

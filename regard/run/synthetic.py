"""Synthetic pairs: texts of one language, each beside what a model makes of it, and their mixture with real pairs.

Translations are kept in parts of `PART` lines, each written whole, so that memory is bounded and a run that was stopped
goes on after the last part. What a sample is follows from the seed, the part and the place in it.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from regard.data import read_lines
from regard.data.batches import random_order
from regard.data.example import Example
from regard.errors import DataError
from regard.files import replace_file
from regard.run.model import Model
from regard.run.prediction import Prediction
from regard.run.series import digest
from regard.search import SearchOptions
from regard.text import Tokenizer

Draw = Literal["sample", "beam"]
PART = 2000
"""Lines of monolingual text that are translated and written together."""

MIXTURE = 3
"""The purpose of the random order by which a part of the real pairs is repeated once more."""

Tell = Callable[[str], None]


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


def translate(model: Model, mono: Path, folder: Path, *, draw: Draw, seed: int, tell: Tell) -> Made:
    """Translate the lines of a file into parts in a folder; parts that are there are not made again.

    What is left blank, or was cut on either side, would teach a model wrong ends: such lines are left out.
    """
    key = _key(model, mono, draw, seed)
    mark = folder / "made.json"
    if _read(mark).get("key") != key:
        shutil.rmtree(folder, ignore_errors=True)
        replace_file(mark, json.dumps({"format": 1, "key": key}).encode())
    lines, dropped, kept = 0, Counter[str](), 0
    for number, texts in enumerate(_parts(mono)):
        pairs, counts = folder / f"part-{number:05d}.jsonl", folder / f"part-{number:05d}.json"
        if not (pairs.is_file() and _read(counts).get("lines") == len(texts)):
            _translate_part(model, texts, pairs, counts, options=_options(model, draw, seed, number))
        told = _read(counts)
        lines, kept = lines + told["lines"], kept + told["kept"]
        dropped.update(told["dropped"])
        tell(f"{lines:,} lines translated, {kept:,} kept")
    if not kept:
        raise DataError(f"{mono}: not one of its {lines:,} lines became a synthetic pair: {dict(dropped)}")
    return Made(lines=lines, kept=kept, dropped=dict(dropped))


def synthetic_pairs(folder: Path) -> Iterator[Pair]:
    """The pairs of a folder of translations: what the model wrote is the source, what it read the target."""
    for path in sorted(folder.glob("part-*.jsonl")):
        yield from read_pairs(path)


def mix(
    real: Sequence[Pair], synthetic: Path, path: Path, *, tag: str, share: float, seed: int, tokenizer: Tokenizer
) -> Mixed:
    """Write real and synthetic pairs into one file, with `share` of the target tokens from real ones.

    Real pairs are repeated as often as that takes, never left out; tokens are those that batches are filled by. With a
    tag, synthetic sources begin with it (Caswell et al. 2019), so that the model can tell them from real ones.
    """
    lengths = [len(tokenizer.encode(pair.target).ids) for pair in real]
    made, made_tokens = 0, 0
    for pair in synthetic_pairs(synthetic):
        made, made_tokens = made + 1, made_tokens + len(tokenizer.encode(pair.target).ids)
    wanted = max(sum(lengths), round(made_tokens * share / (1 - share)))
    whole, rest = divmod(wanted, sum(lengths))
    partly: list[int] = []
    for index in random_order(len(real), seed=seed, epoch=0, purpose=MIXTURE).tolist():
        if rest < lengths[index] / 2:
            break
        partly.append(index)
        rest -= lengths[index]
    repeated = (pair for pairs in (*[real] * whole, [real[index] for index in sorted(partly)]) for pair in pairs)
    tagged = (Pair(f"{tag} {pair.source}" if tag else pair.source, pair.target) for pair in synthetic_pairs(synthetic))
    write_pairs(path, (pair for pairs in (repeated, tagged) for pair in pairs))
    return Mixed(
        real_pairs=len(real),
        real_tokens=sum(lengths),
        synthetic_pairs=made,
        synthetic_tokens=made_tokens,
        copies=whole + sum(lengths[index] for index in partly) / sum(lengths),
    )


def _parts(mono: Path) -> Iterator[list[str]]:
    lines = iter(read_lines(mono, bad_lines="blank"))
    while texts := list(islice(lines, PART)):
        yield texts


def _key(model: Model, mono: Path, draw: Draw, seed: int) -> str:
    """What the translations follow from."""
    record = [digest(model.folder / "weights.safetensors"), digest(mono), draw, seed, PART]
    record += [model.recipe.search.model_dump(mode="json"), model.recipe.data.max_length]
    return sha256(json.dumps(record).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """A record that may be missing or torn; then it is empty."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _options(model: Model, draw: Draw, seed: int, part: int) -> SearchOptions:
    """Samples of two parts are drawn by different numbers."""
    if draw == "beam":
        return model.options()
    return model.options(sample=True, seed=((seed << 24) + part) % 2**64)


def _translate_part(model: Model, texts: Sequence[str], pairs: Path, counts: Path, *, options: SearchOptions) -> None:
    """Write the pairs of a part, then how many there are: a part without its counts is made again."""
    kept: list[Pair] = []
    dropped: Counter[str] = Counter()
    for text, prediction in zip(texts, model.predict_many(texts, options=options), strict=True):
        if reason := _fault(prediction):
            dropped[reason] += 1
        else:
            kept.append(Pair(prediction.text, text))
    write_pairs(pairs, kept)
    record = {"lines": len(texts), "kept": len(kept), "dropped": dict(dropped)}
    replace_file(counts, json.dumps(record).encode())


def _fault(prediction: Prediction) -> str:
    """Why a translation cannot be learned from; nothing where it can."""
    if not prediction.source.strip():
        return "blank lines"
    if prediction.fault:
        return "lines that cannot be read"
    if prediction.cut_source:
        return "lines longer than data.max_length"
    if prediction.cut_output:
        return "outputs at the limit of length"
    return "" if prediction.text.strip() else "empty outputs"

"""Weights of one model start another: what fits is taken, what does not is left, and both are told.

A tensor is known by its name: a part (`encoder`, `decoder`, `head`) and its place in it. Encoders and decoders without
attention to a source name their insides alike, so a language model, which is all decoder, can start an encoder. Rows of
a vocabulary are found by the text they stand for, not by their number.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import UsageError
from regard.special import FIRST_FREE
from regard.text import Tokenizer

Side = Literal["encoder", "decoder"]

SIDES: tuple[Side, ...] = ("encoder", "decoder")
_TABLE = re.compile(
    r"((encoder\.)+embedding\.weight|decoder\.embedding\.weight|decoder\.output\..+|head\..+|output\.weight|bias)"
)
_NUMBERED = re.compile(r"(?:.+\.)?(?:(factors)|tables)\.(\d+)")
_POSITIONS = ".positions.added.weight"
_SPARE = 4
"""So many rows may stand after those of a vocabulary, for ids that have no text."""

_REASONS = 3
_NOT_HERE = "this model has none of that name"
_NOT_THERE = "nothing of that name is there"
_SHAPE = "another shape"
_TEXT = "no entry has the same text"


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """What the rows of tables mean: in the weights that are there, and in the model that starts.

    Keys are parts of a model (`encoder`), and `factor1`, `attribute1`, … for the tables of factors and attributes.
    """

    old: Mapping[str, Tokenizer]
    new: Mapping[str, Tokenizer]


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor: of what was taken, `detail` is its name there, else what was found or why not."""

    name: str
    detail: str = ""
    numbers: int = 0


@dataclass(frozen=True, slots=True)
class StartReport:
    """What became of each tensor. `left` has names of the old weights, the others have names of the new model."""

    taken: tuple[Entry, ...]
    resized: tuple[Entry, ...]
    left: tuple[Entry, ...]
    fresh: tuple[Entry, ...]

    def summary(self) -> list[str]:
        """The report in short lines."""
        return [
            *(_told_taken(part, entries) for part, entries in _grouped(self.taken, _from)),
            *(f"resized: {entry.name}, {entry.detail}" for entry in self.resized),
            *self.refusals(),
            *(f"fresh: {_told(part, entries)}" for (part, _), entries in _grouped(self.fresh, _kind)),
        ]

    def refusals(self) -> list[str]:
        """What was left, and why."""
        groups = _grouped(self.left, _kind)
        return [f"left: {_told(part, entries)}: {entries[0].detail}" for (part, _), entries in groups]


def start_from(
    system: nn.Module, weights: Mapping[str, Tensor], *, vocabularies: Vocabularies, part: Side | None = None
) -> StartReport:
    """Copy into a fresh model what fits of another's weights.

    With `part`, only that part starts: from the part of the same name, or from the only one there is. Without, every
    part starts from its namesake; where the two models have but one part each, and these are different, one starts the
    other. Tied weights stand under the first of their names, in both.
    """
    own = dict(system.named_parameters())
    parts = _parts(own, weights, part)
    left = {name: _unused(name, parts) for name in sorted(weights)}
    taken: list[Entry] = []
    resized: list[Entry] = []
    fresh: list[Entry] = []
    for name, parameter in own.items():
        found = next((each for each in _candidates(name, parts) if each in weights), "")
        rows = _rows(name, parameter, found, weights[found], vocabularies) if found else _NOT_THERE
        if isinstance(rows, str):
            fresh.append(Entry(name, numbers=parameter.numel()))
            if found in left:
                left[found] = Entry(found, rows, weights[found].numel())
            continue
        left.pop(found, None)
        with torch.no_grad():
            parameter[rows.new] = weights[found][rows.old].to(parameter)
            numbers = parameter[rows.new].numel()
        if rows.detail:
            resized.append(Entry(name, rows.detail, numbers))
        else:
            taken.append(Entry(name, found, numbers))
    report = StartReport(tuple(taken), tuple(resized), tuple(left.values()), tuple(fresh))
    if not taken and not resized:
        raise UsageError(
            f"nothing of these weights fits the model ({'; '.join(report.refusals()[:_REASONS])}). Take the kinds of "
            "parts, `model.width` and the unit of text of the run that they come from, or leave out `model.start_from`"
        )
    return report


@dataclass(frozen=True, slots=True)
class _Rows:
    """Which rows are taken, and where to; without `detail`, all of them as they are."""

    new: Tensor | slice | EllipsisType
    old: Tensor | slice | EllipsisType
    detail: str = ""


def _rows(name: str, parameter: Tensor, found: str, tensor: Tensor, vocabularies: Vocabularies) -> _Rows | str:
    """The rows to take of a tensor, or why there are none."""
    alike = parameter.shape[1:] == tensor.shape[1:] and parameter.dim() > 0
    old, new = vocabularies.old.get(_text_of(found)), vocabularies.new.get(_text_of(name))
    if alike and old and new and _is_table(found, tensor, old) and _is_table(name, parameter, new):
        return _found_by_text(old, new, len(tensor), len(parameter))
    if parameter.shape == tensor.shape:
        return _Rows(..., ...)
    if alike and name.endswith(_POSITIONS):
        count = min(len(parameter), len(tensor))
        return _Rows(slice(count), slice(count), f"the first {count:,} of {len(parameter):,} positions")
    return f"{_SHAPE}: {_size(tensor)} there, {_size(parameter)} here"


def _found_by_text(old: Tokenizer, new: Tokenizer, old_rows: int, new_rows: int) -> _Rows | str:
    """Reserved ids are the same everywhere, text is found by what it is, and spare rows by their order."""
    there = {_meaning(old, id_): id_ for id_ in reversed(range(FIRST_FREE, old.size))}
    pairs = [(id_, there.get(_meaning(new, id_), -1)) for id_ in range(FIRST_FREE, new.size)]
    texts = [(id_, other) for id_, other in pairs if other >= 0]
    if not texts:
        return _TEXT
    spare = [(new.size + k, old.size + k) for k in range(min(new_rows - new.size, old_rows - old.size))]
    found = [*((id_, id_) for id_ in range(FIRST_FREE)), *texts, *spare]
    if old_rows == new_rows == len(found) and all(one == other for one, other in found):
        return _Rows(..., ...)
    to, from_ = torch.tensor(found).unbind(1)
    return _Rows(to, from_, f"{len(found):,} of {new_rows:,} entries found by their text")


def _meaning(tokenizer: Tokenizer, id_: int) -> tuple[str, bytes]:
    """What an entry stands for: how it is shown (a piece in or at the end of a word), and what it adds to a text."""
    return tokenizer.piece(id_), tokenizer.surface(id_)


def _is_table(name: str, tensor: Tensor, tokenizer: Tokenizer) -> bool:
    table = _TABLE.fullmatch(name) or _NUMBERED.fullmatch(name)
    return bool(table) and 0 <= len(tensor) - tokenizer.size <= _SPARE


def _text_of(name: str) -> str:
    """Under which key of `Vocabularies` the text of a tensor's rows stands."""
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None:
        return _part(name)
    return f"{'factor' if numbered[1] else 'attribute'}{int(numbered[2]) + 1}"


def _parts(own: Mapping[str, Tensor], weights: Mapping[str, Tensor], part: Side | None) -> dict[str, str]:
    """Which part starts from which."""
    here, there = ({_part(name) for name in names} for names in (own, weights))
    sides = [side for side in SIDES if side in there]
    if part is not None:
        if part not in here:
            raise UsageError(f"this model has no {part} to start; it has {', '.join(sorted(here))}")
        return {part: part if part in there or not sides else sides[0]}
    parts = {name: name for name in here if name in there}
    lonely = [side for side in SIDES if side in here]
    if len(sides) == len(lonely) == 1:
        parts[lonely[0]] = sides[0]
    return parts


def _candidates(name: str, parts: Mapping[str, str]) -> Iterator[str]:
    """Where a tensor may stand in other weights, the likeliest first.

    A recurrent encoder stands inside another where it has self-attention on top. A decoder without an embedding or an
    output of its own has them tied.
    """
    part, _, place = name.partition(".")
    other = parts.get(part)
    if other is None:
        return
    yield f"{other}.{place}"
    if part == "encoder" and place.startswith("encoder."):
        yield f"{other}.{place.removeprefix('encoder.')}"
    elif other == "encoder":
        yield f"encoder.encoder.{place}"
    if other == "decoder" and place == "output.weight":
        yield "decoder.embedding.weight"
    if other == "decoder" and place.removeprefix("encoder.") in ("embedding.weight", "output.weight"):
        yield "encoder.embedding.weight"
        yield "encoder.encoder.embedding.weight"


def _unused(name: str, parts: Mapping[str, str]) -> Entry:
    return Entry(name, _NOT_HERE if _part(name) in parts.values() else "this model has no part that starts from it")


def _part(name: str) -> str:
    return name.partition(".")[0]


def _kind(entry: Entry) -> tuple[str, str]:
    return _part(entry.name), entry.detail.partition(":")[0]


def _from(entry: Entry) -> tuple[str, str]:
    return _part(entry.name), _part(entry.detail)


def _grouped(
    entries: Sequence[Entry], key: Callable[[Entry], tuple[str, str]]
) -> list[tuple[tuple[str, str], list[Entry]]]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return list(groups.items())


def _told_taken(parts: tuple[str, str], entries: Sequence[Entry]) -> str:
    part, other = parts
    numbers = sum(entry.numbers for entry in entries)
    told = f"{numbers / 1e6:.1f} M" if numbers >= 1e6 else f"{numbers:,}"
    tensors = "1 tensor" if len(entries) == 1 else f"{len(entries):,} tensors"
    return f"taken: {tensors} of {part}{'' if part == other else f' from {other}'} ({told} numbers)"


def _told(part: str, entries: Sequence[Entry]) -> str:
    more = len(entries) - 1
    return entries[0].name + (f" and {more:,} more of {part}" if more else "")


def _size(tensor: Tensor) -> str:
    return " × ".join(f"{size:,}" for size in tensor.shape) or "one number"

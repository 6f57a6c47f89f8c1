"""What a model is fed: padded tensors with masks. Of `data`, only this and `collation` need torch.

Shapes: B rows, N source items, M target items, F factors or features.
A mask is True where there is a real item that may be attended to. This holds in the whole project.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.special import END, PAD, START


@dataclass(frozen=True, slots=True)
class Ids:
    """Tokens with F factors each (word, lemma, part of speech, ...); plain text has F = 1."""

    ids: Tensor  # (B, N, F) int64
    mask: Tensor  # (B, N) bool


@dataclass(frozen=True, slots=True)
class Frames:
    """A sequence of feature vectors, for example a spectrogram."""

    frames: Tensor  # (B, N, F) float
    mask: Tensor  # (B, N) bool


@dataclass(frozen=True, slots=True)
class Image:
    """Pictures of one size, or padded to one."""

    pixels: Tensor  # (B, C, height, width) float
    mask: Tensor  # (B, height, width) bool


@dataclass(frozen=True, slots=True)
class Category:
    """A topic, a speaker, a sentiment: one value for each of F attributes."""

    values: Tensor  # (B, F) int64
    mask: Tensor  # (B, F) bool


Source = Ids | Frames | Image | Category
Sources = Mapping[str, Source]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of training data: named sources, and the target as it is read and as it is to be predicted.

    Shapes that read nothing of their own output have no inputs (B, 0); their outputs are one answer (B, 1), or stand
    beside the items of the source (B, N).
    """

    sources: Sources
    inputs: Tensor  # (B, M) START, y_1, ..., y_{M-1}
    outputs: Tensor  # (B, M) y_1, ..., y_{M-1}, END
    mask: Tensor  # (B, M) True where there is something to predict

    @property
    def rows(self) -> int:
        return self.inputs.size(0)

    @property
    def tokens(self) -> int:
        """Target tokens to predict, END included."""
        return int(self.mask.sum())


def pad(
    rows: Sequence[Sequence[int] | np.ndarray], *, before: int | None = None, after: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rows of ids, each with what stands before and after it, as one right-padded matrix (B, N), with its mask."""
    first = 0 if before is None else 1
    ends = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) + first
    lengths = ends if after is None else ends + 1
    ids = np.full((len(rows), lengths.max(initial=0)), PAD, dtype=np.int64)
    places = np.arange(ids.shape[1])
    if len(rows):
        ids[(places >= first) & (places < ends[:, None])] = np.concatenate(rows, dtype=np.int64, casting="unsafe")
    if before is not None:
        ids[:, :1] = before
    if after is not None:
        ids[np.arange(len(rows)), ends] = after
    return torch.from_numpy(ids), torch.from_numpy(places < lengths[:, None])


def source_ids(rows: Sequence[Sequence[int] | np.ndarray]) -> Ids:
    """Plain token rows as a source. END marks where the text stops, so that no source is empty."""
    ids, mask = pad(rows, after=END)
    return Ids(ids=ids.unsqueeze(-1), mask=mask)


def make_batch(sources: Sequence[Sequence[int] | np.ndarray], targets: Sequence[Sequence[int] | np.ndarray]) -> Batch:
    """One batch of an encoder-decoder with a single text source."""
    inputs, mask = pad(targets, before=START)
    outputs, _ = pad(targets, after=END)
    return Batch(sources={"source": source_ids(sources)}, inputs=inputs, outputs=outputs, mask=mask)


def join_sources(rows: Sequence[Sources]) -> Sources:
    """Named sources of several batches as one, padded to the longest."""
    if len(rows) == 1:
        return rows[0]
    assert all(row.keys() == rows[0].keys() for row in rows), "batches with other sources do not join"
    return {name: _join_source([row[name] for row in rows]) for name in rows[0]}


def _join_source(parts: Sequence[Source]) -> Source:
    first = parts[0]
    assert all(type(part) is type(first) for part in parts), "sources of other kinds do not join"
    if isinstance(first, Category):
        alike = [part for part in parts if isinstance(part, Category)]
        return Category(values=_cat([p.values for p in alike]), mask=_cat([p.mask for p in alike]))
    if isinstance(first, Ids):
        texts = [part for part in parts if isinstance(part, Ids)]
        return Ids(ids=_cat([p.ids for p in texts], 1), mask=_cat([p.mask for p in texts], 1))
    if isinstance(first, Frames):
        sounds = [part for part in parts if isinstance(part, Frames)]
        return Frames(frames=_cat([p.frames for p in sounds], 1), mask=_cat([p.mask for p in sounds], 1))
    pictures = [part for part in parts if isinstance(part, Image)]
    return Image(pixels=_cat([p.pixels for p in pictures], 2, 3), mask=_cat([p.mask for p in pictures], 1, 2))


def _cat(parts: Sequence[Tensor], *padded: int) -> Tensor:
    """Concatenate rows after padding the axes `padded` to their longest; all other axes must agree."""
    sizes = [max(part.size(axis) for part in parts) for axis in range(1, parts[0].dim())]
    for axis, size in enumerate(sizes, start=1):
        assert axis in padded or all(part.size(axis) == size for part in parts), f"axis {axis} differs: {sizes}"
    whole = parts[0].new_zeros(sum(len(part) for part in parts), *sizes)
    start = 0
    for part in parts:
        place = (slice(start, start + len(part)), *(slice(0, size) for size in part.shape[1:]))
        whole[place] = part
        start += len(part)
    return whole

"""Decoder layers under search for one sentence alone, with as few calls as can be.

A batch of one sentence with some beams is so little arithmetic that the calls cost more than what they do. Alone, a
sentence needs no grid: what its rows have read stands in one tensor for all layers, which entries a row sees is kept
in numpy, and the whole room is looked at, written or not, so that its views are made once. The projections of
cross-attention are put into the memory, which is known beforehand: the scores of a head are x W_q kᵀ = x (W_q kᵀ), and
what it says is (Σ_n a_n v_n) W_o = Σ_n a_n (v_n W_o). Where there is a kernel for it, a step of all layers is one call.

Shapes: K beams, N source items, C entries of a past, R room for them, L layers, H heads, D width, E width of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.kernels.steps import LayerParts, StepLayers
from regard.nn.kept import Product
from regard.nn.lean import LeanLayer
from regard.nn.transformer import TransformerDecoderLayer

STEPS: Final = 8
LEAST: Final = 16
"""Room is made for the entries of so many steps, and for so many at least."""

KINDS: Final[dict[torch.dtype, Any]] = {torch.float32: np.float32, torch.float64: np.float64}
"""The types of numbers that are known here and to numpy."""


@dataclass(slots=True)
class Pages:
    """Entries of all layers, which several pasts share: each sees those it knows of, and one may write behind them."""

    entries: Tensor  # (L, R, 2, H, E)
    filled: int
    _views: tuple[tuple[Tensor, ...], tuple[Tensor, ...]] | None = None

    def views(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Per layer, keys (H, E, R) and values (H, R, E); made once."""
        if self._views is None:
            keys, values = self.entries.permute(2, 0, 3, 1, 4).unbind(0)  # (L, H, R, E) each
            self._views = keys.transpose(2, 3).unbind(0), values.unbind(0)
        return self._views


@dataclass(frozen=True, slots=True)
class SinglePast:
    """Which entries each row sees, as what is added to scores: 0, or -∞ for those of other rows and those to come."""

    pages: Pages
    seen: NDArray[Any]  # (K, R)
    entries: int

    @classmethod
    def start(cls, layers: Sequence[LeanLayer], like: Tensor) -> "SinglePast":
        """One row, which has read nothing."""
        own = layers[0].itself
        width = own.output.weight.size(0) // own.heads
        made = like.new_zeros(len(layers), LEAST, 2, own.heads, width)
        return cls(Pages(made, 0), np.full((1, LEAST), -np.inf, KINDS[like.dtype]), 0)

    def select(self, rows: NDArray[np.int64]) -> "SinglePast":
        """Rows that go on from those rows."""
        return SinglePast(self.pages, self.seen[rows], self.entries)

    def grow(self) -> "SinglePast":
        """With an entry more for each row, which that row sees."""
        beams, room = self.seen.shape
        past = self if self.pages.filled == self.entries and self.entries + beams <= room else self._compact()
        seen = past.seen.copy()
        own = np.arange(beams)
        seen[own, past.entries + own] = 0.0
        past.pages.filled = past.entries + beams
        return SinglePast(past.pages, seen, past.entries + beams)

    def _compact(self) -> "SinglePast":
        """Entries that some row sees, in their order, with room for further steps behind them."""
        beams = len(self.seen)
        order = np.flatnonzero((self.seen == 0).any(axis=0))
        spare = max(LEAST, STEPS * beams)
        seen = np.full((beams, len(order) + spare), -np.inf, self.seen.dtype)
        seen[:, : len(order)] = self.seen[:, order]
        places = np.zeros(seen.shape[1], np.int64)  # what is not written yet holds the first entry
        places[: len(order)] = order
        entries = self.pages.entries.index_select(1, torch.from_numpy(places))
        return SinglePast(Pages(entries, len(order)), seen, len(order))

    def own(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Keys and values of each layer (1, C, H, E), and which of them each row sees (1, K, C)."""
        keys, values = (
            [one[None, : self.entries, place].contiguous() for one in self.pages.entries.unbind(0)] for place in (0, 1)
        )
        return keys, values, torch.from_numpy(self.seen[:, : self.entries].copy()).unsqueeze(0)


@dataclass(frozen=True, slots=True)
class Folded:
    """A memory with the projections of all layers in it."""

    keys: Tensor  # (L, D, H·N)
    bias: Tensor  # (L, H·N)
    values: Tensor  # (L, H·N, D)


@dataclass(frozen=True, slots=True)
class Folding:
    """What makes the memories of all layers, at once."""

    memory: Product  # to keys and values of all layers
    query: Tensor  # (L·H, E, D)
    query_bias: Tensor  # (L·H, E, 1)
    output: Tensor  # (L·H, E, D)
    layers: int

    @classmethod
    def of(cls, layers: Sequence[TransformerDecoderLayer], lean: Sequence[LeanLayer]) -> "Folding | None":
        """None where there is no memory to look into, or heads share keys."""
        pairs = [(one.cross, own.cross) for one, own in zip(layers, lean, strict=False)]
        known = [(one, own) for one, own in pairs if one is not None and own is not None]
        apart = all(one.itself.heads == one.itself.key_heads for one in lean)
        if not lean or len(known) < len(lean) or not apart or any(own.heads != own.key_heads for _, own in known):
            return None
        queries, outputs, biases = [], [], []
        for _, own in known:
            width = own.output.weight.size(0) // own.heads
            queries.append(own.asked.weight.t().unflatten(0, (own.heads, width)))
            outputs.append(own.output.weight.unflatten(0, (own.heads, width)))
            bias = own.asked.weight.new_zeros(own.heads * width) if own.asked.bias is None else own.asked.bias
            biases.append(bias.view(own.heads, width, 1))
        return cls(
            memory=Product.of(*(one.key_value for one, _ in known if one.key_value is not None)),
            query=torch.cat(queries).contiguous(),
            query_bias=torch.cat(biases),
            output=torch.cat(outputs).contiguous(),
            layers=len(lean),
        )

    def fits(self, items: int, width: int) -> bool:
        """Whether a memory of so many items is not larger than what is saved."""
        return items > 0 and self.query.size(0) // self.layers * items <= 2 * width

    def fold(self, states: Tensor) -> Folded:
        """The memory of states (N, D)."""
        layers, each, items = self.layers, self.query.size(0) // self.layers, len(states)
        both = self.memory(states).view(items, layers, 2, each, -1).permute(2, 1, 3, 0, 4)  # (2, L, H, N, E)
        keys, values = both.reshape(2, layers * each, items, -1).unbind(0)
        asked = torch.bmm(keys, self.query).view(layers, each * items, -1)
        bias = torch.bmm(keys, self.query_bias).view(layers, -1)
        said = torch.bmm(values, self.output).view(layers, each * items, -1)
        return Folded(asked.transpose(1, 2).contiguous(), bias, said)


def native_layers(layers: Sequence[LeanLayer]) -> StepLayers | None:
    """The layers as one native call; None where there is none for them."""
    parts = []
    for layer in layers:
        own, cross, norms = layer.itself, layer.cross, layer.norms
        if cross is None or own.heads != own.key_heads:
            return None
        parts.append(
            LayerParts(
                asked=(own.asked.weight, own.asked.bias),
                output=(own.output.weight, own.output.bias),
                inner=(layer.inner.weight, layer.inner.bias),
                outer=(layer.outer.weight, layer.outer.bias),
                cross_bias=cross.output.bias,
                norms=tuple((one.weight, one.bias, one.epsilon) for one in norms),
                heads=own.heads,
                cross_heads=cross.heads,
                norm_first=layer.norm_first,
            )
        )
    return StepLayers.of(parts)


def single_step(layers: Sequence[LeanLayer], memory: Folded, past: SinglePast, rows: Tensor) -> Tensor:
    """One more item of each row through all layers, into a past that has grown: (K, D) → (K, D)."""
    beams, pages = len(rows), past.pages
    slots = pages.entries[:, past.entries - beams : past.entries].flatten(2).unbind(0)  # (K, 2·H·E) each
    seen = torch.from_numpy(past.seen).unsqueeze(0)  # (1, K, R)
    heads = layers[0].itself.heads
    looks = zip(memory.keys.unbind(0), memory.bias.unbind(0), memory.values.unbind(0), strict=True)
    for layer, looked, slot, keys, values in zip(layers, looks, slots, *pages.views(), strict=True):
        first, own, norms = layer.norm_first, layer.itself, layer.norms
        inside = norms[0](rows) if first else rows
        own.entry(inside, out=slot)
        query = own.query(inside).view(beams, heads, -1).transpose(0, 1)  # (H, K, E)
        context = torch.bmm(torch.baddbmm(seen, query, keys).softmax(-1), values)  # (H, K, E)
        rows = own.output(context.transpose(0, 1).reshape(beams, -1)).add_(rows)
        rows = look_folded(layer, looked, rows if first else norms[0](rows))
        rows = layer.fed_forward(rows)
    return rows


def look_folded(layer: LeanLayer, memory: tuple[Tensor, Tensor, Tensor], rows: Tensor) -> Tensor:
    """Cross-attention with its residual connection: (K, D) → (K, D)."""
    assert layer.cross is not None
    (keys, shifts, values), first = memory, layer.norm_first
    norm, bias = layer.norms[1], layer.cross.output.bias
    scores = torch.addmm(shifts, norm(rows) if first else rows, keys)  # (K, H·N)
    weights = scores.view(len(rows), layer.cross.heads, -1).softmax(-1).view(scores.shape)
    said = torch.mm(weights, values) if bias is None else torch.addmm(bias, weights, values)
    rows = said.add_(rows)
    return rows if first else norm(rows)

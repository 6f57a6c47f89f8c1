"""A step of all layers of a Transformer's decoder for the rows of one sentence, in one call. Nothing has a gradient.

Shapes: K rows, L layers, D width, F inner width, G heads of cross-attention, N items of the memory, R room for entries.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.kernels.calls import checked, library, serves
from regard.kernels.structures import StepLayer, StepNorm, Stepped, StepProduct

Linear = tuple[Tensor, Tensor | None]
"""A weight (inputs, outputs) and a bias."""

Looked = tuple[Tensor, Tensor, Tensor]
"""A memory of all layers: keys (L, D, G·N), biases (L, G·N) and values (L, G·N, D) with projections in them."""

Norm = tuple[Tensor, Tensor | None, float]
"""A gain, a bias, and what is added to variances."""


@dataclass(frozen=True, slots=True)
class LayerParts:
    """The parameters of a layer, laid out for it."""

    asked: Linear  # (D, 3 D) queries, scaled, keys and values
    output: Linear  # (D, D)
    inner: Linear  # (D, F)
    outer: Linear  # (F, D)
    cross_bias: Tensor | None  # (D,)
    norms: tuple[Norm, ...]  # three: of self-attention, cross-attention and what follows
    heads: int
    cross_heads: int
    norm_first: bool

    def tensors(self) -> list[Tensor]:
        """All there are."""
        pairs = (self.asked, self.output, self.inner, self.outer, *(one[:2] for one in self.norms))
        return [one for one in (*(part for pair in pairs for part in pair), self.cross_bias) if one is not None]

    @property
    def sizes(self) -> tuple[int, ...]:
        """What all layers must have in common."""
        return *self.inner[0].shape, self.heads, self.cross_heads, int(self.norm_first)

    def fits(self) -> bool:
        """Whether sizes agree with each other, and the kernel can read all of it."""
        width, inner = self.inner[0].shape
        weights = ((self.asked, (width, 3 * width)), (self.output, (width, width)), (self.outer, (inner, width)))
        right = all(weight.shape == shape and _is_row(bias, shape[1]) for (weight, bias), shape in weights)
        right = right and _is_row(self.inner[1], inner) and _is_row(self.cross_bias, width)
        right = right and len(self.norms) == 3 and all(_is_row(part, width) for norm in self.norms for part in norm[:2])
        return right and width % self.heads == 0 and serves(*self.tensors())

    def described(self) -> StepLayer:
        return StepLayer(
            *(StepProduct(*map(_at, pair)) for pair in (self.asked, self.output, self.inner, self.outer)),
            _at(self.cross_bias),
            (StepNorm * 3)(*(StepNorm(_at(gain), _at(bias), epsilon) for gain, bias, epsilon in self.norms)),
        )


def _is_row(tensor: Tensor | None, width: int) -> bool:
    return tensor is None or tensor.shape == (width,)


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@dataclass(frozen=True, slots=True)
class StepLayers:
    """The layers of a decoder, described to the kernel."""

    layers: tuple[LayerParts, ...]
    parts: "ctypes.Array[StepLayer]"
    held: tuple[Tensor, ...]  # aliases of all it points to: a parameter may be given other memory (`.data`, `to`)

    @classmethod
    def of(cls, layers: Sequence[LayerParts]) -> "StepLayers | None":
        """None where the kernel cannot do them."""
        if not layers or not all(one.fits() for one in layers) or len({one.sizes for one in layers}) > 1:
            return None
        held = tuple(one.detach() for part in layers for one in part.tensors())
        return cls(tuple(layers), (StepLayer * len(layers))(*(one.described() for one in layers)), held)

    def __reduce__(self) -> tuple[object, tuple[tuple[LayerParts, ...]]]:
        """A copy has addresses of its own."""
        return StepLayers.of, (self.layers,)

    def step(self, states: Tensor, memory: Looked, past: Tensor, seen: NDArray[np.float32], entries: int) -> Tensor:
        """One more item of each row: states (K, D) → (K, D).

        `seen` (K, R) is 0 for what a row sees of the past (L, R, 2, ·, ·), whose last K of `entries` are written here.
        """
        width, inner, heads, cross_heads, norm_first = self.layers[0].sizes
        (rows, room), (keys, shifts, values), layers = seen.shape, memory, len(self.layers)
        together = keys.size(2)
        shapes = [tuple(one.shape) for one in (states, keys, shifts, values)]
        wanted = [(rows, width), (layers, width, together), (layers, together), (layers, together, width)]
        assert shapes == wanted, "a state for each row, and the memory of all layers"
        assert past.shape[:3] == (layers, room, 2), "a place for each entry"
        assert past.numel() == layers * room * 2 * width, "of all heads"
        assert rows <= entries <= room, "there is room for this step"
        states = states.clone()  # somebody may hold what goes in: a hook of the norm before
        asked = Stepped(
            rows,
            layers,
            heads,
            cross_heads,
            width,
            inner,
            together // cross_heads,
            room,
            entries,
            norm_first,
            self.parts,
            keys.data_ptr(),
            shifts.data_ptr(),
            values.data_ptr(),
            seen.ctypes.data,
            past.data_ptr(),
            states.data_ptr(),
        )
        checked(library().regard_stepped(ctypes.byref(asked)))
        return states


def steps(states: Tensor) -> bool:
    """Whether rows can be stepped natively: nobody learns."""
    return not torch.is_grad_enabled() and serves(states)

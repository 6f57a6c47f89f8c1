"""Telling positions to a model that sees a set.

Some schemes add something to the embeddings (sinusoidal, learned), others tell self-attention how two items stand to
each other (rotary, relative, relative bias, ALiBi). Each works for a whole sequence at once, and for the newest item of
rows that have read different numbers of items.

Shapes: B rows, N items, S sentences, K beams, T items seen so far, D width, H heads, E width of a head.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import ModelError
from regard.nn.relations import Relations

Waves = Literal["interleaved", "halves"]
PositionsName = Literal["none", "sinusoidal", "learned", "relative", "relative_bias", "rotary", "alibi"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the new items of a pass stand, and what they look at."""

    positions: Tensor  # (N,) or (B, 1, 1) of the new items
    distances: Tensor  # (Q, N) position of the key minus that of the query
    like: Tensor  # in whose type numbers are wanted


class Added(nn.Module, ABC):
    """A scheme that adds something to the embeddings."""

    @abstractmethod
    def forward(self, embedded: Tensor) -> Tensor:
        """A sequence from its first item on: (B, N, D) → (B, N, D)."""

    @abstractmethod
    def step(self, embedded: Tensor, positions: Tensor) -> Tensor:
        """One item of each row: (S, K, D), position of each sentence (S,) → (S, K, D)."""


class Related(nn.Module, ABC):
    """A scheme that tells self-attention how two items stand to each other."""

    @abstractmethod
    def forward(self, places: Places) -> Relations: ...


class Positions(nn.Module):
    """All that is told to the layers of one side; with neither part they do not see the order of what they read."""

    def __init__(self, *, added: Added | None = None, related: Related | None = None) -> None:
        super().__init__()
        self.added = added
        self.related = related

    @property
    def longest(self) -> int | None:
        """The most items a sequence may have; None where there is no such limit."""
        return self.added.weight.size(0) if isinstance(self.added, LearnedPositions) else None

    def forward(self, embedded: Tensor) -> Tensor:
        """A sequence from its first item on: (B, N, D) → (B, N, D)."""
        return embedded if self.added is None else self.added(embedded)

    def step(self, embedded: Tensor, positions: Tensor) -> Tensor:
        """One item of each row: (S, K, D), position of each sentence (S,) → (S, K, D)."""
        return embedded if self.added is None else self.added.step(embedded, positions)

    def among(self, states: Tensor) -> Relations | None:
        """How the items of a sequence (B, N, D) stand to each other."""
        if self.related is None:
            return None
        items = torch.arange(states.size(1), device=states.device)
        return self.related(Places(positions=items, distances=items - items.unsqueeze(1), like=states))

    def newest(self, states: Tensor, positions: Tensor, seen: int) -> Relations | None:
        """How the newest item of each row (S, K, D), at `positions` (S,), stands to the `seen` columns up to it."""
        if self.related is None:
            return None
        rows = positions.repeat_interleave(states.size(1))[:, None, None]  # (S·K, 1, 1)
        distances = torch.arange(1 - seen, 1, device=states.device).unsqueeze(0)  # (1, T)
        return self.related(Places(positions=rows, distances=distances, like=states))


def sinusoids(positions: Tensor, width: int, waves: Waves = "interleaved") -> Tensor:
    """Sine and cosine waves of rising length: (...,) → (..., D).

    Vaswani et al. 2017, section 3.5: PE(p, 2i) = sin(p / 10000^{2i/D}), PE(p, 2i+1) = cos(p / 10000^{2i/D}). In
    `halves` all sines come before all cosines, as in the code of the paper and in Marian.
    """
    angles = _angles(positions, width)
    if waves == "halves":
        return torch.cat((angles.sin(), angles.cos()), dim=-1)[..., :width]
    both = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # (..., D) or D + 1 for an odd width
    return both[..., :width]


def _angles(positions: Tensor, width: int) -> Tensor:
    """p / 10000^{2i/D}: (...,) → (..., ⌈D / 2⌉)."""
    half = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    return positions.to(torch.float64).unsqueeze(-1) * torch.exp(half * (-math.log(10000.0) / width))


class SinusoidalPositions(Added):
    """Adds sinusoids to embeddings; has no parameters and no longest length."""

    table: Tensor

    def __init__(self, *, width: int, prepared: int = 512, waves: Waves = "interleaved") -> None:
        super().__init__()
        self.width = width
        self.waves: Waves = waves
        self.register_buffer("table", sinusoids(torch.arange(prepared), width, waves).float(), persistent=False)

    def forward(self, embedded: Tensor) -> Tensor:
        return embedded + self.at(torch.arange(embedded.size(1))).to(embedded)

    def step(self, embedded: Tensor, positions: Tensor) -> Tensor:
        return embedded + self.at(positions).unsqueeze(1).to(embedded)

    def at(self, positions: Tensor) -> Tensor:
        """Waves of given positions, computed anew beyond the table: (...,) → (..., D)."""
        if positions.numel() and int(positions.max()) >= self.table.size(0):
            return sinusoids(positions, self.width, self.waves).to(self.table)
        return self.table[positions]


class LearnedPositions(Added):
    """Adds a learned vector of each position, of which there are `longest` (Gehring et al. 2017, section 3.1).

    Beside embeddings `scaled` by √D they begin as strong as sinusoids; beside others, √D times weaker, or words
    would drown in them.
    """

    def __init__(self, *, width: int, longest: int, scaled: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(longest, width))
        nn.init.normal_(self.weight, std=math.sqrt(0.5 if scaled else 0.5 / width))

    def forward(self, embedded: Tensor) -> Tensor:
        self._check(embedded.size(1))
        return embedded + self.weight[: embedded.size(1)]

    def step(self, embedded: Tensor, positions: Tensor) -> Tensor:
        self._check(int(positions.max()) + 1 if positions.numel() else 0)
        return embedded + self.weight[positions].unsqueeze(1)

    def _check(self, items: int) -> None:
        longest = self.weight.size(0)
        if items > longest:
            raise ModelError(
                f"a sequence of {items} tokens (START or END included) is longer than the {longest} learned positions "
                f"of this model; cut it (`search.max_length` for outputs), or train with `longest: {items}` or more, "
                "or with positions that have no longest length (sinusoidal, relative, relative_bias, rotary, alibi)"
            )


class RotaryPositions(Related):
    """Turns queries and keys by angles that grow with the position (Su et al. 2021, section 3.2.2)."""

    def __init__(self, *, head_width: int) -> None:
        super().__init__()
        if head_width % 2:
            raise ValueError(f"rotary positions turn pairs of numbers, but a head has {head_width}")
        self.head_width = head_width

    def forward(self, places: Places) -> Relations:
        angles = _angles(places.positions, self.head_width)  # (N, E / 2) or (B, 1, 1, E / 2)
        return Relations(turns=(angles.cos().to(places.like), angles.sin().to(places.like)))


class RelativePositions(Related):
    """Tells distances to layers that have vectors for them (Shaw et al. 2018; see `nn.relations.RelativeTerms`)."""

    def forward(self, places: Places) -> Relations:
        return Relations(distances=places.distances)


class AlibiPositions(Related):
    """Subtracts from each score a share of the distance, a different share for each head: -m_h |j - i|.

    Press et al. 2022, section 3, whose models look only back; in an encoder both sides fade alike.
    """

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)

    def forward(self, places: Places) -> Relations:
        slopes = torch.tensor(self.slopes, dtype=torch.float64, device=places.like.device)
        return Relations(bias=(places.distances.abs() * -slopes[:, None, None]).to(places.like))


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """m_h = 2^{-8h/H}, h = 1, ..., H.

    If H is no power of 2: those of the next lower power P, then every second of those of 2 P, as in the authors' code.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-4 * head / power) for head in range(1, 2 * power + 1, 2)]
    return (*slopes, *between[: heads - power])


class RelativeBias(Related):
    """Adds to each score a learned number of its head and of the bucket of its distance; all layers share them.

    Raffel et al. 2020, section 2.1. Half of the buckets are for single distances, the others grow logarithmically up
    to `furthest`, from where on all is one bucket. A side that is not causal has half of its buckets for what follows.
    """

    def __init__(self, *, heads: int, buckets: int, furthest: int, causal: bool) -> None:
        super().__init__()
        parts = 2 if causal else 4
        if buckets % parts or furthest <= buckets // parts:
            raise ValueError(
                f"{buckets} buckets must be a multiple of {parts}, and their furthest distance, {furthest}, must be "
                f"above the {buckets // parts} distances with a bucket each"
            )
        self.buckets = buckets
        self.furthest = furthest
        self.causal = causal
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=0.1)

    def forward(self, places: Places) -> Relations:
        buckets = bias_buckets(places.distances, buckets=self.buckets, furthest=self.furthest, causal=self.causal)
        return Relations(bias=self.weight[buckets].permute(2, 0, 1).to(places.like))


def bias_buckets(distances: Tensor, *, buckets: int, furthest: int, causal: bool) -> Tensor:
    """Which bucket a distance (key minus query) belongs to; in single precision, as published weights were trained."""
    side = buckets if causal else buckets // 2
    exact = side // 2
    size = (-distances).clamp(min=0) if causal else distances.abs()
    growth = torch.log(size.clamp(min=1).float() / exact) / math.log(furthest / exact) * (side - exact)
    bucket = torch.where(size < exact, size, (exact + growth.long()).clamp(max=side - 1))
    return bucket if causal else bucket + side * (distances > 0)

"""Networks and attentions inside the loop of a decoder whose inputs are all known, as in training.

What is computed is that of `Recurrent.step` and `Attention.attend` up to the order of sums; see `nn.loops`. Who looks
at a site of them takes their way.

Shapes: M steps, B rows, N keys, I input width, D state width, C context width, L layers, P parts of a state, G blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic

from torch import Tensor

from regard.nn.attention import Attention, Keys, masked_softmax
from regard.nn.dropout import dropout as drop
from regard.nn.linear import linear
from regard.nn.loops import At, CellLoop, LoopLinear, LoopMean, MakeLoop, Parts, added_bias, can_loop, cell_loop
from regard.nn.recurrent import Recurrent
from regard.nn.scores import AdditiveScore, compare
from regard.nn.sites import Site, watched


def can_unroll(network: Recurrent) -> bool:
    """Whether there is a loop for a network, and nobody looks at its states."""
    layers = network.layers()
    looked_at = any(watched(Site(network.part, "cell", index)) for index in range(len(layers)))
    return not looked_at and all(can_loop(layer.cell) for layer in layers)


def layer_loops(make: MakeLoop[At], network: Recurrent, inputs: Tensor, *reading: Tensor) -> list[CellLoop[At]]:
    """The loops of all layers: the first reads inputs (M, B, I) that are known, and others by weights (G·D, ·)."""
    first, *upper = network.layers()
    bias = first.inputs.bias + added_bias(first.cell)
    bases = linear(inputs, first.inputs.weight, bias)  # (M, B, G·D)
    loops = [make(first.cell, bases, *reading)]
    for layer in upper:
        bias = (layer.inputs.bias + added_bias(layer.cell)).expand_as(bases)
        loops.append(make(layer.cell, bias, layer.inputs.weight))
    return loops


class LayerLoop(Generic[At]):
    """`Recurrent.step` by the loops of its layers."""

    def __init__(self, network: Recurrent, loops: Sequence[CellLoop[At]]) -> None:
        self._network = network
        self._loops = loops

    def start(self, states: Tensor) -> list[Parts]:
        """(B, L, P, D)."""
        return [tuple(layer.unbind(1)) for layer in states.unbind(1)]

    def step(self, step: At, states: list[Parts], *read: Tensor) -> tuple[Tensor, list[Parts]]:
        """Outputs (B, D) and new states."""
        network, new = self._network, list[Parts]()
        for index, (loop, state) in enumerate(zip(self._loops, states, strict=True)):
            if index:
                read = (drop(read[0], network.dropout, network.training),)
            new.append(loop.step(step, state, *read))
            read = (read[0] + new[-1][0] if network.residual and index else new[-1][0],)
        return read[0], new


class NetworkLoop(LayerLoop[int]):
    """`Recurrent.step` for inputs (B, M, I) that are known, and `reading` (G·D, R) for one that is not."""

    def __init__(self, network: Recurrent, inputs: Tensor, reading: Tensor) -> None:
        make = partial(cell_loop, LoopLinear)
        super().__init__(network, layer_loops(make, network, inputs.transpose(0, 1), reading))


class AttentionLoop(ABC):
    """What one query of each row attends to, step after step."""

    @abstractmethod
    def attend(self, step: int, query: Tensor) -> Tensor:
        """Context of (B, D) → (B, C)."""


class AnyAttention(AttentionLoop):
    """By whatever `attend` a decoder has: of queries (B, 1, D) → (B, 1, C)."""

    def __init__(self, attend: Callable[[Tensor], Tensor]) -> None:
        self._attend = attend

    def attend(self, step: int, query: Tensor) -> Tensor:  # noqa: ARG002
        return self._attend(query.unsqueeze(1)).squeeze(1)


class AdditiveAttention(AttentionLoop):
    """`Attention` with an additive score, one head and no projections, to keys (B, 1, N, ·) with a mask (B, N)."""

    def __init__(self, attention: Attention, keys: Keys, mask: Tensor, steps: int) -> None:
        assert isinstance(attention.score, AdditiveScore)
        self._attention = attention
        rows, inner = len(mask), attention.score.energy.size(1)
        nothing = keys.keys.new_zeros(1)
        self._query = LoopLinear(nothing.expand(steps, rows, inner), attention.score.query[0])
        self._keys, self._energy = keys.keys[:, 0], attention.score.energy[0]
        self._values = LoopMean(keys.values[:, 0], steps)
        self._mask = None if bool(mask.all()) else mask.unsqueeze(1)  # (B, 1, N)

    def attend(self, step: int, query: Tensor) -> Tensor:
        attention = self._attention
        asked = self._query(step, query).unsqueeze(1)
        scores, self._keys = compare(asked, self._keys.to(asked.dtype), self._energy)
        weights = drop(masked_softmax(scores, self._mask), attention.dropout, attention.training)
        return self._values(step, weights)


def attention_loop(attention: object, keys: Keys, mask: Tensor, steps: int) -> AttentionLoop | None:
    """The loop of an attention over keys (B, 1, N, ·), where it has one of its own."""
    if not isinstance(attention, Attention) or not isinstance(attention.score, AdditiveScore):
        return None
    if watched(attention.site) or attention.heads > 1 or attention.query is not None or attention.relative is not None:
        return None
    return AdditiveAttention(attention, keys, mask, steps)

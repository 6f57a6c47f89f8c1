"""Changing what passes through a model, without changing the model.

`intervene` puts other values in the place of those at some sites for the length of a block: a head is silenced, a row
of attention points at one word, a hidden state is replaced. Whatever runs in the block runs with the changes, whether
all steps at once or step by step under search; attention takes its explicit path. `capture` inside the block sees the
changed values.

A change is any function from the value and the number of earlier visits to its site to a value of the same shape. What
runs step by step visits a site once for each item, and the axis of items then holds the beams (see `nn.sites`).

Shapes: B rows, H heads, M target items (or beams), N keys, D width.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.errors import UsageError
from regard.nn.sites import Site, watching

Change = Callable[[Tensor, int], Tensor]


class Intervention:
    """Changes values at chosen sites; knows every site that was passed."""

    def __init__(self, changes: Mapping[Site, Change]) -> None:
        self.changes = dict(changes)
        self.visits: dict[Site, int] = {}
        self.passed: set[Site] = set()

    def watches(self, site: Site) -> bool:
        self.passed.add(site)
        return site in self.changes

    def visit(self, site: Site, value: Tensor) -> Tensor:
        step = self.visits.get(site, 0)
        self.visits[site] = step + 1
        changed = self.changes[site](value, step)
        if changed.shape != value.shape:
            raise UsageError(
                f"the change at {site} gives {tuple(changed.shape)} in the place of {tuple(value.shape)}; "
                "it must keep the shape"
            )
        return changed

    def check(self) -> None:
        """A change that never took effect is a mistake of whoever asked for it."""
        missed = sorted(str(site) for site in self.changes.keys() - self.visits.keys())
        if missed:
            passed = ", ".join(sorted(map(str, self.passed))) or "none"
            raise UsageError(f"nothing passed {', '.join(missed)} in this block; sites that were passed: {passed}")


@contextmanager
def intervene(changes: Mapping[Site, Change]) -> Iterator[Intervention]:
    """Change the values at some sites for the length of a block; at its end, all of them must have been passed."""
    intervention = Intervention(changes)
    with watching(intervention):
        yield intervention
    intervention.check()


def silence(*heads: int) -> Change:
    """Take all weight from some heads of an attention, or from all if none is named: their context is zero."""
    return _in_heads(heads, torch.zeros_like)


def point(key: int, *heads: int) -> Change:
    """Let every row of attention rest on one key alone, in some heads or in all.

    Padding is not kept from being pointed at. Under search the items read so far are aligned at their end: at `self`,
    -1 is always the newest one.
    """

    def one_hot(weights: Tensor) -> Tensor:
        if not -weights.size(-1) <= key < weights.size(-1):
            raise UsageError(f"attention cannot point at key {key}: there are {weights.size(-1)} keys")
        pointing = torch.zeros_like(weights)
        pointing[..., key] = 1.0
        return pointing

    return _in_heads(heads, one_hot)


def even(*heads: int) -> Change:
    """Spread every row of attention evenly over the keys that it may look at, in some heads or in all."""

    def spread(weights: Tensor) -> Tensor:
        seen = (weights > 0).to(weights)
        return seen / seen.sum(-1, keepdim=True).clamp(min=1)

    return _in_heads(heads, spread)


def replace(value: Tensor) -> Change:
    """Put a value, broadcast to the shape, in the place of what passes: a vector (D,) for every item, or (B, M, D)."""
    return lambda passing, _: value.to(passing).expand_as(passing)


def at_items(items: Collection[int], change: Change, *, stepped: bool) -> Change:
    """Change some target items only, counted from 0.

    `stepped` says that every visit is one item: under search, and in the recurrence of a decoder always. Otherwise all
    items pass in one visit, as in a teacher-forced Transformer.
    """
    chosen = frozenset(items)

    def changed(value: Tensor, step: int) -> Tensor:
        if stepped:
            return change(value, step) if step in chosen else value
        rows = torch.tensor([item in chosen for item in range(value.size(-2))], device=value.device)
        return torch.where(rows.unsqueeze(-1), change(value, step), value)

    return changed


def _in_heads(heads: tuple[int, ...], change: Callable[[Tensor], Tensor]) -> Change:
    """A change of attention weights (B, H, M, N) in some heads, or in all if none is named."""

    def changed(weights: Tensor, _: int) -> Tensor:
        if weights.dim() != 4:
            raise UsageError("only attention has heads: this change belongs at the sites `self` and `cross`")
        for head in heads:
            if not -weights.size(1) <= head < weights.size(1):
                raise UsageError(f"there is no head {head}: this attention has heads 0 to {weights.size(1) - 1}")
        if not heads:
            return change(weights)
        chosen = torch.zeros(weights.size(1), dtype=torch.bool, device=weights.device)
        chosen[list(heads)] = True
        return torch.where(chosen[:, None, None], change(weights), weights)

    return changed

"""How much memory a training will take, before it takes it.

    state        4 bytes for each weight, as many for its gradient, the optimiser's moments and a moving average
    activations  what the forward pass of the largest batch keeps for the backward pass

The second is counted, not derived: torch tells every tensor that it keeps, and loops of recurrent decoders have theirs
in lists (`regard.nn.loops`). Passes over a few rows of the largest batch
are enough, for with the same lengths what is kept is a straight line in the number of rows. `WORK` stands for what is
there for a moment only: gradients of activations, and blocks of the heap that are free but not given back. `PROGRAMS`
stands for it where products in half precision are torch's: activations are half as large there and this is not, and
programs of products come on top. All were fitted to resident memory after updates: in single precision of five recipes
in seven setups on a CPU, all within 6 %, in half precision of models A, B and C of benchmarks/speed.py after hundreds
of updates.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

import torch
from torch import Tensor
from torch.autograd.graph import Node

from regard.data.batch import Batch, Source
from regard.kernels.calls import has_half
from regard.nn.recurrent import Recurrent
from regard.training.loop import Trainer
from regard.training.settings import OptimizerName, Settings

WORK: Final = 0.6
PROGRAMS: Final = 1.95
"""Of the activations, besides them."""

LOADED: Final = 95_000_000
"""Code and tables that torch loads when it first computes a gradient."""

MOMENTS: dict[OptimizerName, int] = {"adam": 2, "adamw": 2, "sgd": 0}
PARTS: Final = (16, 8)
"""A sixteenth and an eighth of the rows are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes that a training needs; `held` is what its process had before it."""

    held: int
    state: int
    activations: int
    work: int

    @property
    def more(self) -> int:
        """What is needed besides `held`."""
        return LOADED + self.state + self.activations + self.work

    @property
    def peak(self) -> int:
        return self.held + self.more


def needed(trainer: Trainer, largest: Iterable[Batch], *, held: int) -> Memory:
    """What a training will need whose largest micro-batches are given.

    `held` is what the process had when the system was built, weights included, before anything was computed.
    """
    state = state_bytes(trainer) - sum(one.numel() * one.element_size() for one in trainer.system.parameters())
    activations = max((activation_bytes(trainer, batch) for batch in largest), default=0)
    work = round((PROGRAMS if _has_programs(trainer) else WORK) * activations)
    return Memory(held=held, state=state, activations=activations, work=work)


def _has_programs(trainer: Trainer) -> bool:
    """Whether some products are made in half precision, and not by kernels: those of recurrent networks are not."""
    recurrent = any(isinstance(one, Recurrent) for one in trainer.system.modules())
    return trainer.settings.precision == "bfloat16" and (recurrent or not has_half())


def state_bytes(trainer: Trainer) -> int:
    """Weights, gradients (of each lane, too), moments, a moving average, and the copy of the weights that is judged or
    written."""
    everything = [one.numel() * one.element_size() for one in trainer.system.parameters()]
    learning = [one.numel() * one.element_size() for one in trainer.system.parameters() if one.requires_grad]
    gradients = 1 + (trainer.lanes.count if trainer.lanes.count > 1 else 0)
    return (
        sum(everything) * 2
        + sum(learning) * (gradients + moments(trainer.settings))
        + _average(trainer, sum(everything))
    )


def moments(settings: Settings) -> int:
    """Numbers that an optimiser keeps for each weight."""
    return MOMENTS[settings.optimizer] + (settings.optimizer == "sgd" and settings.momentum > 0)


def _average(trainer: Trainer, weights: int) -> int:
    return 0 if trainer.settings.moving_average is None else 2 * weights


def activation_bytes(trainer: Trainer, batch: Batch) -> int:
    """What a forward pass over a batch keeps, from passes over a sixteenth and an eighth of its rows."""
    counts = sorted({max(1, batch.rows // part) for part in PARTS})
    kept = [kept_bytes(trainer, first_rows(batch, count)) for count in counts]
    if len(counts) == 1:
        return kept[0] * batch.rows // counts[0]
    slope = (kept[1] - kept[0]) / (counts[1] - counts[0])
    return max(0, round(kept[1] + slope * (batch.rows - counts[1])))


def kept_bytes(trainer: Trainer, batch: Batch) -> int:
    """Bytes of all tensors that a forward pass keeps for the backward pass, weights aside; nothing is changed."""
    own = {one.untyped_storage().data_ptr() for one in trainer.system.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    random, training = torch.get_rng_state(), trainer.system.training
    trainer.learner.module.train()
    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), trainer.casting():
            learned = trainer.learner(batch, 1)
        for tensor in seen_in_loops(learned.sum.grad_fn):
            keep(tensor)
        del learned
    finally:
        torch.set_rng_state(random)
        trainer.system.train(training)
    return sum(kept.values())


def seen_in_loops(last: Node | None) -> Iterator[Tensor]:
    """Tensors that functions of a graph keep in lists of their own, `ctx.seen`: torch does not tell these."""
    waiting, met = [last], set[Node]()
    while waiting:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        waiting += [before for before, _ in node.next_functions]
        for one in getattr(node, "seen", ()):
            yield from (one,) if isinstance(one, Tensor) else one


def first_rows(batch: Batch, count: int) -> Batch:
    """The first rows of a batch, as long as they were."""

    def cut(source: Source) -> Source:
        return replace(source, **{field.name: getattr(source, field.name)[:count] for field in fields(source)})

    return Batch(
        sources={name: cut(source) for name, source in batch.sources.items()},
        inputs=batch.inputs[:count],
        outputs=batch.outputs[:count],
        mask=batch.mask[:count],
    )

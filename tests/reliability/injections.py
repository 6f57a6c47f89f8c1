"""Things that go wrong in a training, put into a `Trainer` before it runs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.models import System
from regard.special import MASK
from regard.training import Trainer, Verdict
from tests.toys import VOCABULARY


class Corpus:
    """A corpus some of whose batches are exchanged, by how many were made before."""

    def __init__(self, real: StoreCorpus, change: Callable[[Batch], Sequence[Batch]], numbers: Sequence[int]) -> None:
        self.real, self.change, self.numbers = real, change, numbers

    def batches_in_epoch(self) -> int:
        return self.real.batches_in_epoch()

    def where(self, cursor: Cursor) -> str:
        return self.real.where(cursor)

    def from_(
        self, cursor: Cursor, parts: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        per_epoch = self.real.batches_in_epoch()
        for after, made in self.real.from_(cursor, parts, rank=rank, world=world):
            number = after.epoch * per_epoch + after.position
            yield after, self.change(made[0]) if number in self.numbers else made


@dataclass
class Injected:
    """What an injection may change before a training runs."""

    trainer: Trainer
    updates: int = 0

    def at_update(self, numbers: Sequence[int], action: Callable[[Trainer], None]) -> None:
        """Do something after the weights changed in some updates, those that are left out being counted, too."""
        real = self.trainer.apply

        def apply() -> None:
            real()
            if self.trainer.progress.step + 1 in numbers:
                action(self.trainer)

        self.trainer.apply = apply  # type: ignore[method-assign]

    def loss(self, factor: float, numbers: Sequence[int]) -> None:
        """Multiply the loss of some updates."""
        real, backward = self.trainer.learner.lesson.objective, self.trainer.backward

        def counted(*arguments: Any) -> tuple[int, float, float]:
            self.updates += 1
            return backward(*arguments)

        def spoiled(system: System, batch: Batch, *, step: int) -> Any:
            loss = real(system, batch, step=step)
            return replace(loss, sum=loss.sum * factor) if self.updates in numbers else loss

        self.trainer.backward = counted  # type: ignore[method-assign]
        self.trainer.learner.lesson.objective = spoiled

    def gradient(self, change: Callable[[torch.Tensor], object], numbers: Sequence[int]) -> None:
        """Change the gradient of one weight in some updates."""
        real = self.trainer.backward

        def backward(*arguments: Any) -> tuple[int, float, float]:
            found = real(*arguments)
            self.updates += 1
            if self.updates in numbers:
                gradient = next(self.trainer.system.parameters()).grad
                assert gradient is not None
                change(gradient)
            return found

        self.trainer.backward = backward  # type: ignore[method-assign]

    def batch(self, change: Callable[[Batch], Sequence[Batch]], numbers: Sequence[int]) -> None:
        """Exchange some batches."""
        assert isinstance(self.trainer.corpus, StoreCorpus)
        self.trainer.corpus = Corpus(self.trainer.corpus, change, numbers)

    def verdict(self, step: int, **changes: Any) -> None:
        """Find something else in the validations from a step on."""
        real = self.trainer.validate

        def validate(system: System) -> Verdict:
            found = real(system)
            return replace(found, **changes) if self.trainer.progress.step >= step else found

        self.trainer.validate = validate


def spoil_row(trainer: Trainer, value: float) -> None:
    """Put a number into a row of the encoder's embedding that no batch reads, so that no loss tells."""
    table = trainer.system.encoder.get_parameter("embedding.weight")
    with torch.no_grad():
        table[MASK, 3] = value


def spoil_all(trainer: Trainer, value: float) -> None:
    with torch.no_grad():
        for parameter in trainer.system.parameters():
            parameter.fill_(value)


def spoil_average(trainer: Trainer) -> None:
    assert trainer.moving is not None
    next(iter(trainer.moving.values.values()))[0, 0] = math.nan


def spoil_moment(trainer: Trainer) -> None:
    next(iter(trainer.optimizer.state.values()))["exp_avg_sq"][0, 0] = math.inf


def padding_only(batch: Batch) -> Sequence[Batch]:
    return [replace(batch, mask=torch.zeros_like(batch.mask))]


def no_rows(batch: Batch) -> Sequence[Batch]:
    return []


def foreign_label(batch: Batch) -> Sequence[Batch]:
    return [replace(batch, outputs=batch.outputs.masked_fill(batch.mask, VOCABULARY))]


def foreign_input(batch: Batch) -> Sequence[Batch]:
    return [replace(batch, inputs=batch.inputs + VOCABULARY)]

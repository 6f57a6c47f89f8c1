"""What is learned from a batch: from a system and a batch to a loss.

Objectives are nested. What changes the inputs stands outside, what compares passes inside:
`ScheduledSampling(RDrop(...))` reads the same mixed inputs in both passes.
"""

from dataclasses import dataclass
from typing import Protocol

from regard.data.batch import Batch
from regard.models import Loss, System


class Objective(Protocol):
    """A loss of a batch at an update, the first of which is 1.

    `parts["likelihood"]` is the plain negative log-likelihood of one pass, whatever else is learned, so that logs can
    be compared. What is random comes from `kernels.draws.generator`.
    """

    def __call__(self, system: System, batch: Batch, *, step: int) -> Loss: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """The truth is read and the next token of it is to be predicted (teacher forcing), with label smoothing."""

    smoothing: float = 0.0

    def __call__(self, system: System, batch: Batch, *, step: int) -> Loss:  # noqa: ARG002
        return system.loss(batch, smoothing=self.smoothing)

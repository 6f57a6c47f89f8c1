"""What is learned from a batch."""

from typing import Protocol

from regard.data.batch import Batch
from regard.models import System
from regard.models.contracts import Loss


class Objective(Protocol):
    """A loss to be made smaller at update `step`, counted from 1. Random choices come from torch's random state."""

    def __call__(self, system: System, batch: Batch, *, step: int) -> Loss: ...


class Likelihood:
    """Teacher forcing: -log p of each token given the true ones before it, smoothed where that is wanted."""

    def __init__(self, *, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def __call__(self, system: System, batch: Batch, *, step: int) -> Loss:  # noqa: ARG002
        return system.loss(batch, smoothing=self.smoothing)

"""Which weights a run ends with: the best checkpoint, or the average of the last few where that is judged better.

What the disk has lost meanwhile is told, set aside and left out. If that is the best checkpoint, all else that is
whole is judged anew: the weights that were written when they were the best, the last checkpoint, and the average.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from regard.errors import ModelError
from regard.run.folder import RunFolder
from regard.training import Checkpoints, Progress, Trainer, Warned, average, load_weights

Weights = Mapping[str, Tensor]


def choose_weights(trainer: Trainer, folder: RunFolder) -> Progress:
    """Load what the run ends with; returns the progress, with the value of what stands in for a best that is lost."""
    progress, reader = trainer.progress, _Reader(trainer.checkpoints)
    best = reader.read(progress.best_step) if progress.best is not None else None
    candidates = [best] if best is not None else _others(trainer, folder, reader)
    last_few = [one for step in progress.validated if (one := reader.read(step)) is not None]
    if len(last_few) > 1:
        candidates.append(average(last_few))
    _tell_lost(trainer, reader, any_left=bool(candidates))
    trainer.system.eval()
    values = [-math.inf] * len(candidates)
    if len(candidates) > 1 or best is None:
        values = [_judged(trainer, candidate) for candidate in candidates]
    chosen = values.index(max(values))
    load_weights(trainer.system, candidates[chosen])
    if best is None and math.isfinite(values[chosen]):
        return replace(progress, best=values[chosen], best_step=0)
    return progress


@dataclass(slots=True)
class _Reader:
    """Reads weights of checkpoints, each once, and remembers which are damaged, and how."""

    checkpoints: Checkpoints
    whole: dict[int, Weights] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)

    def read(self, step: int) -> Weights | None:
        if step not in self.whole and step not in self.lost:
            try:
                self.whole[step] = self.checkpoints.model(step)
            except ModelError as error:
                self.lost[step] = str(error)
        return self.whole.get(step)


def _others(trainer: Trainer, folder: RunFolder, reader: _Reader) -> list[Weights]:
    """What may stand in for a best checkpoint that there is none of."""
    found: list[Weights] = []
    if folder.weights.is_file():
        try:
            written = folder.read_weights()
        except ModelError:
            written = {}
        shapes = {name: (one.shape, one.dtype) for name, one in trainer.system.named_parameters()}
        if {name: (one.shape, one.dtype) for name, one in written.items()} == shapes:
            found.append(written)
    if (last := reader.read(trainer.progress.step)) is not None:
        found.append(last)
    return found


def _judged(trainer: Trainer, candidate: Weights) -> float:
    """The value of a validation; what is not a number is never better."""
    load_weights(trainer.system, candidate)
    value = trainer.validate(trainer.system).value
    return value if math.isfinite(value) else -math.inf


def _tell_lost(trainer: Trainer, reader: _Reader, *, any_left: bool) -> None:
    if not reader.lost:
        return
    told = "; ".join(reader.lost[step] for step in sorted(reader.lost))
    trainer.checkpoints.set_aside(reader.lost)
    if not any_left:
        raise ModelError(
            f"{told}; set aside. There are no other weights to end with: run the same command again to go on from an "
            "earlier checkpoint, if there is one"
        )
    best = trainer.progress.best_step in reader.lost
    text = "what else is whole is judged anew" if best else "it is left out of the average"
    trainer.tell(Warned(trainer.progress, "damaged", f"{told}; set aside: {text}"))

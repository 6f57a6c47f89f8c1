"""How training goes: the numbers the loop needs, all in one frozen value."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from regard.training.progress import Progress

ScheduleName = Literal["inverse_sqrt", "constant", "linear", "cosine", "by_epoch", "plateau"]
OptimizerName = Literal["adamw", "adam", "sgd"]
Precision = Literal["float32", "bfloat16", "float64"]
Parallel = Literal["ddp", "fsdp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """How the learning rate falls in steps: `factor` each time, never below `least` of its peak.

    `by_epoch` falls at the end of epoch `after_epochs` and of each one that follows (Luong et al. 2015, 4.1); `plateau`
    after `after_validations` validations in a row without a gain.
    """

    factor: float = 0.5
    after_epochs: int = 5
    after_validations: int = 2
    least: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """See `TrainingSection` of the recipe schema for what each setting means."""

    seed: int
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    optimizer: OptimizerName = "adamw"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: ScheduleName = "inverse_sqrt"
    fall: Fall = Fall()
    warmup: int = 400
    clip: float = 1.0
    precision: Precision = "float32"
    moving_average: float | None = None
    accumulate: int = 1
    lanes: int = 1
    parallel: Parallel = "ddp"
    validate_every: int | None = None
    save_every: int | None = None
    patience: int | None = 10
    average: int = 1
    log_every: int = 20
    freeze: tuple[str, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    layer_decay: float | None = None

    @property
    def validations_to_fall(self) -> int | None:
        """Validations without a gain after which the learning rate falls."""
        return self.fall.after_validations if self.schedule == "plateau" else None


BEGINNING = Progress()


def learning_rate(step: int, settings: Settings, progress: Progress = BEGINNING) -> float:
    """The learning rate of update `step`, counted from 1, in the epoch and after the validations of `progress`.

    It rises linearly over `warmup` steps. `inverse_sqrt` then falls as peak · √(warmup / step) (Vaswani et al. 2017,
    equation 3, with the peak given instead of the width); `constant` stays; `linear` and `cosine` fall to 0 right after
    the last of `steps`, along a line or half a wave of the cosine (Loshchilov and Hutter 2017, equation 5);
    `by_epoch` and `plateau` fall as `Fall` says.
    """
    peak, warmup, fall = settings.learning_rate, settings.warmup, settings.fall
    if step < warmup:
        return peak * step / warmup
    match settings.schedule:
        case "inverse_sqrt":
            return float(peak * (max(warmup, 1) / step) ** 0.5)
        case "constant":
            return peak
        case "by_epoch":
            return float(peak * max(fall.least, fall.factor ** max(0, progress.epoch + 1 - fall.after_epochs)))
        case "plateau":
            return float(peak * max(fall.least, fall.factor**progress.falls))
    assert settings.steps is not None, "a schedule that ends needs an end"
    gone = min(1.0, (step - warmup) / max(1, settings.steps + 1 - warmup))
    return peak * (1 - gone) if settings.schedule == "linear" else peak * 0.5 * (1 + math.cos(math.pi * gone))

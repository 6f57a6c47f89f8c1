"""How training goes: the numbers the loop needs, all in one frozen value."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ScheduleName = Literal["inverse_sqrt", "constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """See `TrainingSection` of the recipe schema for what each setting means."""

    seed: int
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    schedule: ScheduleName = "inverse_sqrt"
    warmup: int = 400
    clip: float = 1.0
    label_smoothing: float = 0.1
    accumulate: int = 1
    validate_every: int | None = None
    save_every: int | None = None
    patience: int | None = 10
    average: int = 1
    log_every: int = 20
    freeze: tuple[str, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    layer_decay: float | None = None


def learning_rate(step: int, settings: Settings) -> float:
    """The learning rate of update `step`, counted from 1.

    It rises linearly over `warmup` steps. `inverse_sqrt` then falls as peak · √(warmup / step) (Vaswani et al. 2017,
    equation 3, with the peak given instead of the width); `constant` stays; `linear` and `cosine` fall to 0 right after
    the last of `steps`, along a line or half a wave of the cosine (Loshchilov and Hutter 2017, equation 5).
    """
    peak, warmup = settings.learning_rate, settings.warmup
    if step < warmup:
        return peak * step / warmup
    if settings.schedule == "inverse_sqrt":
        return float(peak * (max(warmup, 1) / step) ** 0.5)
    if settings.schedule == "constant":
        return peak
    assert settings.steps is not None, "a schedule that ends needs an end"
    gone = min(1.0, (step - warmup) / max(1, settings.steps + 1 - warmup))
    return peak * (1 - gone) if settings.schedule == "linear" else peak * 0.5 * (1 + math.cos(math.pi * gone))

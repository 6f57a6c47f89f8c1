"""What the loop tells those who listen: progress on a screen, a log, a report. The loop knows none of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regard.training.progress import Progress


@dataclass(frozen=True, slots=True)
class Started:
    """Before the first step: where training goes on from and how long it is expected to take."""

    progress: Progress
    total_steps: int | None
    estimated_seconds: float | None
    damages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartedFrom:
    """Before `Started`: the weights of another run are where this one begins; what was taken of them, in lines."""

    progress: Progress
    run: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stepped:
    """The mean loss of the steps since the last of these events."""

    progress: Progress
    loss: float
    likelihood: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Validated:
    progress: Progress
    loss: float
    metrics: Mapping[str, float]
    gained: bool


@dataclass(frozen=True, slots=True)
class Saved:
    progress: Progress


@dataclass(frozen=True, slots=True)
class Skipped:
    """An update that was left out because its loss or gradient was not finite."""

    progress: Progress
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    progress: Progress
    reason: str


Event = StartedFrom | Started | Stepped | Validated | Saved | Skipped | Ended
Observer = Callable[[Event], None]

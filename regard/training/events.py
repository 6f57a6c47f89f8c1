"""What the loop tells those who listen: progress on a screen, a log, a report. The loop knows none of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regard.training.progress import Progress


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Before `Started`: what of the data is not learned from, in lines."""

    progress: Progress
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """Before the first step: where training goes on from and how long it is expected to take.

    A validation comes every `validate_every` steps, about, and takes `validation_seconds`, where these are known;
    `estimated_seconds` holds all of them then. `most_seconds` is what the whole training may take, where
    there is a limit.
    """

    progress: Progress
    total_steps: int | None
    estimated_seconds: float | None
    damages: tuple[str, ...] = ()
    validate_every: float | None = None
    validation_seconds: float | None = None
    most_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """Before `Started`: what was chosen by measuring, and the memory that training is expected to need, in lines.

    `memory` is the estimate in bytes, 0 where there is none.
    """

    progress: Progress
    lines: tuple[str, ...]
    memory: int = 0


@dataclass(frozen=True, slots=True)
class StartedFrom:
    """Before `Started`: the weights of another run are where this one begins; what was taken of them, in lines."""

    progress: Progress
    run: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stepped:
    """The mean loss of the steps since the last of these events.

    `clipped` is the share of these updates whose gradient was cut to the largest norm; `memory` is what the process
    holds now, in bytes, 0 where that is not known.
    """

    progress: Progress
    loss: float
    likelihood: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    clipped: float = 0.0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Validated:
    """What a validation found, and how many seconds it took."""

    progress: Progress
    loss: float
    metrics: Mapping[str, float]
    gained: bool
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Shown:
    """What the model now writes for one source; without a reference where there is none."""

    source: str
    reference: str | None
    output: str


@dataclass(frozen=True, slots=True)
class Sampled:
    """After `Validated`: outputs for the same few sources each time, and how many seconds they took."""

    progress: Progress
    samples: tuple[Shown, ...]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Warned:
    """Learning looks wrong: what was seen, what it usually means, what to try."""

    progress: Progress
    kind: str
    text: str


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


Event = StartedFrom | LeftOut | Settled | Started | Stepped | Validated | Sampled | Warned | Saved | Skipped | Ended
Observer = Callable[[Event], None]

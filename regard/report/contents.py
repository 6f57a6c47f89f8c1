"""What a report shows, as plain values; where they come from is not its business."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.metrics.score import Score
from regard.report.alignment import AlignmentPicture

Facts = Sequence[tuple[str, str]]
"""Names and values, in the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPoint:
    """What the log says about one step; `seconds` since training began."""

    step: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    seconds: float
    likelihood: float | None = None
    gradient_norm: float | None = None
    clipped: float = 0.0
    memory: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPoint:
    """What one validation found; `seconds` since training began."""

    step: int
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    gained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A warning that training gave at a step."""

    step: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """What the model wrote for one source at some steps of its training, steps rising."""

    source: str
    reference: str | None
    outputs: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a training stands that has no result yet.

    `written` is when the page was written, in seconds since 1970; the page of a training that runs loads itself again
    every `again` seconds.
    """

    state: Literal["training", "evaluating", "interrupted"]
    step: int
    total: int | None
    seconds: float
    left: float | None
    written: float
    again: int = 20
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScore:
    """A score on a named set (test, combinations)."""

    set_name: str
    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the model made of one source; `log_probability` is natural, raw, of the whole output."""

    source: str
    reference: str | None
    output: str
    log_probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """Everything on the page of a run; whatever is empty is said to be so."""

    title: str
    run: str
    recipe: str
    facts: Facts = ()
    data: Facts = ()
    findings: Sequence[str] = ()
    training: Sequence[TrainingPoint] = ()
    validation: Sequence[ValidationPoint] = ()
    best_step: int | None = None
    scores: Sequence[SetScore] = ()
    samples: Sequence[Sample] = ()
    alignments: Sequence[AlignmentPicture] = ()
    notes: Sequence[str] = ()
    cautions: Sequence[Caution] = ()
    early: Sequence[Early] = ()
    status: Status | None = None

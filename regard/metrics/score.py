"""What a metric says in the end: a number, how sure it is, and how it was computed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A measured value with its interval and its signature.

    `low` and `high` bound the bootstrap interval; they are None where none was asked for or where there is only one
    segment to resample. `parts` are the figures the value is made of (n-gram precisions, precision and recall).
    """

    name: str
    value: float
    low: float | None
    high: float | None
    signature: str
    parts: Mapping[str, float] = field(default_factory=dict)
    count: int
    higher_is_better: bool = True

    def to_json(self) -> dict[str, object]:
        """An entry of `metrics.json`; numbers that JSON cannot write become null."""
        return {
            "value": _finite(self.value),
            "low": _finite(self.low),
            "high": _finite(self.high),
            "signature": self.signature,
            "count": self.count,
            "parts": {name: _finite(part) for name, part in self.parts.items()},
        }

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.name} = {self.value:.2f}{interval}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None

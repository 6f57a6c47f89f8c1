"""How far a mean over a few runs can be trusted: Student's t interval.

With n values of mean m and standard deviation s the interval is m ± t · s / √n, where t is the quantile of Student's
distribution with n - 1 degrees of freedom (Student 1908). It takes the values as drawn from one normal distribution.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A mean, its interval (None for a single value), and the values it is of."""

    mean: float
    low: float | None
    high: float | None
    values: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def reach(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean

    def to_json(self) -> dict[str, object]:
        numbers = {"mean": self.mean, "low": self.low, "high": self.high}
        known = {name: value if value is not None and math.isfinite(value) else None for name, value in numbers.items()}
        return {**known, "n": self.count, "values": [value if math.isfinite(value) else None for value in self.values]}

    def __str__(self) -> str:
        digits = 2 if abs(self.mean) >= 10 else 3
        return f"{self.mean:.{digits}f}" + ("" if self.reach is None else f" ± {self.reach:.{digits}f}")


def spread(values: Sequence[float], *, level: float = 0.95) -> Spread:
    """The mean of some values and its interval."""
    if not values:
        raise UsageError("there is no mean of no values")
    if not 0 < level < 1:
        raise UsageError(f"level = {level}: must lie between 0 and 1, such as 0.95")
    kept = tuple(values)
    mean = sum(kept) / len(kept)
    if len(kept) == 1 or not math.isfinite(mean):
        return Spread(mean=mean, low=None, high=None, values=kept)
    reach = student_quantile(level, len(kept) - 1) * statistics.stdev(kept) / math.sqrt(len(kept))
    return Spread(mean=mean, low=mean - reach, high=mean + reach, values=kept)


def student_quantile(level: float, degrees: int) -> float:
    """The t for which a variable of Student's distribution lies in [-t, t] with probability `level`, by halving."""
    low, high = 0.0, 1.0
    while student_mass(high, degrees) < level:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if student_mass(middle, degrees) < level:
            low = middle
        else:
            high = middle
    return high


def student_mass(t: float, degrees: int) -> float:
    """P(|T| <= t) for whole degrees of freedom (Abramowitz and Stegun 1972, equations 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2 == 1
    term = cosine if odd else 1.0
    total = 0.0
    for number in range(2 if odd else 1, degrees, 2):
        total += term
        term *= cosine**2 * number / (number + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total

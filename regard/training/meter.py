"""Sums over the steps since the last report. They are saved with a checkpoint, so that a resumed run logs the same."""

from dataclasses import asdict, dataclass
from typing import Any

from regard.process import memory_now
from regard.training.events import Stepped
from regard.training.progress import Progress


@dataclass(slots=True)
class Meter:
    """What `steps` updates added up to."""

    total: float = 0.0
    likelihood: float = 0.0
    norm: float = 0.0
    seconds: float = 0.0
    tokens: int = 0
    steps: int = 0
    clipped: int = 0

    def add(self, *, total: float, likelihood: float, norm: float, tokens: int, clipped: bool = False) -> None:
        """Count one update."""
        self.total += total
        self.likelihood += likelihood
        self.norm += norm
        self.tokens += tokens
        self.steps += 1
        self.clipped += clipped

    def stepped(self, progress: Progress, rate: float) -> Stepped:
        """The means, as an event."""
        tokens = max(1, self.tokens)
        return Stepped(
            progress=progress,
            loss=self.total / tokens,
            likelihood=self.likelihood / tokens,
            learning_rate=rate,
            gradient_norm=self.norm / max(1, self.steps),
            tokens_per_second=self.tokens / max(self.seconds, 1e-9),
            clipped=self.clipped / max(1, self.steps),
            memory=memory_now(),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Meter":
        return cls(**record)

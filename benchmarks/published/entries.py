"""What is kept of a finished recipe in benchmarks/recipes.json: enough to write the page again without any run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A score as metrics.json has it; `tokens` are those that a perplexity is the mean over."""

    value: float | None
    low: float | None = None
    high: float | None = None
    count: int
    signature: str
    tokens: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "not finite"
        interval = "" if self.low is None or self.high is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


def kept_value(entry: Mapping[str, Any]) -> Value:
    """A score of metrics.json, rounded."""

    def rounded(number: float | None) -> float | None:
        return None if number is None else round(number, 4)

    return Value(
        value=rounded(entry["value"]),
        low=rounded(entry["low"]),
        high=rounded(entry["high"]),
        count=entry["count"],
        signature=entry["signature"],
        tokens=entry["parts"].get("tokens"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """BLEU of the sources with `first` to `last` words; without a last one, of all that are longer."""

    first: int
    last: int | None
    sentences: int
    value: float
    low: float | None
    high: float | None

    @property
    def label(self) -> str:
        return f"{self.first} and more" if self.last is None else f"{self.first} to {self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A recipe, trained and judged. `recipe` is the hash of its settings; `losses` are the first and the last told."""

    recipe: str
    sets: dict[str, dict[str, Value]]
    minutes: float
    steps: int
    parameters: int
    threads: int
    versions: dict[str, str]
    losses: tuple[float, float] | None = None
    exact_perplexity: float | None = None
    by_length: tuple[Bucket, ...] = field(default=())

    def score(self, name: str, set_name: str = "test") -> Value | None:
        """The score of this name, or the first whose name begins so: `perplexity` is kept with how it is computed."""
        scores = self.sets.get(set_name, {})
        return scores.get(name) or next((value for key, value in scores.items() if key.startswith(name)), None)


Entries = dict[str, Entry]

_JSON: Final = TypeAdapter(Entries)


def read_entries(path: Path) -> Entries:
    """The entries by the name of their recipe; none where there is no file yet."""
    return _JSON.validate_json(path.read_bytes()) if path.exists() else {}


def entries_json(entries: Entries) -> str:
    """The content of recipes.json, sorted, so that a new figure is a small change."""
    return _JSON.dump_json(dict(sorted(entries.items())), indent=1).decode() + "\n"

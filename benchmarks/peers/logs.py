"""What programs say of themselves while they train and decode, read out of their logs."""

import json
import re
import statistics
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OPENNMT = re.compile(r"Step\s+(\d+)/\s*\d+;.*?bsz:\s*\d+/\s*(\d+)/\s*\d+;\s*\d+/\s*(\d+) tok/s;")
_PARAMETERS = re.compile(r"(?:number of parameters|Total params):\s*([\d,]+)")
_JOEYNMT = re.compile(r"Step:\s+(\d+),.*Tokens per Sec:\s+([\d.]+)")
_SECONDS = re.compile(
    r"(?:Total (?:translation|prediction) time|Step 0 time|Subsequent prediction time[^(]*) \(s\): ([\d.]+)"
)


@dataclass(frozen=True, slots=True)
class Rates:
    """Target tokens per second over the steps up to each of `steps`, tokens of a step, the number of parameters.

    Where a log does not tell how many tokens a step has, there are none in `tokens`.
    """

    steps: tuple[int, ...]
    values: tuple[float, ...]
    parameters: int
    tokens: tuple[float, ...] = ()

    @property
    def batch(self) -> float:
        """Target tokens of a step, 0 where it is not told."""
        return sum(self.tokens) / len(self.tokens) if self.tokens else 0.0

    def median(self, warm: int) -> float:
        """After warm-up; of everything where there is nothing after it."""
        late = [value for step, value in zip(self.steps, self.values, strict=True) if step > warm]
        return statistics.median(late or self.values)


def read_opennmt(text: str) -> Rates:
    """OpenNMT-py and Eole: `Step 10/ 60; ...; 4800/5000 tok/s; ...`, source then target."""
    lines = _OPENNMT.findall(text)
    found = [(int(step), float(rate)) for step, _, rate in lines]
    return _rates(found, _parameters(text), [float(tokens) for _, tokens, _ in lines])


def read_joeynmt(text: str) -> Rates:
    """JoeyNMT: `Step: 10, ..., Tokens per Sec: 1500, ...`."""
    return _rates([(int(step), float(rate)) for step, rate in _JOEYNMT.findall(text)], _parameters(text))


def read_driver(text: str) -> Rates:
    """Our drivers: a JSON object a line."""
    records = list(records_of(text))
    lines = [one for one in records if "tokens_per_second" in one]
    found = [(int(one["step"]), float(one["tokens_per_second"])) for one in lines]
    parameters = next((int(one["parameters"]) for one in records if "parameters" in one), 0)
    return _rates(found, parameters, [float(one["tokens"]) for one in lines if "tokens" in one])


def read_regard(log: str, weights: Path) -> Rates:
    """Our own `log.jsonl`; the parameters are counted in the file of the weights."""
    records = [one for one in records_of(log) if one.get("event") == "step"]
    tokens, step, seconds = [], 0, 0.0
    for one in records:
        tokens.append(one["tokens_per_second"] * (one["seconds"] - seconds) / (one["step"] - step))
        step, seconds = one["step"], one["seconds"]
    found = [(int(one["step"]), float(one["tokens_per_second"])) for one in records]
    return _rates(found, parameters_in(weights), tokens)


def parameters_in(weights: Path) -> int:
    """Numbers in a safetensors file, by its head."""
    with weights.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        head = json.loads(file.read(length))
    total = 0
    for name, entry in head.items():
        if name != "__metadata__":
            count = 1
            for size in entry["shape"]:
                count *= size
            total += count
    return total


def read_seconds(text: str) -> float:
    """How long OpenNMT-py or Eole say that they decoded; Eole tells the first step apart."""
    found = [float(value) for value in _SECONDS.findall(text)]
    if not found:
        raise ValueError("the log tells no time of decoding")
    return sum(found)


def records_of(text: str) -> Iterable[dict[str, Any]]:
    """The lines that are JSON objects."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _parameters(text: str) -> int:
    found = _PARAMETERS.search(text)
    return int(found[1].replace(",", "")) if found else 0


def _rates(found: Sequence[tuple[int, float]], parameters: int, tokens: Sequence[float] = ()) -> Rates:
    if not found:
        raise ValueError("the log tells no rate of training")
    return Rates(tuple(step for step, _ in found), tuple(value for _, value in found), parameters, tuple(tokens))

"""Shards: some lines of a file, what is asked of them, and what a worker answers.

A shard carries its texts and its answer carries the finished lines, so that a worker needs no file system that it
shares with others. What goes between processes is JSON.
"""

import hashlib
import json
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from regard.errors import ModelError, RegardError, out_of_memory
from regard.run.folder import TEXT
from regard.run.model import Model
from regard.run.prediction import Prediction
from regard.run.reading import answer_lines
from regard.run.written import Form, Tally
from regard.search import Constraint, MinimumRisk, SearchOptions

SHARD_LINES: Final = 1024
SHARD_BYTES: Final = 2**20
"""A shard has no more lines: so many are searched together anyway. Only a single line may have more bytes."""

PLAIN: Final = Form()


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of every line. Finished shards belong to it: with anything else they cannot go on."""

    options: SearchOptions
    prefix: str = ""
    form: Form = PLAIN
    constraint: Constraint | None = None
    risk: MinimumRisk | None = None

    def record(self) -> dict[str, Any]:
        """This as JSON has it: the options side by side, with a level for a constraint and for a risk."""
        demands: dict[str, Any] = {"constraint": self.constraint.record()} if self.constraint else {}
        if self.risk:
            demands["risk"] = asdict(self.risk)
        form = {"align": self.form.align, "jsonl": self.form.jsonl}
        numbers = {} if self.form.probable else {"probable": False}
        return {**asdict(self.options), "prefix": self.prefix, **form, **numbers, **demands}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Asked":
        """What `record` gave."""
        options = dict(record)
        prefix, align, jsonl = options.pop("prefix"), options.pop("align"), options.pop("jsonl")
        demands, probable = options.pop("constraint", None), options.pop("probable", True)
        constraint = None if demands is None else Constraint.from_record(demands)
        risk = _risk(options.pop("risk", None))
        form = Form(best=risk.best if risk else options["best"], align=align, jsonl=jsonl, probable=probable)
        return Asked(options=SearchOptions(**options), prefix=prefix, form=form, constraint=constraint, risk=risk)


def _risk(record: Mapping[str, Any] | None) -> MinimumRisk | None:
    if record is None:
        return None
    references = record["references"]
    return MinimumRisk(**{**record, "references": None if references is None else SearchOptions(**references)})


@dataclass(frozen=True, slots=True)
class Task:
    """A shard to predict: its number among all shards, and texts of `file` from line `first` (counted from 1) on.

    Lines of a stream belong to no file. `faults` are those of lines that could not be decoded, by their numbers.
    """

    number: int
    file: str
    first: int
    texts: tuple[str, ...]
    faults: Mapping[int, str] = field(default_factory=dict)

    @property
    def lines(self) -> str:
        """Where it stands, for people."""
        return f"{self.file}, lines {self.first:,} to {self.first + len(self.texts) - 1:,}"

    def place(self, number: int) -> str:
        """A line of it, for people."""
        return f"{self.file}:{number}" if self.file else f"line {number}"

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(content: bytes) -> "Task":
        record = json.loads(content)
        faults = {int(number): fault for number, fault in record["faults"].items()}
        return Task(**{**record, "texts": tuple(record["texts"]), "faults": faults})


@dataclass(frozen=True, slots=True)
class Answer:
    """The finished lines of a shard, and what was counted."""

    content: bytes
    tally: Tally


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a task, or why there is none. `lost`: the worker ended, or there was no memory."""

    answer: Answer | None = None
    fault: str = ""
    lost: bool = False

    def encode(self) -> bytes:
        if self.answer is None:
            return json.dumps({"fault": self.fault, "lost": self.lost}).encode()
        return json.dumps({"content": self.answer.content.decode(), "tally": self.answer.tally.record()}).encode()

    @staticmethod
    def decode(content: bytes) -> "Outcome":
        record = json.loads(content)
        if "fault" in record:
            return Outcome(fault=record["fault"], lost=record["lost"])
        return Outcome(Answer(content=record["content"].encode(), tally=Tally.from_record(record["tally"])))


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a worker must know before its first task: the run, the checksums of its files, and what is asked."""

    run: str
    files: dict[str, str]
    asked: Asked

    def encode(self) -> bytes:
        return json.dumps({"run": self.run, "files": self.files, "asked": self.asked.record()}).encode()

    @staticmethod
    def decode(content: bytes) -> "Beginning":
        record = json.loads(content)
        return Beginning(run=record["run"], files=record["files"], asked=Asked.from_record(record["asked"]))

    def predictor(self) -> "ShardPredictor":
        return ShardPredictor(load_exactly(Path(self.run), self.files), self.asked)


class ShardPredictor:
    """Predicts shards with one model that is loaded once."""

    def __init__(self, model: Model, asked: Asked) -> None:
        self.model = model
        self.asked = asked
        self._predict((), 1)  # what cannot be asked for is refused before the first shard

    def attempt(self, task: Task) -> Outcome:
        """An outcome, whatever happens; the traceback of what nobody foresaw goes to standard error."""
        try:
            return Outcome(self.answer(task))
        except RegardError as error:
            return Outcome(fault=str(error))
        except Exception as error:
            if not out_of_memory(error):
                traceback.print_exc()
            return Outcome(fault=f"{type(error).__name__}: {error}".removesuffix(": "), lost=out_of_memory(error))

    def answer(self, task: Task) -> Answer:
        tally = Tally()
        lines: list[str] = []
        for number, prediction in enumerate(self._predict(task.texts, task.first), start=task.first):
            fault, place = task.faults.get(number), task.place(number)
            lines += answer_lines(prediction, number, form=self.asked.form, fault=fault, tally=tally, place=place)
        return Answer(content="".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), tally=tally)

    def _predict(self, texts: Iterable[str], first: int) -> list[Prediction]:
        asked = self.asked
        predictions = self.model.predict_many(
            texts,
            options=asked.options,
            prefix=asked.prefix,
            constraint=asked.constraint,
            risk=asked.risk,
            capture=asked.form.align,
            first=first - 1,
        )
        return list(predictions)


def load_exactly(run: Path, expected: Mapping[str, str]) -> Model:
    """Open a run that must be what it was when `fingerprint` looked at it."""
    model = Model.load(run)
    found = fingerprint(run)
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise ModelError(
                f"{run / name}: has changed since the predictions were begun. Finished shards belong to the old model: "
                "bring it back, or begin anew with another --output or with --overwrite"
            )
    return model


def run_files(run: Path) -> list[Path]:
    """The files of a run that its predictions follow from."""
    texts = sorted(path for path in run.glob("*") if TEXT.fullmatch(path.name))
    return [run / "recipe.yaml", *texts, run / "weights.safetensors"]


def fingerprint(run: Path) -> dict[str, str]:
    """SHA-256 of every file that predictions follow from."""
    return {path.name: file_digest(path) for path in run_files(run)}


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in bounded memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def texts_digest(texts: Iterable[str]) -> str:
    """SHA-256 of the texts of a shard, a line each."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()


def cut(texts: Iterable[str], *, lines: int, size: int) -> Iterator[list[str]]:
    """Texts in groups of at most `lines` and at most `size` bytes; a longer text is a group of its own."""
    group: list[str] = []
    held = 0
    for text in texts:
        length = len(text.encode()) + 1
        if group and (len(group) == lines or held + length > size):
            yield group
            group, held = [], 0
        group.append(text)
        held += length
    if group:
        yield group

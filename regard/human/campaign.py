"""A campaign: what is judged, by whom, in which order; one JSON file.

The file holds the texts, the names of the systems and the whole plan, so that results need nothing else and no later
version of anything can deal the tasks anew. It holds the keys of the annotators' links, too: who has it knows which
system is which and can answer for everybody. Keep it from the annotators.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.errors import DataError, UsageError
from regard.files import replace_file
from regard.human.kinds import MOST_RANKED, Kind

FORMAT: Final = 1
LARGEST: Final = 256 * 2**20
"""Bytes that a campaign may have."""


class Record(BaseModel):
    """A part of the file: frozen, exactly typed, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Item(Record):
    """A line of the files: the source, what each system made of it, and what a person did, if that is known."""

    line: int = Field(ge=1)
    source: str
    reference: str | None = None
    outputs: dict[str, str]


class Task(Record):
    """One question to one annotator.

    `shown` has the systems of each output on the page, in its order. Systems with the same output share a place, and
    the answer counts for all of them. `repeats` is the id of the task that is asked again.
    """

    id: str
    item: int = Field(ge=0)
    shown: tuple[tuple[str, ...], ...]
    repeats: str | None = None


class Annotator(Record):
    """Who judges: a name for the results, the key of the link, and the tasks in their order."""

    name: str
    key: str = Field(min_length=16, max_length=128)
    tasks: tuple[Task, ...]


class Campaign(Record):
    """What is judged, by whom, in which order."""

    format: Literal[1]
    kind: Kind
    seed: int = Field(ge=0)
    systems: tuple[str, ...] = Field(min_length=1)
    items: tuple[Item, ...] = Field(min_length=1)
    annotators: tuple[Annotator, ...] = Field(min_length=1)

    @property
    def digest(self) -> str:
        """What answers name, so that those to another campaign never count. Names and keys may change."""
        judged = self.model_dump(
            mode="json", exclude_defaults=True, include={"kind": True, "systems": True, "items": True}
        )
        judged["tasks"] = [
            [task.model_dump(mode="json", exclude_defaults=True) for task in annotator.tasks]
            for annotator in self.annotators
        ]
        return hashlib.sha256(json.dumps(judged, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def tasks(self) -> dict[str, Task]:
        """All tasks of all annotators, by their ids."""
        return {task.id: task for annotator in self.annotators for task in annotator.tasks}


def write_campaign(path: Path, campaign: Campaign) -> None:
    """Write a new campaign; one that is there, or answers to it, are never touched."""
    for taken in (path, answers_path(path)):
        if taken.exists():
            raise UsageError(f"{taken}: is there already; choose another name, or take it away first")
    replace_file(path, _written(campaign))
    path.chmod(0o600)


def answers_path(path: Path) -> Path:
    """Where the answers to a campaign stand: `news.answers.jsonl` for `news.json`."""
    return path.with_name(f"{path.name.removesuffix('.json')}.answers.jsonl")


def read_campaign(path: Path) -> Campaign:
    """Read a campaign and refuse one that does not fit together."""
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path}: has {path.stat().st_size:,} bytes; a campaign has at most {LARGEST:,}")
        campaign = Campaign.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); `regard human new {path.name}` makes a campaign"
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(
            f"{path}: is not a campaign: {where}: {first['msg']}. Make one with `regard human new`"
        ) from None
    for problem in _problems(campaign):
        raise DataError(f"{path}: does not fit together: {problem}. Make it again with `regard human new`")
    return campaign


def _written(campaign: Campaign) -> bytes:
    return (json.dumps(campaign.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n").encode()


def _problems(campaign: Campaign) -> Iterator[str]:
    systems = set(campaign.systems)
    if len(systems) != len(campaign.systems):
        yield "two systems have one name"
    for item in campaign.items:
        if set(item.outputs) != systems:
            yield f"line {item.line} has outputs of {', '.join(item.outputs)}, not of {', '.join(campaign.systems)}"
    for what in ("name", "key"):
        if len({getattr(annotator, what) for annotator in campaign.annotators}) != len(campaign.annotators):
            yield f"two annotators have one {what}"
    if len(campaign.tasks) != sum(len(annotator.tasks) for annotator in campaign.annotators):
        yield "two tasks have one id"
    for annotator in campaign.annotators:
        own = {task.id: task for task in annotator.tasks}
        for task in annotator.tasks:
            yield from _task_problems(campaign, task, own)


def _task_problems(campaign: Campaign, task: Task, own: dict[str, Task]) -> Iterator[str]:
    if task.item >= len(campaign.items):
        yield f"task {task.id} is about item {task.item} of {len(campaign.items)}"
        return
    names = [name for group in task.shown for name in group]
    if not all(task.shown) or len(set(names)) != len(names) or not set(names) <= set(campaign.systems):
        yield f"task {task.id} shows {task.shown}, with systems that are unknown or shown twice"
        return
    outputs = campaign.items[task.item].outputs
    if any(outputs[name] != outputs[group[0]] for group in task.shown for name in group):
        yield f"task {task.id} shows different outputs in one place"
    least, most = {"pairwise": (2, 2), "ranking": (2, MOST_RANKED)}.get(campaign.kind, (1, 1))
    if not least <= len(task.shown) <= most:
        yield f"task {task.id} shows {len(task.shown)} outputs; a judgement of kind {campaign.kind} is about {most}"
    if task.repeats is not None:
        first = own.get(task.repeats)
        if first is None or first.repeats or first.item != task.item or sorted(first.shown) != sorted(task.shown):
            yield f"task {task.id} repeats {task.repeats}, which is not the same question to the same annotator"

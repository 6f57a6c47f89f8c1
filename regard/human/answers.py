"""Answers: a file that only grows, a JSON record on each line, safe before it is acknowledged.

An answer is appended and synced before anybody is told that it was saved, so what was acknowledged survives `kill -9`
and, as far as the disk keeps its word, a power cut. An answer that was cut off has not been acknowledged, and the page
sends it again. Every answer has an id of the page's making: one that comes twice is written once. Who changes an answer
writes another for the same task; the last one counts.

The first line names the campaign, so that answers to another one are never counted.
"""

import errno
import fcntl
import json
import os
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from regard.errors import BusyError, DataError, RegardError
from regard.files import cannot_write, sync_folder
from regard.human.campaign import Campaign, Task
from regard.human.kinds import Answer, checked_answer

LONGEST_NAME: Final = 64
MOST_SECONDS: Final = 86_400.0
FIELDS: Final = {"id", "task", "answer", "seconds", "at"}


class Conflict(DataError):
    """An answer whose id was used for another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """An answer to a task: how long it took in seconds, and when it came (UTC)."""

    id: str
    task: str
    answer: Answer
    seconds: float
    at: str

    def says_what(self, other: "Judgement") -> bool:
        """Whether this is the other, sent again."""
        return (self.id, self.task, self.answer) == (other.id, other.task, other.answer)


@dataclass(slots=True)
class _Contents:
    """What a file of answers holds: how many bytes of it are sound, and what follows them."""

    judgements: dict[str, Judgement] = field(default_factory=dict)
    sound: int = 0
    torn: bytes = b""
    headed: bool = False

    def latest(self) -> dict[str, Judgement]:
        """The last answer to each task, with the time that all answers to it took together."""
        found: dict[str, Judgement] = {}
        for judgement in self.judgements.values():
            before = found.get(judgement.task)
            spent = judgement.seconds + (before.seconds if before else 0.0)
            found[judgement.task] = replace(judgement, seconds=spent)
        return found


def judgement_from(record: object, tasks: dict[str, Task], campaign: Campaign) -> Judgement:
    """A record as a judgement, or what is wrong with it."""
    if not isinstance(record, dict) or set(record) != FIELDS:
        raise DataError(f"a record of an answer has {', '.join(sorted(FIELDS))}, nothing more and nothing less")
    for name in ("id", "task", "at"):
        text = record[name]
        if not isinstance(text, str) or not 0 < len(text) <= LONGEST_NAME or not text.isascii():
            raise DataError(f"{name}: must be a text of 1 to {LONGEST_NAME} characters of ASCII")
    if record["task"] not in tasks:
        raise DataError(f"task: there is no task {record['task']!r} in this campaign")
    seconds = record["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MOST_SECONDS:
        raise DataError(f"seconds: must be a number from 0 to {MOST_SECONDS:.0f}")
    return Judgement(
        id=record["id"],
        task=record["task"],
        answer=checked_answer(campaign.kind, len(tasks[record["task"]].shown), record["answer"]),
        seconds=float(seconds),
        at=record["at"],
    )


def read_answers(path: Path, campaign: Campaign) -> dict[str, Judgement]:
    """The answers that count, by task; a torn last line has not been acknowledged and does not count."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    return _parsed(path, content, campaign).latest()


class Answers:
    """The file while it is written: locked, mended, and appended to by any number of threads."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        """Take the file; `mended` says how many bytes of a torn last line were cut off."""
        self.path = path
        self._campaign = campaign
        self._tasks = campaign.tasks
        self._guard = threading.Lock()
        self._failed: RegardError | None = None
        self._closed = False
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise cannot_write(path, 0, error) from error
        try:
            self._take()
            self.mended = self._mend()
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; nothing is waiting to be written, and nothing can be any more."""
        with self._guard:
            if not self._closed:
                self._closed = True
                os.close(self._handle)

    def latest(self) -> dict[str, Judgement]:
        """The answers that count, by task."""
        with self._guard:
            return self._contents.latest()

    def add(self, judgement: Judgement) -> bool:
        """Write an answer and wait until it is on the disk; False if it was there already."""
        with self._guard:
            known = self._contents.judgements.get(judgement.id)
            if known is not None:
                if not known.says_what(judgement):
                    raise Conflict(f"id {judgement.id!r}: is the id of another answer; every answer needs its own")
                return False
            if self._closed:
                raise BusyError(f"{self.path}: is closed; the server is stopping")
            if self._failed is not None:
                raise self._failed
            self._append(_line(asdict(judgement)))
            self._contents.judgements[judgement.id] = judgement
            return True

    def check(self, record: object) -> Judgement:
        """A record of the page as a judgement, or what is wrong with it."""
        return judgement_from(record, self._tasks, self._campaign)

    def _take(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise cannot_write(self.path, 0, error) from error
            raise BusyError(
                f"{self.path}: another `regard human serve` is writing answers; use its links, or stop it first"
            ) from error

    def _mend(self) -> int:
        """Take off what a killed process left unfinished at the end; a record that lacks only its end is ended."""
        content = b"".join(iter(lambda: os.read(self._handle, 2**20), b""))
        self._contents = _parsed(self.path, content, self._campaign)
        torn = len(self._contents.torn)
        if torn:
            self._cut_back()
        if not self._contents.headed:
            self._append(_line({"format": 1, "campaign": self._campaign.digest}))
        elif not content.endswith(b"\n") and not torn:
            self._append(b"\n")
        sync_folder(self.path.absolute().parent)
        return torn

    def _append(self, content: bytes) -> None:
        """All or nothing: what could only be written in part is cut off again. Nothing is written after a failed sync,
        for nobody knows then what the disk holds."""
        try:
            rest = memoryview(content)
            os.lseek(self._handle, self._contents.sound, os.SEEK_SET)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            self._cut_back()
            raise cannot_write(self.path, len(content), error) from error
        try:
            os.fsync(self._handle)
        except OSError as error:
            self._failed = cannot_write(self.path, len(content), error)
            raise self._failed from error
        self._contents.sound += len(content)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._handle, self._contents.sound)
            os.fsync(self._handle)
        except OSError as error:
            self._failed = cannot_write(self.path, self._contents.sound, error)
            raise self._failed from error


def _line(record: dict[str, object]) -> bytes:
    return (json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def _parsed(path: Path, content: bytes, campaign: Campaign) -> _Contents:
    """Records up to a torn end. Damage anywhere else is an error: no answer disappears in silence."""
    contents = _Contents()
    tasks = campaign.tasks
    lines = content.split(b"\n")
    ended, last = lines[:-1], lines[-1]
    told = [*ended, last] if last else ended
    for number, line in enumerate(told, 1):
        unended = number > len(ended)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            if unended or (number == len(told) and b"\0" in line):  # NUL: a page that never reached the disk
                contents.torn = content[contents.sound :]
                return contents
            raise DataError(
                f"{path}:{number}: is damaged: not JSON. Mend or delete this line; the others are as they were"
            ) from None
        if number == 1:
            _check_head(path, record, campaign)
            contents.headed = True
        else:
            try:
                judgement = judgement_from(record, tasks, campaign)
            except DataError as error:
                raise DataError(f"{path}:{number}: {error}. Mend or delete this line") from None
            contents.judgements.setdefault(judgement.id, judgement)
        contents.sound += len(line) + (not unended)
    return contents


def _check_head(path: Path, record: object, campaign: Campaign) -> None:
    if record != {"format": 1, "campaign": campaign.digest}:
        raise DataError(
            f"{path}:1: these answers belong to another campaign, or the campaign was changed after they were given. "
            "Put the campaign back as it was, or take the answers away to begin anew"
        )

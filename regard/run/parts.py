"""Finished shards on the disk, and how they become one file.

A part is a line of JSON (what was counted, and the size and checksum of the rest) and then the finished lines. It is
put in place whole, so that a crash leaves a part or none.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from regard.data import Ledger
from regard.data.example import Place
from regard.errors import ResourceError
from regard.files import cannot_write, replace_file, sync_folder
from regard.run.manifest import Input, Shard
from regard.run.shards import Answer
from regard.run.written import Tally

BLOCK: Final = 2**20
PLACES: Final = 3
"""So many places of each kind of finding are told in the end, and kept."""


@dataclass(slots=True)
class Counts:
    """What was counted in some lines."""

    tally: Tally = field(default_factory=Tally)
    ledger: Ledger = field(default_factory=Ledger)

    def include(self, later: "Counts") -> None:
        self.tally.include(later.tally)
        self.ledger.include(later.ledger)

    def record(self) -> dict[str, Any]:
        findings = {
            kind: [count, [[one.place.file, one.place.line] for one in self.ledger.findings(kind)[:PLACES]]]
            for kind, count in self.ledger.counts.items()
        }
        return {"tally": self.tally.record(), "findings": findings}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Counts":
        ledger = Ledger()
        for kind, (count, places) in record["findings"].items():
            for file, line in places:
                ledger.add(kind, Place(file, line), "")
            ledger.add_unlisted(kind, count - len(places))
        return Counts(Tally.from_record(record["tally"]), ledger)


class Parts:
    """The work folder beside the outputs: parts, and what is known of files that are joined."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, shard: int) -> Path:
        return self.folder / f"{shard:08}.part"

    def clear(self) -> None:
        """Delete all parts, and what is known of joined files."""
        for pattern in ("*.part", ".*.tmp", "*.joined"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def write(self, shard: int, answer: Answer, ledger: Ledger) -> None:
        head = {
            "size": len(answer.content),
            "sha256": hashlib.sha256(answer.content).hexdigest(),
            **Counts(answer.tally, ledger).record(),
        }
        replace_file(self.path(shard), json.dumps(head).encode() + b"\n" + answer.content)

    def holds(self, shard: Shard) -> bool:
        """Whether a shard is finished; a damaged part is none."""
        try:
            with self.path(shard.number).open("rb") as file:
                head = json.loads(file.readline())
                Counts.from_record(head)
                return hashlib.file_digest(file, "sha256").hexdigest() == head["sha256"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def join(self, number: int, one: Input, output: Path) -> Counts:
        """Make one file of all parts of an input, put it in place, write down what is known of it, and tidy up."""
        counts = Counts()
        size = replace_streamed(output, self._contents(one.shards, counts))
        record = {"size": size, **counts.record()}
        replace_file(self._joined(number), (json.dumps(record) + "\n").encode())
        for shard in one.shards:
            self.path(shard.number).unlink(missing_ok=True)
        return counts

    def joined(self, number: int, output: Path) -> Counts | None:
        """What was counted in a file that is finished; None where it is not, or its output is no longer there."""
        try:
            record = json.loads(self._joined(number).read_bytes())
            if output.stat().st_size == record["size"]:
                return Counts.from_record(record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return None

    def _joined(self, number: int) -> Path:
        return self.folder / f"{number:05}.joined"

    def _contents(self, shards: Sequence[Shard], counts: Counts) -> Iterator[bytes]:
        for shard in shards:
            path = self.path(shard.number)
            with path.open("rb") as file:
                head = json.loads(file.readline())
                counts.include(Counts.from_record(head))
                digest = hashlib.sha256()
                for block in iter(lambda: file.read(BLOCK), b""):
                    digest.update(block)
                    yield block
            if digest.hexdigest() != head["sha256"]:
                path.unlink()
                raise ResourceError(f"{path}: was damaged on the disk. Give the same command again to predict it anew")


def replace_streamed(path: Path, blocks: Iterator[bytes]) -> int:
    """Put a file in place, whole, without holding it in memory; gives its size."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    size = 0
    try:
        try:
            with waiting.open("wb") as file:
                for block in blocks:
                    file.write(block)
                    size += len(block)
                file.flush()
                os.fsync(file.fileno())
            waiting.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise cannot_write(path, size, error) from error
    except BaseException:
        with suppress(OSError):
            waiting.unlink()
        raise
    return size

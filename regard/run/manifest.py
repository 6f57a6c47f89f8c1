"""What bulk predictions were begun with, so that finished shards are only ever joined with their own kind."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from regard.data import Ledger, read_lines
from regard.data.lines import file_name, refuse_unreadable
from regard.engine.prepared import NAME
from regard.errors import DataError, UsageError
from regard.files import replace_file
from regard.run.reading import read_texts, taken
from regard.run.shards import Asked, Task, cut, file_digest, texts_digest

FORMAT: Final = 1
ENGINES: Final = (NAME, "ctranslate2")
"""Checksums that are of what searches, not of the run."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Lines of a file: its number among all shards, the first line (counted from 1), how many, and their SHA-256."""

    number: int
    first: int
    lines: int
    digest: str


@dataclass(frozen=True, slots=True)
class Input:
    """A file to predict, cut into shards, and the name of its output."""

    path: str
    output: str
    size: int
    digest: str
    shards: tuple[Shard, ...]

    @property
    def lines(self) -> int:
        return sum(shard.lines for shard in self.shards)

    def tasks(self, wanted: set[int]) -> Iterator[tuple[Task, Ledger]]:
        """The wanted shards with their texts, and what was found in reading them; one shard in memory at a time."""
        ledger, faults = Ledger(), dict[int, str]()
        texts = read_texts(self.path, ledger=ledger, faults=faults)
        for shard in self.shards:
            before = ledger.counts
            read = tuple(islice(texts, shard.lines))
            wrong = taken(faults, shard.first, shard.lines)
            if shard.number not in wanted:
                continue
            if texts_digest(read) != shard.digest:
                raise DataError(
                    f"{self.path}:{shard.first}: has changed while it was predicted. Leave the file as it is until the "
                    "end; bring the old one back and give the same command again, or begin anew with --overwrite"
                )
            yield Task(shard.number, file_name(self.path), shard.first, read, wrong), ledger.since(before)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Inputs, model, options and boundaries of shards."""

    model: Mapping[str, str]
    asked: Mapping[str, Any]
    shard_lines: int
    shard_bytes: int
    inputs: tuple[Input, ...]

    @property
    def lines(self) -> int:
        return sum(one.lines for one in self.inputs)

    def write(self, path: Path) -> None:
        files = [
            {
                "path": str(Path(one.path).absolute()),
                "output": one.output,
                "size": one.size,
                "sha256": one.digest,
                "shards": [[shard.first, shard.lines, shard.digest] for shard in one.shards],
            }
            for one in self.inputs
        ]
        record = {
            "format": FORMAT,
            "model": self.model,
            "asked": self.asked,
            "shard_lines": self.shard_lines,
            "shard_bytes": self.shard_bytes,
            "files": files,
        }
        replace_file(path, (json.dumps(record, indent=1) + "\n").encode())

    @staticmethod
    def read(path: Path) -> "Manifest | None":
        """What `write` wrote; None where there is none."""
        try:
            record = json.loads(path.read_bytes())
            if record["format"] != FORMAT:
                raise UsageError(
                    f"{path}: bulk predictions of format {record['format']!r}; this version goes on with format "
                    f"{FORMAT}. Choose another --output, or begin anew with --overwrite"
                )
            number = 0
            inputs = []
            for one in record["files"]:
                shards = tuple(Shard(number + index, *row) for index, row in enumerate(one["shards"]))
                number += len(shards)
                inputs.append(Input(one["path"], one["output"], one["size"], one["sha256"], shards))
            return Manifest(
                record["model"], record["asked"], record["shard_lines"], record["shard_bytes"], tuple(inputs)
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"{path}: cannot be read ({type(error).__name__}: {error}), so it is not known what the finished "
                "shards belong to. Choose another --output, or begin anew with --overwrite"
            ) from error


def plan(
    files: Sequence[tuple[Path, str]], *, model: Mapping[str, str], asked: Asked, shard_lines: int, shard_bytes: int
) -> Manifest:
    """Read every file once, and say where its shards begin. What cannot be read is an error before anything is done."""
    number = 0
    inputs = []
    for path, output in files:
        shards: list[Shard] = []
        first = 1
        for texts in cut(read_lines(path, bad_lines="blank"), lines=shard_lines, size=shard_bytes):
            shards.append(Shard(number, first, len(texts), texts_digest(texts)))
            first += len(texts)
            number += 1
        inputs.append(Input(os.fspath(path), output, path.stat().st_size, file_digest(path), tuple(shards)))
    return Manifest(model, asked.record(), shard_lines, shard_bytes, tuple(inputs))


def differences(
    manifest: Manifest,
    files: Sequence[tuple[Path, str]],
    *,
    model: Mapping[str, str],
    asked: Asked,
    shard_lines: int | None,
) -> Iterator[str]:
    """What is not as it was when the predictions were begun, in words."""
    names = sorted(name for name in manifest.model.keys() | model.keys() if manifest.model.get(name) != model.get(name))
    engines = [name for name in names if name in ENGINES]
    if engines:
        yield f"another engine searches, or the same one prepared otherwise ({', '.join(engines)}; see --engine)"
    if changed := [name for name in names if name not in ENGINES]:
        yield f"the model has changed ({', '.join(changed)})"
    new = asked.record()
    for name in sorted(manifest.asked.keys() | new.keys()):
        was, now = manifest.asked.get(name), new.get(name)
        if was != now:
            yield f"{name} was {json.dumps(was, ensure_ascii=False)} and is {json.dumps(now, ensure_ascii=False)}"
    if shard_lines not in (None, manifest.shard_lines):
        yield f"shards had {manifest.shard_lines:,} lines and would have {shard_lines:,}"
    were, are = [one.output for one in manifest.inputs], [output for _, output in files]
    if were != are:
        yield f"the outputs were {', '.join(were)} and are {', '.join(are)}"
        return
    for one, (path, _) in zip(manifest.inputs, files, strict=True):
        refuse_unreadable(path)
        size = path.stat().st_size
        if size != one.size:
            yield f"{path} had {one.size:,} bytes and has {size:,}"
        elif file_digest(path) != one.digest:
            yield f"{path} has other content than before"

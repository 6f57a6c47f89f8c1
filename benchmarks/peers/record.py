"""The results, kept after every run, so that a benchmark that was stopped goes on.

`speed.json`: what was run where (`about`), the peers, and for each cell a list with what each round gave; a round that
failed has only a `fault`. `took`: seconds of cells whose rounds were thrown away, by which their time is told.
"""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from peers.install import Installed
from regard.files import replace_file

Record = dict[str, Any]


def machine() -> dict[str, str | int]:
    """The processor, its cores, and the system."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"processor": name, "cores": cores, "system": platform.system(), "python": platform.python_version()}


def begin(path: Path, about: Mapping[str, Any], *, again: bool) -> Record:
    """The record to go on with, or a new one. Other settings than before are not mixed with it."""
    fresh: Record = {"format": 1, "about": dict(about), "peers": {}, "models": {}, "cells": {}}
    if again or not path.exists():
        return fresh
    found: Record = json.loads(path.read_text(encoding="utf-8"))
    if found["about"] != fresh["about"]:
        raise SystemExit(
            f"{path} has results of other settings or another machine; give --again to begin anew, or --results for "
            "another file"
        )
    return found


def keep(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def note_peers(record: Record, peers: Mapping[str, Installed]) -> None:
    for name, one in peers.items():
        record["peers"][name] = asdict(one)


def is_done(record: Mapping[str, Any], key: str, number: int, *, retry: bool) -> bool:
    """Whether a cell has a result of this round; with `retry`, one that is no fault."""
    rounds = record["cells"].get(key, [])
    return len(rounds) >= number and not (retry and "fault" in rounds[number - 1])


def put(record: Record, key: str, number: int, result: Mapping[str, Any]) -> None:
    """Set the result of a round; rounds come in order."""
    rounds = record["cells"].setdefault(key, [])
    rounds[number - 1 : number] = [dict(result)]


def matching(keys: Sequence[str], patterns: Iterable[str]) -> list[str]:
    """The names of cells that any pattern stands for; a pattern that stands for none is an error."""
    found = {pattern: [key for key in keys if fnmatchcase(key, pattern)] for pattern in patterns}
    if idle := [pattern for pattern, named in found.items() if not named]:
        told = ", ".join(map(repr, idle))
        raise SystemExit(f"--redo {told}: no cell that is measured has such a name; names are {', '.join(keys)}")
    return [key for key in keys if any(key in named for named in found.values())]


def forget(record: Record, keys: Iterable[str]) -> None:
    """Throw away all rounds of cells, so that they are run again; how long they took is still known."""
    for key in keys:
        rounds = record["cells"].pop(key, [])
        if taken := [one["took"] for one in rounds if "took" in one]:
            record.setdefault("took", {})[key] = taken[-1]

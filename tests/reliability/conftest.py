"""Tests of what is promised, each counting what it tried, so that docs/reliability.md is written by the run itself."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest


class Tally(Protocol):
    """Write down what a row of the plan has been through: `tally("R4", damages_detected=300)`.

    Counts of one name add up over all tests of a row. A test calls this after its assertions, so that what is counted
    has passed.
    """

    def __call__(self, plan: str, **counts: int | float) -> None: ...


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Counts go to a file of its own in the folder REGARD_TALLY, where there is one, once the test is over."""
    records: list[dict[str, object]] = []

    def count(plan: str, **counts: int | float) -> None:
        records.append({"plan": plan, "test": request.node.nodeid, "counts": counts})

    yield count
    folder = os.environ.get("REGARD_TALLY")
    if folder and records:
        name = "".join(letter if letter.isalnum() else "-" for letter in request.node.nodeid)[-150:]
        Path(folder, f"{name}-{os.getpid()}.json").write_text(json.dumps(records), encoding="utf-8")

"""The figures of docs/distributed.md are those that were measured."""

import json
from pathlib import Path

from workers import ROOT, table, with_table

RECORD = {
    "torch": "2.13.0",
    "tokens_per_second": {
        "1 process, 1 thread": [100.0, 110.0, 90.0],
        "1 process, 2 threads": [150.0, 100.0, 120.0],
        "2 workers, 1 thread each": [165.0, 120.0, 114.0],
    },
}


def test_ratios_are_medians_of_those_within_rounds() -> None:
    assert table(RECORD).splitlines()[2:] == [
        "| 1 process, 1 thread | 100 | 0.75 |",
        "| 1 process, 2 threads | 120 | 1.00 |",
        "| 2 workers, 1 thread each | 120 | 1.10 |",
    ]


def test_the_page_says_what_was_measured() -> None:
    page = (ROOT / "docs/distributed.md").read_text(encoding="utf-8")
    path = Path(ROOT / "benchmarks/workers.json")
    if path.exists():
        assert with_table(page, json.loads(path.read_text())) == page
    assert with_table(with_table(page, RECORD), RECORD).count("2 workers, 1 thread each | 120 | 1.10") == 1

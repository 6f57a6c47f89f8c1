"""Runs every test of what is promised, short and long, and writes what they counted: `make reliability`.

    python benchmarks/reliability.py            run tests/reliability, write docs/reliability.json and .md
    python benchmarks/reliability.py --page     no tests: write the page again from docs/reliability.json

Each test writes down what it has been through once its assertions have passed (the fixture `tally`). A row of the plan
is held only if its counts reach what the plan asks for and all its tests passed.
"""

import argparse
import ast
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reliability_plan import COMMANDS, EXIT_CODES, HOW, NOT_PROMISED, PROMISES, ROWS, Row

from regard.files import replace_file

ROOT = Path(__file__).resolve().parent.parent
TESTS = Path("tests/reliability")
FORMAT = 1


@dataclass(slots=True)
class Counted:
    """What the tests of one row came to."""

    counts: dict[str, float] = field(default_factory=dict)
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended."""

    file: str
    name: str
    result: str
    seconds: float


def outcomes(junit: Path) -> list[Outcome]:
    """Every test of a run, from pytest's report."""
    found = []
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        tags = {child.tag for child in case}
        result = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        file = case.get("classname", "").replace(".", "/") + ".py"
        found.append(Outcome(file, case.get("name", ""), result, float(case.get("time", "0"))))
    return found


def rows_of(source: str) -> dict[str, set[str]]:
    """For each test of a file the rows it counts for, by its calls of `tally("R4", …)`.

    A test that calls it through another function counts for all rows of the file; so a test that fails, and therefore
    has counted nothing, still has its rows. Under "" are all of them.
    """
    tree = ast.parse(source)
    rows = {"": _tallied(tree)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            asks = any(argument.arg == "tally" for argument in node.args.args)
            rows[node.name] = (_tallied(node) or rows[""]) if asks else set()
    return rows


def _tallied(tree: ast.AST) -> set[str]:
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "tally"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def counted(
    tests: Iterable[Outcome], records: Iterable[Mapping[str, Any]], sources: Mapping[str, str]
) -> dict[str, Counted]:
    """What every row came to; tests that count for none are under "other"."""
    rows: dict[str, Counted] = {}
    by_file = {file: rows_of(source) for file, source in sources.items()}
    for test in tests:
        known = by_file.get(test.file, {})
        function = test.name.partition("[")[0]
        for row in sorted(known.get(function, known.get("", set()))) or ["other"]:
            entry = rows.setdefault(row, Counted())
            setattr(entry, test.result, getattr(entry, test.result) + 1)
            entry.seconds = round(entry.seconds + test.seconds, 1)
    sums: dict[str, Counter[str]] = {}
    for record in records:
        sums.setdefault(record["plan"], Counter()).update(record["counts"])
    for name, counts in sums.items():
        rows.setdefault(name, Counted()).counts = dict(sorted(counts.items()))
    return dict(sorted(rows.items()))


def run_tests(arguments: list[str], workers: int) -> tuple[dict[str, Counted], int]:
    """Run all tests of both tiers; what was counted, and pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        junit, tallies = Path(folder, "junit.xml"), Path(folder, "tallies")
        tallies.mkdir()
        command = [sys.executable, "-m", "pytest", str(TESTS), "-n", str(workers), "--timeout", "3600"]
        command += [f"--junitxml={junit}", "-o", "junit_family=xunit1", *arguments]
        environment = {**os.environ, "REGARD_TALLY": str(tallies)}
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        records = [record for file in sorted(tallies.glob("*.json")) for record in json.loads(file.read_text("utf-8"))]
        sources = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in (ROOT / TESTS).rglob("test_*.py")}
        return counted(outcomes(junit), records, sources), code


def judged(row: Row, entry: Counted | None) -> str:
    """Whether a row is held, and if not, why."""
    if entry is None or not (entry.passed or entry.failed):
        return "not run"
    if entry.failed:
        return f"failed: {entry.failed} of {entry.passed + entry.failed} tests"
    short = [name for name, asked in row.asked.items() if entry.counts.get(name, 0) < asked]
    return f"too few: {', '.join(_words(name) for name in short)}" if short else "held"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _amounts(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{count:,} {_words(name)}" for name, count in counts.items()) or "–"


def page(record: Mapping[str, Any]) -> str:
    """docs/reliability.md."""
    entries = {name: Counted(**entry) for name, entry in record["rows"].items()}
    verdicts = {row.name: judged(row, entries.get(row.name)) for row in ROWS}
    held = sum(verdict == "held" for verdict in verdicts.values())
    lines = [
        "# What you can rely on",
        "",
        "Written by `make reliability`, which runs every test of `tests/reliability` and counts what they tried; no "
        f"figure is typed by hand. Of {len(ROWS)} kinds of fault, {held} are held at the size that the plan asks for. "
        f"Measured with {_versions(record['versions'])} on {record['cores']} cores.",
        "",
        "## Promises",
        "",
    ]
    for promise in PROMISES:
        open_rows = [name for name in promise.rows if verdicts[name] != "held"]
        state = f"not shown yet by this run: {', '.join(open_rows)}" if open_rows else "held"
        lines += [f"**{promise.title}.** {promise.text} Rows {', '.join(promise.rows)}: {state}.", ""]
    lines += ["## What was tried", "", *_table(entries, verdicts), ""]
    lines += ["## What is not promised", "", *(f"- {text}" for text in NOT_PROMISED), ""]
    codes = (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|", *codes, ""]
    lines += ["## How to run it", "", "```", *COMMANDS, "```", "", HOW]
    return "\n".join(lines) + "\n"


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _table(entries: Mapping[str, Counted], verdicts: Mapping[str, str]) -> list[str]:
    lines = [
        "| | what is tried | what must hold | asked | counted | tests | seconds | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        entry = entries.get(row.name, Counted())
        tests = f"{entry.passed} passed" + "".join(
            f", {count} {what}" for what, count in (("failed", entry.failed), ("skipped", entry.skipped)) if count
        )
        cells = (
            row.name,
            row.tried,
            row.holds,
            _amounts(row.asked),
            _amounts(entry.counts),
            tests if entry.passed or entry.failed or entry.skipped else "–",
            f"{entry.seconds:,.0f}" if entry.seconds else "–",
            f"**{verdicts[row.name]}**" if verdicts[row.name] == "held" else verdicts[row.name],
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def write(rows: Mapping[str, Counted], root: Path = ROOT) -> None:
    """The figures and the page."""
    versions = {"python": platform.python_version(), "torch": re.sub(r"\+.*", "", version("torch"))}
    record = {
        "format": FORMAT,
        "versions": {"regard": version("regard"), **versions},
        "cores": os.cpu_count(),
        "rows": {name: asdict(entry) for name, entry in rows.items()},
    }
    replace_file(root / "docs/reliability.json", (json.dumps(record, indent=1) + "\n").encode())
    write_page(root)


def write_page(root: Path = ROOT) -> None:
    record = json.loads((root / "docs/reliability.json").read_text("utf-8"))
    replace_file(root / "docs/reliability.md", page(record).encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write the page again from docs/reliability.json")
    parser.add_argument("--workers", type=int, default=2, help="tests at once")
    options, more = parser.parse_known_args()
    if options.page:
        write_page()
        return 0
    rows, code = run_tests(more, options.workers)
    write(rows)
    for row in ROWS:
        print(f"{row.name}: {judged(row, rows.get(row.name))}")
    return code or int(any(judged(row, rows.get(row.name)) != "held" for row in ROWS))


if __name__ == "__main__":
    sys.exit(main())

"""The head of a recipe: the commands it names, and the line `# Result:`, which its run fills in."""

import hashlib
import re
import shlex
from pathlib import Path

from published.entries import Entry
from published.tasks import Published
from regard.files import replace_file

RESULT = "# Result:"


def settings_hash(text: str) -> str:
    """Of everything but comments, so that a result can be written into the head."""
    settings = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return hashlib.sha256("\n".join(settings).encode()).hexdigest()[:16]


def data_commands(text: str) -> list[tuple[str, ...]]:
    """The arguments of each `regard data make` that the head names."""
    found = re.findall(r"^# (?:Data:)? +regard (data make .+)$", text, flags=re.MULTILINE)
    return [tuple(shlex.split(arguments)) for arguments in found]


def result_line(row: Published, entry: Entry) -> str:
    """What was reached, on further sets, too, and what it took."""
    verdict = row.judge(entry)
    metric = verdict.shown.split(" ", 1)[0]
    further = [
        f"{name} {score}" for name in entry.sets if name != "test" and (score := entry.score(metric, name)) is not None
    ]
    reached = ", ".join((verdict.shown, *further))
    return f"{RESULT}   {reached}; {entry.parameters:,} parameters, {taken(entry)}"


def taken(entry: Entry) -> str:
    threads = "1 thread" if entry.threads == 1 else f"{entry.threads} threads"
    return f"{entry.steps:,} steps, {entry.minutes:.1f} minutes on {threads}"


def with_result(text: str, line: str) -> str:
    """The recipe with this line in place of its result, or after its command if it has none."""
    lines = text.splitlines()
    places = [index for index, old in enumerate(lines) if old.startswith(RESULT)]
    if places:
        lines[places[0]] = line
    else:
        command = next(index for index, old in enumerate(lines) if old.startswith("# Command:"))
        lines.insert(command + 1, line)
    return "\n".join(lines) + "\n"


def write_result(path: Path, row: Published, entry: Entry) -> None:
    replace_file(path, with_result(path.read_text(encoding="utf-8"), result_line(row, entry)).encode())

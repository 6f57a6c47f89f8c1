"""The tour of the tree in the README is the tree."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def tour() -> list[Path]:
    """Folders that the README shows under "What is where", as paths from the root."""
    block = README.split("## What is where", 1)[1].split("```")[1]
    paths: list[Path] = []
    for line in block.strip("\n").splitlines():
        match = re.fullmatch(r"( *)(\w+)/ +.+", line)
        assert match, f"not a line of a tour: {line!r}"
        paths.append(Path("regard") / match[2] if match[1] else Path(match[2]))
    return paths


def test_every_folder_of_the_tour_exists() -> None:
    assert [path for path in tour() if not (ROOT / path).is_dir()] == []


def test_every_folder_is_on_the_tour() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    top = {Path(name).parts[0] for name in tracked if "/" in name and not name.startswith(".")}
    packages = {Path(*Path(name).parts[:2]) for name in tracked if re.fullmatch(r"regard/\w+/.+", name)}
    assert {Path(name) for name in top} | packages == set(tour())


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_nothing_is_left_to_fill_in() -> None:
    marks = re.findall(r"<!-- (\w+) -->\s*(.*?)\s*<!-- /\1 -->", README, flags=re.DOTALL)
    assert {name for name, _ in marks} == {"demo", "figures"}
    assert all(text for _, text in marks)
    assert re.findall(r"@[A-Z]+@|TODO", README) == []

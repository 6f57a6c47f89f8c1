"""Memory that is free: by the system, and by the limit of a container."""

from pathlib import Path

import pytest

from regard import process


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, None),
        ({"memory.max": "max\n", "memory.current": "5\n", "memory.stat": ""}, None),
        ({"memory.max": "1000\n", "memory.current": "700\n", "memory.stat": "anon 5\ninactive_file 200\n"}, 500),
        ({"memory.max": "1000\n", "memory.current": "1200\n", "memory.stat": "anon 5\n"}, 0),
        (
            {
                "memory/memory.limit_in_bytes": "900\n",
                "memory/memory.usage_in_bytes": "100\n",
                "memory/memory.stat": "inactive_file 50\n",
            },
            850,
        ),
    ],
)
def test_what_a_container_leaves(tmp_path: Path, files: dict[str, str], left: int | None) -> None:
    assert process._left_in_container(write(tmp_path, files)) == left


@pytest.mark.parametrize(
    ("available", "left", "free"), [(10, 20, 10), (30, 20, 20), (None, 5, 5), (None, None, None), (0, 5, 0)]
)
def test_the_lesser_limit_counts(
    monkeypatch: pytest.MonkeyPatch, available: int | None, left: int | None, free: int | None
) -> None:
    monkeypatch.setattr(process, "_available", lambda: available)
    monkeypatch.setattr(process, "_left_in_container", lambda: left)
    assert process.memory_free() == free


def test_this_machine_has_some() -> None:
    free = process.memory_free()
    assert free is None or free > 1_000_000

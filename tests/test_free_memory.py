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
        (
            {
                "memory.max": "1000\n",
                "memory.current": "900\n",
                "memory.stat": "anon 5\ninactive_file 200\nactive_file 30\nslab_reclaimable 7\nslab_unreclaimable 9\n",
            },
            337,
        ),
        (
            {
                "memory/memory.limit_in_bytes": "900\n",
                "memory/memory.usage_in_bytes": "800\n",
                "memory/memory.stat": "inactive_file 1\nactive_file 2\ntotal_inactive_file 50\ntotal_active_file 20\n",
            },
            170,
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


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, None),
        ({"memory.swap.max": "max\n", "memory.swap.current": "0\n"}, None),
        ({"memory.swap.max": "90\n", "memory.swap.current": "20\n"}, 70),
        ({"memory.swap.max": "0\n", "memory.swap.current": "20\n"}, 0),
        (
            {
                "memory/memory.limit_in_bytes": "900\n",
                "memory/memory.usage_in_bytes": "100\n",
                "memory/memory.memsw.limit_in_bytes": "1000\n",
                "memory/memory.memsw.usage_in_bytes": "130\n",
            },
            70,
        ),
        (
            {
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/memory.usage_in_bytes": "100\n",
                "memory/memory.memsw.limit_in_bytes": "9223372036854771712\n",
                "memory/memory.memsw.usage_in_bytes": "130\n",
            },
            None,
        ),
    ],
)
def test_what_a_container_leaves_of_swap(tmp_path: Path, files: dict[str, str], left: int | None) -> None:
    assert process._swap_in_container(write(tmp_path, files)) == left


@pytest.mark.parametrize(
    ("told", "left", "free"), [(10, 20, 10), (30, 20, 20), (None, 5, 0), (30, None, 30), (None, None, 0), (5, 0, 0)]
)
def test_the_lesser_limit_of_swap_counts(
    monkeypatch: pytest.MonkeyPatch, told: int | None, left: int | None, free: int
) -> None:
    monkeypatch.setattr(process, "_told", lambda name: told)
    monkeypatch.setattr(process, "_swap_in_container", lambda: left)
    assert process.swap_free() == free


def test_the_system_tells_in_kilobytes(tmp_path: Path) -> None:
    source = tmp_path / "meminfo"
    source.write_text("MemAvailable:  7 kB\nSwapTotal:  9 kB\nSwapFree:   3 kB\n")
    assert process._told("MemAvailable", source) == 7 * 1024
    assert process._told("SwapFree", source) == 3 * 1024
    assert process._told("Huge", source) is None
    assert process._told("SwapFree", tmp_path / "none") is None


def test_this_machine_has_some() -> None:
    free = process.memory_free()
    assert free is None or free > 1_000_000

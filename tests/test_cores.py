"""Cores that a process may use."""

from pathlib import Path

import pytest

from regard import process


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "what is this\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "250000\n"}, None),
    ],
)
def test_limits_of_containers(tmp_path: Path, files: dict[str, str], wanted: int | None) -> None:
    (tmp_path / "cpu").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert process._cores_of_container(tmp_path) == wanted


@pytest.mark.parametrize(("limit", "wanted"), [(None, 6), (2, 2), (8, 6)])
def test_the_smaller_limit_counts(monkeypatch: pytest.MonkeyPatch, limit: int | None, wanted: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(process, "_cores_of_container", lambda: limit)
    assert process.cores() == wanted

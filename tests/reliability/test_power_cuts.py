"""R2b: a crash before any call of a save or a deletion leaves the old checkpoint or the new one, whatever was synced.

Each scenario runs once to see its calls, and once for every call in a process that ends before it. What that process
leaves must be what the simulated disk says; then the simulated disk loses what was not synced, in several ways.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.files import replace_file
from regard.training import Checkpoints
from tests.reliability.children import ended, fork
from tests.reliability.conftest import Tally
from tests.reliability.disk import CRASHED, Call, Disk, Model, Recorder, Tree, read_tree, write_tree
from tests.reliability.saves import checkpoint, same

MODELS = (
    Model(names="kept", contents="kept"),
    Model(names="kept", contents="lost"),
    Model(names="lost", contents="lost"),
    *(Model(names="drawn", contents="drawn", seed=seed) for seed in range(4)),
)


def there(root: Path) -> Checkpoints:
    return Checkpoints(root / "run" / "checkpoints")


def saved(root: Path, *steps: int) -> None:
    for step in steps:
        there(root).save(checkpoint(step))


def damaged_and_aside(root: Path) -> None:
    there(root).set_aside([3])
    saved(root, 3)


@dataclass(frozen=True)
class Scenario:
    """What is done to the checkpoints of some steps, and which may be the latest before and after it."""

    before: tuple[int, ...]
    action: Callable[[Path], None]
    old: int | None
    new: int | None
    kept: tuple[int, ...] = ()


SCENARIOS = {
    "first save": Scenario((), lambda root: saved(root, 1), None, 1),
    "next save": Scenario((1, 2), lambda root: saved(root, 3), 2, 3, kept=(1, 2)),
    "prune": Scenario((1, 2, 3, 4), lambda root: there(root).keep({2, 4}), 4, 4, kept=(2, 4)),
    "save after damage": Scenario((1, 2, 3), damaged_and_aside, 3, 3, kept=(1, 2)),
    "start anew": Scenario((1, 2), lambda root: there(root).clear(), 2, None),
}


def recorded(scenario: Scenario, root: Path) -> list[Call]:
    recorder = Recorder(root)
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        scenario.action(root)
    return recorder.calls


def crash_before(number: int, scenario: Scenario, root: Path) -> int:
    """Do it in a child that ends before a call; its exit code."""

    def action() -> None:
        def end(call: int) -> None:
            if call == number:
                os._exit(CRASHED)

        Recorder(root, end).install(pytest.MonkeyPatch())
        scenario.action(root)

    return ended(fork(action))


def check(scenario: Scenario, root: Path, *, acknowledged: bool, begun: bool) -> None:
    """Starting up finds the old checkpoint or the new one, whole; nothing is called damaged; saving goes on."""
    checkpoints = there(root)
    checkpoints.clean()
    assert not list(root.rglob(".tmp-*"))
    latest, damages = checkpoints.latest()
    assert damages == []
    step = None if latest is None else latest.step
    possible = {scenario.new} if acknowledged else {scenario.old, scenario.new} if begun else {scenario.old}
    if scenario.old == scenario.new == 3:  # between being set aside and being saved again, the one before it
        possible |= {2} if begun and not acknowledged else set()
    assert step in possible
    for each in {*checkpoints.steps(), *scenario.kept}:
        assert same(checkpoints.load(each), checkpoint(each))
    checkpoints.save(checkpoint(9))
    newest, _ = checkpoints.latest()
    assert newest is not None
    assert same(newest, checkpoint(9))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_crash_point_of_checkpoints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    scenario = SCENARIOS[name]
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    (tmp_path / "start").mkdir()
    saved(tmp_path / "start", *scenario.before)
    start = read_tree(tmp_path / "start")
    calls = recorded(scenario, write_tree(tmp_path / "whole", start))
    states = 0
    for number in range(len(calls) + 1):
        root = write_tree(tmp_path / f"crash-{number}", start)
        code = crash_before(number, scenario, root)
        assert code == (0 if number == len(calls) else CRASHED)
        disk = Disk(start)
        disk.play(calls[:number])
        assert disk.after_crash(MODELS[0]) == read_tree(root)
        for index, model in enumerate(MODELS):
            found = write_tree(tmp_path / f"found-{number}-{index}", disk.after_crash(model))
            check(scenario, found, acknowledged=number == len(calls), begun=number > 0)
            states += 1
    assert states > 6 * len(MODELS)
    tally("R2b", states=states)


def test_every_crash_point_of_a_file_that_is_replaced(tmp_path: Path, tally: Tally) -> None:
    old, new = b"the old weights", b"and the new ones"
    start: Tree = {"run": {"weights.safetensors": old}}
    states = 0
    for name, possible in (("weights.safetensors", {old, new}), ("data/stores.json", {None, new})):
        path = Path("run", name)
        scenario = Scenario((), lambda root, path=path: replace_file(root / path, new), None, None)
        calls = recorded(scenario, write_tree(tmp_path / f"whole-{path.name}", start))
        for number in range(len(calls) + 1):
            disk = Disk(start)
            disk.play(calls[:number])
            for index, model in enumerate(MODELS):
                root = write_tree(tmp_path / f"{path.name}-{number}-{index}", disk.after_crash(model))
                content = (root / path).read_bytes() if (root / path).exists() else None
                assert content in ({new} if number == len(calls) else possible)
                states += 1
    assert states > 12 * len(MODELS)
    tally("R2b", states=states)


def test_the_simulated_disk_finds_what_is_not_synced(tmp_path: Path) -> None:
    """A save that syncs nothing, not its folder, or renames too early would not pass."""
    calls = recorded(SCENARIOS["first save"], write_tree(tmp_path / "whole", {}))
    strict = MODELS[2]
    whole = Disk({})
    whole.play(calls)
    assert whole.after_crash(strict) == whole.after_crash(MODELS[0]) == read_tree(tmp_path / "whole")
    for left_out in (index for index, call in enumerate(calls) if call.kind == "fsync"):
        disk = Disk({})
        disk.play([call for index, call in enumerate(calls) if index != left_out])
        found = there(write_tree(tmp_path / f"without-{left_out}", disk.after_crash(strict)))
        assert found.latest()[0] is None, calls[left_out]

"""Several processes learn what one would, and agree on everything that decides how to go on."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.errors import DataError, LostError, ResourceError, UsageError
from regard.models import System
from regard.process import MEETING, SUPERVISOR, one_of_several
from regard.training import Checkpoints, Event, Interrupted, Objective, Settings, Stepped, Trainer, Verdict
from regard.training.processes import Alone, Processes, end_with_supervisor, lost
from regard.training.rdrop import RDrop
from tests.together import Work, together
from tests.toys import toy_collation, toy_store, toy_system

SETTINGS = Settings(
    seed=7,
    steps=12,
    learning_rate=0.01,
    warmup=6,
    validate_every=5,
    save_every=4,
    log_every=1,
    average=2,
    weight_decay=0.01,
    precision="float64",
    moving_average=0.9,
)


def by_weights(system: System) -> Verdict:
    value = -sum(float(parameter.detach().double().abs().sum()) for parameter in system.parameters())
    return Verdict(loss=-value, value=value, metrics={"size": -value})


class Losses:
    def __init__(self) -> None:
        self.losses: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped):
            self.losses[str(event.progress.step)] = event.loss


def trainer(
    folder: Path,
    processes: Processes,
    settings: Settings = SETTINGS,
    *,
    tokens: int = 50,
    dropout: float = 0.0,
    kind: str = "transformer",
    objective: Objective | None = None,
) -> Trainer:
    torch.manual_seed(1)
    return Trainer(
        toy_system(dropout=dropout, kind=kind),
        StoreCorpus(toy_store(folder.parent / "store"), toy_collation(), tokens=tokens, seed=5),
        settings=settings,
        validate=by_weights,
        checkpoints=Checkpoints(folder),
        objective=objective,
        processes=processes,
    )


def training(folder: Path, settings: Settings = SETTINGS, **more: Any) -> Work:
    """A whole training, as the work of each process."""

    def work(processes: Processes) -> Mapping[str, Any]:
        made = trainer(folder, processes, settings, **more)
        made.observers = [log := Losses()]
        progress = made.run().progress.to_json()
        del progress["seconds"]
        return {"losses": log.losses, "progress": progress}

    return work


def assert_close(one: Path, other: Path, tolerance: float) -> None:
    """The last checkpoints hold the same numbers."""
    (a, _), (b, _) = Checkpoints(one).latest(), Checkpoints(other).latest()
    assert a is not None
    assert b is not None
    for here, there in ((a.model, b.model), (a.optimizer, b.optimizer)):
        assert here.keys() == there.keys()
        for name, tensor in here.items():
            torch.testing.assert_close(tensor, there[name], rtol=tolerance, atol=tolerance)


def assert_as_alone(folder: Path, settings: Settings, *, world: int = 2, **more: Any) -> None:
    alone = training(folder / "alone", replace(settings, parallel="ddp"), **more)(Alone())
    main, *others = together(folder / "meet", world, training(folder / "together", settings, **more))
    assert main["losses"].keys() == alone["losses"].keys()
    assert main["losses"] == pytest.approx(alone["losses"], rel=1e-9, abs=1e-9)
    assert all(other == main for other in others)
    assert main["progress"].pop("best") == pytest.approx(alone["progress"].pop("best"), rel=1e-9)
    assert main["progress"] == {**alone["progress"], "validated": list(alone["progress"]["validated"])}
    assert_close(folder / "alone", folder / "together", 1e-9)


@pytest.mark.parametrize("case", ["copies", "fewer rows than processes", "accumulated", "shares"])
def test_two_processes_learn_what_one_does(tmp_path: Path, case: str) -> None:
    settings = replace(SETTINGS, parallel="fsdp") if case == "shares" else SETTINGS
    settings = replace(settings, accumulate=3 if case == "accumulated" else 1)
    assert_as_alone(tmp_path, settings, tokens=12 if case == "fewer rows than processes" else 50)


@pytest.mark.long
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("kind", ["transformer", "rnn"])
@pytest.mark.parametrize("tokens", [12, 50])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_every_way_learns_the_same(tmp_path: Path, parallel: Any, kind: str, tokens: int, accumulate: int) -> None:
    """Without decay in the gradient: no loss depends on the bias of keys, and Adam would make much of its rounding."""
    settings = replace(SETTINGS, parallel=parallel, accumulate=accumulate)
    if tokens == 12:
        settings = replace(settings, optimizer="adam", weight_decay=0.0)
    else:
        settings = replace(settings, optimizer="sgd", momentum=0.9)
    objective = RDrop(weight=1.0, smoothing=0.1) if accumulate == 1 else None
    assert_as_alone(tmp_path, settings, world=3, tokens=tokens, kind=kind, objective=objective)


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("fsdp", marks=pytest.mark.long)])
def test_a_training_goes_on_alone_together_and_alone_again(tmp_path: Path, parallel: Any) -> None:
    straight = training(tmp_path / "straight")(Alone())
    losses: dict[str, float] = {}
    for number, (steps, world) in enumerate([(4, 1), (8, 2), (12, 1)]):
        settings = replace(SETTINGS, steps=steps, parallel=parallel if world > 1 else "ddp", validate_every=100)
        if world > 1:
            found = together(tmp_path / f"meet{number}", world, training(tmp_path / "changing", settings))[0]
        else:
            found = training(tmp_path / "changing", settings)(Alone())
        losses |= found["losses"]
    assert losses == pytest.approx(straight["losses"], rel=1e-9)
    assert_close(tmp_path / "straight", tmp_path / "changing", 1e-9)


def test_processes_draw_different_numbers_and_resume_exactly(tmp_path: Path) -> None:
    settings = replace(SETTINGS, precision="float32")
    straight = together(tmp_path / "meet", 2, training(tmp_path / "straight", settings, dropout=0.3))
    together(tmp_path / "meet1", 2, training(tmp_path / "broken", replace(settings, steps=8), dropout=0.3))
    for checkpoint in Checkpoints(tmp_path / "broken").steps()[-1:]:
        (tmp_path / "broken" / f"step-{checkpoint:08d}" / "manifest.json").write_text("")
    resumed = together(tmp_path / "meet2", 2, training(tmp_path / "broken", settings, dropout=0.3))
    assert all(straight[0]["losses"][step] == loss for step, loss in resumed[0]["losses"].items())
    assert_close(tmp_path / "straight", tmp_path / "broken", 0.0)

    def seeds(processes: Processes) -> Mapping[str, Any]:
        made = trainer(tmp_path / "seeds", processes)
        made.backward(next(made.dealt(Cursor(), 1))[1], 3)
        return {"seed": torch.initial_seed()}

    assert len({one["seed"] for one in together(tmp_path / "meet3", 2, seeds)}) == 2


@pytest.mark.parametrize("when", ["an update", "a validation"])
def test_a_signal_at_one_process_stops_all_at_the_same_step(tmp_path: Path, when: str) -> None:
    def work(processes: Processes) -> Mapping[str, Any]:
        made = trainer(tmp_path / "run", processes)
        real, validate = made.update, made.validate

        def update(parts: Sequence[Batch], cursor: Cursor) -> None:
            real(parts, cursor)
            if when == "an update" and processes.rank == 1 and made.progress.step == 6:
                os.kill(os.getpid(), signal.SIGUSR1)

        def judge(system: System) -> Verdict:
            if when == "a validation":
                os.kill(os.getpid(), signal.SIGUSR1)
            return validate(system)

        made.update, made.validate = update, judge  # type: ignore[method-assign]
        try:
            made.run()
        except Interrupted as stopped:
            return {"code": stopped.exit_code, "said": str(stopped)}
        return {}

    step = 6 if when == "an update" else 5
    found = {"code": 138, "said": f"stopped by SIGUSR1 after step {step}; the state is saved. Run the same command "}
    for one in together(tmp_path / "meet", 2, work):
        assert {"code": one["code"], "said": one["said"][: len(found["said"])]} == found
    latest, _ = Checkpoints(tmp_path / "run").latest()
    assert latest is not None
    assert latest.step == step


def test_time_is_over_for_all_at_once(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=None, minutes=0.005)
    one, other = together(tmp_path / "meet", 2, training(tmp_path / "run", settings))
    assert one == other
    assert one["progress"]["step"] > 0


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (MemoryError(), r"there is not enough memory in process 1: a batch of \d+ tokens does not fit\. Check"),
        (IndexError("index out of range in self"), "step 6: there is an id in the data that the model has no place"),
    ],
    ids=["no memory", "unknown id"],
)
def test_an_error_in_one_process_is_said_and_nothing_hangs(tmp_path: Path, trouble: Exception, said: str) -> None:
    def work(processes: Processes) -> Mapping[str, Any]:
        made = trainer(tmp_path / "run", processes)
        real = made.backward

        def backward(parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
            if processes.rank == 1 and made.progress.step == 5:
                raise trouble
            return real(parts, step)

        made.backward = backward  # type: ignore[method-assign]
        try:
            made.run()
        except (ResourceError, DataError) as error:
            return {"said": str(error)}
        except LostError as error:
            return {"lost": str(error)}
        return {}

    main, other = together(tmp_path / "meet", 2, work, leave=True)
    assert re.match(said, other["said"])
    assert main["lost"].startswith("process 0 of 2 cannot reach the others any more (")
    assert Checkpoints(tmp_path / "run").steps()


def test_what_processes_tell_each_other(tmp_path: Path) -> None:
    def work(processes: Processes) -> Mapping[str, Any]:
        order = []
        with processes.main_first():
            order = sorted(path.name for path in tmp_path.glob("was-*"))
            (tmp_path / f"was-{processes.rank}").touch()
        told = processes.told_by_main({"wörter": [1.5, None]} if processes.main else {})
        return {
            "sums": processes.sums(processes.rank, 0.1),
            "largest": processes.largest(processes.rank, -processes.rank),
            "told": told,
            "order": order,
        }

    main, *others = together(tmp_path / "meet", 3, work)
    assert main["order"] == []
    for one in (main, *others):
        assert one["sums"] == pytest.approx([3, 0.3])
        assert (one["largest"], one["told"]) == ([2, 0], {"wörter": [1.5, None]})
    assert all("was-0" in one["order"] for one in others)


def test_if_the_main_process_cannot_prepare_the_others_are_told(tmp_path: Path) -> None:
    def work(processes: Processes) -> Mapping[str, Any]:
        try:
            with processes.main_first():
                raise UsageError("a bad recipe")
        except (UsageError, LostError) as error:
            return {"said": str(error)}

    main, other = together(tmp_path / "meet", 2, work)
    assert main["said"] == "a bad recipe"
    assert other["said"] == "the main process could not prepare the training"


def test_a_single_process_has_nobody_to_share_a_model_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"`training\.parallel: fsdp` shares a model out .* there is only one; start"):
        trainer(tmp_path / "run", Alone(), replace(SETTINGS, parallel="fsdp"))


@pytest.mark.parametrize(
    ("world", "parts"), [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (5, 1)], ids=lambda value: str(value)
)
def test_every_row_is_dealt_once_and_all_ranks_have_as_many_parts(tmp_path: Path, world: int, parts: int) -> None:
    corpus = StoreCorpus(toy_store(tmp_path), toy_collation(), tokens=30, seed=5)
    rows: list[str] = []
    streams = [corpus.from_(Cursor(), parts, rank=rank, world=world) for rank in range(world)]
    for _ in range(corpus.batches_in_epoch()):
        mades = [next(stream) for stream in streams]
        assert len({cursor for cursor, _ in mades}) == 1
        assert len({len(batches) for _, batches in mades}) == 1
        for batch in (one for _, batches in mades for one in batches):
            assert batch.rows
            if batch.tokens:
                rows.extend(str(row.tolist()) for row in texts_of(batch))
    assert len(rows) == 40
    assert len(set(rows)) == 40


def texts_of(batch: Batch) -> Iterator[torch.Tensor]:
    """The outputs of each row, without padding."""
    for row, mask in zip(batch.outputs, batch.mask, strict=True):
        yield row[mask]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5", True),
        ("NCCL error: unhandled system error", True),
        ("writev [127.0.0.1]:17283: Broken pipe", True),
        ("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)", False),
        ("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory", False),
    ],
)
def test_errors_that_tell_of_lost_processes(text: str, expected: bool) -> None:
    assert lost(RuntimeError(text)) is expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"RANK": "0", "WORLD_SIZE": "2"}, False),
        ({"RANK": "0", "WORLD_SIZE": "2", MEETING: "x"}, True),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}, True),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}, False),
    ],
)
def test_a_process_knows_whether_it_is_one_of_several(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: bool
) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", MEETING):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert one_of_several() is expected


def test_a_worker_whose_supervisor_is_gone_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    child = os.fork()
    if child == 0:
        os.environ[SUPERVISOR] = "1" if os.getppid() != 1 else "2"
        try:
            end_with_supervisor()
        except LostError as error:
            os._exit(9 if "that started this one has ended" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


WAITING = """
import signal
from regard.training.processes import joined
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: None)
with joined():
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_process_that_waits_for_the_others_can_be_ended(number: signal.Signals, tmp_path: Path) -> None:
    """Inside of torch no handler of Python runs, and one that was stopped before it came will never come."""
    meeting = tmp_path / "meeting"
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", MEETING: str(meeting), "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen([sys.executable, "-c", WAITING], env=environment)
    try:
        while not (meeting.exists() and meeting.stat().st_size):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
    finally:
        process.kill()
        process.wait()

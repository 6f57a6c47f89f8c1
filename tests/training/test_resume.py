"""A training that is stopped, killed or damaged goes on as if nothing had happened, bit for bit."""

import os
import random
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.corpus import StoreCorpus
from regard.models import System
from regard.training import (
    Checkpoints,
    Event,
    Fall,
    Interrupted,
    Settings,
    Started,
    Stepped,
    Trainer,
    Validated,
    Verdict,
    weights,
)
from regard.training.interrupt import SIGNALS, heeding_signals
from tests.toys import toy_collation, toy_store, toy_system

SETTINGS = Settings(
    seed=7,
    steps=23,
    learning_rate=0.01,
    warmup=6,
    validate_every=8,
    save_every=5,
    log_every=3,
    average=2,
    weight_decay=0.01,
)
CASES: dict[str, Settings] = {
    "plain": SETTINGS,
    "accumulated": replace(SETTINGS, accumulate=3),
    "lanes": replace(SETTINGS, accumulate=2, lanes=2),
    "by epoch": replace(SETTINGS, validate_every=None, save_every=None, accumulate=2, schedule="constant"),
    "moving average": replace(SETTINGS, moving_average=0.9, precision="bfloat16"),
    "plain descent": replace(
        SETTINGS, optimizer="sgd", momentum=0.8, schedule="plateau", fall=Fall(after_validations=1)
    ),
    "adam in double": replace(SETTINGS, optimizer="adam", precision="float64", schedule="by_epoch"),
}


class Killed(BaseException):
    """Stands for the end of a process."""


def by_weights(system: System) -> Verdict:
    """A validation that is a function of the weights and, like a search would, draws random numbers."""
    torch.rand(5)
    value = -sum(float(parameter.detach().double().abs().sum()) for parameter in system.parameters())
    return Verdict(loss=-value, value=value, metrics={})


class Log:
    """Losses as exact text."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, int], tuple[str, ...]] = {}
        self.starts: list[Started] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self.starts.append(event)
            case Stepped():
                self.lines["step", event.progress.step] = (
                    event.loss.hex(),
                    event.likelihood.hex(),
                    event.gradient_norm.hex(),
                    event.learning_rate.hex(),
                )
            case Validated():
                self.lines["validation", event.progress.step] = (event.loss.hex(), str(event.gained))


def trainer(folder: Path, settings: Settings, log: Log, kind: str = "transformer") -> Trainer:
    torch.manual_seed(1)
    return Trainer(
        toy_system(dropout=0.3, kind=kind),
        StoreCorpus(toy_store(folder.parent / "store"), toy_collation(), tokens=50, seed=5),
        settings=settings,
        validate=by_weights,
        checkpoints=Checkpoints(folder),
        observers=[log],
    )


def after_update(made: Trainer, step: int, action: Callable[[], None]) -> None:
    """Let something happen right after an update, before anything else is done."""
    real = made.update

    def update(*arguments: Any) -> bool:
        updated = real(*arguments)
        if made.progress.step == step:
            action()
        return updated

    made.update = update  # type: ignore[method-assign]


def kill() -> None:
    raise Killed


def whole_state(made: Trainer) -> tuple[Mapping[str, Tensor], Mapping[str, object]]:
    """Everything in the last checkpoint but the time it took."""
    checkpoint, damages = made.checkpoints.latest()
    assert checkpoint is not None
    assert not damages
    state = {name: dict(part) for name, part in checkpoint.state.items()}
    for part in state.values():
        del part["seconds"]
    return {**checkpoint.model, **checkpoint.optimizer}, {"step": checkpoint.step, **state}


def assert_same(one: Trainer, other: Trainer) -> None:
    tensors, state = whole_state(one)
    others, other_state = whole_state(other)
    assert state == other_state
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)
    assert one.checkpoints.steps() == other.checkpoints.steps()
    now = weights(other.system)
    assert all(torch.equal(tensor, now[name]) for name, tensor in weights(one.system).items())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGUSR1], ids=["killed", "SIGTERM", "SIGUSR1"])
def test_stopped_and_resumed_is_the_same_as_straight(tmp_path: Path, case: str, number: signal.Signals | None) -> None:
    settings = CASES[case]
    torch.set_num_threads(settings.lanes)
    log = Log()
    straight = trainer(tmp_path / "straight", settings, log)
    straight.run()
    draw = random.Random(f"{case} {number}")
    stops = sorted(draw.sample(range(1, 23), 3))
    broken_log = Log()
    for step in stops:
        broken = trainer(tmp_path / "broken", settings, broken_log)
        after_update(broken, step, kill if number is None else lambda: os.kill(os.getpid(), number or 0))
        with pytest.raises(Killed if number is None else Interrupted):
            broken.run()
        if number is not None:
            assert broken.checkpoints.steps()[-1] == step
    resumed = trainer(tmp_path / "broken", settings, broken_log)
    outcome = resumed.run()
    assert outcome.progress.step == 23
    assert any(start.progress.step for start in broken_log.starts)
    assert broken_log.lines == log.lines
    assert_same(straight, resumed)


def test_a_recurrent_system_resumes_exactly_too(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=9, save_every=2)
    straight = trainer(tmp_path / "straight", settings, Log(), kind="rnn")
    straight.run()
    broken = trainer(tmp_path / "broken", settings, Log(), kind="rnn")
    after_update(broken, 5, kill)
    with pytest.raises(Killed):
        broken.run()
    resumed = trainer(tmp_path / "broken", settings, Log(), kind="rnn")
    resumed.run()
    assert_same(straight, resumed)


def test_an_error_of_an_observer_is_like_a_kill(tmp_path: Path) -> None:
    def failing(event: Event) -> None:
        if isinstance(event, Stepped) and event.progress.step == 12:
            raise RuntimeError("the disk of the log is full")

    log = Log()
    straight = trainer(tmp_path / "straight", SETTINGS, log)
    straight.run()
    broken = trainer(tmp_path / "broken", SETTINGS, Log())
    broken.observers = [failing]
    with pytest.raises(RuntimeError, match="the disk of the log"):
        broken.run()
    resumed = trainer(tmp_path / "broken", SETTINGS, Log())
    resumed.run()
    assert_same(straight, resumed)


def test_more_steps_go_on_with_the_same_updates(tmp_path: Path) -> None:
    straight = trainer(tmp_path / "straight", SETTINGS, Log())
    straight.run()
    trainer(tmp_path / "longer", replace(SETTINGS, steps=10), Log()).run()
    longer = trainer(tmp_path / "longer", SETTINGS, Log())
    longer.run()
    now = weights(longer.system)
    assert all(torch.equal(tensor, now[name]) for name, tensor in weights(straight.system).items())


def test_a_finished_training_has_nothing_to_do(tmp_path: Path) -> None:
    first = trainer(tmp_path / "run", SETTINGS, Log())
    first.run()
    log = Log()
    again = trainer(tmp_path / "run", SETTINGS, log)
    outcome = again.run()
    assert outcome == replace(outcome, reason="23 steps done", progress=first.progress)
    assert log.starts[0].estimated_seconds == 0.0
    assert not any(kind == "validation" for kind, _ in log.lines)
    assert_same(first, again)


def test_fewer_steps_end_at_once_with_what_is_there(tmp_path: Path) -> None:
    first = trainer(tmp_path / "run", SETTINGS, Log())
    first.run()
    again = trainer(tmp_path / "run", replace(SETTINGS, steps=10), Log())
    assert again.run().reason == "23 steps done"
    assert_same(first, again)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
def test_a_damaged_last_checkpoint_is_set_aside_and_its_steps_come_again(tmp_path: Path, name: str) -> None:
    straight = trainer(tmp_path / "straight", SETTINGS, Log())
    straight.run()
    broken = trainer(tmp_path / "broken", SETTINGS, Log())
    broken.run()
    victim = broken.checkpoints.path(23) / name
    victim.write_bytes(victim.read_bytes()[:-3])
    log = Log()
    resumed = trainer(tmp_path / "broken", SETTINGS, log)
    resumed.run()
    assert log.starts[0].progress.step == 16
    assert ["step-00000023: the checkpoint is" in damage for damage in log.starts[0].damages] == [True]
    assert (tmp_path / "broken" / "damaged-00000023").is_dir()
    assert_same(straight, resumed)


def test_with_every_checkpoint_damaged_training_starts_anew(tmp_path: Path) -> None:
    first = trainer(tmp_path / "run", SETTINGS, Log())
    first.run()
    state = whole_state(first)
    steps = first.checkpoints.steps()
    for step in steps:
        (first.checkpoints.path(step) / "manifest.json").unlink()
    log = Log()
    again = trainer(tmp_path / "run", SETTINGS, log)
    again.run()
    assert len(log.starts[0].damages) == len(steps)
    assert log.starts[0].progress.step == 0
    assert whole_state(again)[1] == state[1]


def test_a_best_checkpoint_that_is_lost_is_forgotten(tmp_path: Path) -> None:
    values = {8: 5.0, 16: 1.0, 23: 2.0}
    settings = replace(SETTINGS, average=1)
    first = trainer(tmp_path / "run", settings, Log())
    first.validate = lambda system: Verdict(loss=1.0, value=values[first.progress.step], metrics={})
    assert first.run().progress.best_step == 8
    (first.checkpoints.path(8) / "model.safetensors").write_bytes(b"")
    log = Log()
    again = trainer(tmp_path / "run", settings, log)
    outcome = again.run()
    assert ["step-00000008: the checkpoint is damaged" in damage for damage in log.starts[0].damages] == [True]
    assert outcome.progress.best is None
    assert outcome.progress.best_step == 0
    assert again.checkpoints.steps() == [23]


def test_a_stop_before_the_first_update_can_be_resumed(tmp_path: Path) -> None:
    """The first updates are left out, and then the signal comes: there is nothing of the optimiser to save yet."""
    made = trainer(tmp_path / "run", SETTINGS, Log())
    made.estimate = lambda total: None  # type: ignore[method-assign]
    real = made.system.loss

    def spoiled(*arguments: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        loss = real(*arguments, **named)
        return replace(loss, sum=loss.sum * float("nan"))

    made.system.loss = spoiled  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match=r"stopped by SIGINT after step 0; the state is saved\. Run the same command"):
        made.run()
    log = Log()
    resumed = trainer(tmp_path / "run", SETTINGS, log)
    assert resumed.run().progress.step == 23
    assert (log.starts[0].progress.skipped, log.starts[0].progress.position) == (1, 1)


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_become_a_flag_and_then_an_exit_code(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def look() -> None:
        with heeding_signals() as interrupt, interrupt.held():
            assert interrupt.number is None
            os.kill(os.getpid(), number)
            assert interrupt.number == number

    with pytest.raises(Interrupted, match=f"stopped by {number.name}; what was saved is intact"):
        look()
    assert signal.getsignal(number) == before
    error = Interrupted(number, 1200)
    assert error.exit_code == {"SIGINT": 130, "SIGTERM": 143, "SIGUSR1": 138}[number.name]
    assert str(error).startswith(f"stopped by {number.name} after step 1,200; the state is saved")


def test_the_same_signal_again_ends_the_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    def send_three() -> None:
        with heeding_signals() as interrupt, interrupt.held():
            os.kill(os.getpid(), signal.SIGTERM)
            assert codes == []
            os.kill(os.getpid(), signal.SIGINT)
            assert codes == []  # another signal, as schedulers send them one after the other, still lets it save
            os.kill(os.getpid(), signal.SIGTERM)
            assert codes == [143]

    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        send_three()


def test_where_nothing_must_be_whole_a_signal_ends_the_work_at_once() -> None:
    with heeding_signals() as outer, heeding_signals() as inner:
        assert inner is outer
        with pytest.raises(Interrupted, match=r"stopped by SIGUSR1; what was saved is intact\. Run the same") as caught:
            os.kill(os.getpid(), signal.SIGUSR1)
        assert caught.value.exit_code == 138


@pytest.mark.parametrize("waits", [False, True])
def test_a_signal_comes_through_where_it_is_let(waits: bool) -> None:
    def let() -> None:
        with heeding_signals() as interrupt, interrupt.held():
            if waits:
                os.kill(os.getpid(), signal.SIGTERM)
            with interrupt.let_through():
                os.kill(os.getpid(), signal.SIGUSR1)
                raise AssertionError("a signal that is let through comes first")

    with pytest.raises(Interrupted, match="SIGTERM" if waits else "SIGUSR1"):
        let()


@pytest.mark.parametrize("moving_average", [None, 0.9])
def test_a_signal_in_a_validation_saves_and_the_validation_comes_again(
    tmp_path: Path, moving_average: float | None
) -> None:
    settings = replace(SETTINGS, moving_average=moving_average)
    log = Log()
    straight = trainer(tmp_path / "straight", settings, log)
    straight.run()
    broken_log = Log()
    broken = trainer(tmp_path / "broken", settings, broken_log)

    def stopped(system: System) -> Verdict:
        if broken.progress.step == 16:
            os.kill(os.getpid(), signal.SIGTERM)
        return by_weights(system)

    broken.validate = stopped
    with pytest.raises(Interrupted, match="stopped by SIGTERM after step 16; the state is saved"):
        broken.run()
    assert ("validation", 16) not in broken_log.lines
    resumed = trainer(tmp_path / "broken", settings, broken_log)
    resumed.run()
    assert broken_log.lines == log.lines
    assert_same(straight, resumed)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    seen: list[object] = []

    def inside() -> None:
        with heeding_signals() as interrupt:
            seen.extend((interrupt.number, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [None, signal.getsignal(signal.SIGTERM)]

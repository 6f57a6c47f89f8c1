"""Precision and threads by a trial: what is chosen by known speeds, what it may cost, and that it leaves no trace."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.data.batch import Batch
from regard.data.corpus import StoreCorpus
from regard.training import Checkpoints, Settings, Trainer, Verdict, weights
from regard.training import ways as ways_module
from regard.training.interrupt import Interrupted
from regard.training.ways import SHARE, Choice, Way, choose, fewer_threads
from tests.toys import toy_collation, toy_store, toy_system

SETTINGS = Settings(seed=3, steps=4, learning_rate=0.02, warmup=2, validate_every=100)
SINGLE, HALF, ONE = Way("float32", 2), Way("bfloat16", 2), Way("float32", 1)


class Clock:
    """Time that passes only in updates, by the pace of each way."""

    def __init__(self, paces: dict[Way, float]) -> None:
        self.now, self.paces = 0.0, paces
        self.updates: list[Way] = []

    def __call__(self) -> float:
        return self.now


def trainer(folder: Path, settings: Settings = SETTINGS) -> Trainer:
    torch.manual_seed(11)
    return Trainer(
        toy_system(dropout=0.1),
        StoreCorpus(toy_store(folder / "store"), toy_collation(), tokens=60, seed=5),
        settings=settings,
        validate=lambda system: Verdict(loss=1.0, value=1.0, metrics={}),
        checkpoints=Checkpoints(folder / "checkpoints"),
    )


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trainer, dict[Way, float]], Clock]:
    """A trainer whose updates take seconds per token by a table; nothing is computed."""

    def make(made: Trainer, paces: dict[Way, float]) -> Clock:
        clock, threads = Clock(paces), [2]
        monkeypatch.setattr(ways_module.torch, "set_num_threads", lambda count: threads.__setitem__(0, count))

        def backward(parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
            assert step == 1
            count = sum(part.tokens for part in parts)
            way = Way(made.settings.precision, threads[0])
            clock.updates.append(way)
            clock.now += clock.paces[way] * count
            return count, 0.0, 0.0

        monkeypatch.setattr(made, "backward", backward)
        monkeypatch.setattr(made.learner, "clip", lambda limit: 0.0)
        return clock

    return make


@pytest.mark.parametrize(
    ("paces", "chosen"),
    [
        ({SINGLE: 1.0, HALF: 0.5, Way("bfloat16", 1): 0.7}, HALF),
        ({SINGLE: 1.0, HALF: 0.95, ONE: 1.7}, SINGLE),  # less than a tenth is noise
        ({SINGLE: 1.0, HALF: 2.0, ONE: 0.8}, ONE),
        ({SINGLE: 1.0, HALF: 0.5, Way("bfloat16", 1): 0.4}, Way("bfloat16", 1)),
    ],
)
def test_the_fastest_way_is_chosen(
    tmp_path: Path, slow: Callable[[Trainer, dict[Way, float]], Clock], paces: dict[Way, float], chosen: Way
) -> None:
    made = trainer(tmp_path)
    clock = slow(made, paces)
    found = choose(made, SINGLE, precisions=("bfloat16",), threads=(1,), steps=1e6, clock=clock)
    assert found.way == chosen
    assert dict(found.speeds) == pytest.approx({way: 1 / pace for way, pace in paces.items()})
    assert found.seconds == clock.now
    assert found.step_seconds is not None
    assert 20 < found.step_seconds / paces[chosen] < 60  # tokens of a batch


@pytest.mark.parametrize("steps", [699, 700, 1000, 1500, 2000, 5000, 100_000])
def test_a_trial_takes_its_share_at_most(
    tmp_path: Path, slow: Callable[[Trainer, dict[Way, float]], Clock], steps: int
) -> None:
    made = trainer(tmp_path)
    clock = slow(made, {SINGLE: 1.0, HALF: 0.95, ONE: 1.9})
    found = choose(made, SINGLE, precisions=("bfloat16",), threads=(1,), steps=steps, clock=clock)
    batch = made.corpus.from_(made.progress.cursor, 1)
    most = max(sum(part.tokens for part in parts) for _, (_, parts) in zip(range(20), batch, strict=False))
    assert clock.now <= SHARE * steps * most
    assert (len(clock.updates) == 0) == (steps < 700)
    tried = {699: 0, 700: 2, 1000: 2, 1500: 2, 2000: 3, 5000: 3, 100_000: 3}
    assert len(found.speeds) == tried[steps]


def test_minutes_limit_the_trial(tmp_path: Path, slow: Callable[[Trainer, dict[Way, float]], Clock]) -> None:
    made = trainer(tmp_path)
    clock = slow(made, {SINGLE: 1.0, HALF: 0.5})
    found = choose(made, SINGLE, precisions=("bfloat16",), steps=1e9, most_seconds=60.0, clock=clock)
    assert found.way == SINGLE
    assert found.line() == "fp32 on 2 threads, unmeasured: 1 % of about 60 s is too little to try others"
    assert found.step_seconds is None  # of one update: the time is told by the median of several passes
    assert len(clock.updates) == 2


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (
            Choice(way=HALF, speeds=((SINGLE, 2812.2), (HALF, 3965.0)), seconds=4.0),
            "bf16 on 2 threads: 3,965 tokens/s against 2,812 in fp32; measured in 4 s",
        ),
        (
            Choice(way=ONE, speeds=((SINGLE, 10.0), (HALF, 20.0), (ONE, 30.0)), seconds=1.26),
            "fp32 on 1 thread: 30 tokens/s against 10 on 2 threads and 20 in bf16 on 2 threads; measured in 1.3 s",
        ),
        (Choice(way=ONE, reason="it is so"), "fp32 on 1 thread, unmeasured: it is so"),
        (
            Choice(way=ONE, speeds=((SINGLE, 10.0), (ONE, 30.0)), seconds=1.0, failed=((HALF, "ValueError: no"),)),
            "fp32 on 1 thread: 30 tokens/s against 10 on 2 threads; measured in 1 s; bf16 on 2 threads failed "
            "(ValueError: no)",
        ),
    ],
)
def test_a_choice_is_told_in_a_line(choice: Choice, line: str) -> None:
    assert choice.line() == line


@pytest.mark.parametrize(("most", "fewer"), [(1, []), (2, [1]), (3, [1]), (4, [2, 1]), (64, [32, 16, 1])])
def test_fewer_threads(most: int, fewer: list[int]) -> None:
    assert fewer_threads(most) == fewer


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_trial_leaves_no_trace(tmp_path: Path, precision: str, optimizer: str) -> None:
    settings = replace(SETTINGS, precision=precision, optimizer=optimizer, weight_decay=0.1, freeze=("encoder",))
    straight = trainer(tmp_path / "straight", settings)
    straight.run()
    tried = trainer(tmp_path / "tried", settings)
    before, state = weights(tried.system), torch.get_rng_state()
    trial = Trainer(
        tried.system,
        tried.corpus,
        settings=replace(settings, precision="float32"),
        validate=tried.validate,
        checkpoints=tried.checkpoints,
    )
    found = choose(trial, Way("float32", 1), precisions=("bfloat16",), steps=1e9)
    assert {way.precision for way, _ in found.speeds} == {"float32", "bfloat16"}
    assert all(torch.equal(one, before[name]) for name, one in weights(tried.system).items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(one.grad is None for one in tried.system.parameters())
    assert tried.checkpoints.steps() == []
    tried.run()
    assert all(torch.equal(one, weights(straight.system)[name]) for name, one in weights(tried.system).items())


def test_no_memory_for_a_trial_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(tmp_path)

    def backward(parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
        raise MemoryError

    monkeypatch.setattr(made, "backward", backward)
    found = choose(made, ONE, precisions=("bfloat16",), steps=1e9)
    assert found == Choice(way=ONE, reason="there is not enough memory to try others")
    monkeypatch.setattr(made, "backward", lambda parts, step: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        choose(made, ONE, precisions=("bfloat16",), steps=1e9)


@pytest.mark.parametrize(
    ("bad", "from_", "chosen", "left", "line"),
    [
        (HALF, 0, ONE, {SINGLE, ONE}, "; bf16 on 2 threads failed (RuntimeError: no such kernel)"),
        (HALF, 2, ONE, {SINGLE, ONE}, "; bf16 on 2 threads failed (RuntimeError: no such kernel)"),
        (Way("bfloat16", 1), 0, HALF, {SINGLE, HALF}, "; bf16 on 1 thread failed (RuntimeError: no such kernel)"),
        (HALF, 6, SINGLE, {SINGLE, Way("bfloat16", 1)}, "; bf16 on 2 threads failed (RuntimeError: no such kernel)"),
    ],
)
def test_a_way_that_fails_is_left_out_and_told(
    tmp_path: Path,
    slow: Callable[[Trainer, dict[Way, float]], Clock],
    monkeypatch: pytest.MonkeyPatch,
    bad: Way,
    from_: int,
    chosen: Way,
    left: set[Way],
    line: str,
) -> None:
    """From its n-th update on: at once, amidst a comparison, in the second comparison that it has come to."""
    made = trainer(tmp_path)
    clock = slow(made, {SINGLE: 1.0, HALF: 0.5, ONE: 0.7, Way("bfloat16", 1): 0.6})
    real = made.backward

    def backward(parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
        found = real(parts, step)
        if clock.updates[-1] == bad and clock.updates.count(bad) > from_:
            raise RuntimeError("no such\nkernel")
        return found

    monkeypatch.setattr(made, "backward", backward)
    found = choose(made, SINGLE, precisions=("bfloat16",), threads=(1,), steps=1e6, clock=clock)
    assert found.way == chosen
    assert {way for way, _ in found.speeds} == left
    assert found.failed == ((bad, "RuntimeError: no such kernel"),)
    assert found.line().endswith(line)
    assert found.step_seconds is not None
    assert found.step_seconds > 0


def test_where_all_others_fail_the_rule_decides(
    tmp_path: Path, slow: Callable[[Trainer, dict[Way, float]], Clock]
) -> None:
    made = trainer(tmp_path)
    clock = slow(made, {SINGLE: 1.0})  # a KeyError for every other
    found = choose(made, SINGLE, precisions=("bfloat16",), steps=1e6, clock=clock)
    assert found.line() == (
        "fp32 on 2 threads, unmeasured: there is nothing to compare it with; bf16 on 2 threads failed (KeyError: "
        "Way(precision='bfloat16', threads=2))"
    )
    assert found.step_seconds is None


def test_a_signal_ends_a_trial(
    tmp_path: Path, slow: Callable[[Trainer, dict[Way, float]], Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(tmp_path)
    clock = slow(made, {SINGLE: 1.0})
    real = made.backward

    def backward(parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
        if made.settings.precision == "bfloat16":
            raise Interrupted(15)
        return real(parts, step)

    monkeypatch.setattr(made, "backward", backward)
    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        choose(made, SINGLE, precisions=("bfloat16",), steps=1e6, clock=clock)

"""Precision and threads by a trial: what is chosen by known speeds, what it may cost, and that it leaves no trace."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Literal

import pytest
import torch

from regard.data.batch import Batch
from regard.data.corpus import StoreCorpus
from regard.training import Checkpoints, Settings, Trainer, Verdict, weights
from regard.training import ways as ways_module
from regard.training.interrupt import Interrupted
from regard.training.settings import Precision
from regard.training.ways import LEAST, PIECES, SHARE, Choice, Way, choose, fewer_threads
from tests.toys import toy_collation, toy_store, toy_system

SETTINGS = Settings(seed=3, steps=4, learning_rate=0.02, warmup=2, validate_every=100)
SINGLE, HALF, ONE = Way("float32", 2), Way("bfloat16", 2), Way("float32", 1)


class Clock:
    """Time that passes only in updates: so many seconds for each token by a way, and some for each update."""

    def __init__(self, paces: dict[Way, float]) -> None:
        self.now, self.paces, self.fixed = 0.0, paces, 0.0
        self.updates: list[Way] = []

    def __call__(self) -> float:
        return self.now


def trainer(folder: Path, settings: Settings = SETTINGS, *, examples: int = 40, tokens: int = 60) -> Trainer:
    torch.manual_seed(11)
    return Trainer(
        toy_system(dropout=0.1),
        StoreCorpus(toy_store(folder / "store", examples), toy_collation(), tokens=tokens, seed=5),
        settings=settings,
        validate=lambda system: Verdict(loss=1.0, value=1.0, metrics={}),
        checkpoints=Checkpoints(folder / "checkpoints"),
    )


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trainer, dict[Way, float]], Clock]:
    """A trainer whose updates take seconds per token by a table; nothing is computed."""

    def make(made: Trainer, paces: dict[Way, float]) -> Clock:
        clock, threads = Clock(paces), [2]
        monkeypatch.setattr(torch, "set_num_threads", lambda count: threads.__setitem__(0, count))

        def backward(parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
            assert step == 1
            count = sum(part.tokens for part in parts)
            way = Way(made.settings.precision, threads[0])
            clock.updates.append(way)
            clock.now += clock.fixed + clock.paces[way] * count
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


Slow = Callable[[Trainer, dict[Way, float]], Clock]


@pytest.fixture
def large(tmp_path: Path) -> Trainer:
    """Batches of more than a hundred rows, as they are in earnest."""
    return trainer(tmp_path, examples=600, tokens=600)


def batch_tokens(made: Trainer) -> float:
    """Of a batch, on average."""
    assert isinstance(made.corpus, StoreCorpus)
    return mean(batch.tokens for batch in made.corpus.once())


TIMES = (0.5, 0.7, 0.95, 1.2, 1.9, 2.5, 4.0, 10.0, 30.0)
"""Seconds of half precision beside those of single precision."""


def ways_at(times: float, one: float = 1.9) -> dict[Way, float]:
    """Paces of four ways, of which those on one thread take `one` times as long."""
    return {SINGLE: 1.0, HALF: times, ONE: one, Way("bfloat16", 1): one * times}


@pytest.mark.parametrize("fixed", [0.0, 0.25])
@pytest.mark.parametrize("steps", [200, 700, 999, 1000, 1200, 2000, 5000, 20_000])
@pytest.mark.parametrize("times", TIMES)
def test_a_trial_takes_its_share_of_a_run_at_most(
    large: Trainer, slow: Slow, times: float, steps: int, fixed: float
) -> None:
    """Of the run by the way that was chosen, where `fixed` is what every update takes beside its tokens."""
    tokens = batch_tokens(large)
    clock = slow(large, ways_at(times))
    clock.fixed = fixed * tokens
    found = choose(large, SINGLE, precisions=("bfloat16",), threads=(1,), steps=steps, clock=clock)
    run = steps * (clock.fixed + clock.paces[found.way] * tokens)
    assert clock.now == found.seconds <= SHARE * run
    assert (len(clock.updates) == 0) == (steps < LEAST)
    if steps >= LEAST and not fixed:
        assert found.way == (HALF if times < 0.9 else SINGLE)
    if steps >= 2000:
        assert HALF in {way for way, _ in (*found.speeds, *found.slow)}


@pytest.mark.parametrize("updates", [3, 20, 50, 100, 300, 1000, 5000])
@pytest.mark.parametrize("times", TIMES)
def test_minutes_limit_a_trial(large: Trainer, slow: Slow, times: float, updates: int) -> None:
    """A run that has time for so many updates."""
    run = updates * batch_tokens(large)
    clock = slow(large, ways_at(times))
    found = choose(large, SINGLE, precisions=("bfloat16",), threads=(1,), steps=1e9, most_seconds=run, clock=clock)
    assert clock.now <= SHARE * run
    if updates <= 300:
        assert found.way == SINGLE
        assert found.step_seconds is None  # the time is told by the median of several passes
        assert found.speeds == ()
        slower = found.line().startswith("fp32 on 2 threads: part of a batch took ")
        short = f"fp32 on 2 threads, unmeasured: 1 % of about {run:,.0f} s is too little to try others"
        assert slower if found.slow else found.line() == short
    else:
        assert found.way == (HALF if times < 0.9 else SINGLE)


def test_no_more_than_a_piece_is_tried_where_not_even_that_has_time(large: Trainer, slow: Slow) -> None:
    clock = slow(large, ways_at(0.5))
    found = choose(large, SINGLE, precisions=("bfloat16",), steps=1e9, most_seconds=60.0, clock=clock)
    assert found.line() == "fp32 on 2 threads, unmeasured: 1 % of about 60 s is too little to try others"
    assert clock.updates == [SINGLE]
    assert clock.now < batch_tokens(large) / 50


@pytest.mark.parametrize("one", [0.6, 1.9, 5.0])
@pytest.mark.parametrize("times", [1.0, 30.0])
def test_threads_have_the_time_that_is_left(large: Trainer, slow: Slow, times: float, one: float) -> None:
    clock = slow(large, ways_at(times, one))
    found = choose(large, SINGLE, precisions=("bfloat16",), threads=(1,), steps=5000, clock=clock)
    assert found.way == (ONE if one < 1 else SINGLE)
    assert found.compared_threads
    assert clock.now <= SHARE * 5000 * batch_tokens(large) * min(1, one)


def test_a_way_far_behind_is_given_up_and_told(large: Trainer, slow: Slow) -> None:
    clock = slow(large, ways_at(30.0))
    found = choose(large, SINGLE, precisions=("bfloat16",), steps=20_000, clock=clock)
    assert dict(found.slow) == pytest.approx({HALF: 30.0})
    assert clock.updates == [SINGLE] * len(PIECES) + [HALF] * 2
    assert found.line() == (
        f"fp32 on 2 threads: part of a batch took 30 times as long in bf16; measured in {clock.now:.2g} s"
    )
    assert not found.compared_threads


def test_a_way_is_told_to_be_slow_beside_the_chosen_one(large: Trainer, slow: Slow) -> None:
    slow_half = slow(large, ways_at(30.0, 0.5))
    found = choose(large, SINGLE, precisions=("bfloat16",), threads=(1,), steps=20_000, clock=slow_half)
    assert found.way == ONE
    assert "; part of a batch took 60 times as long in bf16 on 2 threads; measured in " in found.line()
    slow_one = slow(large, ways_at(0.5, 4.0))
    found = choose(large, SINGLE, precisions=("bfloat16",), threads=(1,), steps=20_000, clock=slow_one)
    assert found.way == HALF
    assert "; part of a batch took 4 times as long on 1 thread; measured in " in found.line()
    assert found.compared_threads


def test_rounds_end_when_time_is_up(large: Trainer, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program begins in the midst: no comparison is made of one round."""
    clock = slow(large, ways_at(0.9))
    real = large.backward

    def backward(parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
        if clock.updates.count(HALF) == len(PIECES):
            clock.now += 5 * batch_tokens(large)
        return real(parts, step)

    monkeypatch.setattr(large, "backward", backward)
    found = choose(large, SINGLE, precisions=("bfloat16",), steps=1200, clock=clock)
    assert clock.updates[2 * len(PIECES) :] == [SINGLE, HALF]
    assert found.way == SINGLE
    assert found.line().startswith("fp32 on 2 threads, unmeasured: 1 % of about ")


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
        (
            Choice(way=SINGLE, speeds=((SINGLE, 30.0), (ONE, 20.0)), seconds=1.0, slow=((HALF, 9.96),)),
            "fp32 on 2 threads: 30 tokens/s against 20 on 1 thread; part of a batch took 10 times as long in bf16; "
            "measured in 1 s",
        ),
        (
            Choice(way=SINGLE, seconds=0.5, slow=((HALF, 30.0), (ONE, 3.5)), reason="of no time"),
            "fp32 on 2 threads: part of a batch took 30 times as long in bf16 and 3.5 times as long on 1 thread; "
            "measured in 0.5 s",
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
def test_a_trial_leaves_no_trace(
    tmp_path: Path, precision: Precision, optimizer: Literal["adamw", "sgd"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways_module, "FAR", float("inf"))  # updates of a few milliseconds, by the real clock
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
        (HALF, 5, ONE, {SINGLE, ONE}, "; bf16 on 2 threads failed (RuntimeError: no such kernel)"),
        (Way("bfloat16", 1), 0, HALF, {SINGLE, HALF}, "; bf16 on 1 thread failed (RuntimeError: no such kernel)"),
        (HALF, 9, SINGLE, set(), "; bf16 on 2 threads failed (RuntimeError: no such kernel)"),
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
    """From its n-th update on: at once, in a piece, amidst a comparison, in the second that it has come to."""
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
    assert (found.step_seconds is None) == (not left)


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

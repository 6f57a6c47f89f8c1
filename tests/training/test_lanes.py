"""Micro-batches at the same time: the same numbers whatever the threads, and nothing is shared but the sums."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.data.corpus import StoreCorpus
from regard.kernels.draws import drawing_from, generator, step_chances
from regard.models import System
from regard.nn.attention import Attention
from regard.nn.dropout import dropout
from regard.nn.sites import Site
from regard.training import Checkpoints, Settings, Trainer, Verdict, weights
from regard.training.lanes import Lanes, add_gradients
from regard.training.parallel import Learned
from tests.toys import toy_collation, toy_store, toy_system

SITE = Site("encoder", "self")


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def trained(folder: Path, kind: str, lanes: int) -> System:
    torch.manual_seed(11)
    made = Trainer(
        toy_system(dropout=0.3, kind=kind),
        StoreCorpus(toy_store(folder / "store"), toy_collation(), tokens=120, seed=5),
        settings=Settings(seed=3, steps=6, learning_rate=0.01, warmup=4, validate_every=6, lanes=lanes),
        validate=lambda system: Verdict(loss=0.0, value=0.0, metrics={}),
        checkpoints=Checkpoints(folder / "checkpoints"),
    )
    made.run()
    return made.system


def equal(one: System, other: System) -> bool:
    there = weights(other)
    return all(torch.equal(tensor, there[name]) for name, tensor in weights(one).items())


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_dropout_follows_from_the_number_of_lanes_alone(
    tmp_path: Path, kind: str, threads: Callable[[int], None]
) -> None:
    ends = []
    for number, count in enumerate((1, 2, 2, 2)):
        threads(count)
        ends.append(trained(tmp_path / str(number), kind, 2))
        assert torch.get_num_threads() == count
    assert all(equal(ends[0], end) for end in ends[1:])
    threads(1)
    assert not equal(ends[0], trained(tmp_path / "alone", kind, 1))


def lesson(parameter: nn.Parameter, factor: float) -> Callable[[], Learned]:
    def learned() -> Learned:
        total = (parameter * factor).sum()
        return Learned(total, total.detach())

    return learned


def test_lanes_run_at_the_same_time(threads: Callable[[int], None]) -> None:
    """Each waits for the other, which one after the other would never end well."""
    threads(2)
    both = threading.Barrier(2)
    module = nn.Linear(2, 2)
    counts = []

    def meeting() -> Learned:
        both.wait(timeout=60)
        counts.append(torch.get_num_threads())
        return lesson(module.weight, 1.0)()

    found = Lanes(2).learn(list(module.parameters()), [meeting, meeting], step_chances(1, 1, 2), 1.0)
    assert len(found) == 2
    assert counts == [1, 1]
    assert torch.get_num_threads() == 2
    assert module.weight.grad is not None
    assert torch.equal(module.weight.grad, torch.full((2, 2), 2.0))
    assert module.bias.grad is None


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_of_a_lane_comes_when_all_have_ended(failing: int, threads: Callable[[int], None]) -> None:
    threads(3)
    module, ended = nn.Linear(2, 2), []

    def work(number: int) -> Callable[[], Learned]:
        def learned() -> Learned:
            if number == failing:
                raise MemoryError(f"lane {number}")
            threading.Event().wait(0.05)
            ended.append(number)
            return lesson(module.weight, 1.0)()

        return learned

    with pytest.raises(MemoryError, match=f"lane {failing}"):
        Lanes(3).learn(list(module.parameters()), [work(number) for number in range(3)], step_chances(1, 1, 3), 1.0)
    assert sorted(ended) == sorted({0, 1, 2} - {failing})
    assert torch.get_num_threads() == 3
    assert module.weight.grad is None


def test_what_a_failed_lane_had_made_is_gone_at_once(threads: Callable[[int], None]) -> None:
    """Who splits a batch finer because memory was short needs that memory."""
    threads(2)
    module, made = nn.Linear(2, 2), []

    def failing() -> Learned:
        activations = torch.ones(5)
        made.append(weakref.ref(activations))
        raise MemoryError("no more")

    gc.disable()
    try:
        caught = ""
        try:  # not pytest.raises, which keeps what it has caught
            Lanes(2).learn(list(module.parameters()), [lesson(module.weight, 1.0), failing], step_chances(1, 1, 2), 1.0)
        except MemoryError as error:
            caught = str(error)
        assert (caught, made[0]()) == ("no more", None)
    finally:
        gc.enable()


def test_lanes_see_who_looks(threads: Callable[[int], None]) -> None:
    threads(2)
    module, looking = nn.Linear(2, 2), ContextVar("looking", default=False)
    looking.set(True)
    seen = []

    def looked() -> Learned:
        seen.append(looking.get())
        return lesson(module.weight, 1.0)()

    Lanes(2).learn(list(module.parameters()), [looked, looked], step_chances(1, 1, 2), 1.0)
    assert seen == [True, True]
    with pytest.raises(ValueError, match="shorter"):
        Lanes(2).learn(list(module.parameters()), [looked] * 3, step_chances(1, 1, 2), 1.0)


def test_gradients_are_added_and_never_shared() -> None:
    """What torch gives for a sum of two parameters is one tensor for both; scaling one must not scale the other."""
    one, other, unused = (nn.Parameter(torch.ones(3)) for _ in range(3))
    of_lanes = [torch.autograd.grad((one + other).sum(), (one, other, unused), allow_unused=True) for _ in range(2)]
    assert of_lanes[0][0] is of_lanes[0][1]
    add_gradients((one, other, unused), of_lanes[:1])
    assert one.grad is not None
    assert other.grad is not None
    one.grad.mul_(10)
    assert torch.equal(other.grad, torch.ones(3))
    add_gradients((one, other, unused), of_lanes)
    assert torch.equal(one.grad, torch.full((3,), 12.0))
    assert torch.equal(other.grad, torch.full((3,), 3.0))
    assert unused.grad is None


def test_what_a_thread_draws_from_is_its_own() -> None:
    own = torch.Generator().manual_seed(5)
    seen = []
    with drawing_from(own):
        assert generator() is own
        other = threading.Thread(target=lambda: seen.append(generator()))
        other.start()
        other.join()
    assert seen == [None]
    assert generator() is None


@pytest.mark.parametrize("rate", [0.3, 0.998])
@pytest.mark.parametrize("what", ["dropout", "long attention", "short attention"])
def test_all_that_is_dropped_follows_from_the_thread_and_leaves_torch_alone(rate: float, what: str) -> None:
    length = 300 if what == "long attention" else 20
    states = torch.randn(4, length, 32)
    attention = Attention(query_width=32, memory_width=32, width=32, heads=2, dropout=rate, site=SITE)

    def made() -> torch.Tensor:
        if what == "dropout":
            return dropout(states, rate, training=True)
        return attention.look(states, attention.prepare(states), None)

    def drawn(seed: int = 5) -> torch.Tensor:
        with drawing_from(torch.Generator().manual_seed(seed)):
            return made()

    before = torch.get_rng_state()
    first, second = drawn(), drawn()
    assert not torch.equal(first, drawn(6))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_of_almost_all_scales_what_is_left() -> None:
    torch.manual_seed(2)
    left = dropout(torch.ones(1_000_000), 0.998, training=True)
    assert left.unique().tolist() == pytest.approx([0.0, 500.0], rel=1e-3)
    assert float(left.mean()) == pytest.approx(1.0, abs=0.1)  # four deviations
    assert not dropout(torch.ones(100), 1.0, training=True).any()

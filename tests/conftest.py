"""Every test runs on one thread of torch, from the same seed, and keeps prepared data out of the user's cache."""

import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from regard.run.training import Trained, train
from tests.toys import toy_pairs, toy_recipe, write_jsonl

torch.set_num_threads(1)
settings.register_profile("any machine", deadline=None)  # how long an example takes is a matter of who else computes
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # whatever a test before has set


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("REGARD_DATA", raising=False)
        yield


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """Commands that are called in this process let a broken pipe end it, as commands should and tests should not."""
    before = signal.getsignal(signal.SIGPIPE)
    yield
    signal.signal(signal.SIGPIPE, before)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """One small run that has learned its task, for all tests that need a run; it must stay as it is."""
    folder = tmp_path_factory.mktemp("trained")
    pairs = toy_pairs(300)
    train_file = write_jsonl(folder / "train.jsonl", pairs[:220])
    valid_file = write_jsonl(folder / "valid.jsonl", pairs[220:260])
    test_file = write_jsonl(folder / "test.jsonl", pairs[260:])
    recipe = toy_recipe(
        folder / "run",
        train_file,
        f"data.valid={valid_file}",
        f"data.test={test_file}",
        f"data.further.again={test_file}",
        "training.steps=400",
        "training.validate_every=50",
        "training.save_every=50",
        "training.average=2",
    )
    return train(recipe)

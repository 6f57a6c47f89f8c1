"""What `auto` leaves open is measured once, written into the recipe of the run and kept; memory is looked at before."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from regard.data.batch import Batch
from regard.data.corpus import StoreCorpus
from regard.errors import RecipeError, ResourceError, UsageError
from regard.kernels import library
from regard.recipe.schema import Recipe
from regard.run import settling
from regard.run.folder import RunFolder
from regard.run.settling import as_begun, keep_chosen, likely_steps
from regard.run.training import Trained, check_same, train
from regard.training import Checkpoints, Event, Settings, Settled, Warned, weights
from regard.training.processes import Alone
from regard.training.ways import Way, _Trials, choose
from tests.toys import toy_collation, toy_pairs, toy_recipe, toy_store, toy_system, write_tsv

AUTO = ("training.precision=auto", "training.threads=auto", "model.dropout=0.1")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", toy_pairs(120))


@pytest.fixture
def half_is_faster(monkeypatch: pytest.MonkeyPatch) -> list[Way]:
    """Real updates are tried, but half precision is said to take a tenth of the time; the run is said to be long."""
    tried: list[Way] = []
    real: Callable[[_Trials, Way, Sequence[Batch]], tuple[int, float]] = _Trials.update

    def update(self: _Trials, way: Way, parts: Sequence[Batch]) -> tuple[int, float]:
        tried.append(way)
        count, _ = real(self, way, parts)
        return count, 0.001 if way.precision == "bfloat16" else 0.01

    monkeypatch.setattr(_Trials, "update", update)
    monkeypatch.setattr(settling, "likely_steps", lambda settings, epoch: 1e9)
    return tried


def same(one: Trained, other: Trained) -> bool:
    there = weights(other.model.system)
    return all(torch.equal(tensor, there[name]) for name, tensor in weights(one.model.system).items())


def told(events: Sequence[Event]) -> list[str]:
    return [line for event in events if isinstance(event, Settled) for line in event.lines]


def test_what_is_measured_learns_what_is_fixed_by_hand(tmp_path: Path, pairs: Path, half_is_faster: list[Way]) -> None:
    events: list[Event] = []
    measured = train(toy_recipe(tmp_path / "measured", pairs, *AUTO), observers=[events.append])
    assert {way.precision for way in half_is_faster} == {"float32", "bfloat16"}
    written = RunFolder(tmp_path / "measured").read_recipe().training
    assert (written.precision, written.threads) == ("bfloat16", None)  # one thread has nothing to be compared with
    assert measured.model.recipe.training == written
    assert told(events)[0].startswith("bf16 on 1 thread: 1,000 tokens/s against 100 in fp32; measured in ")
    assert told(events)[1].startswith("memory: about ")
    fixed = ("training.precision=bfloat16", "training.threads=1", "model.dropout=0.1")
    assert same(measured, train(toy_recipe(tmp_path / "fixed", pairs, *fixed)))
    assert not same(measured, train(toy_recipe(tmp_path / "single", pairs, *fixed[1:])))


def test_a_run_goes_on_as_it_began(tmp_path: Path, pairs: Path, half_is_faster: list[Way]) -> None:
    train(toy_recipe(tmp_path / "run", pairs, *AUTO, "training.steps=6"))
    half_is_faster.clear()
    events: list[Event] = []
    gone_on = train(toy_recipe(tmp_path / "run", pairs, *AUTO), observers=[events.append])
    assert half_is_faster == []
    assert len(told(events)) == 1
    assert gone_on.model.recipe.training.precision == "bfloat16"
    fixed = ("training.precision=bfloat16", "model.dropout=0.1")
    assert same(gone_on, train(toy_recipe(tmp_path / "fixed", pairs, *fixed)))
    with pytest.raises(UsageError, match=r"training\.precision: 'bfloat16' there, 'float32' here"):
        train(toy_recipe(tmp_path / "run", pairs, "model.dropout=0.1"))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("half_is_faster", "two_threads")
def test_threads_that_were_compared_are_kept_by_one_process(tmp_path: Path, pairs: Path) -> None:
    recipe = toy_recipe(tmp_path / "run", pairs, *AUTO, "training.steps=3")
    train(recipe)
    folder = RunFolder(tmp_path / "run")
    assert folder.read_recipe().training.threads == 2
    assert as_begun(recipe).training.threads == 2
    assert check_same(recipe, folder).training.threads == 2
    shared = check_same(recipe, folder, world=2).training
    assert (shared.precision, shared.threads) == ("bfloat16", None)
    assert check_same(_threads(recipe, 3), folder, world=2).training.threads == 3
    elsewhere = recipe.model_copy(update={"run": str(tmp_path / "elsewhere")})
    assert as_begun(elsewhere) == elsewhere


def _threads(recipe: Recipe, count: int) -> Recipe:
    training = recipe.training.model_copy(update={"threads": count, "precision": "bfloat16"})
    return recipe.model_copy(update={"training": training})


class Two(Alone):
    """Looks like one of two processes."""

    world = local_world = 2


@pytest.mark.parametrize(
    ("processes", "overrides", "reason"),
    [
        (Two(), (), "2 processes share each batch"),
        (Alone(), ("training.compile=true",), "every way would have to be compiled"),
        (Alone(), (), "about 12 steps are too few to try others (1,000)"),
    ],
)
def test_threads_that_were_not_compared_are_left_out(
    tmp_path: Path, pairs: Path, processes: Alone, overrides: tuple[str, ...], reason: str
) -> None:
    recipe = toy_recipe(tmp_path / "run", pairs, *AUTO, *overrides)
    corpus = StoreCorpus(toy_store(tmp_path / "store"), toy_collation(), tokens=60, seed=5)
    settled = settling.settle(recipe, toy_system(), corpus, Checkpoints(tmp_path / "checkpoints"), processes)
    assert settled.choice is not None
    assert settled.choice.reason == reason
    assert (settled.recipe.training.precision, settled.recipe.training.threads) == ("float32", None)


def test_a_short_run_follows_the_rule(tmp_path: Path, pairs: Path) -> None:
    events: list[Event] = []
    trained = train(toy_recipe(tmp_path / "run", pairs, *AUTO), observers=[events.append])
    assert told(events)[0] == "fp32 on 1 thread, unmeasured: about 12 steps are too few to try others (1,000)"
    assert trained.model.recipe.training.precision == "float32"
    assert same(trained, train(toy_recipe(tmp_path / "plain", pairs, AUTO[2])))


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("training.precision=float32",), "memory: about "),
        (("training.precision=auto", "training.compile=true"), "fp32 on 1 thread, unmeasured: every way would have"),
    ],
)
def test_nothing_is_tried_where_nothing_is_open_or_fair(
    tmp_path: Path, pairs: Path, overrides: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.run.training.compile_layers", lambda system: None)
    events: list[Event] = []
    train(toy_recipe(tmp_path / "run", pairs, *overrides), observers=[events.append])
    assert told(events)[0].startswith(line)


def test_only_what_is_open_takes_over_what_was_chosen(tmp_path: Path, pairs: Path) -> None:
    there = toy_recipe(tmp_path, pairs, "training.precision=bfloat16", "training.threads=3")
    kept = keep_chosen(toy_recipe(tmp_path, pairs, "training.precision=auto", "training.threads=2"), there)
    assert (kept.training.precision, kept.training.threads) == ("bfloat16", 2)


@pytest.mark.parametrize("value", ["0", "many", "1.5"])
def test_threads_are_a_number_or_auto(tmp_path: Path, pairs: Path, value: str) -> None:
    with pytest.raises(RecipeError, match=r"training\.threads"):
        toy_recipe(tmp_path, pairs, f"training.threads={value}")


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        (Settings(seed=1, steps=100, epochs=3), 30),
        (Settings(seed=1, patience=4), 50),
        (Settings(seed=1, patience=4, validate_every=7), 35),
        (Settings(seed=1, minutes=3.0, patience=None), float("inf")),
    ],
)
def test_likely_steps(settings: Settings, steps: float) -> None:
    assert likely_steps(settings, 10) == steps


def test_memory_that_will_be_too_small_is_warned_of(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.training.memory.LOADED", 0)
    monkeypatch.setattr(settling, "memory_free", lambda: 600_000)
    monkeypatch.setattr(settling, "swap_free", lambda: 0)
    events: list[Event] = []
    train(toy_recipe(tmp_path / "run", pairs), observers=[events.append])
    (warning,) = (event for event in events if isinstance(event, Warned) and event.kind == "memory")
    assert "training will need about " in warning.text
    assert "1 MB are free" in warning.text
    assert "training.accumulate=" in warning.text


@pytest.mark.parametrize("setting", ["", "off"])
def test_kernels_that_were_not_built_are_warned_of(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(library.SETTING, setting)
    monkeypatch.delenv(library.WHERE, raising=False)
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "none.so")
    library.loaded.cache_clear()
    events: list[Event] = []
    try:
        train(toy_recipe(tmp_path / "run", pairs), observers=[events.append])
    finally:
        library.loaded.cache_clear()
    texts = [event.text for event in events if isinstance(event, Warned) and event.kind == "kernels"]
    told = "no native kernels, which can make training three times as fast: it was not built; `python -m "
    assert [text.startswith(told) for text in texts] == ([] if setting == "off" else [True])


def test_memory_that_no_splitting_can_mend_is_refused(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "memory_free", lambda: 1000)
    monkeypatch.setattr(settling, "swap_free", lambda: 0)
    with pytest.raises(
        ResourceError, match=r"the optimiser need \d+ MB more memory, and 0 MB are free; take a smaller"
    ):
        train(toy_recipe(tmp_path / "run", pairs))
    monkeypatch.setattr(settling, "swap_free", lambda: 2000)
    with pytest.raises(ResourceError, match="and 0 MB are free, besides 0 MB of swap; take a smaller"):
        train(toy_recipe(tmp_path / "run", pairs))


def test_memory_that_the_disk_has_room_for_is_warned_of(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "memory_free", lambda: 1000)
    monkeypatch.setattr(settling, "swap_free", lambda: 1_000_000_000)
    events: list[Event] = []
    train(toy_recipe(tmp_path / "run", pairs, "training.steps=1"), observers=[events.append])
    (warning,) = (event for event in events if isinstance(event, Warned) and event.kind == "memory")
    assert "the optimiser alone are too large: a smaller model helps" in warning.text


@pytest.mark.usefixtures("half_is_faster")
def test_what_a_trial_took_is_not_missed(tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process keeps what it freed: after the trial less is free, of which it needs less as well."""
    left = [10**12]
    real = choose
    monkeypatch.setattr(settling, "memory_free", lambda: left[0])
    monkeypatch.setattr(settling, "choose", lambda *given, **named: left.__setitem__(0, 0) or real(*given, **named))
    events: list[Event] = []
    train(toy_recipe(tmp_path / "run", pairs, *AUTO, "training.steps=1"), observers=[events.append])
    assert left == [0]
    assert told(events)[1].endswith("; 1000.0 GB are free")
    assert not [event for event in events if isinstance(event, Warned) and event.kind == "memory"]


@pytest.mark.parametrize(
    ("settings", "threads", "lanes"),
    [
        ({}, 2, 2),
        ({}, 4, 2),
        ({}, 1, 1),
        ({}, 3, 1),  # one of them would have nothing to do
        ({"training.precision": "bfloat16"}, 2, 2),
        ({"training.lanes": 1}, 2, 1),
        ({"training.lanes": 3}, 1, 3),
        ({"training.batch_tokens": 4000}, 2, 1),
        ({"training.accumulate": 2}, 2, 1),
        ({"training.recompute": True}, 2, 1),
        ({"model.width": 256}, 2, 1),
        ({"model.decoder": "{kind: rnn}"}, 2, 1),
    ],
)
def test_narrow_transformers_take_two_lanes(
    tmp_path: Path, pairs: Path, settings: dict[str, object], threads: int, lanes: int
) -> None:
    given = [f"{name}={value}" for name, value in ({"training.batch_tokens": 4096} | settings).items()]
    recipe = toy_recipe(tmp_path / "run", pairs, *given)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert settling.lanes(recipe) == lanes
        assert settling.lanes(recipe, world=2) == (lanes if "training.lanes" in settings else 1)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("precision", "times"), [("float32", 0), ("bfloat16", 1), ("auto", 1)])
def test_half_precision_keeps_few_programs(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch, precision: str, times: int
) -> None:
    """Before the first product of a trial or a run; tests/training/test_memory_growth.py tells what it is for."""
    said: list[bool] = []
    monkeypatch.setattr(settling, "keep_few_programs", lambda: said.append(True))
    train(toy_recipe(tmp_path / "run", pairs, f"training.precision={precision}", "training.steps=2"))
    assert len(said) == times

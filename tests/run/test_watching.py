"""What is seen of a training while it runs: outputs, warnings, time, and a page that is written anew."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.corpus import StoreCorpus
from regard.errors import ResourceError
from regard.metrics import Metric, metric
from regard.recipe import override_recipe
from regard.recipe.build import system_for, training_settings
from regard.recipe.schema import Recipe
from regard.report import read_log
from regard.run import live
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.preparation import prepare_run, write_prepared
from regard.run.reporting import write_results
from regard.run.training import Trained
from regard.run.validation import Judge, judge_by
from regard.run.watching import events_of, watch
from regard.special import END
from regard.training import (
    Ended,
    Event,
    LeftOut,
    Observer,
    Outcome,
    Progress,
    Sampled,
    Saved,
    Started,
    Stepped,
    Trainer,
    Validated,
    Warned,
    health,
)
from regard.training.meter import Meter
from tests.toy_shapes import shape_recipe
from tests.toys import toy_pairs, toy_recipe, write_tsv

SHORT = ("training.batch_tokens=60", "evaluation.resamples=0")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", toy_pairs(100))


def told(recipe: Recipe) -> list[Event]:
    events: list[Event] = []
    train(recipe, [events.append])
    return events


def warnings(events: list[Event]) -> set[str]:
    return {event.kind for event in events if isinstance(event, Warned)}


def train(recipe: Recipe, observers: Sequence[Observer] = ()) -> Outcome:
    """Train and judge what a recipe describes, with everything that watches."""
    folder = RunFolder(Path(recipe.run))
    folder.create()
    prepared = prepare_run(recipe, folder)
    folder.write_recipe(recipe)
    write_prepared(prepared, folder)
    torch.manual_seed(recipe.seed)
    system = system_for(recipe, prepared.texts)
    model = Model(recipe=recipe, system=system, texts=prepared.texts, folder=folder.path)
    tokens, seed = recipe.training.batch_tokens, recipe.seed
    corpus, valid = (
        StoreCorpus(store, prepared.collation, tokens=tokens, seed=seed) for store in (prepared.train, prepared.valid)
    )
    judge = judge_by(valid, None, model, prepared.valid_examples)
    watching = watch(folder, model, prepared, judge, observers, epoch=corpus.batches_in_epoch())
    trainer = Trainer(
        system,
        corpus,
        settings=training_settings(recipe),
        validate=judge,
        checkpoints=folder.checkpoints,
        observers=[watching],
    )
    with watching:
        outcome = trainer.run()
    system.eval()
    evaluations = {name: model.evaluate(examples) for name, examples in prepared.tests.items()}
    write_results(folder, model, prepared, evaluations, outcome.progress)
    return outcome


# What is told, and in which order


def test_outputs_follow_each_validation_and_are_in_the_log(tmp_path: Path, pairs: Path) -> None:
    events = told(toy_recipe(tmp_path / "run", pairs, "evaluation.samples=2"))
    names = [type(event) for event in events if not isinstance(event, Stepped | Saved)]
    assert names == [Started, Validated, Sampled, Validated, Sampled, Ended]
    started = events[0]
    assert isinstance(started, Started)
    assert started.validate_every == 6
    assert started.validation_seconds is not None
    assert started.estimated_seconds is not None
    assert started.estimated_seconds >= 2 * started.validation_seconds > 0
    sampled = [event for event in events if isinstance(event, Sampled)]
    assert [len(event.samples) for event in sampled] == [2, 2]
    assert [one.source for one in sampled[0].samples] == [one.source for one in sampled[1].samples]
    for event in events:
        if isinstance(event, Validated):
            assert event.seconds > 0
        if isinstance(event, Stepped):
            assert event.memory > 10_000_000
    history = read_log(tmp_path / "run" / "log.jsonl")
    assert [(one.step, one.source, one.reference, one.output) for one in history.samples] == [
        (event.progress.step, one.source, one.reference, one.output) for event in sampled for one in event.samples
    ]
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert last["memory_peak"] > 10_000_000


def test_outputs_can_be_left_out(tmp_path: Path, pairs: Path) -> None:
    events = told(toy_recipe(tmp_path / "run", pairs, "evaluation.samples=0", "training.steps=2"))
    assert not any(isinstance(event, Sampled) for event in events)


def test_what_was_left_out_is_told_before_the_first_step(tmp_path: Path) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", [*toy_pairs(100), ("a b", "")])
    events = told(toy_recipe(tmp_path / "run", pairs, "data.empty_lines=skip", "training.steps=1"))
    assert isinstance(events[0], LeftOut)
    assert events[0].lines == (f"pairs with an empty side, skipped: 1 ({pairs}:101)",)


@pytest.mark.parametrize(
    ("shape", "count", "source", "reference"),
    [
        ("language", 1, False, False),
        ("category", 3, True, False),
        ("acceptor", 3, True, True),
        ("rater", 3, True, True),
        ("transducer", 3, True, True),
        ("masked", 0, False, False),
    ],
)
def test_every_shape_shows_what_makes_sense(
    tmp_path: Path, shape: str, count: int, source: bool, reference: bool
) -> None:
    events = told(shape_recipe(shape, tmp_path, steps=4))
    shown = [event.samples for event in events if isinstance(event, Sampled)]
    assert len(shown) == (2 if count else 0)
    for samples in shown:
        assert len(samples) == count
        assert all(bool(one.source) == source and (one.reference is not None) == reference for one in samples)


def judge_of(trained: Trained, by: Metric | None = None) -> Judge:
    """A judge over the validation set of a run that has learned its task."""
    model = trained.model
    prepared = prepare_run(model.recipe, RunFolder(model.folder))
    corpus = StoreCorpus(prepared.valid, prepared.collation, tokens=300, seed=1)
    return Judge(corpus, by, model, prepared.valid_examples)


def test_shown_outputs_are_those_of_greedy_search(trained: Trained) -> None:
    model = trained.model
    for judge in (judge_of(trained), judge_of(trained, metric("exact", tokenize="none"))):
        judge(model.system)
        assert len(judge.samples) == 3
        for one in judge.samples:
            assert one.output == model.predict(one.source, beam=1).text
        assert 0 <= judge.sample_seconds <= judge.seconds


def test_trying_a_validation_changes_nothing(trained: Trained) -> None:
    judge = judge_of(trained, metric("exact", tokenize="none"))
    system = trained.model.system
    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert judge.expected_seconds(system) > 0
    assert torch.equal(torch.get_rng_state(), before)
    assert not system.training
    judge(system)
    assert judge.expected_seconds(system) < 20 * judge.seconds


# Real runs that go wrong


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("training.learning_rate=1e-9", "training.validate_every=200"), {"flat"}),
        (("training.learning_rate=10", "training.validate_every=200"), {"diverging"}),
    ],
    ids=["far too low", "far too high"],
)
def test_wrong_learning_rates(tmp_path: Path, pairs: Path, overrides: tuple[str, ...], expected: set[str]) -> None:
    recipe = toy_recipe(tmp_path / "run", pairs, *SHORT, "training.steps=340", "training.save_every=400", *overrides)
    assert warnings(told(recipe)) >= expected


def test_data_that_is_learned_by_heart(tmp_path: Path) -> None:
    """Few pairs that are no pairs: the targets belong to other sources."""
    pairs = toy_pairs(90)
    shifted = [(source, pairs[(number + 7) % 90][1]) for number, (source, _) in enumerate(pairs)]
    recipe = toy_recipe(
        tmp_path / "run",
        write_tsv(tmp_path / "pairs.tsv", shifted),
        "model.width=32",
        "training.steps=240",
        "training.validate_every=40",
        "training.save_every=1000",
        "training.batch_tokens=120",
        "evaluation.resamples=0",
    )
    events = told(recipe)
    assert "overfitting" in warnings(events)
    report = (tmp_path / "run" / "report.html").read_text()
    card = (tmp_path / "run" / "README.md").read_text()
    for page in (report, card):
        assert "learns the training data by heart" in page
    assert "## What training warned of\n\n- Step " in card


def test_a_model_that_does_not_heed_its_source(tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output bias that dominates: every output ends at once."""
    real = Judge.__call__

    def biased(judge: Judge, system: Any) -> Any:
        with torch.no_grad():
            system.decoder.output.bias[END] = 100.0
        return real(judge, system)

    monkeypatch.setattr(Judge, "__call__", biased)
    monkeypatch.setattr(health, "PATIENT_STEPS", 0)
    recipe = toy_recipe(tmp_path / "run", pairs, *SHORT, "model.output_bias=true", "training.warmup=2")
    assert warnings(told(recipe)) == {"alike"}


def test_a_good_run_is_left_in_peace(tmp_path: Path) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(400))
    recipe = toy_recipe(
        tmp_path / "run", pairs, *SHORT, "training.steps=360", "training.validate_every=60", "training.save_every=60"
    )
    events = told(recipe)
    assert warnings(events) == set()
    assert read_log(tmp_path / "run" / "log.jsonl").warnings == ()


@pytest.mark.long
@pytest.mark.parametrize("shape", ["language", "category", "acceptor", "rater", "transducer", "masked", "factored"])
def test_good_runs_of_every_shape_are_left_in_peace(tmp_path: Path, shape: str) -> None:
    recipe = override_recipe(shape_recipe(shape, tmp_path, steps=500), ["training.validate_every=50"])
    assert warnings(told(recipe)) == set()


def test_the_share_of_clipped_updates_is_told() -> None:
    meter = Meter()
    for clipped in (True, False, True, True):
        meter.add(total=8.0, likelihood=6.0, norm=2.0, tokens=4, clipped=clipped)
    told = Meter.from_json(meter.to_json()).stepped(Progress(step=4), 0.1)
    assert (told.clipped, told.loss, told.likelihood) == (0.75, 2.0, 1.5)
    older = {name: value for name, value in meter.to_json().items() if name != "clipped"}
    assert Meter.from_json(older).clipped == 0


# Going on


def test_a_run_that_goes_on_is_judged_by_its_whole_past(tmp_path: Path, pairs: Path) -> None:
    """What was told before the interruption is not told again after it."""
    common = (*SHORT, "training.learning_rate=1e-9", "training.validate_every=200", "training.save_every=1000")
    first = told(toy_recipe(tmp_path / "run", pairs, *common, "training.steps=330"))
    assert warnings(first) == {"flat"}
    again = told(toy_recipe(tmp_path / "run", pairs, *common, "training.steps=400"))
    assert warnings(again) == set()
    history = read_log(tmp_path / "run" / "log.jsonl")
    assert [one.kind for one in history.warnings] == ["flat"]
    past = events_of(tmp_path / "run" / "log.jsonl", Progress(step=200))
    steps = [(type(event).__name__, event.progress.step) for event in past]
    assert steps == [*(("Stepped", step) for step in range(20, 201, 20)), ("Validated", 200)]


def test_tensorboard_is_an_option(tmp_path: Path, pairs: Path) -> None:
    recipe = toy_recipe(tmp_path / "run", pairs, "training.tensorboard=true")
    train(recipe)
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1
    train(toy_recipe(tmp_path / "run", pairs, "training.tensorboard=true", "training.steps=14"))
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 2


# The page


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every page that is written, at once."""
    written: list[str] = []
    real = live.replace_file

    def keep(path: Path, content: bytes) -> None:
        written.append(content.decode())
        real(path, content)

    monkeypatch.setattr(live, "replace_file", keep)
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(live, "SHARE", 1e9)
    return written


def heading(page: str) -> str:
    found = re.search(r'<p class="what">(.*?)</p>', page)
    return found.group(1) if found else ""


def test_the_page_tells_where_training_stands(tmp_path: Path, pairs: Path, pages: list[str]) -> None:
    recipe = toy_recipe(tmp_path / "run", pairs, "training.save_every=6")
    train(recipe)
    assert [heading(page) for page in pages] == [
        "Training, step 0 of 12",
        "Training, step 6 of 12",
        "Training, step 12 of 12",
        "Evaluating, after 12 steps",
    ]
    assert all('<meta http-equiv="refresh"' in page for page in pages)
    assert "What it wrote while it learned" in pages[2]
    assert "<title>50% training · translation: run</title>" in pages[1]
    last = (tmp_path / "run" / "report.html").read_text()
    assert "refresh" not in last
    assert heading(last) == ""
    assert "What it wrote while it learned" in last
    assert "How good it is" in last


def test_the_page_of_a_training_that_was_broken_off_says_so(tmp_path: Path, pairs: Path, pages: list[str]) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Validated):
            raise KeyboardInterrupt

    recipe = toy_recipe(tmp_path / "run", pairs)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, [stop])
    page = (tmp_path / "run" / "report.html").read_text()
    assert heading(page) == "Interrupted at step 6 of 12"
    assert "stopped by a signal" in page
    assert "the same command goes on from the last checkpoint" in page
    assert "refresh" not in page
    train(recipe)
    assert heading((tmp_path / "run" / "report.html").read_text()) == ""


def test_a_page_that_cannot_be_written_stops_nothing(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise ResourceError(f"{path}: no room for {len(content)}")

    monkeypatch.setattr(live, "replace_file", full)
    assert train(toy_recipe(tmp_path / "run", pairs)).progress.step == 12


def test_pages_are_few(tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not within 20 seconds of each other, nor more than a hundredth of the time."""
    now = 1000.0
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.log.write_text("")
    written: list[float] = []
    monkeypatch.setattr(live.time, "monotonic", lambda: now)
    monkeypatch.setattr(live, "render_report", lambda _: "page")
    page = live.LiveReport(folder, model=None, prepared=None)  # type: ignore[arg-type]
    page._data = lambda *_: None  # type: ignore[method-assign, assignment, return-value]

    def write(path: Path, content: bytes) -> None:
        nonlocal now
        written.append(now)
        now += 0.5

    monkeypatch.setattr(live, "replace_file", write)
    page(Started(Progress(), 100, None))
    for step in range(1, 101):
        now += 5.0
        page(Validated(Progress(step=step), 1.0, {}, True))
        page(Saved(Progress(step=step)))
    assert all(later - earlier >= 50 for earlier, later in pairwise(written))
    assert 8 <= len(written) <= 11

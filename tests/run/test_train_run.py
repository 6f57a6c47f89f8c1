"""From a recipe to a finished run: what is written, what may change, what goes on, what is refused."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import yaml

import regard
from regard.data import Ledger, read_examples
from regard.errors import BusyError, DataError, RecipeError, UsageError
from regard.insight import Reading
from regard.recipe import parse_recipe
from regard.report import read_log
from regard.run.api import recipe_for
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.preparation import read_sets
from regard.run.training import Trained, train
from regard.training import Event, Started, Validated, average, load_weights, weights
from tests.toys import toy_pairs, toy_recipe, toy_sources, write_jsonl, write_tsv


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", toy_pairs(120))


def steps_of(events: Sequence[Event]) -> list[int]:
    return [event.progress.step for event in events if isinstance(event, Started)]


# What a finished run leaves behind


def test_everything_is_there(trained: Trained) -> None:
    names = {path.name for path in trained.model.folder.iterdir()}
    assert names == {
        ".lock",
        "README.md",
        "checkpoints",
        "data",
        "log.jsonl",
        "metrics.json",
        "recipe.yaml",
        "report.html",
        "source.json",
        "target.json",
        "weights.safetensors",
    }
    assert sorted(path.name for path in (trained.model.folder / "data").iterdir()) == ["skipped.tsv", "stores.json"]


def test_metrics_hold_every_score_of_every_set(trained: Trained) -> None:
    record = json.loads((trained.model.folder / "metrics.json").read_text(encoding="utf-8"))
    assert record["format"] == 1
    assert record["metrics"] == {score.name: score.to_json() for score in trained.evaluations["test"].scores}
    assert set(record["metrics"]) == {"exact", "BLEU", "perplexity (teacher-forced)", "alignment error"}
    for entry in record["metrics"].values():
        assert entry["low"] <= entry["value"] <= entry["high"]
        assert entry["signature"]
    assert record["further"] == {"again": record["metrics"]}


def test_the_recipe_is_resolved_and_holds_the_fitting_reading(trained: Trained) -> None:
    text = (trained.model.folder / "recipe.yaml").read_text(encoding="utf-8")
    recipe = parse_recipe(text, "recipe.yaml")
    assert recipe == trained.model.recipe
    assert recipe.evaluation.alignment.layer == 0


def test_the_log_tells_the_whole_training(trained: Trained) -> None:
    history = read_log(trained.model.folder / "log.jsonl")
    assert [point.step for point in history.training] == [*range(20, 401, 20)]
    assert [point.step for point in history.validation] == [*range(50, 401, 50)]
    assert history.saved == (*range(50, 401, 50),)
    assert history.end is not None
    assert history.end["reason"] == "400 steps done"
    assert history.unreadable == ()
    assert history.training[0].loss > history.training[-1].loss


def test_the_card_tells_scores_data_and_cost(trained: Trained) -> None:
    card = (trained.model.folder / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---")[1])
    assert head["pipeline_tag"] == "translation"
    exact = next(score for score in trained.evaluations["test"].scores if score.name == "exact")
    for told in (
        f"{exact.value:.1f}",
        exact.signature,
        "220 pairs",
        "40 pairs",
        f"{trained.model.parameters:,}",
        trained.evaluations["test"].examples[0].source,
        f"torch {torch.__version__}",
        "word, 12 entries",
    ):
        assert told in card, told


def test_the_page_is_one_file_with_curves_samples_and_alignments(trained: Trained) -> None:
    page = (trained.model.folder / "report.html").read_text(encoding="utf-8")
    first = trained.evaluations["test"].predictions[0]
    assert first.source in page
    assert page.count("<svg") >= 3
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "<script src" not in page


def test_the_best_weights_or_the_better_average_are_kept(trained: Trained) -> None:
    """The second source: both candidates, judged here."""
    progress = trained.outcome.progress
    checkpoints = RunFolder(trained.model.folder).checkpoints
    candidates = [
        checkpoints.model(progress.best_step),
        average([checkpoints.model(step) for step in progress.validated]),
    ]
    model = Model.load(trained.model.folder)
    examples = list(read_examples(str(trained.model.recipe.data.valid)))
    losses = []
    kept = weights(model.system)
    for candidate in candidates:
        load_weights(model.system, candidate)
        losses.append(-sum(one.log_probability for one in model.score_many((e.source, e.target) for e in examples)))
    chosen = candidates[losses.index(min(losses))]
    assert all(torch.equal(tensor, chosen[name]) for name, tensor in kept.items())


# Going on


def test_the_same_call_again_has_nothing_to_do(tmp_path: Path, pairs: Path) -> None:
    recipe = toy_recipe(tmp_path / "run", pairs)
    first = train(recipe)
    content = (tmp_path / "run" / "weights.safetensors").read_bytes()
    events: list[Event] = []
    second = train(recipe, observers=[events.append])
    assert steps_of(events) == [12]
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == content
    assert second.evaluations == first.evaluations
    history = read_log(tmp_path / "run" / "log.jsonl")
    assert len(history.starts) == 2
    assert [point.step for point in history.validation] == [6, 12]


def test_more_steps_go_on_and_give_the_run_that_they_would_have_given(tmp_path: Path, pairs: Path) -> None:
    train(toy_recipe(tmp_path / "run", pairs))
    events: list[Event] = []
    longer = train(toy_recipe(tmp_path / "run", pairs, "training.steps=18", "search.beam=1"), observers=[events.append])
    assert steps_of(events) == [12]
    straight = train(toy_recipe(tmp_path / "straight", pairs, "training.steps=18", "search.beam=1"))
    assert longer.evaluations == straight.evaluations
    points = read_log(tmp_path / "run" / "log.jsonl").training
    assert [point.step for point in points] == [12, 18]
    again: list[Event] = []
    train(toy_recipe(tmp_path / "run", pairs, "training.steps=18", "search.beam=1"), observers=[again.append])
    assert read_log(tmp_path / "run" / "log.jsonl").training == points


def test_an_interrupted_run_goes_on(tmp_path: Path, pairs: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Validated):
            raise RuntimeError("stopped")

    recipe = toy_recipe(tmp_path / "run", pairs)
    with pytest.raises(RuntimeError, match="stopped"):
        train(recipe, observers=[stop])
    assert Model.load(tmp_path / "run").predict("a b").text is not None  # the best so far can be used
    events: list[Event] = []
    resumed = train(recipe, observers=[events.append])
    assert steps_of(events) == [3]
    assert resumed.evaluations == train(toy_recipe(tmp_path / "straight", pairs)).evaluations


def test_another_recipe_is_refused_with_the_differences(tmp_path: Path, pairs: Path) -> None:
    train(toy_recipe(tmp_path / "run", pairs))
    before = (tmp_path / "run" / "recipe.yaml").read_bytes()
    with pytest.raises(UsageError) as caught:
        train(toy_recipe(tmp_path / "run", pairs, "model.dropout=0.2", "seed=5", "training.steps=99"))
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: this folder holds a run of another recipe (model.dropout: 0.0 there, 0.2 here; seed: 1 "
        "there, 5 here). Choose another folder with run=FOLDER, or start anew with --overwrite"
    )
    assert (tmp_path / "run" / "recipe.yaml").read_bytes() == before


def test_many_differences_are_counted(tmp_path: Path, pairs: Path) -> None:
    train(toy_recipe(tmp_path / "run", pairs))
    others = (
        "seed=2",
        "model.width=32",
        "model.layers=2",
        "model.dropout=0.1",
        "text.size=40",
        "training.betas=[0.5,0.5]",
    )
    more = ("training.schedule=constant", "training.label_smoothing=0.3")
    with pytest.raises(UsageError, match=r"there, .* here; and 2 more\)\. Choose another folder"):
        train(toy_recipe(tmp_path / "run", pairs, *others, *more))


def test_overwrite_starts_anew(tmp_path: Path, pairs: Path) -> None:
    train(toy_recipe(tmp_path / "run", pairs))
    (tmp_path / "run" / "notes.txt").write_text("mine")
    events: list[Event] = []
    train(toy_recipe(tmp_path / "run", pairs, "model.width=8"), observers=[events.append], overwrite=True)
    assert steps_of(events) == [0]
    assert Model.load(tmp_path / "run").recipe.model.width == 8
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
    assert len(read_log(tmp_path / "run" / "log.jsonl").starts) == 1


def test_overwrite_does_not_touch_the_files_of_others(tmp_path: Path, pairs: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(UsageError, match=r"not a run folder, and a run would write over what is in it \(README\.md\)"):
        train(toy_recipe(tmp_path, pairs), overwrite=True)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_recipe_may_change_as_long_as_nothing_is_learned(tmp_path: Path) -> None:
    """The first attempt fails on the data; the second, with another setting, is no other run."""
    lines = [f"{source}\t{target}\n" for source, target in toy_pairs(60)]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join([*lines, "a b\t\n"]), encoding="utf-8")
    with pytest.raises(DataError, match=r"pairs\.tsv:61: the target side is empty"):
        train(toy_recipe(tmp_path / "run", pairs, "text.size=9"))
    trained = train(toy_recipe(tmp_path / "run", pairs, "data.empty_lines=skip", "training.steps=2"))
    assert trained.model.texts.source.size == 12
    assert trained.ledger.counts == {"empty": 1}
    assert "pairs.tsv\t61\t" in (tmp_path / "run" / "data" / "skipped.tsv").read_text()
    assert "pairs with an empty side, skipped: 1" in (tmp_path / "run" / "README.md").read_text()


def test_data_that_changed_is_refused(tmp_path: Path, pairs: Path) -> None:
    train(toy_recipe(tmp_path / "run", pairs))
    kept = {
        path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != ".lock"
    }
    with pairs.open("a") as file:
        file.write("a a a a a\tA A A A A\n")
    with pytest.raises(DataError, match="run: the training or validation data changed since this run began"):
        train(toy_recipe(tmp_path / "run", pairs, "training.steps=14"))
    assert {path: path.read_bytes() for path in kept} == kept
    assert train(toy_recipe(tmp_path / "run", pairs), overwrite=True).outcome.progress.step == 12


def test_a_test_set_may_change(tmp_path: Path, pairs: Path) -> None:
    held = write_tsv(tmp_path / "test.tsv", toy_pairs(20, seed=9))
    train(toy_recipe(tmp_path / "run", pairs, f"data.test={held}"))
    write_tsv(held, toy_pairs(25, seed=10))
    trained = train(toy_recipe(tmp_path / "run", pairs, f"data.test={held}"))
    assert len(trained.evaluations["test"].examples) == 25


def test_a_folder_in_use_is_refused(tmp_path: Path, pairs: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    with folder.locked(), pytest.raises(BusyError, match="another process is training into this folder"):
        train(toy_recipe(tmp_path / "run", pairs))


def test_a_damaged_best_checkpoint_is_no_dead_end(tmp_path: Path, pairs: Path) -> None:
    train(toy_recipe(tmp_path / "run", pairs))
    checkpoints = RunFolder(tmp_path / "run").checkpoints
    for step in checkpoints.steps():
        (checkpoints.path(step) / "model.safetensors").write_bytes(b"rot")
    events: list[Event] = []
    again = train(toy_recipe(tmp_path / "run", pairs), observers=[events.append])
    assert steps_of(events) == [0]
    assert again.outcome.progress.step == 12


# Data


def test_sets_that_are_split_off_share_nothing_with_training(tmp_path: Path) -> None:
    """Sources that occur often, with several targets, stay on one side."""
    sources = toy_sources(60)
    doubled = [(source, target) for source in sources for target in (source.upper(), source.upper() + " A")]
    pairs = write_tsv(tmp_path / "pairs.tsv", doubled)
    trained = train(toy_recipe(tmp_path / "run", pairs, "training.steps=2"))
    sets = {}
    for name in ("valid", "test"):
        path = tmp_path / "run" / "data" / f"{name}.jsonl"
        examples = list(read_examples(path))
        sets[name] = {example.source for example in examples}
        assert len(examples) == 20
        record = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
        line = pairs.read_text().splitlines()[record["place"]["line"] - 1]
        assert line == f"{record['source']}\t{record['target']}"
    assert not sets["valid"] & sets["test"]
    prepared = RunFolder(tmp_path / "run").read_json(tmp_path / "run" / "data" / "stores.json")
    assert isinstance(prepared, dict)
    rest = set(sources) - sets["valid"] - sets["test"]
    assert len(rest) * 2 == 120 - 40
    assert {example.source for example in trained.evaluations["test"].examples} == sets["test"]
    card = (tmp_path / "run" / "README.md").read_text()
    assert f"{len(rest) * 2} pairs" in card


def test_only_what_is_not_given_is_split_off(tmp_path: Path, pairs: Path) -> None:
    held = write_tsv(tmp_path / "held.tsv", toy_pairs(20, seed=9))
    for name, other in (("valid", "test"), ("test", "valid")):
        folder = tmp_path / f"run {name}"
        train(toy_recipe(folder, pairs, f"data.{name}={held}", "training.steps=1"))
        assert (folder / "data" / f"{other}.jsonl").exists()
        assert not (folder / "data" / f"{name}.jsonl").exists()
        assert "100 pairs" in (folder / "README.md").read_text()


def test_training_data_is_read_again_and_told_of_once(tmp_path: Path) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    with pairs.open("ab") as file:
        file.write(b"only one column\n\xff\tb\n")
    ledger = Ledger()
    pairs_read, valid, test, split = read_sets(toy_recipe(tmp_path / "run", pairs, "data.bad_lines=skip"), ledger)
    told = ledger.summary()
    assert sum(ledger.counts.values()) == 2
    first, second = list(pairs_read), list(pairs_read)
    assert first == second
    assert len(first) == 60 - len(valid) - len(test)
    apart = [*valid, *test]
    assert split == {"valid": valid, "test": test}
    assert not {one.source for one in apart} & {one.source for one in first}
    assert sorted(one.place.line for one in (*first, *apart)) == list(range(1, 61))
    assert ledger.summary() == told
    with pairs.open("ab") as file:
        file.write(b"a\tA\n")
    with pytest.raises(DataError, match="has changed while it was read: there were 60 examples, and now there are 61"):
        list(pairs_read)


def test_links_that_cannot_be_are_found_before_training(tmp_path: Path) -> None:
    pairs = write_jsonl(tmp_path / "train.jsonl", toy_pairs(60))
    held = tmp_path / "test.jsonl"
    held.write_text('{"source": "a b", "target": "A B", "alignment": "0-0 2-1"}\n')
    with pytest.raises(DataError, match=r"test\.jsonl:1: the alignment links source word 2 with target word 1"):
        train(toy_recipe(tmp_path / "run", pairs, f"data.test={held}"))
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_further_set_is_not_called_test(tmp_path: Path, pairs: Path) -> None:
    with pytest.raises(RecipeError, match="a further set cannot be called `test`"):
        toy_recipe(tmp_path, pairs, f"data.further.test={pairs}")


def test_drawn_segmentations_train_and_are_the_same_every_time(tmp_path: Path) -> None:
    words = [source.replace(" ", "") + " " + source.replace(" ", "") for source in toy_sources(120, longest=8)]
    pairs = write_tsv(tmp_path / "pairs.tsv", [(word, word.upper()) for word in words])
    settings = ("text.unit=bpe", "text.size=300", "text.shared=true", "model.tie=all", "training.steps=8")

    def logged(name: str, *overrides: str) -> tuple[list[str], bytes]:
        train(toy_recipe(tmp_path / name, pairs, *settings, *overrides))
        history = read_log(tmp_path / name / "log.jsonl")
        return [point.loss.hex() for point in history.training], (tmp_path / name / "weights.safetensors").read_bytes()

    dropped = logged("one", "text.dropout=0.3")
    assert logged("two", "text.dropout=0.3") == dropped
    assert logged("three", "text.dropout=0.0")[0] != dropped[0]


@pytest.mark.parametrize("select", ["exact", "TER"])
def test_validation_may_be_judged_by_a_metric(tmp_path: Path, pairs: Path, select: str) -> None:
    events: list[Event] = []
    trained = train(toy_recipe(tmp_path / "run", pairs, f"training.select={select}"), observers=[events.append])
    validated = [event for event in events if isinstance(event, Validated)]
    assert all(set(event.metrics) == {select} for event in validated)
    sign = 1 if select == "exact" else -1
    assert trained.outcome.progress.best == max(sign * event.metrics[select] for event in validated)


def test_a_recurrent_model_is_trained_and_opened_in_the_same_way(tmp_path: Path, pairs: Path) -> None:
    overrides = ("model.encoder.kind=rnn", "model.decoder.kind=rnn", "training.threads=1")
    trained = train(toy_recipe(tmp_path / "run", pairs, *overrides))
    model = Model.load(tmp_path / "run")
    assert model.evaluate(trained.evaluations["test"].examples) == trained.evaluations["test"]
    assert model.predict("a b c", capture=True).outputs == trained.model.predict("a b c").outputs


# From Python


def test_train_from_python(tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = ("training.steps=3", "model.layers=1", "model.width=16", "evaluation.resamples=20")
    model = regard.train("pairs.tsv", *overrides)
    assert model.folder == Path("runs/pairs")
    assert isinstance(model.predict("a b").text, str)
    recipe = toy_recipe(tmp_path / "other", pairs, "training.steps=2")
    assert regard.train(recipe, "training.steps=3").recipe.training.steps == 3
    assert regard.train(recipe, overwrite=True).recipe.training.steps == 2
    (tmp_path / "recipe.yml").write_text((tmp_path / "other" / "recipe.yaml").read_text(), encoding="utf-8")
    assert regard.train(tmp_path / "recipe.yml", f"run={tmp_path / 'third'}").folder == tmp_path / "third"


def test_parallel_files_from_python(tmp_path: Path) -> None:
    for name, side in zip(("a.en", "a.de"), zip(*toy_pairs(60), strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    recipe, reasons = recipe_for([tmp_path / "a.en", str(tmp_path / "a.de")], ["training.steps=1"])
    assert recipe.data.format == "parallel"
    assert reasons
    assert recipe.training.steps == 1


def test_a_recipe_and_data_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.yaml is a recipe, which names its data itself: leave out"):
        recipe_for(["a.yaml", "pairs.tsv"])


def test_a_copy_of_a_run_is_a_run(trained: Trained, tmp_path: Path) -> None:
    shutil.copytree(trained.model.folder, tmp_path / "moved")
    assert Model.load(tmp_path / "moved").predict("a b").text == trained.model.predict("a b").text


def test_a_chosen_reading_stays_when_a_run_goes_on(tmp_path: Path, pairs: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    model = train(toy_recipe(tmp_path / "run", pairs)).model
    folder.write_recipe(model.with_reading(Reading(layer=0, head=1, shift=1)).recipe)
    again = train(toy_recipe(tmp_path / "run", pairs)).model
    assert again.reading == Reading(layer=0, head=1, shift=1)
    other = train(toy_recipe(tmp_path / "run", pairs, "evaluation.alignment.head=0")).model
    assert other.reading.head == 0


def test_a_finished_run_without_checkpoints_is_not_trained_over(tmp_path: Path, pairs: Path) -> None:
    train(toy_recipe(tmp_path / "run", pairs))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(UsageError, match="the run is finished and its checkpoints are gone"):
        train(toy_recipe(tmp_path / "run", pairs))


def test_pairs_that_are_too_long_are_counted_and_stop_nothing(tmp_path: Path, pairs: Path) -> None:
    """With learned positions nothing longer than the limit could be scored at all."""
    held = write_tsv(tmp_path / "test.tsv", [*toy_pairs(20, seed=9), ("a " * 30, "A " * 30)])
    learned = ("model.encoder.positions=learned", "model.decoder.positions=learned")
    limits = ("data.max_length=12", "search.max_length=12", f"data.test={held}")
    trained = train(toy_recipe(tmp_path / "run", pairs, *learned, *limits))
    assert (
        "1 source was longer than data.max_length and only its beginning was read" in trained.evaluations["test"].notes
    )
    assert (
        "1 example was not scored: a side is empty, longer than data.max_length, does not fit the other, or is a "
        "text, a label or a tag that training did not have" in trained.evaluations["test"].notes
    )

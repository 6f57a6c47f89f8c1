"""Runs that begin with what another run has learned."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from regard.cli.progress import TrainingProgress
from regard.errors import ModelError, RecipeError, UsageError
from regard.recipe import load_recipe, recipe_from
from regard.recipe.schema import Recipe
from regard.recipe.texts import train_texts
from regard.report import read_log
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.starting import start_texts
from regard.run.training import Trained, train
from regard.training import Event, Started, StartedFrom, Stepped, Validated
from tests.toy_shapes import shape_recipe
from tests.toys import LETTERS, toy_pairs, toy_recipe, write_tsv
from tests.untrained import LANGUAGE


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", toy_pairs(120, seed=3))


@pytest.fixture
def further(tmp_path: Path) -> Path:
    """Pairs with a word more, and one less: z for a."""
    return write_tsv(tmp_path / "further.tsv", [(s.replace("a", "z"), t.replace("A", "Z")) for s, t in toy_pairs(120)])


def first_loss(recipe: Recipe) -> float:
    """Of the untouched model on the validation data: the learning rate is too small to move anything."""
    events: list[Event] = []
    still = ("training.steps=1", "training.learning_rate=1e-12", "training.validate_every=1")
    train(recipe_from(recipe.model_dump(), still), observers=[events.append])
    return next(event.loss for event in events if isinstance(event, Validated))


def lines_of(events: Sequence[Event]) -> tuple[str, ...]:
    (event,) = [event for event in events if isinstance(event, StartedFrom)]
    return event.lines


def from_(trained: Trained) -> str:
    return f"model.start_from={trained.model.folder}"


def like(trained: Trained) -> tuple[str, ...]:
    section = trained.model.recipe.model
    return from_(trained), f"model.width={section.width}", f"model.layers={section.layers}"


def test_a_run_goes_on_where_another_has_come_to(trained: Trained, tmp_path: Path, pairs: Path) -> None:
    loss = first_loss(toy_recipe(tmp_path / "tuned", pairs, *like(trained)))
    (there,) = (score for score in trained.evaluations["test"].scores if score.name.startswith("perplexity"))
    assert torch.tensor(loss).exp().item() < 1.2 * there.value
    fresh = first_loss(toy_recipe(tmp_path / "fresh", pairs, *like(trained)[1:]))
    assert loss < 0.2 * fresh


def test_another_vocabulary_keeps_what_it_shares(trained: Trained, tmp_path: Path, further: Path) -> None:
    """The words that are known are worth something even before the new one is learned."""
    events: list[Event] = []
    model = train(toy_recipe(tmp_path / "run", further, *like(trained)), observers=[events.append]).model
    assert lines_of(events)[2:] == (
        "resized: encoder.embedding.weight, 11 of 12 entries found by their text",
        "resized: decoder.embedding.weight, 11 of 12 entries found by their text",
    )
    assert model.texts.source.size == 12
    tuned = first_loss(toy_recipe(tmp_path / "tuned", further, *like(trained)))
    fresh = first_loss(toy_recipe(tmp_path / "fresh", further, *like(trained)[1:]))
    assert tuned < 0.6 * fresh


@pytest.mark.parametrize(
    ("shape", "table", "old", "new"),
    [
        ("attributed", "attributes.category.tables.0", "\tup", "\tbelow"),
        ("factored", "encoder.embedding.factors.0", "u", "a"),
        ("category", "encoder.tables.0", "high", "zenith"),
    ],
)
def test_other_columns_keep_what_they_share(shape: str, table: str, old: str, new: str, tmp_path: Path) -> None:
    """One value has another name, so that the vocabulary has the same size and another order."""
    other = train(shape_recipe(shape, tmp_path, steps=1)).model
    events: list[Event] = []
    overrides = (f"run={tmp_path / 'next'}", f"model.start_from={other.folder}")
    recipe = recipe_from(shape_recipe(shape, tmp_path, steps=1).model_dump(), overrides)
    data = tmp_path / "train.tsv"
    data.write_text(data.read_text().replace(old, new))
    train(recipe, observers=[events.append])
    assert any(re.match(rf"resized: {table}, \d+ of \d+ entries found by their text", one) for one in lines_of(events))


def test_the_encoder_starts_under_another_decoder(trained: Trained, tmp_path: Path, pairs: Path) -> None:
    events: list[Event] = []
    other = ("model.decoder.kind=rnn", "model.start_part=encoder", "training.freeze=[encoder]", "training.steps=4")
    text = f"text.start_from={trained.model.folder}"
    model = train(toy_recipe(tmp_path / "run", pairs, *like(trained), *other, text), observers=[events.append]).model
    there, here = RunFolder(trained.model.folder).read_weights(), RunFolder(model.folder).read_weights()
    shared = {name for name in here if name.startswith("encoder.")}
    assert all(torch.equal(there[name], here[name]) for name in shared)
    told = lines_of(events)
    assert told[0].startswith(f"taken: {len(shared)} tensors of encoder (")
    assert told[1].startswith("left: decoder.embedding.weight and ")
    assert told[1].endswith(" more of decoder: this model has no part that starts from it")
    assert told[2].startswith("fresh: decoder.embedding.weight and ")


def test_what_was_taken_is_told_everywhere(
    trained: Trained, tmp_path: Path, further: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    folder = tmp_path / "run"
    with TrainingProgress(Console(soft_wrap=True)) as progress:
        train(toy_recipe(folder, further, *like(trained), "training.steps=2"), observers=[progress])
    line = "resized: encoder.embedding.weight, 11 of 12 entries found by their text"
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"starting from {trained.model.folder}"
    assert f"· {line}" in printed
    history = read_log(folder / "log.jsonl")
    assert history.started_from is not None
    assert history.started_from["run"] == str(trained.model.folder)
    assert line in history.started_from["lines"]
    assert not history.unknown
    for name in ("README.md", "report.html"):
        text = (folder / name).read_text(encoding="utf-8")
        assert "Started from" in text
        assert line in text


def test_the_other_folder_is_needed_only_to_begin(trained: Trained, tmp_path: Path, pairs: Path) -> None:
    """A run that was stopped goes on bit for bit without it, frozen parts and rates and all."""
    other = tmp_path / "other"
    shutil.copytree(trained.model.folder, other)
    slowed = (
        "training.freeze=[encoder.embedding]",
        "training.rates={encoder: 0.1, encoder.norm: 2}",
        "training.layer_decay=0.5",
    )
    settings = (*like(trained)[1:], f"model.start_from={other}", f"text.start_from={other}", *slowed)

    def stop(event: Event) -> None:
        if isinstance(event, Validated):
            raise RuntimeError("stopped")

    straight = train(toy_recipe(tmp_path / "straight", pairs, *settings))
    recipe = toy_recipe(tmp_path / "run", pairs, *settings)
    with pytest.raises(RuntimeError, match="stopped"):
        train(recipe, observers=[stop])
    shutil.rmtree(other)
    events: list[Event] = []
    resumed = train(recipe, observers=[events.append])
    assert [event.progress.step for event in events if isinstance(event, Started)] == [3]
    assert not any(isinstance(event, StartedFrom) for event in events)
    one, two = (RunFolder(each.model.folder).read_weights() for each in (straight, resumed))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert resumed.evaluations == straight.evaluations
    assert Model.load(tmp_path / "run").predict("a b").text == resumed.model.predict("a b").text
    assert len(read_log(tmp_path / "run" / "log.jsonl").starts) == 2
    assert read_log(tmp_path / "run" / "log.jsonl").started_from is not None


def test_damaged_checkpoints_begin_with_the_other_run_again(trained: Trained, tmp_path: Path, pairs: Path) -> None:
    recipe = toy_recipe(tmp_path / "run", pairs, *like(trained))
    first: list[Event] = []
    train(recipe, observers=[first.append])
    checkpoints = RunFolder(tmp_path / "run").checkpoints
    for step in checkpoints.steps():
        (checkpoints.path(step) / "model.safetensors").write_bytes(b"rot")
    again: list[Event] = []
    train(recipe, observers=[again.append])
    losses = [[event.loss for event in events if isinstance(event, Stepped)] for events in (first, again)]
    assert losses[0] == losses[1]
    assert lines_of(first) == lines_of(again)


# Tokenizers


def test_tokenizers_are_taken_and_copied(trained: Trained, tmp_path: Path, further: Path) -> None:
    """Side by side, or one side with the other learned."""
    there = trained.model.folder
    run = train(toy_recipe(tmp_path / "both", further, f"text.start_from={there}", "training.steps=1"))
    assert (run.model.folder / "source.json").read_bytes() == (there / "source.json").read_bytes()
    assert (run.model.folder / "target.json").read_bytes() == (there / "target.json").read_bytes()
    one = ("text.start_side=source", "training.steps=1")
    run = train(toy_recipe(tmp_path / "one", further, f"text.start_from={there}", *one))
    assert (run.model.folder / "source.json").read_bytes() == (there / "source.json").read_bytes()
    assert run.model.texts.target.encode("Z").ids != run.model.texts.target.encode("A").ids
    assert run.model.texts.source.encode("z").ids == (1,)


def test_a_language_model_takes_the_tokenizer_of_one_side(trained: Trained, tmp_path: Path) -> None:
    text = {"unit": "word", "start_from": str(trained.model.folder), "start_side": "target"}
    sections = {**LANGUAGE, "text": text, "data": {**LANGUAGE["data"], "train": "lines.txt"}}
    recipe = recipe_from({"run": str(tmp_path / "run"), **sections})
    texts = start_texts(recipe, lambda one: train_texts(one, [], ["Z Z"]))
    for letter in ("A", "H", "Z"):
        assert texts.target.encode(letter).ids == trained.model.texts.target.encode(letter).ids
    assert texts.target.size == trained.model.texts.target.size


def test_one_tokenizer_serves_two_sides(tmp_path: Path, pairs: Path) -> None:
    shared = train(toy_recipe(tmp_path / "shared", pairs, "text.shared=true", "training.steps=1")).model
    run = train(toy_recipe(tmp_path / "run", pairs, f"text.start_from={shared.folder}", "training.steps=1")).model
    for name in ("source", "target"):
        assert (run.folder / f"{name}.json").read_bytes() == (shared.folder / "text.json").read_bytes()
    assert run.texts.source.size == 4 + 2 * len(LETTERS)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("text.shared=true",),
            "wants the tokenizer `text`, and that run has source, target; set `text.shared` as it is there, or choose "
            "one side with `text.start_side`",
        ),
        (
            ("text.unit=character",),
            "the tokenizer `source` has unit word, and this recipe says character; say word here too, or leave out "
            "`text.start_from`",
        ),
        (
            ("text.lowercase=true",),
            "its tokenizers have `text.lowercase: false`, and this recipe says true; say false here too, or leave out "
            "`text.start_from`",
        ),
    ],
)
def test_tokenizers_that_are_not_what_the_recipe_says(
    trained: Trained, tmp_path: Path, pairs: Path, overrides: Sequence[str], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        train(toy_recipe(tmp_path / "run", pairs, f"text.start_from={trained.model.folder}", *overrides))
    assert str(caught.value).startswith(f"{trained.model.folder}: ")
    assert message in str(caught.value)


# What is refused


@pytest.mark.parametrize("setting", ["model.start_from", "text.start_from"])
def test_a_run_that_is_not_there(tmp_path: Path, pairs: Path, setting: str) -> None:
    with pytest.raises(ModelError, match=r"nowhere: there is no such run folder"):
        train(toy_recipe(tmp_path / "run", pairs, f"{setting}={tmp_path / 'nowhere'}"))
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_a_run_without_weights(tmp_path: Path, pairs: Path) -> None:
    RunFolder(tmp_path / "other").create()
    RunFolder(tmp_path / "other").write_recipe(toy_recipe(tmp_path / "other", pairs))
    with pytest.raises(ModelError, match=r"other: weights\.safetensors is missing; training has not finished"):
        train(toy_recipe(tmp_path / "run", pairs, f"model.start_from={tmp_path / 'other'}"))


@pytest.mark.parametrize("setting", ["model.start_from", "text.start_from"])
def test_a_run_is_not_overwritten_by_itself(tmp_path: Path, pairs: Path, setting: str) -> None:
    folder = tmp_path / "run"
    train(toy_recipe(folder, pairs, "training.steps=1"))
    with pytest.raises(UsageError, match=f"`{setting}` is the run folder itself"):
        train(toy_recipe(folder, pairs, f"{setting}={folder}"), overwrite=True)
    assert (folder / "weights.safetensors").exists()


def test_nothing_that_fits_is_refused_with_the_folder(trained: Trained, tmp_path: Path, pairs: Path) -> None:
    with pytest.raises(UsageError) as caught:
        train(toy_recipe(tmp_path / "run", pairs, from_(trained), "model.width=8"))
    assert str(caught.value).startswith(f"{trained.model.folder}: nothing of these weights fits the model (left: ")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"model": {"start_part": "encoder"}}, "`start_part` has no effect without a run folder in `start_from`"),
        ({"text": {"start_side": "source", "shared": False}}, "`start_side` chooses one of two tokenizers of"),
        (
            {"training": {"rates": {"encoder": 0}}},
            "`rates` has the factor 0 for 'encoder'; it must be above 0 and finite",
        ),
        ({"training": {"rates": {"decoder": float("inf")}}}, "`rates` has the factor inf for 'decoder'"),
        ({"training": {"layer_decay": 1.0}}, "layer_decay"),
    ],
)
def test_recipes_that_make_no_sense(mapping: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe_from({"data": {"train": "x"}, **mapping})
    assert message in str(caught.value)


def test_folders_are_relative_to_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    path = tmp_path / "recipes" / "r.yaml"
    path.write_text("data: {train: x}\nmodel: {start_from: ../runs/lm}\ntext: {start_from: ../runs/lm}\n")
    recipe = load_recipe(path)
    assert recipe.model.start_from == recipe.text.start_from == str(tmp_path / "runs" / "lm")
    monkeypatch.chdir(tmp_path)
    assert load_recipe(path, ["model.start_from=here"]).model.start_from == str(tmp_path / "here")

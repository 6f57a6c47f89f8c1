"""Pictures to captions and to labels, from files to answers."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.pictures import Pictures
from regard.errors import DataError, UsageError
from regard.run.model import Model
from regard.run.reporting import model_facts
from regard.run.training import Trained, train
from tests.cli.conftest import Command
from tests.cli.conftest import regard as regard
from tests.pictures import CAPTIONS, draw, picture_recipe, write_pictures

SHORT = {"training": {"steps": 2, "validate_every": 2}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, and what is said of them; nobody may change it."""
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder, mood="calm")
    return folder


@pytest.fixture(scope="module")
def captions(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run with attention that has learned to say where the square is."""
    return train(picture_recipe(folder, tmp_path_factory.mktemp("captions") / "run"))


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to / "copy")
    return to / "copy"


def exact(trained: Trained) -> float:
    return next(score.value for score in trained.evaluations["test"].scores if score.name == "exact")


@pytest.mark.learn
def test_captions_are_learned_with_attention(captions: Trained) -> None:
    assert exact(captions) == 100
    assert ("Encoder", "convolution over grey pictures, 3 layers") in model_facts(captions.model)


@pytest.mark.learn
def test_labels_are_learned(folder: Path, tmp_path: Path) -> None:
    trained = train(picture_recipe(folder, tmp_path / "run", label=True))
    assert exact(trained) == 100
    again = Model.load(tmp_path / "run")
    paths = [example.source for example in trained.evaluations["test"].examples]
    assert [one.text for one in again.predict_many(paths)] == [one.text for one in trained.model.predict_many(paths)]
    assert {one.text for one in again.predict_many(paths)} == set(CAPTIONS)
    assert {path.name for path in (tmp_path / "run").glob("*.json")} >= {"text.json"}
    assert not (tmp_path / "run" / "source.json").exists()


def test_pictures_are_rated(folder: Path, tmp_path: Path) -> None:
    own = copied(folder, tmp_path)
    for name in ("train", "valid", "test"):
        path = own / f"{name}.jsonl"
        path.write_text(path.read_text().replace("left top", "1.5").replace("left bottom", "2"))
        path.write_text(path.read_text().replace("right top", "-1").replace("right bottom", "0"))
    changes = {**SHORT, "text": {"target": {"unit": "number"}}, "evaluation": {"metrics": ["squared_error"]}}
    trained = train(picture_recipe(own, tmp_path / "run", changes, label=True))
    path = trained.evaluations["test"].examples[0].source
    assert float(Model.load(tmp_path / "run").predict(path).text) == float(trained.model.predict(path).text)


@pytest.mark.parametrize(
    "model",
    [
        {"decoder": {"kind": "transformer", "heads": 2}},
        {"decoder": {"kind": "rnn", "wiring": "transformed"}},
        {"decoder": {"kind": "rnn", "wiring": "every_step"}, "layers": 1},
        {"encoder": {"kind": "convolution", "layers": 2, "halvings": 1, "groups": 4}},
    ],
    ids=["transformer", "transformed", "every_step", "colour"],
)
def test_every_decoder_takes_pictures(folder: Path, tmp_path: Path, model: dict[str, Any]) -> None:
    changes = {**SHORT, "model": model, "data": {"attributes": ["mood"]}}
    trained = train(picture_recipe(folder, tmp_path / "run", changes))
    example = trained.evaluations["test"].examples[0]
    assert example.source.endswith(".png\tcalm")
    loaded = Model.load(tmp_path / "run").predict(example.source)
    assert loaded == trained.model.predict(example.source)
    assert loaded.outputs
    assert not loaded.cut_source
    assert loaded.fault == ""


def test_a_picture_has_the_same_answer_in_every_batch(captions: Trained, folder: Path) -> None:
    paths = [example.source for example in captions.evaluations["test"].examples]
    together = list(captions.model.predict_many(paths, beam=3))
    for path, found in zip(paths, together, strict=True):
        alone = captions.model.predict(path, beam=3)
        assert [one.text for one in alone.outputs] == [one.text for one in found.outputs]
        assert alone.log_probability == pytest.approx(found.log_probability, abs=1e-5)


def test_saved_and_loaded_is_the_same(captions: Trained) -> None:
    loaded = Model.load(captions.model.folder)
    for example in captions.evaluations["test"].examples[:5]:
        ours, theirs = (model.score(example.source, example.target) for model in (captions.model, loaded))
        assert ours == theirs


def test_what_cannot_be_read_is_blank_with_a_fault(captions: Trained, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes((folder / "drawn" / "0-0.png").read_bytes()[:90])
    good = str(folder / "drawn" / "0-0.png")
    lines = [good, str(tmp_path / "none.png"), "", str(tmp_path / "broken.png"), good]
    found = list(captions.model.predict_many(lines))
    assert [bool(one.text) for one in found] == [True, False, False, False, True]
    assert found[1].fault == f"{tmp_path / 'none.png'}: there is no such picture"
    assert "broken.png: cannot be read as a picture" in found[3].fault
    assert found[2].fault == ""


def test_broken_pictures_are_refused_or_left_out(folder: Path, tmp_path: Path) -> None:
    own = copied(folder, tmp_path)
    (own / "drawn" / "0-3.png").write_bytes(b"no picture")
    (own / "drawn" / "0-7.png").unlink()
    with pytest.raises(
        DataError, match=r"train.jsonl:4: .*0-3.png: cannot be read as a picture .*data.bad_lines: skip"
    ):
        train(picture_recipe(own, tmp_path / "one", SHORT))
    trained = train(picture_recipe(own, tmp_path / "two", {**SHORT, "data": {"bad_lines": "skip"}}))
    assert trained.ledger.counts["misfit"] == 2
    assert "0-7.png: there is no such picture" in (tmp_path / "two" / "data" / "skipped.tsv").read_text()


def test_an_empty_path_is_an_empty_side(folder: Path, tmp_path: Path) -> None:
    own = copied(folder, tmp_path)
    with (own / "train.jsonl").open("a") as file:
        file.write('{"file": "", "caption": "left top", "mood": "calm"}\n')
    for changes in ({}, {"attributes": ["mood"]}):
        with pytest.raises(DataError, match=r"train.jsonl:121: the image side is empty"):
            train(picture_recipe(own, tmp_path / "run", {**SHORT, "data": changes}))


def test_other_pictures_under_the_same_names_are_other_data(folder: Path, tmp_path: Path) -> None:
    own = copied(folder, tmp_path)
    train(picture_recipe(own, tmp_path / "run", SHORT))
    draw("left top", size=(12, 12), seed=99).save(own / "drawn" / "0-0.png")
    with pytest.raises(DataError, match="the training or validation data changed since this run began"):
        train(picture_recipe(own, tmp_path / "run", {"training": {"steps": 4, "validate_every": 2}}))


def test_sets_that_are_split_off_are_read_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = copied(folder, tmp_path)
    monkeypatch.chdir(tmp_path)
    recipe = picture_recipe(
        Path(os.path.relpath(own)), tmp_path / "run", {**SHORT, "data": {"valid": None, "test": None}}
    )
    model = train(recipe).model
    examples = model.examples(str(tmp_path / "run" / "data" / "test.jsonl"))
    assert all(example.source.startswith("copy/drawn/") for example in examples)
    assert model.evaluate(examples).notes == []


def test_pictures_have_no_words_to_align(captions: Trained, folder: Path) -> None:
    with pytest.raises(UsageError, match="no attention to a source text"):
        captions.model.predict(str(folder / "drawn" / "0-0.png"), capture=True)


def test_batches_are_measured_in_what_is_attended_to(captions: Trained) -> None:
    assert captions.model.collation.source.pictures == Pictures(channels=1, cell=8)
    example = captions.evaluations["test"].examples[1]
    batch = captions.model.batch([(example.source, example.target)])
    with torch.no_grad():
        memory = captions.model.system.encoder.encode(batch.sources["source"])  # type: ignore[union-attr, operator]
    assert memory.states.size(1) == 2 * 2


@pytest.mark.cli
def test_predict_and_evaluate_from_the_command_line(
    captions: Trained, folder: Path, regard: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = captions.model.folder
    told = regard("evaluate", run, folder / "test.jsonl")
    assert told.code == 0
    assert "100" in told.out
    monkeypatch.chdir(folder)
    (tmp_path / "paths.txt").write_text("drawn/0-0.png\n\ndrawn/none.png\ndrawn/0-3.png\n")
    found = regard("predict", run, tmp_path / "paths.txt")
    assert (found.code, found.out) == (0, "left top\n\n\nright bottom\n")
    assert "line 3: drawn/none.png: there is no such picture" in found.err

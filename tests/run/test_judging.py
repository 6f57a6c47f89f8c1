"""What a checkpoint is chosen by: all validation examples where answers are cheap, else a sample of the whole set."""

import json
import math
from pathlib import Path

import pytest
import torch

from regard.data.corpus import StoreCorpus
from regard.metrics import metric
from regard.models import Acceptor
from regard.recipe import override_recipe
from regard.recipe.build import system_for
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.preparation import prepare_run
from regard.run.training import Trained, train
from regard.run.validation import judge_by, judged_by, spread
from regard.training import Event, Validated
from tests.toy_shapes import shape_recipe


def test_a_sample_is_spread_over_a_whole_file() -> None:
    places = spread(20_000, 500, seed=3)
    assert places == sorted(set(places)) == spread(20_000, 500, seed=3)
    assert places != spread(20_000, 500, seed=4)
    assert all(40 * number <= place < 40 * (number + 1) for number, place in enumerate(places))
    assert spread(3, 500, seed=1) == [0, 1, 2]
    odd = spread(1_003, 500, seed=1)
    assert (len(odd), len(set(odd)), max(odd) >= 1_000) == (500, 500, True)


def test_labels_sorted_in_a_file_all_count(tmp_path: Path) -> None:
    """All of a first class stand before the second: a model that only knows the first is half right."""
    recipe = shape_recipe("acceptor", tmp_path, steps=1)
    lines = sorted(Path(str(recipe.data.train)).read_text(encoding="utf-8").splitlines(), key=lambda line: line[-8:])
    many = [line for line in lines if line.endswith("no vowel")] * 20
    others = [line for line in lines if not line.endswith("no vowel")] * 20
    (tmp_path / "sorted.tsv").write_text("\n".join([*many[:700], *others[:700]]) + "\n", encoding="utf-8")
    recipe = override_recipe(recipe, [f"data.valid={tmp_path / 'sorted.tsv'}", "training.select=exact"])
    folder = RunFolder(Path(recipe.run))
    folder.create()
    prepared = prepare_run(recipe, folder)
    model = Model(recipe=recipe, system=system_for(recipe, prepared.texts), texts=prepared.texts, folder=folder.path)
    assert isinstance(model.system, Acceptor)
    with torch.no_grad():
        model.system.head.weight.zero_()
        (known,) = prepared.texts.target.encode("no vowel").ids
        model.system.head.bias.copy_(torch.arange(len(model.system.head.bias)) == known)
    corpus = StoreCorpus(prepared.valid, prepared.collation, tokens=300, seed=1)
    verdict = judge_by(corpus, metric("exact"), model, prepared.valid_examples)(model.system)
    assert verdict.metrics == {"exact": 50.0}
    assert judged_by(model, 1_400) == "exact of outputs for all 1,400"


def test_what_a_checkpoint_is_chosen_by_is_told(trained: Trained) -> None:
    model = trained.model
    for select, expected in (
        ("exact", "exact of greedy outputs for 500 of 12,000, drawn evenly over them"),
        ("loss", "the loss of all 12,000"),
    ):
        recipe = override_recipe(model.recipe, [f"training.select={select}"])
        again = Model(recipe=recipe, system=model.system, texts=model.texts, folder=model.folder)
        assert judged_by(again, 12_000) == expected
    page = (model.folder / "report.html").read_text(encoding="utf-8")
    assert "Chosen by" in page


def test_numbers_are_judged_by_their_squared_error(tmp_path: Path) -> None:
    events: list[Event] = []
    train(shape_recipe("rater", tmp_path, steps=4), observers=[events.append])
    judged = [event for event in events if isinstance(event, Validated)]
    assert judged
    for event in judged:
        assert event.metrics["squared_error"] == pytest.approx(2 * event.loss - math.log(2 * math.pi))
    records = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    validated = [record for record in records if record["event"] == "validation"]
    assert validated
    assert all("perplexity" not in record for record in validated)

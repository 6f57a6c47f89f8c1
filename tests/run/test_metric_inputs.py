"""What metrics are given to compare, and what an evaluation is taken apart into."""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.data.example import Example, Place
from regard.errors import UsageError
from regard.metrics import evaluate, metric
from regard.report.evaluation import EvaluationPage, render_evaluation
from regard.run.breakdown import evaluation_page, training_counts
from regard.run.comparing import own_test_set
from regard.run.judging import answers_wanted, compared, metric_scores
from regard.run.measuring import measured_by
from regard.run.model import Evaluation, Model
from regard.run.prediction import Output, Prediction
from regard.run.training import Trained


def example(source: str, target: str) -> Example:
    return Example({"source": source, "target": target}, Place("x.tsv", 1))


def prediction(source: str, *texts: str) -> Prediction:
    outputs = tuple(Output(text=text, pieces=(), log_probability=-1.0, score=-1.0, complete=True) for text in texts)
    return Prediction(source=source, outputs=outputs)


JUDGED = [
    (prediction("name[Aromi]", "Aromi", "Oromi"), example("name[Aromi]", " Aromi ")),
    (prediction("name[Zizzi]"), example("name[Zizzi]", "Zizzi")),
]


def test_metrics_are_given_what_they_compare() -> None:
    assert compared("BLEU", JUDGED) == (["Aromi", ""], [[" Aromi "], ["Zizzi"]])
    assert compared("exact", JUDGED, labels=True) == (["Aromi", ""], [["Aromi"], ["Zizzi"]])
    assert compared("MRR", JUDGED) == (["Aromi\tOromi", ""], [[" Aromi "], ["Zizzi"]])
    assert compared("slot_error", JUDGED) == (["Aromi", ""], [["name[Aromi]"], ["name[Zizzi]"]])


def test_scores_are_those_of_the_metrics(trained: Trained) -> None:
    section = trained.model.recipe.evaluation.model_copy(update={"metrics": ("slot_error", "MRR"), "resamples": 7})
    slots, ranks = metric_scores(section, JUDGED, labels=True)
    assert (slots.name, slots.value, ranks.name, ranks.value) == ("slot_error", 50.0, "MRR", 50.0)
    assert "bs:7|" in slots.signature


def with_evaluation(model: Model, **changes: object) -> Model:
    evaluation = model.recipe.evaluation.model_copy(update=changes)
    recipe = model.recipe.model_copy(update={"evaluation": evaluation})
    return Model(recipe=recipe, system=model.system, texts=model.texts, folder=model.folder)


def test_lists_have_as_many_answers_as_the_beam(trained: Trained) -> None:
    model = trained.model
    assert answers_wanted(model.recipe, model.system, 4) == 1
    lists = with_evaluation(model, metrics=("P@3",))
    assert answers_wanted(lists.recipe, model.system, 4) == 4
    assert answers_wanted(lists.recipe, model.system, None) == min(10, model.recipe.search.beam)
    assert answers_wanted(lists.recipe, model.system, 64) == 10


def test_other_metrics_leave_the_model_as_it_is(trained: Trained) -> None:
    model = trained.model
    assert measured_by(model) is model
    other = measured_by(model, metrics=["METEOR", "WER", "WER"], tokenize="none", meteor={"version": "1.3"})
    assert other.recipe.evaluation.metrics == ("METEOR", "WER")
    assert (other.recipe.evaluation.tokenize, other.recipe.evaluation.meteor.version) == ("none", "1.3")
    assert other.system is model.system
    assert model.recipe.evaluation.metrics != other.recipe.evaluation.metrics
    shape = SimpleNamespace(recipe=SimpleNamespace(evaluation=None, model=SimpleNamespace(shape="language-model")))
    with pytest.raises(UsageError, match="a model of shape language-model has no outputs to be judged by BLEU"):
        measured_by(shape, metrics=["BLEU"])  # type: ignore[arg-type]


def page_of(trained: Trained, model: Model) -> EvaluationPage:
    return evaluation_page(model, trained.evaluations["test"], set_name="test")


def test_an_evaluation_is_taken_apart(trained: Trained) -> None:
    page = page_of(trained, trained.model)
    assert [table.title for table in page.tables] == ["By length of the source", "By frequency of words"]
    lengths, frequencies = page.tables
    result = trained.evaluations["test"]
    assert sum(bucket.count for bucket in lengths.buckets) == len(result.examples)
    assert sum(bucket.count for bucket in frequencies.buckets) == sum(
        len(one.target.split()) for one in result.examples
    )
    assert not {one.number for one in page.worst} & {one.number for one in page.best}
    worst, best = page.worst[0], page.best[0]
    judge = metric(page.judge)
    values = [evaluate(judge, [one.output], [[one.reference]], resamples=0).value for one in (worst, best)]
    assert values == pytest.approx([worst.value, best.value])
    assert worst.value <= best.value
    assert worst.source == result.examples[worst.number - 1].source
    assert page.title in render_evaluation(page)


def test_training_words_are_counted_without_what_was_held_out(trained: Trained, tmp_path: Path) -> None:
    model = trained.model
    counts = training_counts(model, str.split)
    files = model.recipe.data.train
    assert isinstance(files, str)
    lines = Path(files).read_text(encoding="utf-8").splitlines()
    (tmp_path / "data").mkdir()
    held = '{"source": "x", "target": "y", "place": {"file": "%s", "line": 1}}\n'
    (tmp_path / "data" / "test.jsonl").write_text(held % files)
    apart = Model(recipe=model.recipe, system=model.system, texts=model.texts, folder=tmp_path)
    fewer = training_counts(apart, str.split)
    assert counts - fewer == Counter(json.loads(lines[0])["target"].split())


def test_training_data_that_is_gone_is_told(trained: Trained) -> None:
    model = trained.model
    data = model.recipe.data.model_copy(update={"train": "/nowhere/train.tsv"})
    recipe = model.recipe.model_copy(update={"data": data})
    gone = Model(recipe=recipe, system=model.system, texts=model.texts, folder=model.folder)
    page = page_of(trained, gone)
    assert [table.title for table in page.tables] == ["By length of the source"]
    (note,) = page.notes
    assert note.startswith("words cannot be told apart by their frequency, for training data cannot be read")


def test_types_of_spans_have_a_table(trained: Trained) -> None:
    pairs = [("a b", "B-X O", "B-X O"), ("c d", "B-X B-Y", "B-X O"), ("e f", "O O", "O B-Y")]
    evaluation = Evaluation(
        tuple(example(source, gold) for source, gold, _ in pairs),
        (),
        tuple(prediction(source, found) for source, _, found in pairs),
    )
    page = evaluation_page(with_evaluation(trained.model, metrics=("span_F1",)), evaluation, set_name="tags")
    types = next(table for table in page.tables if table.title == "By type of span")
    found = {bucket.label: (bucket.count, bucket.score.value) for bucket in types.buckets}
    assert found == {"X": (2, 100.0), "Y": (1, 0.0)}


def test_what_has_no_outputs_has_no_page(trained: Trained) -> None:
    evaluation = Evaluation((example("a", "b"),), (), ())
    with pytest.raises(UsageError, match="of shape encoder-decoder is judged without outputs"):
        evaluation_page(trained.model, evaluation, set_name="x")


def test_the_test_set_of_a_run(trained: Trained, tmp_path: Path) -> None:
    model = trained.model
    assert own_test_set(model) == (model.recipe.data.test,)
    data = model.recipe.data.model_copy(update={"test": None})
    recipe = model.recipe.model_copy(update={"data": data})
    split = Model(recipe=recipe, system=model.system, texts=model.texts, folder=tmp_path)
    with pytest.raises(UsageError, match="the run has no test set any more; give one with --pairs FILE"):
        own_test_set(split)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.jsonl").write_text("")
    assert own_test_set(split) == (str(tmp_path / "data" / "test.jsonl"),)

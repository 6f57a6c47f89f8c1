"""The model that people hold: what it predicts does not depend on company, order or on how it was opened."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.data.example import Example, Place
from regard.errors import DataError, UsageError
from regard.insight import Reading
from regard.run.model import Model
from regard.run.training import Trained
from tests.toys import LETTERS, toy_sources


@pytest.fixture(scope="module")
def model(trained: Trained) -> Model:
    return Model.load(trained.model.folder)


@pytest.fixture(scope="module")
def sources() -> list[str]:
    return toy_sources(60, seed=77, longest=9)


def test_a_loaded_run_predicts_what_the_trained_one_did(trained: Trained, model: Model) -> None:
    predictions = trained.evaluations["test"].predictions
    again = list(model.predict_many(one.source for one in predictions))
    assert again == list(predictions)
    assert model.recipe == trained.model.recipe
    assert model.parameters == trained.model.parameters == sum(p.numel() for p in model.system.parameters())


def test_it_has_learned_the_task(trained: Trained) -> None:
    scores = {score.name: score.value for score in trained.evaluations["test"].scores}
    assert scores["exact"] > 60
    assert scores["alignment error"] < 30
    assert 1 < scores["perplexity (teacher-forced)"] < 1.5


@pytest.mark.parametrize("beam", [1, 3])
def test_the_same_text_alone_and_in_company(model: Model, sources: list[str], beam: int) -> None:
    company = [*sources, "a b", "h", *sources[:2]]
    assert len(company) == 64
    together = list(model.predict_many(company, beam=beam, best=beam))
    for text, prediction in zip(company[:20], together, strict=False):
        alone = model.predict(text, beam=beam, best=beam)
        assert [one.text for one in alone.outputs] == [one.text for one in prediction.outputs]
        for one, other in zip(alone.outputs, prediction.outputs, strict=True):
            pieces = len(one.pieces) + 1
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5 * pieces)
            assert one.score == pytest.approx(other.score, abs=1e-5)
    assert together[0].text == together[62].text


def test_two_thousand_lines_with_blanks_stay_in_order(model: Model) -> None:
    draw = random.Random(4)
    lines = [
        draw.choice(["", "  ", "\t", "\u3000"])
        if draw.random() < 0.2
        else " ".join(draw.choices(LETTERS, k=draw.randint(1, 7)))
        for _ in range(2000)
    ]
    found = list(model.predict_many(lines, beam=1))
    assert [prediction.source for prediction in found] == lines
    assert all(bool(line.strip()) == bool(prediction.outputs) for line, prediction in zip(lines, found, strict=True))
    known: dict[str, str] = {}
    for line, prediction in zip(lines, found, strict=True):
        assert known.setdefault(line, prediction.text) == prediction.text
    right = sum(prediction.text == line.strip().upper() for line, prediction in zip(lines, found, strict=True))
    assert right > 1000


def test_a_blank_has_no_output(model: Model) -> None:
    blank = model.predict(" ", capture=True)
    assert (blank.text, blank.outputs, blank.log_probability, blank.score) == ("", (), 0.0, 0.0)
    assert not blank.cut_output
    assert blank.alignment is None


def test_texts_are_answered_as_they_come(model: Model) -> None:
    asked: list[str] = []

    def typing() -> Iterator[str]:
        for text in ("a b", "", "c"):
            asked.append(text)
            yield text

    answers = model.predict_many(typing(), ahead=1)
    assert next(answers).source == "a b"
    assert asked == ["a b"]
    assert [one.source for one in answers] == ["", "c"]


def test_the_best_are_sorted_and_different(model: Model) -> None:
    prediction = model.predict("a b c", best=4)
    scores = [one.score for one in prediction.outputs]
    assert scores == sorted(scores, reverse=True)
    assert len({one.pieces for one in prediction.outputs}) == 4
    assert prediction.text == prediction.outputs[0].text
    assert prediction.score == scores[0]


def test_a_long_source_is_cut_and_told(trained: Trained) -> None:
    recipe = trained.model.recipe
    short = recipe.model_copy(update={"data": recipe.data.model_copy(update={"max_length": 3})})
    model = Model(recipe=short, system=trained.model.system, texts=trained.model.texts, folder=trained.model.folder)
    cut = model.predict("a b c d e")
    assert cut.cut_source == 2
    assert cut.text == trained.model.predict("a b c").text
    assert model.predict("a b c").cut_source == 0


def test_an_output_that_reaches_the_limit_is_told(trained: Trained) -> None:
    recipe = trained.model.recipe
    short = recipe.model_copy(update={"search": recipe.search.model_copy(update={"max_length": 2})})
    model = Model(recipe=short, system=trained.model.system, texts=trained.model.texts, folder=trained.model.folder)
    assert model.predict("a b c d e").cut_output
    assert not trained.model.predict("a b c").cut_output


def test_scores_are_those_of_the_search(model: Model, sources: list[str]) -> None:
    predictions = list(model.predict_many(sources))
    scored = list(model.score_many((one.source, one.text) for one in predictions))
    for prediction, score in zip(predictions, scored, strict=True):
        ended = len(score.pieces) if prediction.outputs[0].complete else -1
        assert sum(score.log_probabilities[:ended]) == pytest.approx(prediction.log_probability, abs=1e-4)
        assert score.pieces == (*prediction.outputs[0].pieces, "</s>")
        assert len(score.log_probabilities) == len(score.pieces)
        assert score.log_probability == sum(score.log_probabilities)


def test_scores_do_not_depend_on_the_batch(model: Model, sources: list[str]) -> None:
    pairs = [(source, source.upper()) for source in sources]
    together = list(model.score_many(pairs, batch=64))
    for size in (1, 7):
        apart = list(model.score_many(pairs, batch=size))
        assert [one.log_probability for one in apart] == pytest.approx(
            [one.log_probability for one in together], abs=1e-5
        )
    assert model.score(*pairs[3]).log_probability == pytest.approx(together[3].log_probability, abs=1e-5)
    assert list(model.score_many([])) == []


def test_a_distribution_over_short_outputs_sums_to_at_most_one(model: Model) -> None:
    outputs = ["", *(letter.upper() for letter in LETTERS)]
    total = sum(np.exp(model.score("c", output).log_probability) for output in outputs)
    assert 0.5 < total < 1.0


def test_evaluating_twice_gives_the_same(trained: Trained, model: Model) -> None:
    examples = trained.evaluations["test"].examples
    first, second = model.evaluate(examples), model.evaluate(examples)
    assert first == second
    assert first.scores == trained.evaluations["test"].scores
    assert [score.name for score in first.scores] == ["exact", "BLEU", "perplexity (teacher-forced)", "alignment error"]


def test_without_gold_links_there_is_no_alignment_error(model: Model) -> None:
    plain = [Example({"source": "a b", "target": "A B"}, Place("x", 1))] * 2
    assert [score.name for score in model.evaluate(plain).scores][-1].startswith("perplexity")


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-0 1:1", "x.jsonl:7: '1:1' is not a link"),
        ("0-2", r"x.jsonl:7: the alignment links source word 0 with target word 2"),
    ],
)
def test_gold_links_that_cannot_be(model: Model, links: str, message: str) -> None:
    example = Example({"source": "a b", "target": "A B", "alignment": links}, Place("x.jsonl", 7))
    with pytest.raises(DataError, match=message):
        model.evaluate([example])


def test_nothing_to_evaluate(model: Model) -> None:
    with pytest.raises(DataError, match="there is nothing to evaluate: no example was given"):
        model.evaluate([])


def test_perplexity_is_that_of_the_scores(model: Model, trained: Trained) -> None:
    examples = trained.evaluations["test"].examples
    scored = [model.score(example.source, example.target) for example in examples]
    total = -sum(one.log_probability for one in scored)
    tokens = sum(len(example.target.split()) + 1 for example in examples)
    assert model.perplexity(examples).value == pytest.approx(np.exp(total / tokens), rel=1e-5)


def test_alignments_are_of_words_and_looking_changes_no_output(model: Model) -> None:
    looked = model.predict("c a e", capture=True)
    assert looked.outputs == model.predict("c a e").outputs
    assert looked.alignment is not None
    assert list(looked.alignment.source) == ["c", "a", "e"]
    assert list(looked.alignment.target) == looked.text.split()
    assert looked.alignment.weights.shape == (len(looked.text.split()), 3)
    assert model.align([]) == []


def test_another_reading_is_refused_if_it_cannot_be(model: Model) -> None:
    model.align([("a b", "A B")], Reading(layer=0, head=1, shift=1))
    with pytest.raises(UsageError, match="there is no layer 5"):
        model.align([("a b", "A B")], Reading(layer=5))


def test_a_reading_is_kept_in_the_recipe(model: Model) -> None:
    other = model.with_reading(Reading(layer=0, head=1, shift=1))
    assert other.reading == Reading(layer=0, head=1, shift=1)
    assert other.recipe.evaluation.alignment.head == 1
    assert model.reading != other.reading


def test_one_model_serves_many_threads(model: Model, sources: list[str]) -> None:
    expected = [model.predict(source).text for source in sources[:12]]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda source: model.predict(source).text, sources[:12])) == expected


def test_the_package_opens_runs(trained: Trained) -> None:
    assert regard.load(str(trained.model.folder)).predict("a b").text == trained.model.predict("a b").text
    assert regard.Model is Model
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'nonsense'"):
        _ = regard.nonsense


def test_paths_may_be_texts_or_paths(trained: Trained, tmp_path: Path) -> None:
    link = tmp_path / "a run ü"
    link.symlink_to(trained.model.folder)
    assert Model.load(link).folder == link


def test_samples_are_drawn_by_the_number_of_the_text_whatever_is_read_ahead(model: Model, sources: list[str]) -> None:
    options = model.options(best=3, sample=True, temperature=3.0, seed=4)
    texts = [*sources[:5], "", *sources[:5]]
    together = list(model.predict_many(texts, options=options))
    apart = list(model.predict_many(texts, options=options, ahead=2))
    for one, other in zip((*apart, model.predict(texts[0], options=options)), (*together, together[0]), strict=True):
        assert [output.text for output in one.outputs] == [output.text for output in other.outputs]
        scores = [output.log_probability for output in other.outputs]
        assert [output.log_probability for output in one.outputs] == pytest.approx(scores, rel=1e-6, abs=1e-5)
    assert together[5].outputs == ()
    assert [one.text for one in together[0].outputs] != [one.text for one in together[6].outputs]
    for one in (output for prediction in together for output in prediction.outputs):
        assert one.score == one.log_probability
    others = model.predict_many(texts, options=replace(options, seed=5))
    assert [one.text for one in others] != [one.text for one in together]


def test_samples_of_a_cold_model_are_what_it_finds_greedily(model: Model, sources: list[str]) -> None:
    cold = model.options(sample=True, temperature=1e-6)
    found = [one.text for one in model.predict_many(sources[:10], options=cold)]
    assert found == [one.text for one in model.predict_many(sources[:10], beam=1)]


@pytest.mark.parametrize("sample", [False, True])
def test_every_output_begins_with_the_prefix(model: Model, sources: list[str], sample: bool) -> None:
    options = model.options(best=2, sample=sample)
    for prediction in model.predict_many(sources[:10], options=options, prefix="C H"):
        assert all(one.text.startswith("C H") for one in prediction.outputs)
        assert prediction.outputs[0].log_probability < -1
    best = model.predict("a b c", beam=3)
    assert model.predict("a b c", beam=3, prefix=best.text[:3]).text == best.text


def test_what_cannot_be_asked_of_a_prediction(model: Model) -> None:
    with pytest.raises(UsageError, match="beam and best are part of the options"):
        model.predict("a", beam=2, options=model.options())
    with pytest.raises(UsageError, match=r"a beam \(4\) has no effect on samples"):
        model.options(beam=4, sample=True)
    with pytest.raises(
        UsageError, match="outputs cannot begin with 'A §': '§' is not in the vocabulary of the model's"
    ):
        model.predict("a", prefix="A §")

"""Runs whose outputs are chosen: by minimum Bayes risk, and by what other runs say; runs that write backwards."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.example import Example, Place
from regard.errors import DataError, ModelError, UsageError
from regard.insight import read
from regard.interchange.exporting import export
from regard.models import EncoderDecoder
from regard.recipe import load_recipe
from regard.run.alignment import source_attention
from regard.run.joint import JointModel
from regard.run.model import Model
from regard.run.preparation import redraw_with
from regard.run.reranking import Reranker
from regard.run.shards import Asked
from regard.run.training import Trained, train
from regard.run.written import Form, Tally
from regard.search import Constraint, MinimumRisk, minimum_risk, probabilities, utility
from regard.special import END, START
from tests.toy_shapes import shape_recipe
from tests.toys import toy_pairs, toy_recipe, toy_sources, write_tsv
from tests.untrained import untrained_run

SOURCES = toy_sources(7, seed=9)
RARELY = ("training.validate_every=125", "training.save_every=125")


def turned(source: str) -> str:
    return " ".join(source.upper().split()[::-1])


@pytest.fixture(scope="module")
def backwards(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A run that writes from right to left: `a b c` becomes `C B A`, of which A is written first."""
    folder = tmp_path_factory.mktemp("backwards")
    file = write_tsv(folder / "pairs.tsv", [(source, turned(source)) for source in toy_sources(300)])
    return train(toy_recipe(folder / "run", file, "text.reverse_target=true", "training.steps=375", *RARELY)).model


@pytest.fixture(scope="module")
def reranker(trained: Trained, backwards: Model, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    folder = tmp_path_factory.mktemp("judges")
    file = write_tsv(folder / "pairs.tsv", [(target, source) for source, target in toy_pairs(60)])
    reverse = train(toy_recipe(folder / "reverse", file)).model
    recipe = shape_recipe("language", folder, steps=4)
    file = folder / "train.txt"
    file.write_text(file.read_text().upper())
    language = train(recipe).model
    return Reranker(trained.model, right_to_left=backwards, reverse=reverse, language_model=language)


def test_a_run_that_writes_backwards_is_read_forwards(backwards: Model) -> None:
    again = Model.load(backwards.folder)
    found = list(again.predict_many(SOURCES))
    assert sum(one.text == turned(one.source) for one in found) >= len(SOURCES) - 1
    for one in found:
        assert one.outputs[0].pieces == tuple(one.text.split()[::-1])
        assert again.score(one.source, one.text).log_probability == pytest.approx(one.log_probability, abs=1e-4)


def test_its_scores_are_those_of_a_plain_loop_over_reversed_targets(backwards: Model) -> None:
    source, target = "c a e", "A E C H"
    scored = backwards.score(source, target)
    tokenizer = backwards.texts.target
    written = [tokenizer.encode(word).ids[0] for word in target.split()[::-1]]
    assert list(scored.pieces[:-1]) == ["H", "C", "E", "A"]
    system, inputs, total = backwards.system, [START], 0.0
    assert isinstance(system, EncoderDecoder)
    memory = backwards.batch([(source, target)]).sources
    for place, id_ in enumerate([*written, END]):
        with torch.no_grad():
            state = system.start(memory)
            for token in inputs:
                step = system.step(torch.tensor([[token]]), state)
                state = step.state
        total += (value := step.log_probabilities[0, 0, id_].item())
        assert scored.log_probabilities[place] == pytest.approx(value, abs=1e-4)
        inputs.append(id_)
    assert scored.log_probability == pytest.approx(total, abs=1e-4)


def test_its_alignment_is_of_words_in_reading_order(backwards: Model) -> None:
    pair = ("a b c", "C B A A")
    picture = backwards.align([pair])[0]
    assert (list(picture.source), list(picture.target)) == (["a", "b", "c"], ["C", "B", "A", "A"])
    assert isinstance(backwards.system, EncoderDecoder)
    layers = source_attention(backwards.system, backwards.batch([pair]))[0]
    steps = read(layers, backwards.reading)  # a row for each step, the end of both sides included
    np.testing.assert_allclose(picture.weights, np.asarray(steps)[3::-1, :3], atol=1e-6)


def test_its_alignment_of_letters_is_in_reading_order(tmp_path: Path) -> None:
    text = {"unit": "character", "shared": False, "reverse_target": True}
    model = Model.load(untrained_run(tmp_path / "run", seed=3, text=text))
    pair = ("ab", "CBA")
    picture = model.align([pair])[0]
    assert list(picture.target) == ["C", "B", "A"]
    assert isinstance(model.system, EncoderDecoder)
    steps = read(source_attention(model.system, model.batch([pair]))[0], model.reading)
    np.testing.assert_allclose(picture.weights, steps[::-1], atol=1e-6)


def test_it_keeps_to_what_is_demanded(backwards: Model) -> None:
    assert backwards.predict("a b", prefix="C A").text.startswith("C A")
    for source in ("a b", "c a b", "b"):
        demanded = Constraint(forbid=("A",), force=("C B",), matching=r"\w( \w)+")
        text = backwards.predict(source, constraint=demanded).text
        assert "A" not in text
        assert "C B" in text
        only = Constraint(only=("C A B", "B A", "A C"))
        assert backwards.predict(source, constraint=only).text in only.only
    told = backwards.predict("a b", prefix="A", constraint=Constraint(forbid=("A",)))
    assert not told.outputs
    assert "the output must begin with 'A'" in told.remark


def test_it_cannot_be_exported(backwards: Model, tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"exported to huggingface: it writes from right to left \(text.reverse_target"
    ):
        export(backwards, tmp_path / "out", to="huggingface")


def test_runs_write_together_in_one_direction_only(backwards: Model, trained: Trained) -> None:
    both = JointModel([backwards, backwards])
    assert [one.text for one in both.predict_many(SOURCES)] == [one.text for one in backwards.predict_many(SOURCES)]
    assert both.score("a b", "B A").log_probability == pytest.approx(
        backwards.score("a b", "B A").log_probability, abs=1e-4
    )
    with pytest.raises(UsageError, match=r"one writes from right to left \(text.reverse_target\) and one from left to"):
        JointModel([trained.model, backwards])


def test_segmentations_are_drawn_anew_in_the_order_of_writing(tmp_path: Path) -> None:
    from regard.recipe.texts import Texts, as_written
    from regard.text import train_tokenizer

    pieces = train_tokenizer(["banana bandana", "nab a banana"], unit="bpe", size=275)
    file = write_tsv(tmp_path / "pairs.tsv", toy_pairs(3))
    recipe = toy_recipe(tmp_path / "run", file, "text.reverse_target=true")
    texts = as_written(recipe, Texts(pieces, pieces))
    redraw = redraw_with(texts, 0.9, 99)
    assert redraw is not None
    ids = texts.target.encode("banana bandana").ids
    drawn = redraw("target", ids, (1, 2))
    assert drawn != ids
    assert pieces.decode(drawn[::-1]) == texts.target.decode(drawn) == "banana bandana"


def test_minimum_risk_chooses_among_samples_and_lists(trained: Trained) -> None:
    model = trained.model
    samples = model.options(best=12, sample=True, temperature=2.0, seed=3)
    plain = list(model.predict_many([*SOURCES, ""], options=samples))
    chosen = list(model.predict_many([*SOURCES, ""], options=samples, risk=MinimumRisk(best=3, matrix=True)))
    measure = utility("chrF", tokenize="none")
    for one, other in zip(plain[:-1], chosen, strict=False):
        texts = [output.text for output in one.outputs]
        decision = minimum_risk(texts, measure=measure)
        assert [output.text for output in other.outputs] == [texts[number] for number in decision.order[:3]]
        assert [output.score for output in other.outputs] == [decision.expected[n] for n in decision.order[:3]]
        assert other.decision is not None
        np.testing.assert_array_equal(other.decision.matrix, decision.matrix)
    assert chosen[-1].outputs == ()
    assert [model.predict(SOURCES[0], options=samples, risk=MinimumRisk()).text] == [chosen[0].text]
    wide = model.options(beam=6, best=6)
    listed = model.predict(SOURCES[1], options=wide, risk=MinimumRisk(utility="WER", matrix=True))
    outputs = model.predict(SOURCES[1], options=wide).outputs
    assert listed.decision is not None
    np.testing.assert_allclose(listed.decision.weights, probabilities([one.log_probability for one in outputs]))
    mixed = model.predict(SOURCES[1], options=wide, risk=MinimumRisk(references=samples, matrix=True))
    assert mixed.decision is not None
    assert mixed.decision.matrix.shape == (len(outputs), 12)
    np.testing.assert_allclose(mixed.decision.weights, 1 / 12)
    assert mixed.text in {one.text for one in outputs}


def test_candidates_that_cannot_be_compared_are_told(trained: Trained) -> None:
    model = trained.model
    options = model.options(beam=3, best=3)
    found = model.predict(SOURCES[0], options=options, risk=MinimumRisk(utility="bracket_F1"))
    assert found.text == model.predict(SOURCES[0], options=options).text
    assert found.remark.startswith("bracket_F1 cannot compare the candidates, and the first stands: ")
    with pytest.raises(UsageError, match="minimum Bayes risk is to choose 1 of 1 candidate"):
        model.predict(SOURCES[0], risk=MinimumRisk())


def test_what_is_asked_with_risk_goes_through_json(trained: Trained) -> None:
    options = trained.model.options(beam=4, best=4)
    for risk in (
        MinimumRisk(utility="TER", best=2),
        MinimumRisk(references=trained.model.options(best=9, sample=True)),
    ):
        asked = Asked(options=options, risk=risk)
        again = Asked.from_record(json.loads(json.dumps(asked.record())))
        assert again == replace(asked, form=again.form)
        assert again.form.best == risk.best


def test_sums_are_of_what_each_run_says(reranker: Reranker) -> None:
    weights = {"model": 0.5, "right_to_left": 2.0, "reverse": 0.25, "language_model": 1.5, "length": -0.75}
    judges = reranker.judges
    assert reranker.names == tuple(weights)
    for prediction in reranker.run(SOURCES, weights=weights, beam=4, best=4):
        assert len(prediction.outputs) > 1
        assert [one.score for one in prediction.outputs] == sorted(
            (one.score for one in prediction.outputs), reverse=True
        )
        for one in prediction.outputs:
            known = {
                "model": reranker.model.score(prediction.source, one.text).log_probability,
                "right_to_left": judges["right_to_left"].score(prediction.source, one.text).log_probability,
                "reverse": judges["reverse"].score(one.text, prediction.source).log_probability,
                "language_model": judges["language_model"].score("", one.text).log_probability,
                "length": len(one.text.split()) + 1,
            }
            assert list(one.parts) == list(known)
            assert one.parts == pytest.approx(known, abs=1e-3)
            assert one.score == pytest.approx(sum(weights[name] * value for name, value in known.items()), abs=1e-2)


def reads(judge: Model, longest: int) -> Model:
    """The same model, for texts of no more tokens."""
    data = judge.recipe.data.model_copy(update={"max_length": longest})
    recipe = judge.recipe.model_copy(update={"data": data})
    return Model(recipe=recipe, system=judge.system, texts=judge.texts, folder=judge.folder)


def test_outputs_that_a_run_cannot_judge_stand_last_and_are_told(reranker: Reranker) -> None:
    short = reads(reranker.judges["reverse"], 1)
    found = next(Reranker(reranker.model, reverse=short).run(["a b c"], beam=2, best=2))
    assert found.remark.startswith("2 of 2 outputs could not be judged and stand last; reverse: ")
    assert "more than data.max_length (1)" in found.remark
    assert found.text == reranker.model.predict("a b c", beam=2).text
    assert [one.score for one in found.outputs] == [-math.inf] * 2
    record = json.loads(next(Form(best=2, jsonl=True).lines(found, 1)))
    assert [record["score"], *(one["score"] for one in record["nbest"])] == [None] * 3
    assert list(Form(best=2).lines(found, 1)) == [f"1\t\t{one.text}" for one in found.outputs]
    assert next(reranker.run([""])).outputs == ()


def test_a_run_of_weight_0_is_not_asked(reranker: Reranker) -> None:
    judged = Reranker(reranker.model, reverse=reads(reranker.judges["reverse"], 1))
    found = next(judged.run(["a b c"], weights={"reverse": 0}, beam=3, best=3))
    assert found.remark == ""
    assert [list(one.parts) for one in found.outputs] == [["model", "length"]] * len(found.outputs)
    assert [one.score for one in found.outputs] == sorted((one.parts["model"] for one in found.outputs), reverse=True)


def test_weights_are_tuned_on_examples(reranker: Reranker, trained: Trained) -> None:
    examples = list(trained.evaluations["test"].examples)[:8]
    tuned = reranker.tune(examples, metric="exact", beam=3)
    assert set(tuned.weights) == set(reranker.names)
    chosen = [one.text for one in reranker.run((one.source for one in examples), weights=tuned.weights, beam=3)]
    right = sum(text == one.target for text, one in zip(chosen, examples, strict=True))
    assert tuned.value == pytest.approx(100 * right / len(examples))
    assert tuned.value >= tuned.before


def test_tuning_counts_what_it_used_and_tells_what_it_could_not(reranker: Reranker) -> None:
    model = reads(reranker.model, 3)
    sources = ("a b", "", "a b c d", "c d\te")
    examples = [
        Example(fields={"source": one, "target": one.upper()}, place=Place("valid", number))
        for number, one in enumerate(sources, start=1)
    ]
    tally = Tally()
    judged = Reranker(model, reverse=reads(reranker.judges["reverse"], 3))
    assert judged.tune(examples, metric="chrF", beam=2, tally=tally).examples == 2
    assert (tally.faults, tally.sources) == (1, 1)
    assert tally.first_fault.startswith("valid:4: ")
    silent = Reranker(model, reverse=reads(reranker.judges["reverse"], 1))
    with pytest.raises(
        UsageError,
        match=r"reverse could judge not one of 2 outputs, so it can have no weight \(the first remark: valid:1: ",
    ):
        silent.tune(examples[:1], metric="chrF", beam=2)


def test_a_source_that_is_no_text_is_not_written(trained: Trained, tmp_path: Path) -> None:
    topics = train(shape_recipe("category", tmp_path, steps=2)).model
    for model, reverse in ((trained.model, topics), (topics, trained.model)):
        with pytest.raises(
            UsageError, match=r"reverse: log p\(x \| y\) needs texts on both sides, and a source is none"
        ):
            Reranker(model, reverse=reverse)


def test_runs_that_do_not_fit_are_refused(reranker: Reranker, trained: Trained) -> None:
    model, language = trained.model, reranker.judges["language_model"]
    with pytest.raises(
        UsageError, match="nothing to rerank by: give one or more of right_to_left, reverse, language_mo"
    ):
        Reranker(model)
    with pytest.raises(
        UsageError, match="outputs of an encoder-decoder are reranked, and this is of shape language-model"
    ):
        Reranker(language, reverse=model)
    with pytest.raises(
        UsageError, match="language_model must be a run of shape language-model, and this is of shape enc"
    ):
        Reranker(model, language_model=model)
    with pytest.raises(UsageError, match=r"writes from left to right; train one with text\.reverse_target=true"):
        Reranker(model, right_to_left=model)
    with pytest.raises(UsageError, match="a beam of 1 leaves nothing to rerank; ask for 2 or more, say 20"):
        list(reranker.run(["a"], beam=1))
    with pytest.raises(
        UsageError, match="10 best outputs cannot come out of a beam of 4: ask for 4 or fewer, or for a beam of 10"
    ):
        list(reranker.run(["a"], beam=4, best=10))
    with pytest.raises(UsageError, match=r"weights are tuned by one of BLEU, .*, not by 'MRR'"):
        reranker.tune([], metric="MRR")
    with pytest.raises(DataError, match="weights cannot be tuned: not one of 0 sources has an output"):
        reranker.tune([], beam=2)


def test_recipes_remember_the_order_of_writing(backwards: Model) -> None:
    assert load_recipe(backwards.folder / "recipe.yaml").text.reverse_target

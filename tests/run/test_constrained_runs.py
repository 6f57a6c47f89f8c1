"""Predictions of a trained model under constraints, and the rules of its search, from Python."""

import json
import re

import pytest

from regard.errors import UsageError
from regard.run.model import Model
from regard.run.shards import Asked
from regard.run.training import Trained
from regard.search import Constraint
from tests.toys import toy_sources

SOURCES = toy_sources(12, seed=5)


@pytest.fixture(scope="module")
def model(trained: Trained) -> Model:
    return Model.load(trained.model.folder)


def texts(model: Model, constraint: Constraint, **settings: int) -> list[str]:
    found = [one.text for one in model.predict_many(SOURCES, constraint=constraint, **settings)]
    assert found == [model.predict(source, constraint=constraint, **settings).text for source in SOURCES]
    return found


@pytest.mark.parametrize("beam", [1, 4])
def test_constraints_hold_for_every_source(model: Model, beam: int) -> None:
    assert not any({"A", "C"} & set(text.split()) for text in texts(model, Constraint(forbid=("A", "C")), beam=beam))
    assert all("B B" in text for text in texts(model, Constraint(force=("B B",)), beam=beam))
    lines = ("A B C", "D E", "H")
    assert set(texts(model, Constraint(only=lines), beam=beam)) <= set(lines)
    assert all(re.fullmatch("[A-D]( [E-H])*", text) for text in texts(model, Constraint(matching="[A-D]( [E-H])*")))
    glossary = Constraint(glossary=(("a", "H H"), ("b", "G G")))
    for source, text in zip(SOURCES, texts(model, glossary, beam=beam), strict=True):
        assert "a" not in source.split() or "H H" in text
        assert "b" not in source.split() or "G G" in text
        if not {"a", "b"} & set(source.split()):
            assert text == model.predict(source, beam=beam).text


def test_what_the_vocabulary_cannot_say_is_told_and_the_rest_goes_on(model: Model) -> None:
    constraint = Constraint(glossary=(("a", "zebra"),))
    found = list(model.predict_many(["a b", "c d", "", "d"], constraint=constraint))
    assert [one.text for one in found] == ["", model.predict("c d").text, "", model.predict("d").text]
    assert found[0].outputs == ()
    assert re.fullmatch(
        r"no output of at most \d+ tokens is as demanded: the output must have 'zebra' in it",
        found[0].remark,
    )
    assert [one.remark for one in found[1:]] == ["", "", ""]
    assert model.predict("a b", constraint=Constraint(numbers="all")).text == model.predict("a b").text
    many = Constraint(glossary=tuple(("a", f"w{number}") for number in range(70)))
    assert model.predict("a b", constraint=many).remark.startswith("70 phrases are to be in one output, and there may")


def test_settings_of_the_search_are_asked_for_by_name(model: Model) -> None:
    long = model.predict("a b", options=model.options(min_length=9, block_ngrams=1))
    tokens = long.text.split()
    assert len(tokens) == 8 or not long.outputs[0].complete
    assert len(set(tokens)) == len(tokens)
    options = model.options(beam=4, best=4, stochastic=True, seed=3)
    assert len({one.text for one in model.predict("a b c", options=options).outputs}) == 4
    traced = model.predict("a b c", options=model.options(trace=True))
    assert traced.trace is not None
    assert traced.text == model.predict("a b c").text
    covered = model.predict("a b c", options=model.options(coverage_penalty=0.2))
    assert covered.text == "A B C"
    assert covered.score <= covered.log_probability / 4 + 1e-6
    diverse = model.predict("a b c", options=model.options(beam=5, best=4, groups=2, diversity=1.0))
    assert len(diverse.outputs) == len({one.text for one in diverse.outputs})


@pytest.mark.parametrize(
    ("demands", "message"),
    [
        ({"numbers": "none"}, "numbers can be all, only or same (those of the source), not 'none'"),
        ({"closing": True}, "closing is about brackets: name their labels as well"),
        ({"glossary": (("a", " "),)}, "a pair of the glossary has an empty side: 'a' and ' '"),
    ],
)
def test_demands_that_make_no_sense_are_refused(demands: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as error:
        Constraint(**demands)
    assert str(error.value) == message


def test_demands_that_no_source_can_mend_are_refused_at_once(model: Model) -> None:
    for demands, message in (
        ({"brackets": ("S P",)}, "'S P' is no label of brackets"),
        ({"bio": ("a b",)}, "'a b' is no label of tags"),
        ({"matching": "("}, r"the pattern '\(' has a \( that is not closed"),
        ({"only": ()}, "the list of the only outputs there may be is empty"),
        ({"force": ("",)}, "an empty phrase"),
    ):
        with pytest.raises(UsageError, match=message):
            model.predict("", constraint=Constraint(**demands))


def test_demands_go_to_workers_as_json(model: Model) -> None:
    constraint = Constraint(forbid=("A",), glossary=(("a", "B"),), only=("B", "C"), numbers="only")
    asked = Asked(options=model.options(min_length=2), constraint=constraint)
    record = json.loads(json.dumps(asked.record()))
    assert record == asked.record()
    assert Asked.from_record(record) == asked
    assert Asked.from_record(Asked(options=model.options()).record()).constraint is None


def test_the_kept_constrainer_follows_the_constraint(model: Model) -> None:
    one, other = Constraint(only=("A",)), Constraint(only=("B",))
    assert [model.predict("c", constraint=each).text for each in (one, other, one)] == ["A", "B", "A"]

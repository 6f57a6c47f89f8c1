"""Every shape of model from data to answers: trained, loaded again, asked, scored and judged."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from regard.errors import DataError, UsageError
from regard.insight.alignment import cross_attention
from regard.models import EncoderDecoder
from regard.run.alignment import source_attention
from regard.run.labelling import hidden_tokens
from regard.run.model import Model
from regard.run.training import Trained, train
from regard.search import Constraint
from regard.special import MASK
from regard.text import train_tokenizer
from tests.toy_shapes import LETTERS, SHAPES, shape_lines, shape_recipe

STEPS = {"language": 120, "recurrent language": 120, "masked": 200, "factored": 160, "attributed": 160}
Runs = Callable[[str], Trained]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A trained run of a shape, made when it is first asked for."""
    made: dict[str, Trained] = {}

    def run(name: str) -> Trained:
        if name not in made:
            folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
            made[name] = train(shape_recipe(name, folder, steps=STEPS.get(name, 80)))
        return made[name]

    return run


def sources_of(name: str, count: int = 12) -> list[str]:
    """Lines that a model of a shape can be asked about."""
    lines = shape_lines(name, 60, seed=9)[:count]
    if name.endswith("language"):
        return [line[:3] for line in lines]
    if name.endswith("masked"):
        return [f"{line[:2]}<mask>{line[3:]}" for line in lines]
    if name == "category":
        return [line.split("\t")[0] for line in lines]
    columns = [line.split("\t") for line in lines]
    return ["\t".join([first, *rest]) for first, _, *rest in columns]


@pytest.mark.parametrize("name", SHAPES)
def test_a_loaded_model_answers_as_the_trained_one(runs: Runs, name: str) -> None:
    trained = runs(name)
    loaded = Model.load(trained.model.folder)
    assert loaded.recipe == trained.model.recipe
    texts = sources_of(name)
    answers = list(trained.model.predict_many(texts))
    assert list(loaded.predict_many(texts)) == answers
    assert len(answers) == len(texts)
    assert all(answer.outputs and not answer.fault for answer in answers)
    for text, answer in zip(texts[:4], answers, strict=False):
        alone = loaded.predict(text)
        assert alone.text == answer.text
        assert alone.log_probability == pytest.approx(answer.log_probability, abs=1e-5)
    for file in ("report.html", "README.md", "metrics.json"):
        assert (trained.model.folder / file).stat().st_size


@pytest.mark.parametrize("name", SHAPES)
def test_judging_twice_gives_the_same(runs: Runs, name: str) -> None:
    trained = runs(name)
    examples = trained.model.examples(str(trained.model.recipe.data.test))
    first, second = trained.model.evaluate(examples), trained.model.evaluate(examples)
    assert first == second
    assert first.scores == trained.evaluations["test"].scores
    assert first.notes == []


@pytest.mark.parametrize(
    ("name", "metric", "low", "high"),
    [
        ("language", "perplexity (teacher-forced)", 1.0, 2.2),
        ("recurrent language", "perplexity (teacher-forced)", 1.0, 2.2),
        ("category", "perplexity (teacher-forced)", 1.0, 4.6),
        ("acceptor", "exact", 90.0, 100.0),
        ("rater", "pearson", 80.0, 100.0),
        ("rater", "squared_error", 0.0, 0.05),
        ("transducer", "accuracy", 95.0, 100.0),
        ("masked", "masked accuracy", 60.0, 100.0),
        ("factored", "exact", 60.0, 100.0),
        ("attributed", "exact", 60.0, 100.0),
    ],
)
def test_each_has_learned_its_task(runs: Runs, name: str, metric: str, low: float, high: float) -> None:
    scores = {score.name: score.value for score in runs(name).evaluations["test"].scores}
    assert low <= scores[metric] <= high, scores


@pytest.mark.parametrize("name", [name for name in SHAPES if not name.endswith("masked")])
def test_scores_are_the_probabilities_of_what_is_answered(runs: Runs, name: str) -> None:
    model = runs(name).model
    for text in sources_of(name, 5):
        answer = model.predict(text)
        source = "" if name.endswith("language") else text
        scored = model.score(source, answer.text)
        if name == "rater":
            assert scored.log_probability == pytest.approx(-0.5 * math.log(2 * math.pi), abs=1e-4)
        else:
            assert scored.log_probability == pytest.approx(answer.log_probability, abs=1e-4)


def test_probabilities_of_labels(runs: Runs) -> None:
    model = runs("acceptor").model
    prediction = model.predict("b c d", best=2)
    assert [one.text for one in prediction.outputs] == ["no vowel", "vowel"]
    assert sum(math.exp(one.log_probability) for one in prediction.outputs) == pytest.approx(1.0, abs=1e-6)
    assert model.predict("b c d", best=9).outputs == prediction.outputs
    assert model.predict("b a d").text == "vowel"


def test_every_word_gets_a_tag_however_many_tokens_it_has(runs: Runs) -> None:
    model = runs("transducer").model
    for text in ("abc d ea", "a", "  bb   ab ", "h h h h h h"):
        prediction = model.predict(text)
        assert prediction.text.split() == ["V" if word[0] in "ae" else "C" for word in text.split()]
        assert len(prediction.outputs[0].pieces) == len(text.split())


def test_a_tagger_does_not_answer_for_words_it_has_not_read(runs: Runs) -> None:
    model = runs("transducer").model
    long = " ".join(["ab"] * 200)
    text, fault, blank = model.predict_many(["a b", long, ""])
    assert text.text == "V C"
    assert (fault.text, fault.outputs) == ("", ())
    assert fault.fault == "200 words are more than the model may read (data.max_length)"
    assert (blank.text, blank.fault) == ("", "")


def test_hidden_words_are_filled_in(runs: Runs) -> None:
    model = runs("masked").model
    prediction = model.predict("b c <mask> e")
    assert prediction.text == "b c d e"
    assert prediction.outputs[0].pieces == ("d",)
    factored = runs("factored masked").model
    assert factored.predict("a <mask> c\tu l u").text.split()[::2] == ["a", "c"]
    assert factored.predict("a <mask>\tu").fault == "the source has 2 words, and a factor of it 1 items: 'u'"
    assert [one.text for one in factored.predict_many(["", "\t"])] == ["", ""]
    both = model.predict("<mask> b c <mask>")
    assert both.text.split()[1:3] == ["b", "c"]
    assert len(both.text.split()) == 4
    assert model.predict("a b c").text == "a b c"
    assert model.predict("a b c").log_probability == 0.0
    assert model.predict("a b c").remark == "there is no <mask> in it, so there was nothing to fill in"
    assert both.remark == ""
    with pytest.raises(UsageError, match=r"probabilities of hidden words, not of texts; `regard evaluate` tells them"):
        model.score("a b", "")


@pytest.mark.parametrize("name", ["language", "recurrent language"])
def test_a_language_model_goes_on(runs: Runs, name: str) -> None:
    model = runs(name).model
    prediction = model.predict("c d e")
    assert prediction.text.startswith("c d e")
    following = dict(zip(LETTERS, LETTERS[1:] + "a", strict=True))
    words = prediction.text.split()
    assert all(second == following[first] for first, second in pairwise(words))
    assert model.predict("g", prefix="").text.startswith("g h")
    unknown = model.predict("c  z  b ")
    assert unknown.text.startswith("c  z  b c")
    assert (unknown.fault, unknown.remark) == ("", "'z' is not in the vocabulary and was read as <unk>")
    assert unknown.outputs[0].pieces[:3] == ("c", "<unk>", "b")
    remark = model.predict("y x w v a").remark
    assert remark == "'y', 'x', 'w', … are not in the vocabulary and were read as <unk>"
    assert prediction.remark == ""
    long = model.predict("a " * 300)
    assert long.fault == "a beginning of 300 tokens is longer than data.max_length (256)"


def test_a_blank_line_is_the_beginning_of_all(runs: Runs) -> None:
    """Samples of a language model have about the probabilities that it scores them with."""
    model = runs("recurrent language").model
    options = model.options(best=200, sample=True, seed=3)
    (prediction,) = model.predict_many([""], options=options)
    texts = [one.text for one in prediction.outputs if one.complete]
    assert len(set(texts)) > 10
    firsts = [text.split()[0] for text in texts if text]
    first = max(set(firsts), key=firsts.count)
    batch = model.batch([("", first)])
    with torch.no_grad():
        share = math.exp(float(model.system.token_log_probabilities(batch)[0, 0]))
    error = math.sqrt(share * (1 - share) / len(firsts))
    assert abs(firsts.count(first) / len(firsts) - share) < 4 * error
    again = next(model.predict_many([""], options=options))
    assert again == prediction


def test_texts_are_written_for_a_label(runs: Runs) -> None:
    model = runs("category").model
    options = model.options(best=20, sample=True, seed=1)
    low, high, blank, bad = model.predict_many(["low", "high", "", "low\thigh"], options=options)
    letters = {
        one: {word for output in answer.outputs for word in output.text.split()}
        for one, answer in (("low", low), ("high", high))
    }
    assert len(letters["low"] & set(LETTERS[:4])) == 4
    outside = sum(word in LETTERS[4:] for output in low.outputs for word in output.text.split())
    assert outside <= 3
    assert letters["high"] & set(LETTERS[4:])
    assert (blank.outputs, blank.fault) == ((), "")
    assert bad.outputs == ()
    assert bad.fault == "a source of 1 column was expected (attributes), and there are 2"


def test_factors_and_attributes_are_heeded(runs: Runs) -> None:
    factored, attributed = runs("factored").model, runs("attributed").model
    assert [factored.predict(f"b c\t{case}").text for case in ("u l", "l u")] == ["B c", "b C"]
    assert [attributed.predict(f"b c\t{case}").text for case in ("up", "down")] == ["B C", "b c"]
    assert (attributed.predict(" \tup").outputs, attributed.predict(" \tup").fault) == ((), "its text is empty")
    unseen = attributed.predict("b c\tupp")
    assert (unseen.unseen, unseen.fault) == (("upp",), "")
    assert unseen.log_probability == attributed.predict("b c\t").log_probability
    fault = factored.predict("b c\tu")
    assert (fault.text, fault.fault) == ("", "the source has 2 words, and a factor of it 1 items: 'u'")
    missing = attributed.predict("b c")
    assert missing.fault.endswith("was expected (source, attributes), and there is 1")
    picture = attributed.align([("b c\tup", "B C")])[0]
    assert (tuple(picture.source), tuple(picture.target)) == (("b", "c"), ("B", "C"))


@torch.no_grad()
def test_attributes_are_no_part_of_an_alignment(runs: Runs) -> None:
    """The memory has them first, whether they are known or not; weights are told over the text alone."""
    model = runs("attributed").model
    assert isinstance(model.system, EncoderDecoder)
    batch = model.batch([("a b c\tup", "A B C"), ("d\t", "d")])
    for told, raw, items in zip(
        source_attention(model.system, batch), cross_attention(model.system, batch), (4, 2), strict=True
    ):
        torch.testing.assert_close(told[0], raw[0][..., 1 : 1 + items])
        assert not raw[0][..., 1 + items :].any()
    assert not cross_attention(model.system, batch)[1][0][..., 0].any()


@pytest.mark.parametrize(
    ("name", "source", "target", "message"),
    [
        ("transducer", "ab b", "V", "the source has 2 words, and the target 1 items. The pair is 'ab b' and 'V'"),
        ("transducer", "ab b", " ", "a side of it is empty"),
        ("acceptor", "a", "", "a side of it is empty. The pair is 'a' and ''"),
        ("acceptor", "a", "perhaps", "training did not have the label 'perhaps', so it has no probability"),
        ("transducer", "ab b", "V X", "training did not have the tag 'X', so it has no probability"),
        ("rater", "a", "many", "the target: a number was expected, such as 3.5, and found is 'many'"),
        ("factored", "a b\tu", "A", "the source has 2 words, and a factor of it 1 items"),
    ],
)
def test_pairs_that_do_not_fit_are_not_scored(runs: Runs, name: str, source: str, target: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        runs(name).model.score(source, target)
    assert "a pair cannot be scored: " in str(caught.value)
    assert message in str(caught.value)


def test_what_has_no_text_to_write_says_so(runs: Runs) -> None:
    for name in ("acceptor", "transducer", "masked"):
        model = runs(name).model
        with pytest.raises(
            UsageError, match=r"a model of shape [a-z-]+ writes no text to draw, to begin or to constrain"
        ):
            model.predict("a", prefix="b")
        with pytest.raises(UsageError, match=r"no attention to a source text to read an alignment from"):
            model.align([("a", "b")])
    for name in ("rater", "transducer", "masked"):
        with pytest.raises(UsageError, match="3 best answers were asked for, and this model has one for each source"):
            runs(name).model.predict("a", best=3)
    with pytest.raises(UsageError, match="no attention to a source text"):
        runs("language").model.align([("", "a b")])
    with pytest.raises(UsageError, match="glossary, numbers: what is demanded depends on words of the source"):
        runs("language").model.predict("a", constraint=Constraint(glossary=(("a", "b"),), numbers="all"))
    with pytest.raises(UsageError, match="writes no text to draw, to begin or to constrain"):
        runs("acceptor").model.predict("a", constraint=Constraint(forbid=("a",)))


def test_texts_on_one_topic_are_split(tmp_path: Path) -> None:
    """Two topics are no reason not to split: what must not leak are texts."""
    recipe = shape_recipe("category", tmp_path, steps=1)
    data = recipe.data.model_copy(update={"valid": None, "test": None})
    trained = train(recipe.model_copy(update={"data": data}))
    held = trained.model.examples(str(trained.model.folder / "data" / "test.jsonl"))
    assert {example.source for example in held} == {"low", "high"}
    kept = {example.target for example in trained.model.examples(str(trained.model.folder / "data" / "valid.jsonl"))}
    assert not kept & {example.target for example in held}


def test_a_hidden_item_is_cut_as_in_training() -> None:
    """What stands around `<mask>` has the tokens that it has in a whole text."""
    pieces = train_tokenizer(["the cat sat on the mat"] * 3 + ["a cat sat"], unit="bpe", size=280)
    whole = pieces.encode("the cat sat").ids
    ids, spans = hidden_tokens(pieces, "the <mask> sat")
    around = [id_ for id_ in ids if id_ != MASK]
    assert ids.count(MASK) == 1
    assert around == [*pieces.encode("the").ids, *whole[len(whole) - len(pieces.encode("sat").ids) :]]
    assert spans[ids.index(MASK)] == (4, 10)
    letters = train_tokenizer(["abc d"], unit="character", size=30)
    ids, _ = hidden_tokens(letters, "a<mask>c <mask>")
    assert ids == [*letters.encode("a").ids, MASK, *letters.encode("c ").ids, MASK]


def test_hidden_words_that_touch_each_other_or_a_word_are_words(runs: Runs) -> None:
    model = runs("masked").model
    apart = model.predict("b <mask> <mask> e")
    assert len(apart.text.split()) == 4
    assert [model.predict(text).text for text in ("b<mask><mask>e", "b <mask><mask> e")] == [apart.text] * 2
    assert model.predict("b c<mask>").text == model.predict("b c <mask>").text
    long = model.predict("a " * 255 + "<mask> <mask>")
    assert long.text.endswith(" <mask>")
    assert long.text.count("<mask>") == 1
    assert long.remark == "1 of 2 <mask> was not read and so not filled in"


@pytest.mark.parametrize(
    ("name", "line", "fault"),
    [
        ("acceptor", "a b\tc", "a source of 1 column was expected (source), and there are 2"),
        ("transducer", "a\tb\tc", "a source of 1 column was expected (source), and there are 3"),
        (
            "factored",
            "a\tb\tu",
            "a source of 2 columns separated by tabs was expected (source, factor1), and there are 3",
        ),
    ],
)
def test_columns_that_a_model_does_not_have_are_told(runs: Runs, name: str, line: str, fault: str) -> None:
    prediction = runs(name).model.predict(line)
    assert (prediction.fault, prediction.outputs) == (fault, ())


def test_a_filled_text_stays_as_it_was_around_what_was_hidden(runs: Runs) -> None:
    model = runs("masked").model
    answer = model.predict("zzz  <mask> b").text
    assert answer.startswith("zzz  ")
    assert answer.endswith(" b")
    assert "<mask>" not in answer
    assert model.predict("a  zzz").text == "a  zzz"


def test_a_language_model_takes_its_beginning_from_the_line(runs: Runs) -> None:
    with pytest.raises(UsageError, match="a language model goes on with each line it is given"):
        runs("language").model.predict("a", prefix="b")

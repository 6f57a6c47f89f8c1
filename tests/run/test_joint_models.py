"""Several runs as one model: what it finds and tells follows from what its members tell."""

import math
from pathlib import Path

import pytest
import torch

import regard
from regard.data.example import Example, Place
from regard.errors import ModelError, UsageError
from regard.models.ensemble import Combine
from regard.run.folder import RunFolder
from regard.run.joint import JointModel, checksums
from regard.run.measuring import measured_by
from regard.run.model import Model
from regard.search import Constraint
from regard.training import weights
from tests.toys import toy_pairs, toy_sources
from tests.untrained import LANGUAGE, RECURRENT, SPLIT, untrained_run

LINES = [*toy_sources(12, seed=5), "", "h", "a b\tc"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two architectures and two ways of splitting sources, a language model, and misfits."""
    folder = tmp_path_factory.mktemp("runs")
    untrained_run(folder / "first", seed=1, steps=(10, 20, 30))
    untrained_run(folder / "recurrent", seed=2, model=RECURRENT)
    untrained_run(folder / "letters", seed=3, text=SPLIT | {"source": {"unit": "character"}})
    untrained_run(folder / "language", seed=4, **LANGUAGE)
    untrained_run(folder / "words", seed=5, pairs=[(one, f"{two} X") for one, two in toy_pairs(60)])
    untrained_run(folder / "swapped", seed=6, pairs=[(one, two.translate(SWAP)) for one, two in toy_pairs(60)])
    untrained_run(folder / "bytes", seed=7, text=SPLIT | {"target": {"unit": "byte"}})
    return folder


SWAP = str.maketrans({"A": "Z"})


@pytest.fixture(scope="module")
def first(runs: Path) -> Model:
    return Model.load(runs / "first")


@pytest.fixture(scope="module")
def members(runs: Path, first: Model) -> list[Model]:
    return [first, Model.load(runs / "recurrent"), Model.load(runs / "letters")]


@pytest.fixture(scope="module")
def language(runs: Path) -> Model:
    return Model.load(runs / "language")


def examples(count: int) -> list[Example]:
    pairs = enumerate(toy_pairs(count, seed=9), start=1)
    return [Example({"source": one, "target": two}, Place("toy", line)) for line, (one, two) in pairs]


def test_a_model_with_itself_finds_and_tells_the_same(first: Model) -> None:
    both = JointModel([first, first])
    for one, other in zip(both.predict_many(LINES, best=3), first.predict_many(LINES, best=3), strict=True):
        assert [each.text for each in one.outputs] == [each.text for each in other.outputs]
        assert one.fault == other.fault
        for each, own in zip(one.outputs, other.outputs, strict=True):
            assert each.log_probability == pytest.approx(own.log_probability, abs=1e-6)
    assert both.score("a b", "A B").log_probabilities == pytest.approx(
        first.score("a b", "A B").log_probabilities, abs=1e-6
    )
    assert both.parameters == first.parameters


@pytest.mark.parametrize("combine", ["linear", "loglinear"])
def test_members_read_the_source_each_in_its_own_way(members: list[Model], combine: Combine) -> None:
    joint = JointModel(members, combine=combine, weights=(1, 2, 1))
    shares = (0.25, 0.5, 0.25)
    for source, target in toy_pairs(5):
        told = joint.score(source, target)
        each = [one.score(source, target).log_probabilities for one in members]
        for value, *own in zip(told.log_probabilities, *each, strict=True):
            if combine == "linear":
                mean = math.log(sum(w * math.exp(one) for w, one in zip(shares, own, strict=True)))
                assert value == pytest.approx(mean, abs=1e-5)
            else:  # what is lost by making it a distribution again is gained by every token
                assert value > sum(w * one for w, one in zip(shares, own, strict=True))
    assert joint.parameters == sum(one.parameters for one in members)


@pytest.mark.parametrize("combine", ["linear", "loglinear"])
def test_what_is_found_has_the_probability_of_what_is_given(members: list[Model], combine: Combine) -> None:
    joint = JointModel(members, combine=combine)
    for prediction in joint.predict_many(LINES[:6], beam=4, best=2):
        for one in prediction.outputs:
            if one.complete and one.text.strip():
                assert joint.score(prediction.source, one.text).log_probability == pytest.approx(
                    one.log_probability, abs=1e-4
                )


def test_the_same_alone_and_in_company(members: list[Model], language: Model) -> None:
    joint = JointModel(members, language_model=language, fusion=0.4)
    together = list(joint.predict_many(LINES, best=2))
    assert [one.source for one in together] == LINES
    assert "was expected" in together[-1].fault
    for text, prediction in zip(LINES, together, strict=True):
        alone = joint.predict(text, best=2)
        assert [one.text for one in alone.outputs] == [one.text for one in prediction.outputs]
        for one, other in zip(alone.outputs, prediction.outputs, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
            assert one.score == pytest.approx(other.score, abs=1e-5)


def test_a_language_model_changes_what_is_found_and_not_what_is_told(first: Model, language: Model) -> None:
    fused = JointModel([first], language_model=language, fusion=2.0)
    plain, other = list(first.predict_many(LINES)), list(fused.predict_many(LINES))
    assert [one.text for one in plain] != [one.text for one in other]
    compared = 0
    for prediction in other:
        if prediction.outputs and prediction.outputs[0].complete and prediction.text.strip():
            own, added = first.score(prediction.source, prediction.text), language.score("", prediction.text)
            whole = own.log_probability + 2.0 * added.log_probability
            assert prediction.log_probability == pytest.approx(own.log_probability, abs=1e-4)
            assert prediction.score == pytest.approx(whole / len(own.log_probabilities), abs=1e-4)
            compared += 1
    assert compared > 2
    assert fused.score("a", "A") == first.score("a", "A")
    none = JointModel([first], language_model=language, fusion=0.0)
    assert list(none.predict_many(LINES)) == plain


def test_language_models_are_ensembles_too(language: Model) -> None:
    both = JointModel([language, language], language_model=language)
    for line in ("", "A B"):
        assert both.predict(line, beam=1).text.startswith(line)
    assert both.score("", "A B").log_probability == pytest.approx(language.score("", "A B").log_probability, abs=1e-6)


def test_constraints_prefixes_and_coverage_work_as_with_one_model(members: list[Model], language: Model) -> None:
    joint = JointModel(members, language_model=language)
    free = joint.predict("a b c")
    word = free.text.split()[0]
    assert word not in joint.predict("a b c", constraint=Constraint(forbid=(word,))).text.split()
    assert joint.predict("a b c", prefix="H G").text.startswith("H G")
    covered = joint.predict("a b c", options=joint.options(coverage_penalty=3.0, trace=True))
    assert covered.trace is not None
    assert any(node.fusion < 0 for node in covered.trace.nodes)
    assert covered.outputs


def test_alignments_are_those_of_the_first(members: list[Model]) -> None:
    joint = JointModel(members)
    captured = joint.predict("a b c", capture=True)
    expected = members[0].align([("a b c", captured.text)])[0]
    assert captured.alignment is not None
    assert (captured.alignment.source, captured.alignment.target) == (expected.source, expected.target)
    assert (captured.alignment.weights == expected.weights).all()
    long = " ".join("abcdefgh" * 3)  # 24 words, and 47 characters
    cut = joint.predict(long, capture=True, prefix="A")
    assert cut.cut_source == 47 - 30
    assert cut.alignment is not None


def test_evaluation_judges_the_ensemble(members: list[Model], language: Model) -> None:
    joint = JointModel(members, language_model=language)
    some = [*examples(6), Example({"source": " ".join("ab" * 8), "target": "A"}, Place("toy", 7))]
    judged = joint.evaluate(some)
    names = [score.name for score in judged.scores]
    assert "perplexity (teacher-forced)" in names
    assert judged.unscored == 1  # more than 30 characters for the third member
    scored = list(joint.score_many((one.source, one.target) for one in some[:6]))
    cost = -sum(one.log_probability for one in scored) / sum(len(one.log_probabilities) for one in scored)
    assert joint.perplexity(some[:6]).value == pytest.approx(math.exp(cost))
    assert [one.text for one in judged.predictions] == [one.text for one in joint.predict_many(e.source for e in some)]
    again = measured_by(joint, metrics=["chrF"])
    assert isinstance(again, JointModel)
    assert again.evaluate(some).predictions == judged.predictions
    assert again.evaluate(some).scores[0].name == "chrF"
    raw = JointModel(members, combine="loglinear_raw")
    assert "perplexity (teacher-forced)" not in [score.name for score in raw.evaluate(some).scores]


def test_load_opens_one_run_or_several(runs: Path, first: Model) -> None:
    assert type(regard.load(runs / "first")) is Model
    both = regard.load(runs / "first", runs / "recurrent", combine="loglinear", weights=(3, 1))
    assert isinstance(both, regard.JointModel)
    assert both.ensemble.weights == (0.75, 0.25)
    fused = regard.load(runs / "first", language_model=runs / "language")
    assert isinstance(fused, JointModel)
    assert (fused.fusion, fused.members[0].folder) == (0.2, first.folder)


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ([], {}, "an ensemble has at least one member, and none was given"),
        (["first", "swapped"], {}, r"swapped: its outputs have another vocabulary than those of .*first: id \d+ is "),
        (["first", "words"], {}, "words: its outputs have another vocabulary"),
        (["first", "bytes"], {}, "start_side: target"),
        (["first", "language"], {}, "language: members of an ensemble read the same lines, and this one reads no sou"),
        (["first"], {"language_model": "recurrent"}, "recurrent: a model of shape encoder-decoder is no language mod"),
        (["first"], {"language_model": "language", "fusion": -1.0}, "must be a number from 0 on, not -1.0; 0 is none"),
        (["first"], {"fusion": 0.5}, "the weight of fusion is that of a language model: name one"),
        (["first"], {"combine": "loglinear"}, "there is one model, and nothing to combine it with"),
        (["first"], {"weights": (1.0,)}, "there is one model, and nothing to combine it with"),
        (["first", "recurrent"], {"weights": (1.0,)}, "1 weights were given for 2 members; give one for each"),
        (
            ["first", "recurrent"],
            {"combine": "mean"},
            "combine must be one of linear, loglinear, loglinear_raw, not",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(
    runs: Path, names: list[str], options: dict[str, object], message: str
) -> None:
    if "language_model" in options:
        options = options | {"language_model": runs / str(options["language_model"])}
    with pytest.raises(UsageError, match=message):
        regard.load(*(runs / name for name in names), **options)  # type: ignore[arg-type]


def test_the_first_difference_of_two_vocabularies_is_named(runs: Path, tmp_path: Path) -> None:
    """`Z` comes last of its frequency, so that letters between have moved; a longer vocabulary differs in its size."""
    first, swapped = Model.load(runs / "first"), Model.load(runs / "swapped")
    places = range(first.texts.target.size)
    id_ = next(id_ for id_ in places if first.texts.target.piece(id_) != swapped.texts.target.piece(id_))
    one, other = (model.texts.target.piece(id_) for model in (first, swapped))
    with pytest.raises(UsageError, match=f"id {id_} is {other!r}, and {one!r} there"):
        JointModel([first, swapped])
    longer = untrained_run(tmp_path / "longer", seed=1, pairs=[*toy_pairs(60), ("a", "QQ")])
    with pytest.raises(UsageError, match=r"it has \d+ ids, and \d+ there"):
        JointModel([first, Model.load(longer)])


def test_models_that_write_no_text_are_refused(runs: Path, first: Model, tmp_path: Path) -> None:
    shape = {"shape": "acceptor", "encoder": {"kind": "bag"}}
    text = SPLIT | {"target": {"unit": "label"}}
    accepts = Model.load(untrained_run(tmp_path / "labels", seed=1, text=text, model=shape))
    with pytest.raises(UsageError, match="labels: a model of shape acceptor writes no text; ensembles and fusion are"):
        JointModel([first, accepts])


def test_what_is_no_distribution_is_not_scored(members: list[Model]) -> None:
    with pytest.raises(UsageError, match="loglinear_raw gives no probabilities that add up to 1"):
        JointModel(members, combine="loglinear_raw").score("a", "A")


@pytest.mark.parametrize(("count", "steps"), [(1, (30,)), (2, (20, 30)), (3, (10, 20, 30))])
def test_an_average_is_the_mean_of_the_last_checkpoints(runs: Path, count: int, steps: tuple[int, ...]) -> None:
    model = Model.load(runs / "first", average=count)
    checkpoints = [RunFolder(runs / "first").checkpoints.model(step) for step in steps]
    for name, tensor in weights(model.system).items():
        mean = sum((one[name].double() for one in checkpoints), torch.zeros_like(tensor).double()) / count
        torch.testing.assert_close(tensor, mean.float(), atol=1e-7, rtol=0)
    assert model.averaged == steps
    assert measured_by(model, metrics=["chrF"]).averaged == steps
    assert checksums(model).keys() - checksums(Model.load(runs / "first")).keys() == {
        f"step-{step:08d}/model.safetensors" for step in steps
    }


def test_fewer_checkpoints_than_asked_for_are_refused(runs: Path) -> None:
    with pytest.raises(UsageError, match=r"first: the mean of 4 checkpoints .* the run has 3 \(steps 10, 20, 30\)"):
        Model.load(runs / "first", average=4)
    with pytest.raises(UsageError, match=r"the run has none\. Ask for fewer; how many validated ones are kept is"):
        regard.load(runs / "first", runs / "recurrent", average=1)
    with pytest.raises(UsageError, match="whose mean is taken must be at least 1, not 0"):
        Model.load(runs / "first", average=0)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    run = untrained_run(tmp_path / "run", seed=1)
    other = untrained_run(tmp_path / "other", seed=1, steps=(5,), model={"width": 4})
    (other / "checkpoints").rename(run / "checkpoints")
    with pytest.raises(ModelError, match=r"0005: does not fit recipe.yaml: .* should be \(12, 8\) and is \(12, 4\)"):
        Model.load(run, average=1)

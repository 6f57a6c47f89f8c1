"""Runs searched by CTranslate2: our definitions where it has them, refusals where it has not, one export a run."""

import sys

import pytest

from regard.cli.engines import searched_by
from regard.errors import ModelError, UsageError
from regard.interchange.ctranslate2_engine import with_ctranslate2
from regard.run.folder import RunFolder
from regard.run.joint import JointModel, checksums
from regard.run.model import Model
from regard.search import Constraint, SearchOptions
from tests.toys import toy_sources
from tests.untrained import RECURRENT, untrained_run

pytest.importorskip("ctranslate2")


@pytest.fixture
def model(trained, tmp_path):
    """A copy of the trained run."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in trained.model.folder.iterdir():
        if path.is_file() and path.name != ".lock":
            (folder / path.name).write_bytes(path.read_bytes())
    return Model.load(folder)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.6])
@pytest.mark.parametrize("beam", [1, 4])
def test_outputs_and_scores_are_ours(model, beam, penalty):
    """8 bits move log-probabilities a little, and of a sure model hardly any output."""
    lines = ["", *toy_sources(40, seed=9), " ", "a\tb"]
    options = model.options(beam=beam, best=min(beam, 2), length_penalty=penalty)
    both = [list(one.predict_many(lines, options=options)) for one in (with_ctranslate2(model), model)]
    apart = []
    for theirs, ours in zip(*both, strict=True):
        assert (theirs.source, theirs.fault, theirs.remark) == (ours.source, ours.fault, ours.remark)
        assert bool(theirs.outputs) == bool(ours.outputs)
        if theirs.text == ours.text:
            apart.append(abs(theirs.log_probability - ours.log_probability))
        for one in theirs.outputs:
            assert one.complete
            assert one.score == pytest.approx(options.score(one.log_probability, len(one.pieces) + 1), abs=1e-5)
    assert len(apart) >= 40
    assert sum(apart) / len(apart) < 0.05
    assert max(apart) < 0.5


def test_limits_of_length_are_ours(model):
    section = model.recipe.search.model_copy(update={"max_length": 3})
    short = model.with_recipe(model.recipe.model_copy(update={"search": section}))
    theirs = list(with_ctranslate2(short).predict_many(["a b c d e", "a b"], beam=1))
    ours = list(short.predict_many(["a b c d e", "a b"], beam=1))
    assert [(one.text, one.cut_output) for one in theirs] == [(one.text, one.cut_output) for one in ours]
    assert [one.cut_output for one in theirs] == [True, False]


@pytest.mark.parametrize(
    ("options", "asked", "told"),
    [
        (SearchOptions(sample=True), {}, "know samples as defined"),
        (SearchOptions(stochastic=True, beam=3), {}, "know stochastic beams as"),
        (SearchOptions(groups=2, beam=4, diversity=0.5), {}, "know diverse beams as"),
        (SearchOptions(coverage_penalty=0.2), {}, "know a coverage penalty as"),
        (SearchOptions(length_formula="gnmt"), {}, "know GNMT's length penalty as"),
        (SearchOptions(min_length=2, block_ngrams=3), {}, "know a least length and blocked n-grams as"),
        (SearchOptions(trace=True), {}, "know traces as"),
        (SearchOptions(), {"prefix": "A"}, "know prefixes as"),
        (SearchOptions(), {"constraint": Constraint(forbid=("A",))}, "know constraints as"),
    ],
)
def test_what_it_does_otherwise_is_refused(model, options, asked, told):
    with pytest.raises(UsageError, match=told):
        list(with_ctranslate2(model).predict_many(["a b"], options=options, **asked))


def test_outputs_beyond_its_positions_are_refused(model):
    with pytest.raises(UsageError, match=r"given \d+ positions, which is too few for outputs of 5000 tokens"):
        list(with_ctranslate2(model).predict_many(["a b"], options=SearchOptions(max_length=5000)))


def test_alignments_are_made_by_torch(model):
    (line,) = with_ctranslate2(model).predict_many(["a b c"], beam=1, capture=True)
    (own,) = model.predict_many(["a b c"], beam=1, capture=True)
    assert line.alignment is not None
    assert line.alignment.weights == pytest.approx(own.alignment.weights)


def test_an_export_is_made_once_for_each_state_of_the_weights(model):
    folder = RunFolder(model.folder)
    with_ctranslate2(model)
    (first,) = folder.exports()
    made = (first / "model.bin").stat().st_mtime_ns
    with_ctranslate2(Model.load(model.folder))
    assert (first / "model.bin").stat().st_mtime_ns == made
    weights = {name: weight.detach() + 0.01 for name, weight in model.system.named_parameters()}
    folder.write_weights(weights)
    with pytest.raises(ModelError, match="holds other weights than the model; load the run again"):
        with_ctranslate2(model)
    with_ctranslate2(Model.load(model.folder))
    (second,) = folder.exports()
    assert second != first
    folder.clear()
    assert folder.exports() == []


def test_a_folder_that_cannot_be_written_to(model, monkeypatch):
    monkeypatch.setattr("regard.interchange.ctranslate2_engine.os.access", lambda *_: False)
    assert with_ctranslate2(model).predict("a b c").text
    assert not (model.folder / "ctranslate2").exists()


def test_a_damaged_export_is_told(model):
    with_ctranslate2(model)
    (made,) = RunFolder(model.folder).exports()
    (made / "model.bin").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=rf"{made.name}: CTranslate2 cannot read it .*; delete it, and it is made"):
        with_ctranslate2(model)


def test_what_cannot_be_exported_is_refused(model, monkeypatch, tmp_path):
    recurrent = Model.load(untrained_run(tmp_path / "recurrent", seed=3, model=RECURRENT))
    with pytest.raises(ModelError, match=r"cannot be exported to ctranslate2: `model.encoder.kind` is rnn"):
        with_ctranslate2(recurrent)
    with pytest.raises(UsageError, match="CTranslate2 runs one model with the weights that training chose"):
        with_ctranslate2(JointModel([model, model]))
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UsageError, match="needs the package ctranslate2: pip install ctranslate2"):
        searched_by(model, "ctranslate2")


def test_predictions_of_files_belong_to_the_engine(model):
    plain, own = checksums(model), checksums(with_ctranslate2(model))
    assert own.keys() - plain.keys() == {"ctranslate2"}
    assert own["ctranslate2"].endswith(" int8")

"""A trained run through the engine."""

import pytest

from regard.cli.engines import searched_by
from regard.engine import library as library_module
from regard.engine.library import WHERE, loaded
from regard.errors import ModelError, UsageError
from regard.run.folder import RunFolder
from regard.run.joint import JointModel
from regard.run.model import Model
from regard.run.native import prepare_run, with_engine
from regard.search import Constraint, SearchOptions
from tests.toys import toy_sources

pytestmark = pytest.mark.usefixtures("library")


@pytest.fixture
def model(trained, tmp_path):
    """A copy of the trained run."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in trained.model.folder.iterdir():
        if path.is_file() and path.name != ".lock":
            (folder / path.name).write_bytes(path.read_bytes())
    return Model.load(folder)


def test_predictions_are_those_of_torch(model):
    prepare_run(model.system, RunFolder(model.folder), int8=False)
    lines = ["", *toy_sources(40, seed=9), " ", "a\tb"]
    native = with_engine(model)
    assert native.engine is not None
    assert not native.engine.quantised
    for ours, theirs in zip(native.predict_many(lines, best=2), model.predict_many(lines, best=2), strict=True):
        assert (ours.source, ours.fault, ours.remark) == (theirs.source, theirs.fault, theirs.remark)
        assert [one.text for one in ours.outputs] == [one.text for one in theirs.outputs]
        for one, other in zip(ours.outputs, theirs.outputs, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


def test_bytes_say_what_floats_say_on_a_model_that_has_learned(model):
    native = with_engine(model)
    assert native.engine is not None
    assert native.engine.quantised
    lines = toy_sources(60, seed=9)
    same = [
        ours.text == theirs.text
        for ours, theirs in zip(native.predict_many(lines), model.predict_many(lines), strict=True)
    ]
    assert sum(same) >= 57


def test_the_file_is_made_again_for_other_weights(model):
    first = with_engine(model)
    path = model.folder / "engine.bin"
    before = path.stat().st_mtime_ns
    assert with_engine(model).engine is not first.engine
    assert path.stat().st_mtime_ns == before
    weights = {name: weight.detach() + 0.01 for name, weight in model.system.named_parameters()}
    RunFolder(model.folder).write_weights(weights)
    with_engine(Model.load(model.folder))
    assert path.stat().st_mtime_ns != before


def test_what_the_engine_does_not_know_is_refused(model):
    native = with_engine(model)
    cases = [
        (SearchOptions(sample=True), None, "does not know sample; leave it out"),
        (SearchOptions(coverage_penalty=0.2), None, "does not know coverage_penalty"),
        (SearchOptions(beam=100), None, "does not know a beam above 64"),
        (SearchOptions(trace=True), Constraint(forbid=("A",)), "does not know trace, constraints"),
    ]
    for options, constraint, message in cases:
        with pytest.raises(UsageError, match=message):
            native.predict("a b", options=options, constraint=constraint)


def test_several_models_are_refused(model):
    with pytest.raises(UsageError, match="the native engine runs one model with the weights that training chose"):
        with_engine(JointModel([model, model]))


def test_without_the_library_torch_searches_and_says_so(model, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(WHERE, str(tmp_path / "missing.so"))
    loaded.cache_clear()
    try:
        assert searched_by(model, "native") is model
        assert "torch searches, for the native engine cannot be used: it was not built" in capsys.readouterr().err
        with pytest.raises(ModelError, match="the native engine cannot be used: it was not built"):
            with_engine(model)
        (tmp_path / "missing.so").write_bytes(b"no library")
        loaded.cache_clear()
        assert "cannot be loaded" in library_module.available()
    finally:
        monkeypatch.undo()
        loaded.cache_clear()

"""A trained run through the engine."""

import pytest

from regard.cli.engines import WORTH, check_engine, searched_by
from regard.engine import library as library_module
from regard.engine.library import WHERE, loaded
from regard.engine.preparation import contained
from regard.engine.prepared import Prepared
from regard.errors import ModelError, ResourceError, UsageError
from regard.insight import Reading
from regard.run.folder import RunFolder
from regard.run.joint import JointModel, checksums
from regard.run.model import Model
from regard.run.native import open_engine, prepare_model, prepare_run, with_engine
from regard.search import Constraint, SearchOptions
from regard.training import weights
from tests.engine.searching import system_named
from tests.toys import toy_sources
from tests.untrained import untrained_run

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


@pytest.mark.parametrize(
    ("options", "constraint"),
    [
        (SearchOptions(sample=True, best=3, seed=5, temperature=1.5, top_k=9, top_p=0.9), None),
        (SearchOptions(sample=True, best=80, beam=80), None),
        (SearchOptions(stochastic=True, beam=3, best=3, seed=2), None),
        (SearchOptions(coverage_penalty=0.3, best=2), None),
        (SearchOptions(groups=2, beam=4, best=2, diversity=0.5), None),
        (SearchOptions(beam=100, best=2), None),
        (SearchOptions(trace=True), Constraint(forbid=("A",))),
        (SearchOptions(min_length=3, block_ngrams=2), Constraint(force=("B", "C"))),
        (SearchOptions(), Constraint(only=("A B", "B C", "D"))),
    ],
    ids=["sample", "many samples", "stochastic", "coverage", "groups", "wide", "forbidden", "forced", "only"],
)
def test_all_that_search_knows_works_with_an_engine(model, options, constraint):
    """Choices are the same; what an engine of 32 bits says is within 1e-4 of what torch says."""
    prepare_run(model.system, RunFolder(model.folder), int8=False)
    lines = ["", *toy_sources(12, seed=4)]
    native = with_engine(model)
    both = [list(one.predict_many(lines, options=options, constraint=constraint)) for one in (native, model)]
    for ours, theirs in zip(*both, strict=True):
        assert [one.text for one in ours.outputs] == [one.text for one in theirs.outputs]
        assert ours.remark == theirs.remark
        assert (ours.trace is None) == (theirs.trace is None)
        for one, other in zip(ours.outputs, theirs.outputs, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.parts == pytest.approx(other.parts, abs=1e-4)


def without_python(*_: object, **__: object) -> None:
    raise AssertionError("Python was asked between steps")


@pytest.mark.parametrize(
    "constraint",
    [None, Constraint(forbid=("A",)), Constraint(force=("B", "C")), Constraint(only=("A B", "D"), forbid=("D",))],
    ids=["free", "forbidden", "forced", "only"],
)
def test_beams_coverage_samples_and_constraints_need_no_python_between_steps(model, constraint, monkeypatch):
    monkeypatch.setattr("regard.run.native_scorer.NativeScorer", without_python)
    native = with_engine(model)
    for options in (
        SearchOptions(),
        SearchOptions(coverage_penalty=0.5),
        SearchOptions(sample=True, best=70, beam=70, typical=0.9),
    ):
        assert native.predict("a b c", options=options, constraint=constraint).outputs
    with pytest.raises(AssertionError, match="Python was asked between steps"):
        native.predict("a b c", options=SearchOptions(trace=True))


def test_coverage_of_a_model_without_attention_is_refused_as_torch_refuses_it(tmp_path):
    sides = {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "wiring": "every_step"}}
    blind = Model.load(untrained_run(tmp_path / "blind", seed=1, model=sides))
    for one in (blind, with_engine(blind)):
        with pytest.raises(UsageError, match="coverage_penalty needs attention to the source, and this model has none"):
            one.predict("a b", options=SearchOptions(coverage_penalty=0.5))


def without_torch(*_: object) -> None:
    raise AssertionError("torch was asked")


@pytest.mark.parametrize("shift", [0, 1])
def test_alignments_are_those_of_torch_and_made_without_it(model, shift, monkeypatch):
    prepare_run(model.system, RunFolder(model.folder), int8=False)
    model = model.with_reading(Reading(layer=0, head=1, shift=shift))
    lines = ["", *toy_sources(12, seed=4), "a " * 400]
    expected = list(model.predict_many(lines, capture=True))
    monkeypatch.setattr("regard.run.alignment.source_attention", without_torch)
    found = list(with_engine(model).predict_many(lines, capture=True))
    assert found[0].alignment is None
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        assert ours.text == theirs.text
        assert ours.alignment.source == theirs.alignment.source
        assert ours.alignment.target == theirs.alignment.target
        assert ours.alignment.weights == pytest.approx(theirs.alignment.weights, abs=1e-4)


def test_alignments_in_8_bits_hardly_differ(model):
    pairs = [(one.source, one.text) for one in model.predict_many(toy_sources(40, seed=4))]
    apart = [
        abs(ours.weights - theirs.weights).max()
        for ours, theirs in zip(with_engine(model).align(pairs), model.align(pairs), strict=True)
    ]
    assert 0 < max(apart) < 0.1


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (Reading(layer=7), "there is no layer 7: the decoder has 1, counted from 0; -1 is the last"),
        (Reading(head=9), "there is no head 9: the layer has 2, counted from 0"),
    ],
)
def test_a_reading_that_cannot_be_is_refused_as_torch_refuses_it(model, reading, message):
    for one in (model, with_engine(model)):
        with pytest.raises(UsageError, match=message):
            one.align([("a b", "A B")], reading)


def test_without_attention_there_is_no_alignment(tmp_path):
    sides = {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "wiring": "every_step"}}
    blind = with_engine(Model.load(untrained_run(tmp_path / "blind", seed=1, model=sides)))
    with pytest.raises(UsageError, match="this model has no attention to a source text to read an alignment from"):
        blind.predict("a b", capture=True)


def test_several_models_are_refused(model):
    with pytest.raises(UsageError, match="the native engine runs one model with the weights that training chose"):
        with_engine(JointModel([model, model]))


def test_without_the_library_torch_searches_and_says_so(model, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(WHERE, str(tmp_path / "missing.so"))
    loaded.cache_clear()
    try:
        assert searched_by(model, "native") is model
        told = f"{tmp_path / 'missing.so'}, which {WHERE} names, is not there; name another, or leave it out"
        assert f"regard: torch searches, for the native engine cannot be used: {told}\n" == capsys.readouterr().err
        with pytest.raises(ModelError, match=r"the native engine cannot be used: .* is not there"):
            with_engine(model)
        (tmp_path / "missing.so").write_bytes(b"no library")
        loaded.cache_clear()
        assert "cannot be loaded" in library_module.available()
        assert library_module.available().endswith("; name another, or leave it out")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv(WHERE, "named.so")
        (tmp_path / "named.so").symlink_to(library_module.LIBRARY)
        loaded.cache_clear()
        assert library_module.available() == ""
    finally:
        monkeypatch.undo()
        loaded.cache_clear()


def test_a_file_that_would_be_worth_it_tells_that_the_library_was_not_built(model, monkeypatch, capsys, tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_text("a b\n")
    large.write_text("a b c d\n" * (WORTH // 8))
    both = JointModel([model, model])
    monkeypatch.setattr(library_module, "LIBRARY", tmp_path / "missing.so")
    loaded.cache_clear()
    try:
        assert searched_by(model, "auto", files=[str(small)]) is model
        assert searched_by(both, "auto", files=[str(large)]) is both
        assert capsys.readouterr().err == ""
        assert searched_by(model, "auto", files=[str(large)]) is model
        told = "regard: torch searches, for the native engine cannot be used: it was not built; `python -m regard.engi"
        assert capsys.readouterr().err.startswith(told)
    finally:
        monkeypatch.undo()
        loaded.cache_clear()


def test_a_model_that_the_engine_does_not_know_is_searched_by_torch_and_this_is_said(tmp_path, capsys):
    shaw = {"kind": "transformer", "heads": 2, "positions": "relative"}
    strange = Model.load(untrained_run(tmp_path / "strange", seed=1, model={"encoder": shaw, "decoder": shaw}))
    assert searched_by(strange, "native") is strange
    told = "its self-attention has vectors of distances (positions: relative)"
    expected = f"regard: torch searches, for the native engine cannot run this model: {told}\n"
    assert capsys.readouterr().err == expected
    assert not (strange.folder / "engine.bin").exists()
    with pytest.raises(ModelError, match="the native engine cannot run this model: its self-attention"):
        prepare_model(strange)


def test_a_file_of_another_vocabulary_is_made_again(model):
    """Whatever weights it says that it is of: the tokenizer could not tell what it says."""
    container = contained(system_named("transformer post"))
    container.settings["weights"] = with_engine(model).engine.engine.setting("weights")
    container.write(model.folder / "engine.bin")
    assert with_engine(model).engine.engine.target_vocabulary == model.texts.target.size


def test_settings_of_a_prepared_run_are_never_missing(model, monkeypatch):
    """Another process may begin with them at any time."""
    assert prepare_model(model) == ""
    there = []
    monkeypatch.setattr(
        "regard.run.native.write_settings", lambda folder, _: there.append((folder / "engine.json").exists())
    )
    assert prepare_model(model) == ""
    assert there == [True]


def test_the_engine_is_used_by_itself_where_a_run_was_prepared(model, capsys):
    assert searched_by(model, "auto") is model
    prepare_run(model.system, RunFolder(model.folder))
    assert searched_by(model, "auto").engine is not None
    assert searched_by(model, "torch") is model
    assert searched_by(model, "native").engine is not None
    assert capsys.readouterr().err == ""
    (model.folder / "engine.bin").write_bytes(b"nothing")
    assert searched_by(model, "auto") is model
    assert "torch searches, for engine.bin cannot be used: " in capsys.readouterr().err
    with pytest.raises(UsageError, match="--engine fast: there is no such engine; choose auto, torch, native or ctra"):
        check_engine("fast")


def test_a_large_file_has_its_engine_made_in_32_bits(model, capsys, tmp_path):
    """Nobody has asked for it, so nobody may lose exactness by it."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_text("a b\n" * 40)
    large.write_text("a b c d\n" * (WORTH // 8))
    for files in ([], [str(small)], [str(tmp_path)], [str(tmp_path / "nowhere")]):
        assert searched_by(model, "auto", files=files) is model
    assert not (model.folder / "engine.bin").exists()
    assert searched_by(model, "torch", files=[str(large)]) is model
    assert capsys.readouterr().err == ""
    made = searched_by(model, "auto", files=[str(small), str(large)])
    assert made.engine is not None
    assert not made.engine.quantised
    told = capsys.readouterr().err
    assert f"regard: made {model.folder / 'engine.bin'} (" in told
    assert "MB, 32 bits) for a faster search; --engine torch does without it" in told
    assert searched_by(model, "auto", files=[str(large)]).engine is not None
    assert capsys.readouterr().err == ""
    assert not (model.folder / "engine.json").exists()


def test_an_engine_that_is_asked_for_is_made_in_8_bits(model, capsys):
    assert searched_by(model, "native").engine.quantised
    assert "MB, 8 bits, which change results a little) for a faster search" in capsys.readouterr().err


def test_where_an_engine_cannot_be_made_by_itself_torch_searches(model, capsys, tmp_path, monkeypatch):
    large = tmp_path / "large"
    large.write_text("a b c d\n" * (WORTH // 8))
    shaw = {"kind": "transformer", "heads": 2, "positions": "relative"}
    strange = Model.load(untrained_run(tmp_path / "strange", seed=1, model={"encoder": shaw, "decoder": shaw}))
    assert searched_by(strange, "auto", files=[str(large)]) is strange
    both = JointModel([model, model])
    assert searched_by(both, "auto", files=[str(large)]) is both
    monkeypatch.setattr("regard.run.native.os.access", lambda *_: False)
    assert searched_by(model, "auto", files=[str(large)]) is model
    monkeypatch.setattr("regard.run.native.os.access", lambda *_: True)
    monkeypatch.setattr("regard.engine.container.replace_file", _no_room)
    assert searched_by(model, "auto", files=[str(large)]) is model
    assert capsys.readouterr().err == ""
    assert not (model.folder / "engine.bin").exists()


@pytest.mark.parametrize("told", ["is not there", "is of other weights"])
def test_an_engine_that_is_asked_for_and_cannot_be_written_is_refused(model, monkeypatch, told):
    if told == "is of other weights":
        searched_by(model, "native")
        folder = RunFolder(model.folder)
        folder.write_weights({name: tensor + 1 for name, tensor in weights(model.system).items()})
    monkeypatch.setattr("regard.run.native.os.access", lambda *_: False)
    with pytest.raises(
        ModelError, match=rf"engine\.bin: {told}, and its folder cannot be written to\. Prepare the run"
    ):
        open_engine(model)


def _no_room(path, content):
    raise ResourceError(f"{path}: there is no room")


def test_a_file_of_other_weights_is_made_again_with_all_that_stands_beside_it(model):
    assert prepare_model(model, int8=False) == ""
    weights = {name: weight.detach() + 0.01 for name, weight in model.system.named_parameters()}
    RunFolder(model.folder).write_weights(weights)
    with pytest.raises(ModelError, match=r"weights.safetensors: holds other weights than the model; load"):
        with_engine(model)
    again = with_engine(Model.load(model.folder))
    assert not again.engine.quantised
    assert Prepared(model.folder).engine.setting("weights") == again.engine.engine.setting("weights")


def test_predictions_of_files_belong_to_the_engine(model):
    plain = checksums(model)
    own = checksums(with_engine(model))
    assert own.keys() - plain.keys() == {"engine.bin"}
    prepare_run(model.system, RunFolder(model.folder), int8=False)
    assert checksums(with_engine(model))["engine.bin"] != own["engine.bin"]


def test_several_models_are_searched_by_torch(model):
    prepare_run(model.system, RunFolder(model.folder))
    both = JointModel([model, model])
    assert searched_by(both, "auto") is both

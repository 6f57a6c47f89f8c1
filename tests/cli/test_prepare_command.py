"""`regard prepare` and `--engine` through the real command."""

import json
import re
import shutil

import pytest

from regard.engine.build import BuildError, build
from regard.engine.library import loaded
from regard.errors import UsageError
from regard.run.model import Model
from regard.run.native import prepare_model

pytestmark = pytest.mark.cli
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.fixture(autouse=True, scope="module")
def _library():
    try:
        build()
    except BuildError as error:
        pytest.skip(str(error))
    loaded.cache_clear()


def test_prepared_runs_give_the_same_lines(regard, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    expected = regard("predict", copy, stdin=b"a b c\n\nh g\n")
    prepared = regard("prepare", copy, "--float32")
    assert (prepared.code, prepared.out) == (0, "")
    assert f"{copy / 'engine.bin'}: " in prepared.err
    assert "32 bits" in prepared.err
    found = regard("predict", copy, "--engine", "native", stdin=b"a b c\n\nh g\n")
    assert (found.code, found.out) == (0, expected.out)
    assert "8 bits" in regard("prepare", copy).err
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b c\tA B C\nh g\tH G\n")
    judged = regard("evaluate", copy, pairs, "--engine", "native")
    assert judged.code == 0
    assert "exact" in judged.out


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_engines_that_there_are_not(verb, regard, run, tmp_path):
    result = regard(verb, run, tmp_path / "lines", "--engine", "steam")
    assert result.code == UsageError.exit_code
    assert "--engine steam: there is no such engine; choose auto, torch, native or ctranslate2" in result.err


@pytest.fixture(scope="module")
def prepared(trained, tmp_path_factory):
    """A copy of the trained run with an engine file of 32 bits."""
    copy = shutil.copytree(trained.model.folder, tmp_path_factory.mktemp("prepared") / "run")
    model = Model.load(copy)
    prepare_model(model, int8=False)
    return copy


def nearly(one, other):
    """Whether two outputs of a command are the same up to the last digits of their numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(nearly(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(nearly, one, other))
    return one == pytest.approx(other, abs=1e-4) if isinstance(one, float) else one == other


def read(line):
    if line.startswith("{"):
        return json.loads(line)
    return [float(cell) if NUMBER.fullmatch(cell) else cell for cell in line.split("\t")]


FORMS = {
    "text": [],
    "lists": ["--nbest", "3"],
    "links": ["--align"],
    "records": ["--jsonl", "--align", "--nbest", "2"],
    "samples": ["--sample", "--seed", "4", "--nbest", "2", "--jsonl"],
    "risk": ["--mbr", "chrF", "--samples", "4", "--seed", "2", "--jsonl"],
    "beginnings": ["--prefix", "A", "--nbest", "2"],
    "demands": ["--forbid", "A", "--coverage-penalty", "0.2", "--jsonl"],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_output_comes_from_an_engine_too(form, regard, prepared, tmp_path):
    lines = tmp_path / "lines"
    lines.write_bytes(b"a b c\n\nc \xff d\nh g\nc d e f\n" + b"a " * 300 + b"\n")
    command = ("predict", prepared, lines, *FORMS[form])
    torch, native = (regard(*command, "--engine", engine) for engine in ("torch", "native"))
    assert (native.code, native.err) == (0, torch.err)
    assert nearly([read(line) for line in native.out.splitlines()], [read(line) for line in torch.out.splitlines()])
    files = regard(*command, "--engine", "native", "--output", tmp_path / "out", "--shard-lines", "2")
    assert files.code == 0
    assert (tmp_path / "out").read_text() == native.out


def test_finished_lines_belong_to_their_engine(regard, prepared, tmp_path):
    (tmp_path / "lines").write_text("a b c\nh g\n")
    command = ("predict", prepared, tmp_path / "lines", "--output", tmp_path / "out")
    assert regard(*command).code == 0
    assert regard(*command, "--engine", "native").code == 0  # which auto has taken
    other = regard(*command, "--engine", "torch")
    assert other.code == UsageError.exit_code
    assert "predictions were begun here with something else: another engine searches, or the same one" in other.err


@pytest.mark.parametrize("engine", ["native", "ctranslate2"])
def test_engines_have_no_processes_to_share_between(engine, regard, prepared, tmp_path):
    (tmp_path / "lines").write_text("a b c\n")
    command = ("predict", prepared, tmp_path / "lines", "--output", tmp_path / "out", "--engine", engine)
    result = regard(*command, "--workers", "2")
    assert result.code == UsageError.exit_code
    assert "or by an engine, have one process; leave it out" in result.err
    result = regard(*command, "--on", "ray")
    assert result.code == UsageError.exit_code
    assert "--on ray: an engine searches in this process; leave it out, or search with --engine torch" in result.err


def test_processes_are_of_torch_where_nothing_else_is_asked_for(regard, prepared, tmp_path):
    (tmp_path / "lines").write_text("a b c\n")
    command = ("predict", prepared, tmp_path / "lines", "--output", tmp_path / "out")
    assert "in 1 process of one thread" in regard(*command, "--workers", "1").err
    assert "prepared otherwise (engine.bin; see --engine)" in regard(*command).err


def test_a_large_file_makes_its_engine(regard, run, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.cli.engines.WORTH", 200)
    copy = shutil.copytree(run, tmp_path / "run")
    lines = tmp_path / "lines"
    lines.write_text("a b c d e f\n" * 20)
    for options in (["--stochastic"], ["--at-once"], ["--workers", "1"], ["--engine", "torch"]):
        assert regard("predict", copy, lines, *options).code == 0
        assert not (copy / "engine.bin").exists()
    for options in (["--sample"], ["--forbid", "A"], ["--force", "B C"]):
        expected = regard("predict", copy, lines, *options, "--engine", "torch")
        made = regard("predict", copy, lines, *options)
        assert f"regard: made {copy / 'engine.bin'}" in made.err
        assert made.out == expected.out
        (copy / "engine.bin").unlink()
    first = regard("predict", copy, lines, "--beam", "1")
    assert f"regard: made {copy / 'engine.bin'}" in first.err
    again = regard("predict", copy, lines, "--beam", "1")
    assert (again.out, again.err) == (first.out, "")
    assert regard("predict", copy, lines, "--beam", "1", "--engine", "torch").out == first.out


def test_scores_of_8_bits_are_told(regard, run, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.cli.engines.WORTH", 20)
    copy = shutil.copytree(run, tmp_path / "run")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b c\tA B C\nh g\tH G\n")
    told = "regard: searched in 8 bits; --engine torch measures the weights as they are"
    plain = regard("evaluate", copy, pairs, "--engine", "torch")
    made = regard("evaluate", copy, pairs)
    assert (made.code, told in made.err, "MB, 32 bits) for a faster search" in made.err) == (0, False, True)
    assert made.out == plain.out
    regard("prepare", copy)
    assert told in regard("evaluate", copy, pairs).err
    assert told in regard("evaluate", copy, pairs, "--engine", "native").err


def test_ctranslate2_through_the_command(regard, run, tmp_path):
    pytest.importorskip("ctranslate2")
    copy = shutil.copytree(run, tmp_path / "run")
    lines = tmp_path / "lines"
    lines.write_text("a b c\n\nh g\n")
    expected = regard("predict", copy, lines, "--engine", "torch")
    found = regard("predict", copy, lines, "--engine", "ctranslate2")
    assert (found.code, found.out, found.err) == (0, expected.out, "")
    files = regard("predict", copy, lines, "--engine", "ctranslate2", "--output", tmp_path / "out")
    assert (files.code, (tmp_path / "out").read_text()) == (0, expected.out)
    for asked, told in (
        (["--forbid", "A"], "constraints"),
        (["--min-length", "3", "--coverage-penalty", "0.2"], "a coverage penalty and a least length"),
        (["--length-formula", "gnmt"], "GNMT's length penalty"),
    ):
        refused = regard("predict", copy, lines, "--engine", "ctranslate2", *asked)
        assert refused.code == UsageError.exit_code
        assert f"CTranslate2 does not know {told} as defined here: leave that out, or search" in refused.err
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b c\tA B C\nh g\tH G\n")
    assert "exact" in regard("evaluate", copy, pairs, "--engine", "ctranslate2").out

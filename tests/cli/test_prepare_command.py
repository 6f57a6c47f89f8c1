"""`regard prepare` and `--engine` through the real command."""

import shutil

import pytest

from regard.engine.build import BuildError, build
from regard.engine.library import loaded
from regard.errors import UsageError

pytestmark = pytest.mark.cli


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
    assert "--engine steam: there is no such engine; choose auto, torch or native" in result.err


def test_an_engine_is_for_streams(regard, run, tmp_path):
    result = regard("predict", run, "lines", "--engine", "native", "--output", tmp_path / "out")
    assert result.code == UsageError.exit_code
    assert "--engine is for streams" in result.err

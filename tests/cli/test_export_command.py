"""`regard export` through the real command."""

import pytest

from regard.errors import UsageError

pytestmark = pytest.mark.cli


def test_a_run_is_written_for_another_program(regard, run, tmp_path):
    pytest.importorskip("ctranslate2")
    result = regard("export", run, tmp_path / "out", "--to", "ctranslate2", "--quantization", "int8")
    assert result.code == 0
    assert (result.out, result.err) == ("", f"{tmp_path / 'out'}: ctranslate2; README.md says how to load it\n")
    assert (tmp_path / "out" / "model.bin").exists()
    result = regard("export", run, tmp_path / "out", "--to", "huggingface")
    assert result.code == UsageError.exit_code
    assert "write over it with --overwrite" in result.err
    result = regard("export", run, tmp_path / "out", "--to", "huggingface", "--overwrite")
    assert result.code == 0
    assert "regard: the output is a copy of the target embeddings" in result.err
    assert f"{tmp_path / 'out'}: pegasus; README.md" in result.err
    assert not (tmp_path / "out" / "model.bin").exists()

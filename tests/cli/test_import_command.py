"""`regard import`, and the other verbs on what it makes."""

from pathlib import Path

from tests.cli.conftest import Command
from tests.interchange.checkpoints import marian


def test_a_checkpoint_becomes_a_run_that_all_verbs_take(regard: Command, tmp_path: Path) -> None:
    made = marian(tmp_path / "theirs")
    run = tmp_path / "run"
    done = regard("import", made.folder, run)
    assert (done.code, done.out) == (0, "")
    count = sum(parameter.numel() for parameter in made.model.parameters() if parameter.requires_grad)
    more = made.model.config.d_model + made.model.config.vocab_size + 1  # the row of START, and the output bias
    assert f"imported a model of Marian layout with {count + more:,} parameters; now: regard predict {run}" in done.err
    assert "probabilities are those of the checkpoint without its padding" in done.err
    predicted = regard("predict", run, stdin=b"the cat\n\na dog\n")
    assert predicted.code == 0
    assert len(predicted.out.splitlines()) == 3
    (tmp_path / "pairs.tsv").write_text("the cat\ta dog\n", encoding="utf-8")
    scored = regard("score", run, tmp_path / "pairs.tsv")
    assert scored.code == 0
    assert float(scored.out) < 0
    assert regard("inspect", run, "the cat").code == 0


def test_what_is_no_checkpoint_is_5(regard: Command, tmp_path: Path) -> None:
    done = regard("import", tmp_path, tmp_path / "run")
    assert done.code == 5
    assert "config.json: there is no such file" in done.err

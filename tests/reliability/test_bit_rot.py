"""R4: a flipped bit or a lost end anywhere in the newest checkpoint is noticed; the one before it is taken."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regard.errors import ModelError
from regard.training import Checkpoints
from tests.reliability.children import command, run
from tests.reliability.conftest import Tally
from tests.reliability.saves import checkpoint, same
from tests.reliability.trainings import trainer
from tests.toys import toy_pairs, toy_system, write_tsv

FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


def damaged(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    if draw.random() < 0.5:
        return content[:place]
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def test_damage_at_random_places(tmp_path: Path, tally: Tally) -> None:
    draw = random.Random(4)
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        checkpoints.save(checkpoint(step, 20_000))
    cases = 300
    for case in range(cases):
        victim = checkpoints.path(3) / FILES[case % len(FILES)]
        whole = victim.read_bytes()
        victim.write_bytes(damaged(whole, draw))
        latest, damages = checkpoints.latest()
        assert latest is not None
        assert same(latest, checkpoint(2, 20_000))
        assert len(damages) == 1
        assert damages[0].startswith(f"{checkpoints.path(3)}: ")
        victim.write_bytes(whole)
    latest, damages = checkpoints.latest()
    assert latest is not None
    assert (latest.step, damages) == (3, [])
    tally("R4", damages_detected=cases)


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_a_checkpoint_of_another_model_is_refused(kind: str, tmp_path: Path) -> None:
    """It is whole, so it is not set aside: whoever goes on with the right recipe finds it."""
    made = trainer(tmp_path / "checkpoints", 2)
    made.run()
    system = toy_system(kind="rnn") if kind == "rnn" else toy_system().double()
    with pytest.raises(
        ModelError, match=r"step-00000002: the checkpoint is of another model \(.*; and \d+ more\)"
    ) as caught:
        trainer(tmp_path / "checkpoints", 4, system).run()
    assert caught.value.exit_code == 5
    assert trainer(tmp_path / "checkpoints", 4).run().progress.step == 4


@pytest.mark.parametrize("lost", ["meter", "progress"])
def test_a_state_that_lacks_something_is_refused(lost: str, tmp_path: Path) -> None:
    made = trainer(tmp_path / "checkpoints", 2)
    made.run()
    whole = made.checkpoints.load(2)
    made.checkpoints.clear()
    made.checkpoints.save(replace(whole, state={name: part for name, part in whole.state.items() if name != lost}))
    with pytest.raises(
        ModelError, match=rf"not what this training reads \(KeyError\('{lost}'\)\). Go on with the version"
    ):
        trainer(tmp_path / "checkpoints", 4).run()


@pytest.mark.cli
def test_the_command_says_so_and_falls_back_one(tmp_path: Path, tally: Tally) -> None:
    """Of the newest, and of one that is only needed for the average in the end."""
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    settings = ("model.width=16", "model.layers=1", "training.save_every=2", "evaluation.resamples=20")
    arguments = (
        "train",
        pairs,
        f"run={tmp_path / 'run'}",
        *settings,
        "training.validate_every=2",
        "training.average=3",
    )
    run(command(*arguments, "training.steps=6"), tmp_path / "first")
    folder = tmp_path / "run" / "checkpoints"
    for step in (2, 6):
        victim = folder / f"step-{step:08d}" / "model.safetensors"
        content = bytearray(victim.read_bytes())
        content[len(content) // 2] ^= 8
        victim.write_bytes(content)
    again = subprocess.run(
        [sys.executable, "-m", "regard.cli.main", *map(str, arguments), "training.steps=8"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    told = " ".join(again.stderr.split())
    for step in (2, 6):
        assert (
            f"step-{step:08d}: the checkpoint is damaged (model.safetensors differs from its manifest); it is" in told
        )
        assert (folder / f"damaged-{step:08d}").is_dir()
    assert "going on from step 4" in told
    assert "Traceback" not in again.stderr
    tally("R4", damages_detected=2)

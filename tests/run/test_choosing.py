"""Which weights a run ends with: the best checkpoint, or the average of the last few where that is judged better."""

import math
from pathlib import Path

import pytest
import torch

from regard.errors import ModelError
from regard.models import System
from regard.run.folder import RunFolder
from regard.run.training import train
from regard.run.validation import Judge
from regard.training import Checkpoints, Ended, Event, Verdict, Warned, average
from tests.toys import toy_pairs, toy_recipe, write_tsv


@pytest.mark.parametrize(
    ("best", "averaged", "chosen"),
    [(1.0, 2.0, "average"), (2.0, 1.0, "best"), (math.nan, -5.0, "average"), (-5.0, math.nan, "best")],
)
def test_what_is_not_a_number_is_never_better(
    best: float, averaged: float, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter((0.5, 0.1, best, averaged))

    def judge(self: Judge, system: System) -> Verdict:
        return Verdict(loss=1.0, value=next(values), metrics={})

    monkeypatch.setattr(Judge, "__call__", judge)
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(40))
    train(toy_recipe(tmp_path / "run", pairs, "training.average=2"))
    folder = RunFolder(tmp_path / "run")
    both = [folder.checkpoints.model(step) for step in (6, 12)]
    expected = average(both) if chosen == "average" else both[0]
    assert next(values, None) is None
    assert all(torch.equal(tensor, expected[name]) for name, tensor in folder.read_weights().items())


def damage(checkpoints: Checkpoints, step: int) -> None:
    victim = checkpoints.path(step) / "model.safetensors"
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    ("average_of", "lost", "values", "chosen", "said", "best"),
    [
        (2, 12, (0.5, 0.1), 6, "set aside: it is left out of the average", 0.5),
        (2, 12, (0.5, 0.6, 0.7), 12, "set aside: what else is whole is judged anew", 0.7),
        (1, 6, (0.5, 0.1, 0.7, 0.4), 6, "set aside: what else is whole is judged anew", 0.7),
        (1, 6, (0.5, 0.1, 0.4, 0.7), 12, "set aside: what else is whole is judged anew", 0.7),
    ],
    ids=["of the average", "the best and last", "the best, still the best as written", "the best, the last is better"],
)
def test_a_checkpoint_lost_before_the_end_is_told_and_done_without(
    average_of: int,
    lost: int,
    values: tuple[float, ...],
    chosen: int,
    said: str,
    best: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weights of the best are in the run folder, too, as they were written when they were judged."""
    given = iter(values)
    monkeypatch.setattr(Judge, "__call__", lambda _, __: Verdict(loss=1.0, value=next(given), metrics={}))
    folder = RunFolder(tmp_path / "run")
    whole: dict[int, dict[str, torch.Tensor]] = {}
    warnings: list[Warned] = []

    def observe(event: Event) -> None:
        if isinstance(event, Ended):
            whole.update({step: folder.checkpoints.model(step) for step in (6, 12)})
            damage(folder.checkpoints, lost)
        elif isinstance(event, Warned):
            warnings.append(event)

    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(40))
    recipe = toy_recipe(tmp_path / "run", pairs, f"training.average={average_of}")
    trained = train(recipe, observers=[observe])
    assert next(given, None) is None
    assert all(torch.equal(tensor, whole[chosen][name]) for name, tensor in folder.read_weights().items())
    (warning,) = warnings
    assert warning.kind == "damaged"
    assert warning.text.startswith(f"{folder.checkpoints.path(lost)}: the checkpoint is damaged (model.safetensors")
    assert warning.text.endswith(said)
    assert folder.checkpoints.steps() == [18 - lost]
    assert trained.outcome.progress.best == best


def test_without_any_weights_it_says_how_to_go_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")

    def observe(event: Event) -> None:
        if isinstance(event, Ended):
            for step in folder.checkpoints.steps():
                damage(folder.checkpoints, step)
            folder.weights.write_bytes(b"nothing")

    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(40))
    recipe = toy_recipe(tmp_path / "run", pairs)
    with pytest.raises(
        ModelError, match=r"step-000000\d\d: .*no other weights to end with: run the same command again"
    ):
        train(recipe, observers=[observe])
    assert train(recipe).outcome.progress.step == 12

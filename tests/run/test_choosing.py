"""Which weights a run ends with: the best checkpoint, or the average of the last few where that is judged better."""

import math
from pathlib import Path

import pytest
import torch

from regard.models import System
from regard.run.folder import RunFolder
from regard.run.training import train
from regard.run.validation import Judge
from regard.training import Verdict, average
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

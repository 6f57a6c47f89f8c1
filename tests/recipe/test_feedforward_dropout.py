"""Dropout inside the feed-forward part can differ from that between the parts."""

import pytest
import torch

from regard.data.batch import make_batch
from regard.nn.feedforward import FeedForward
from regard.nn.transformer import Residual
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection

ROWS = [[5, 6, 7, 8]] * 3


def section(dropout: float, inside: float | None) -> ModelSection:
    side = {"kind": "transformer", "heads": 2, "feedforward_dropout": inside}
    return ModelSection.model_validate({"width": 8, "dropout": dropout, "encoder": side, "decoder": side})


@pytest.mark.parametrize(("inside", "expected"), [(None, 0.3), (0.0, 0.0), (0.5, 0.5)])
def test_every_layer_of_both_sides_has_it(inside: float | None, expected: float) -> None:
    system = build_system(section(0.3, inside), source_vocabulary=9, target_vocabulary=9)
    assert {part.dropout for part in system.modules() if isinstance(part, FeedForward)} == {expected}
    assert {part.dropout for part in system.modules() if isinstance(part, Residual)} == {0.3}


@pytest.mark.parametrize(("inside", "same"), [(None, True), (0.5, False)])
def test_it_alone_makes_training_random(inside: float | None, same: bool) -> None:
    torch.manual_seed(0)
    system = build_system(section(0.0, inside), source_vocabulary=9, target_vocabulary=9).train()
    batch = make_batch(ROWS, ROWS)
    losses = {float(system.loss(batch).sum.detach()) for _ in range(2)}
    assert (len(losses) == 1) is same
    system.eval()
    assert len({float(system.loss(batch).sum.detach()) for _ in range(2)}) == 1

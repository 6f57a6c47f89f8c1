"""Checkpoints that can be told apart, for the tests of what becomes of them."""

import torch

from regard.training import Checkpoint


def checkpoint(step: int, numbers: int = 64) -> Checkpoint:
    """A checkpoint whose every number follows from its step; `numbers` is how many its tensors have, about."""
    rising = torch.arange(numbers // 2, dtype=torch.float32)
    return Checkpoint(
        step=step,
        model={"a": rising + step, "b": torch.full((2, 3), float(step))},
        optimizer={"a/step": torch.tensor(float(step)), "a/moment": rising * step},
        state={"progress": {"step": step, "seconds": 0.1 + step}, "name": "ü"},
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two are equal in every bit."""
    pairs = [(one.model, other.model), (one.optimizer, other.optimizer)]
    return (one.step, dict(one.state)) == (other.step, dict(other.state)) and all(
        mine.keys() == yours.keys() and all(torch.equal(mine[name], yours[name]) for name in mine)
        for mine, yours in pairs
    )

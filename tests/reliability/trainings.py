"""A training that takes less than a second."""

from pathlib import Path

import torch

from regard.data.corpus import StoreCorpus
from regard.models import System
from regard.run.log import LogWriter
from regard.training import Checkpoints, Settings, Trainer, Verdict
from tests.toys import toy_collation, toy_store, toy_system


def trainer(folder: Path, steps: int, system: System | None = None) -> Trainer:
    """A training of a few steps with a checkpoint every other, and its log beside them."""
    torch.manual_seed(1)
    return Trainer(
        system or toy_system(dropout=0.2),
        StoreCorpus(toy_store(folder.parent / "store"), toy_collation(), tokens=50, seed=5),
        settings=Settings(seed=7, steps=steps, learning_rate=0.01, warmup=4, validate_every=4, save_every=2),
        validate=lambda system: Verdict(loss=1.0, value=1.0, metrics={}),
        checkpoints=Checkpoints(folder),
        observers=[LogWriter(folder.parent / "log.jsonl")],
    )

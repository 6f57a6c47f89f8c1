"""Every objective, and noise, on a toy task: the truth becomes more likely than any guess could make it."""

from itertools import islice
from pathlib import Path

import pytest
import torch

from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.data.corruption import Corruption
from regard.models import System
from regard.training.decay import InverseSigmoidDecay, LinearDecay
from regard.training.objective import Likelihood, Objective
from regard.training.rdrop import RDrop
from regard.training.sampled_inputs import ScheduledSampling
from tests.toys import toy_collation, toy_store, toy_system

UPDATES = 120
GUESSED = 1.97  # nats a token, of whoever knows the letters and lengths but not the source
PLAIN = Likelihood(smoothing=0.05)
OBJECTIVES: dict[str, Objective] = {
    "likelihood": PLAIN,
    "linear": ScheduledSampling(inner=PLAIN, decay=LinearDecay(slope=0.01, floor=0.3)),
    "inverse sigmoid, R-Drop": ScheduledSampling(
        inner=RDrop(weight=0.5, smoothing=0.05), decay=InverseSigmoidDecay(k=20.0), draw="best"
    ),
    "R-Drop": RDrop(weight=0.5, smoothing=0.05),
}


def judged(system: System, corpus: StoreCorpus) -> float:
    """Nats for each token of all pairs."""
    system.eval()
    with torch.no_grad():
        losses = [system.loss(batch) for batch in corpus.once()]
    return float(sum(loss.parts["likelihood"] for loss in losses)) / sum(loss.count for loss in losses)


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "transformer") for name in OBJECTIVES), ("linear", "rnn"), ("inverse sigmoid, R-Drop", "rnn")],
)
def test_a_toy_is_learned(name: str, kind: str, tmp_path: Path) -> None:
    system = toy_system(kind=kind)
    corruption = Corruption(replace=0.02, mask=0.05, word_dropout=0.1) if name == "likelihood" else None
    corpus = StoreCorpus(toy_store(tmp_path), toy_collation(), tokens=100, seed=1, corruption=corruption)
    assert judged(system, corpus) > GUESSED
    optimizer = torch.optim.Adam(system.parameters(), lr=0.02)
    for step, (_, (batch,)) in enumerate(islice(corpus.from_(Cursor(), 1), UPDATES), start=1):
        system.train()
        loss = OBJECTIVES[name](system, batch, step=step)
        optimizer.zero_grad()
        (loss.sum / loss.count).backward()
        optimizer.step()
    assert judged(system, corpus) < 0.7 * GUESSED

"""How well hidden items of a text are found."""

from collections.abc import Sequence

import numpy as np
import torch

from regard.data.collation import Collation
from regard.data.corpus import NO_EPOCH
from regard.data.example import Example
from regard.metrics import Score, perplexity
from regard.metrics.resampling import Statistics, summarise
from regard.models import MaskedLanguageModel

BATCH = 64
SEED = 1
"""What is hidden of a set is the same whoever measures it, whenever."""


@torch.no_grad()
def masked_scores(
    system: MaskedLanguageModel, collation: Collation, examples: Sequence[Example], *, resamples: int
) -> list[Score]:
    """Accuracy and perplexity at the hidden items, chosen as in training, of all examples; nothing without any."""
    losses: list[float] = []
    found: list[tuple[int, int]] = []
    for start in range(0, len(examples), BATCH):
        encoded = [collation.encode(one.source, one.target) for one in examples[start : start + BATCH]]
        rows = {name: [one[name] for one in encoded] for name in collation.streams}
        batch = collation.batch(rows, [(SEED, NO_EPOCH, start + number) for number in range(len(encoded))])
        said = system.log_probabilities(batch.sources)  # (B, N, V)
        chosen = said.gather(-1, batch.outputs.unsqueeze(-1)).squeeze(-1)
        right = (said.argmax(-1) == batch.outputs) & batch.mask
        losses += (-chosen.masked_fill(~batch.mask, 0.0)).sum(1).clamp(min=0).tolist()
        found += zip(right.sum(1).tolist(), batch.mask.sum(1).tolist(), strict=True)
    if not found:
        return []
    unit = "hidden"
    return [
        summarise(
            np.array(found, dtype=np.float64),
            _share,
            name="masked accuracy",
            signature="case:mixed|version:regard-1",
            higher_is_better=True,
            resamples=resamples,
        ),
        perplexity(losses, [count for _, count in found], unit=unit, name="perplexity (masked)", resamples=resamples),
    ]


def _share(totals: Statistics) -> tuple[float, dict[str, float]]:
    right, asked = totals.tolist()
    return 100.0 * right / asked, {"right": right, "asked": asked}

"""Two draws of dropout that must agree (R-Drop: Liang et al. 2021).

Shapes: B rows, R places that are asked about, V vocabulary.
"""

from dataclasses import dataclass

import torch

from regard.data.batch import Batch, join_sources
from regard.models import Loss, System
from regard.nn.agreement import projected_agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class RDrop:
    """½ (L_1 + L_2) + w · ½ (KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1)), summed over tokens.

    Both passes are one batch of twice the rows, so each row has dropout of its own. Equation 4 of the paper, and its
    authors' code, add the losses of both passes where here is their mean, so that a loss stays a loss per token: their
    α is 2 w, and all else is a factor of the learning rate. Gradients flow through both distributions.
    """

    weight: float
    smoothing: float = 0.0

    def __call__(self, system: System, batch: Batch, *, step: int) -> Loss:  # noqa: ARG002
        labels = system.labels(batch)
        total, likelihood, divergence = projected_agreement(
            system.distribution(twice(batch)), labels, smoothing=self.smoothing, weight=self.weight
        )
        return Loss(sum=total, count=len(labels), parts={"likelihood": likelihood, "divergence": divergence})


def twice(batch: Batch) -> Batch:
    """All rows, and then all rows again."""
    return Batch(
        sources=join_sources((batch.sources, batch.sources)),
        inputs=torch.cat((batch.inputs, batch.inputs)),
        outputs=torch.cat((batch.outputs, batch.outputs)),
        mask=torch.cat((batch.mask, batch.mask)),
    )

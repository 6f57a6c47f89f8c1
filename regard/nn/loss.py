"""Cross-entropy over a sequence, with label smoothing.

Shapes: R real tokens, V vocabulary.
"""

from torch import Tensor


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over tokens of the smoothed loss and of the plain negative log-likelihood: (R, V), (R,) → scalars.

    Szegedy et al. 2016, section 7: the target distribution is (1 - ε) · one-hot + ε / V.
    """
    normaliser = logits.logsumexp(-1)  # (R,)
    likelihood = (normaliser - logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)).sum()
    if not smoothing:
        return likelihood, likelihood
    uniform = (normaliser - logits.mean(-1)).sum()
    return (1 - smoothing) * likelihood + smoothing * uniform, likelihood

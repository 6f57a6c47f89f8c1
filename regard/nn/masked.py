"""The head of a masked language model.

Shapes: B rows, N items, V vocabulary, D width.
"""

from torch import Tensor, nn
from torch.nn import functional


class MaskedHead(nn.Module):
    """Says which token stood at each place: E · norm(GELU(h W + b)) + c (Devlin et al. 2019, as in their code)."""

    def __init__(self, *, width: int, vocabulary: int, norm_epsilon: float = 1e-12) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=norm_epsilon)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, states: Tensor) -> Tensor:
        """(B, N, D) → (B, N, V)."""
        return self.output(self.norm(functional.gelu(self.dense(states))))

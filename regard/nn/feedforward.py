"""The position-wise feed-forward part of a Transformer layer."""

from torch import Tensor, nn
from torch.nn import functional

from regard.nn.dropout import dropout


class FeedForward(nn.Module):
    """Vaswani et al. 2017, equation 2: max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, *, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.dropout = dropout
        for projection in (self.inner, self.outer):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(self, states: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        active = functional.relu(self.inner(states))
        return self.outer(dropout(active, self.dropout, self.training))

"""The position-wise feed-forward part of a Transformer layer."""

from typing import Final, Literal

from torch import Tensor, nn
from torch.nn import functional

from regard.nn.dropout import dropout, rectified_projection

Activation = Literal["relu", "gelu", "silu", "swiglu", "geglu"]
GATED: Final = ("swiglu", "geglu")


class FeedForward(nn.Module):
    """Two linear maps with something between them that is not linear.

    `relu`: max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, equation 2). `gelu`: the same with x Φ(x) in the place
    of max(0, x) (Hendrycks & Gimpel 2016). `silu`: the same with x σ(x) (also called Swish). `swiglu` and `geglu`:
    (Swish(x W) ∘ x V) W_2 and (GELU(x W) ∘ x V) W_2 (Shazeer 2020, equation 6), the GELU of the latter with the tanh
    in the place of Φ that T5 has. Without `bias`, gated ones have no biases, as in the paper, and the others do.
    """

    def __init__(
        self, *, width: int, inner: int, dropout: float, activation: Activation = "relu", bias: bool | None = None
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        gated = activation in GATED
        bias = not gated if bias is None else bias
        self.inner = nn.Linear(width, 2 * inner if gated else inner, bias=bias)
        self.outer = nn.Linear(inner, width, bias=bias)
        self.dropout = dropout
        for weight in (*self.inner.weight.split(inner), self.outer.weight):
            nn.init.xavier_uniform_(weight)
        for projection in (self.inner, self.outer):
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(self, states: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        return self.outer(self.inside(states))

    def inside(self, states: Tensor) -> Tensor:
        """What the second map sees."""
        if self.activation == "relu":
            return rectified_projection(self.inner, states, self.dropout, self.training)
        return dropout(self._active(self.inner(states)), self.dropout, self.training)

    def _active(self, inner: Tensor) -> Tensor:
        match self.activation:
            case "relu":
                return functional.relu(inner)
            case "gelu":
                return functional.gelu(inner)
            case "silu":
                return functional.silu(inner)
            case "geglu":
                gate, value = inner.chunk(2, dim=-1)
                return functional.gelu(gate, approximate="tanh") * value
            case "swiglu":
                gate, value = inner.chunk(2, dim=-1)
                return functional.silu(gate) * value

"""The residual connection and norm around one part of a Transformer layer.

Post-norm is the paper's (Vaswani et al. 2017, section 3.1: LayerNorm(x + Sublayer(x))); pre-norm is
x + Sublayer(LayerNorm(x)), which trains without care for the warm-up.
"""

from torch import Tensor, nn

from regard.kernels.parts import Around
from regard.nn.dropout import add_dropped, norm_projected
from regard.nn.plain import is_plain


class Residual(nn.Module):
    """The residual connection and layer norm around one part of a layer."""

    def __init__(self, *, norm: nn.Module, norm_first: bool, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.norm_first = norm_first
        self.dropout = dropout

    def enter(self, states: Tensor) -> Tensor:
        """What the part sees."""
        return self.norm(states) if self.norm_first else states

    def leave(self, states: Tensor, result: Tensor) -> Tensor:
        """What the next part sees."""
        total = add_dropped(states, result, self.dropout, self.training)
        return total if self.norm_first else self.norm(total)

    def leave_through(self, projection: nn.Linear | None, states: Tensor, inside: Tensor) -> Tensor:
        """The same, where the result is a projection of what the part has made."""
        if projection is None or self.norm_first:
            return self.leave(states, inside if projection is None else projection(inside))
        return norm_projected(self.norm, states, inside, projection, self.dropout, self.training)

    def around(self, projection: nn.Linear | None) -> Around | None:
        """The same as what is asked of a kernel that does all of a part; None where it is more or other than that."""
        norm = self.norm
        if self.norm_first or projection is None or not is_plain(norm, nn.LayerNorm):
            return None
        assert isinstance(norm, nn.LayerNorm)
        if not is_plain(projection, nn.Linear) or projection.bias is None or norm.bias is None:
            return None
        width = len(projection.weight)
        if norm.normalized_shape != (width,) or len(projection.bias) != width:
            return None
        return Around(projection.weight, projection.bias, norm.weight, norm.bias, self.dropout, norm.eps)

"""The deep output of the recurrent translators of 2014 and 2015."""

from collections.abc import Sequence

from torch import Tensor, nn

from regard.nn.linear import mapped


class Maxout(nn.Module):
    """Of each pair of sums of products, the larger: t_i = max(t̃_{2i-1}, t̃_{2i}), t̃ = Σ_k W_k x_k.

    Goodfellow et al. 2013, as in Cho et al. 2014, A.1.2, and Bahdanau et al. 2015, A.2.2.
    """

    def __init__(self, *, inputs: Sequence[int], width: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(size, 2 * width, bias=index == 0) for index, size in enumerate(inputs))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Each (..., I_k), as many as there were widths → (..., width)."""
        first, *others = [mapped(part, one) for part, one in zip(self.parts, inputs, strict=True)]
        total: Tensor = sum(others, start=first)
        return total.unflatten(-1, (-1, 2)).amax(-1)

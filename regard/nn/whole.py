"""Parts of a Transformer layer that learn in half precision, each with what goes around it in one call of the kernels.

Where a part is more or other than its class says, or nobody has kernels for it, there is no such call: None.
"""

import torch
from torch import Tensor, nn

from regard.kernels import attention as native
from regard.kernels import parts
from regard.kernels.calls import serves
from regard.kernels.products import in_half
from regard.nn.attention import Attention, Keys
from regard.nn.dropout import MOST
from regard.nn.feedforward import FeedForward
from regard.nn.plain import is_plain
from regard.nn.relations import Relations
from regard.nn.residual import Residual
from regard.nn.sites import Site, watched


def fed_whole(feedforward: FeedForward, around: Residual, site: Site, states: Tensor) -> Tensor | None:
    """dropout(max(0, x W_1 + b_1)) W_2 + b_2, and around it."""
    if not _learns(around, feedforward, FeedForward) or watched(site):
        return None
    if feedforward.activation != "relu" or feedforward.dropout > MOST:
        return None
    inner, out = _parameters(feedforward.inner), around.around(feedforward.outer)
    if inner is None or out is None or not serves(states, *inner, *out[:4]):
        return None
    (weight, bias), width = inner, states.size(-1)
    if weight.shape != (len(bias), width) or out.weight.shape != (width, len(weight)):
        return None
    return parts.fed(states, inner, feedforward.dropout, out)


def attended_within_whole(
    attention: Attention,
    around: Residual,
    states: Tensor,
    mask: Tensor | None,
    relations: Relations | None,
    *,
    causal: bool,
) -> Tensor | None:
    """Self-attention, and around it."""
    if not _learns(around, attention, Attention):
        return None
    how, out = attention.natively(causal, relations), around.around(attention.output)
    query, joined = _parameters(attention.query), _parameters(attention.key_value)
    if how is None or out is None or query is None or joined is None or not serves(*out[:4]):
        return None
    if not _leads_back(out, query, states) or not native.attends_within(states, query, joined, mask, how):
        return None
    return parts.attended_within(states, query, joined, mask, how, out)


def attended_whole(
    attention: Attention, around: Residual, states: Tensor, keys: Keys, mask: Tensor | None
) -> Tensor | None:
    """Cross-attention, and around it."""
    if not _learns(around, attention, Attention):
        return None
    how, out, query = attention.natively(False, None), around.around(attention.output), _parameters(attention.query)
    if how is None or out is None or query is None or keys.joined is None or not serves(states, *query, *out[:4]):
        return None
    if not _leads_back(out, query, states) or not native.attends_from(states, query, keys.joined, mask, how):
        return None
    return parts.attended(states, query, keys.joined, mask, how, out)


def _learns(around: Residual, part: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a part and what goes around it are of just these classes, and learn in half precision."""
    if not is_plain(around, Residual) or not is_plain(part, kind):
        return False
    learns = part.training and around.training and around.dropout <= MOST
    return learns and torch.is_grad_enabled() and in_half()


def _leads_back(out: parts.Around, query: native.Projected, states: Tensor) -> bool:
    """Whether what all heads make becomes as wide as the states are."""
    return out.weight.shape == (states.size(-1), len(query[0]))


def _parameters(projection: nn.Linear | None) -> native.Projected | None:
    """Weight and bias, where both are there and nothing else is."""
    if projection is None or not is_plain(projection, nn.Linear) or projection.bias is None:
        return None
    return projection.weight, projection.bias

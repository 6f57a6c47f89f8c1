"""Less memory for more time: layers keep their inputs only, and compute the rest again in the backward pass."""

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.errors import UsageError
from regard.nn.recurrent import RecurrentLayer
from regard.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer

LAYERS = (TransformerEncoderLayer, TransformerDecoderLayer, RecurrentLayer)


def recompute_layers(system: nn.Module) -> None:
    """Let every layer of a system do so in training. Dropout draws the same numbers again: the gradient is the same."""
    layers = [module for module in system.modules() if isinstance(module, LAYERS)]
    if not layers:
        raise UsageError("`training.recompute` has no effect on a model without layers; leave it out")
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)  # type: ignore[method-assign]

"""More speed for long runs: Transformer layers are compiled when they first learn from a batch.

Recurrent layers are left as they are: their kernels are fused already, and loops over steps would be compiled anew for
every length. Validation and search run the layers as they are, so that what is judged is what is used later.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import UsageError
from regard.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer

LAYERS = (TransformerEncoderLayer, TransformerDecoderLayer)

Forward = Callable[..., Tensor]


def compile_layers(system: nn.Module) -> None:
    """Let every Transformer layer of a system be compiled, for batches of any size."""
    layers = [module for module in system.modules() if isinstance(module, LAYERS)]
    if not layers:
        raise UsageError("`training.compile` is for Transformer layers, and this model has none; leave it out")
    check_compiler()
    for layer in layers:
        compiled = torch.compile(layer.forward, dynamic=True)
        layer.forward = partial(_forward, layer, layer.forward, compiled)  # type: ignore[method-assign]


def check_compiler() -> None:
    """Refuse a machine that cannot compile, before training begins."""
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(compiler) is None:
        raise UsageError(
            f"`training.compile` needs a C++ compiler, and {compiler} is not there; install it, name another one in "
            "the environment variable CXX, or leave `training.compile` out"
        )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        raise UsageError(
            f"`training.compile` needs the headers of Python, and {header} is not there; install them (python3-dev, "
            "python3-devel), or leave `training.compile` out"
        )


def _forward(layer: nn.Module, plain: Forward, compiled: Forward, *inputs: object, **named: object) -> Tensor:
    return (compiled if layer.training else plain)(*inputs, **named)

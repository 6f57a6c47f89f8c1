"""Whether a module does what its class says and nothing else, so that its parameters may be used without calling it.

People put other modules in the place of ours (adapters), and hang hooks on them (pruning, sharding, their own looks).
"""

from collections.abc import Iterator

from torch import Tensor, nn


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module is of just this class, and nobody hangs on it."""
    return type(module) is kind and "forward" not in module.__dict__ and not is_hooked(module)


def is_hooked(module: nn.Module) -> bool:
    """Whether a call of a module is more than its `forward`."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def is_whole(module: nn.Module) -> bool:
    """Whether no module inside is hooked, and all parameters are plain tensors in this machine's memory."""
    for one in _inside(module):
        if is_hooked(one):
            return False
        for tensor in one._parameters.values():
            if tensor is not None and not ((type(tensor) is nn.Parameter or type(tensor) is Tensor) and tensor.is_cpu):
                return False
    return True


def _inside(module: nn.Module) -> Iterator[nn.Module]:
    """A module and all inside it, with less ado than `nn.Module.modules`: a shared one may come twice."""
    yield module
    for one in module._modules.values():
        if one is not None:
            yield from _inside(one)

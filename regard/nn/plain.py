"""Whether a module does what its class says and nothing else, so that its parameters may be used without calling it.

People put other modules in the place of ours (adapters), and hang hooks on them (pruning, sharding, their own looks).
"""

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
    if any(is_hooked(one) for one in module.modules()):
        return False
    return all((type(one) is Tensor or type(one) is nn.Parameter) and one.is_cpu for one in module.parameters())

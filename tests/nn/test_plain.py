"""Which modules may be replaced by their parameters."""

import pytest
import torch
from torch import nn

from regard.nn.plain import is_hooked, is_plain, is_whole


class Other(nn.Linear):
    pass


def test_a_module_of_another_class_or_with_a_way_of_its_own_is_not_plain() -> None:
    module = nn.Linear(2, 2)
    assert is_plain(module, nn.Linear)
    assert not is_plain(module, nn.LayerNorm)
    assert not is_plain(Other(2, 2), nn.Linear)
    module.forward = lambda given: given  # type: ignore[method-assign]
    assert not is_plain(module, nn.Linear)


@pytest.mark.parametrize(
    "name",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ],
)
def test_hooks_anywhere_inside_are_seen(name: str) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert is_whole(module)
    handle = getattr(module[0], name)(lambda *_: None)
    assert is_hooked(module[0])
    assert not is_hooked(module)
    assert not is_plain(module[0], nn.Linear)
    assert not is_whole(module)
    handle.remove()
    assert is_whole(module)


def test_parameters_that_are_not_here_are_seen() -> None:
    assert not is_whole(nn.Linear(2, 2, device="meta"))

    class Part(torch.Tensor):
        pass

    module = nn.Linear(2, 2)
    module.weight = nn.Parameter(torch.zeros(2, 2).as_subclass(Part))
    assert not is_whole(module)

"""Products in half precision beside kernels in single precision: as torch.autocast has them, forward and backward."""

import ctypes
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.data.batch import make_batch
from regard.kernels.library import loaded
from regard.kernels.products import narrowed, product_gradients, projected, widened
from regard.nn import TransformerEncoderLayer
from tests.toys import toy_system

HALF = torch.bfloat16
Loss = Callable[[], Tensor]


def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*module.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def apart(one: Tensor, other: Tensor) -> float:
    """How large the difference is, as a part of the other."""
    one, other = one.detach().double(), other.detach().double()
    return float((one - other).norm() / other.norm().clamp_min(1e-12))


def in_half(loss: Loss) -> Tensor:
    with torch.autocast("cpu", dtype=HALF):
        return loss()


def test_precision_follows_autocast() -> None:
    one, other = torch.randn(3, 4), torch.randn(2, 3).double()
    assert narrowed(one) is one
    assert widened(one) is one
    assert widened(other) is other
    with torch.autocast("cpu", dtype=HALF):
        assert narrowed(one).dtype is HALF
        assert projected(one, torch.randn(5, 4)).dtype is torch.float32
    assert widened(one.bfloat16()).dtype is torch.float32


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_gradients_are_those_of_torch(shape: tuple[int, ...]) -> None:
    inputs, weight = (torch.randn(one, dtype=HALF, requires_grad=True) for one in (shape, (5, 7)))
    made = projected(inputs, weight)
    errors = torch.randn_like(made)
    expected = torch.autograd.grad(made, (inputs, weight), errors)
    found = product_gradients(errors.view(-1, 5), inputs, weight, (True, True))
    for one, other in zip(found, expected, strict=True):
        assert one is not None
        assert one.dtype is torch.float32
        assert torch.equal(one.to(HALF), other)
    assert product_gradients(errors.view(-1, 5), inputs, weight, (False, False)) == (None, None)


def encoder_layer() -> tuple[nn.Module, Loss]:
    torch.manual_seed(2)
    layer = TransformerEncoderLayer(width=32, heads=2, inner=48, norm_first=False, dropout=0.0, layer=0).train()
    states, mask = torch.randn(3, 6, 32), torch.ones(3, 1, 1, 6, dtype=torch.bool)
    mask[0, ..., 4:] = False
    return layer, lambda: (layer(states, mask) * torch.linspace(-1, 1, 32)).square().sum()


def system() -> tuple[nn.Module, Loss]:
    torch.manual_seed(3)
    made = toy_system(dropout=0.0, kind="transformer").train()
    batch = make_batch([[4, 5, 6], [7, 4]], [[5, 6], [4, 7, 8, 5]])
    return made, lambda: made.loss(batch).sum


@pytest.mark.parametrize("make", [encoder_layer, system])
def test_kernels_change_no_more_than_half_precision_does(
    kernels: ctypes.CDLL, make: Callable[[], tuple[nn.Module, Loss]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against single precision, with kernels and without: both are as far from it as products in half precision are."""
    module, loss = make()
    exact = loss()
    wanted = gradients(module, exact)
    ours = in_half(loss)
    found = gradients(module, ours)
    monkeypatch.setenv("REGARD_KERNELS", "off")
    loaded.cache_clear()
    theirs = in_half(loss)
    others = gradients(module, theirs)
    monkeypatch.undo()
    loaded.cache_clear()
    assert apart(ours, exact) < max(2 * apart(theirs, exact), 0.01)
    assert ours.item() != exact.item()  # products were narrow
    for name, one in wanted.items():
        assert found[name].dtype is torch.float32
        assert apart(found[name], one) < max(2 * apart(others[name], one), 0.03), name

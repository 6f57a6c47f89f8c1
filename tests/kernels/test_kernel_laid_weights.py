"""Weights that are laid out once for many products, and the recurrences that learn with them in half precision."""

import ctypes
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.data.batch import Batch, make_batch
from regard.kernels.calls import has_half
from regard.kernels.products import Packed
from regard.models import EncoderDecoder
from regard.nn import linear, loops
from regard.nn import loss as loss_module
from regard.nn.loops import LoopLinear
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection

HALF = torch.bfloat16
CELLS = ("lstm", "gru", "gru_cho", "elman")


@pytest.fixture(autouse=True)
def half(built: ctypes.CDLL) -> None:
    if not has_half():
        pytest.skip("this processor has no products of bfloat16")


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 70),
    inputs=st.integers(1, 150),
    outputs=st.integers(1, 150),
    narrow=st.booleans(),
    wide_result=st.booleans(),
    turned=st.booleans(),
)
def test_products_are_those_of_rounded_factors(
    rows: int, inputs: int, outputs: int, narrow: bool, wide_result: bool, turned: bool
) -> None:
    generator = torch.Generator().manual_seed(rows * 10000 + inputs * 100 + outputs)
    weight = torch.randn(outputs, inputs, generator=generator)
    factor = torch.randn(rows, inputs if turned else outputs, generator=generator).to(HALF if narrow else torch.float32)
    laid, exact = Packed(weight, turned=turned), weight.to(HALF).double()
    wanted = factor.to(HALF).double() @ (exact.t() if turned else exact)
    out = factor.new_full(wanted.shape, 7.0, dtype=torch.float32 if wide_result else HALF)
    share = 1e-5 if wide_result else 2.0**-8
    assert bool(((laid.multiply(factor, out).double() - wanted).abs() <= share * wanted.abs() + 1e-4).all())
    if wide_result:
        begun = torch.randn(wanted.shape, generator=generator)
        added = laid.multiply(factor, begun.clone(), adds=True)
        torch.testing.assert_close(added.double(), begun + wanted, rtol=1e-5, atol=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    laid = Packed(torch.randn(6, 4), turned=True)
    with pytest.raises(ValueError, match="is no product of this weight"):
        laid.multiply(torch.randn(3, 5), torch.empty(3, 6))
    with pytest.raises(ValueError, match="is no product of this weight"):
        laid.multiply(torch.randn(3, 4), torch.empty(3, 4))
    with pytest.raises(ValueError, match="must be plain"):
        laid.multiply(torch.randn(4, 3).t(), torch.empty(3, 6))
    with pytest.raises(ValueError, match="must be plain"):
        laid.multiply(torch.randn(3, 4).half(), torch.empty(3, 6))
    with pytest.raises(ValueError, match="must be in single precision"):
        laid.multiply(torch.randn(3, 4), torch.empty(3, 6, dtype=HALF), adds=True)
    with pytest.raises(ValueError, match=r"a bias of \(5,\)"):
        laid.multiply(torch.randn(3, 4), torch.empty(3, 6), bias=torch.randn(5))


def test_nothing_is_a_product_of_no_rows() -> None:
    assert Packed(torch.randn(6, 4), turned=True).multiply(torch.empty(0, 4), torch.empty(0, 6)).shape == (0, 6)


def test_weights_lie_in_this_machine_whatever_device_is_usual() -> None:
    weight, factor = torch.randn(6, 4), torch.randn(3, 4)
    with torch.device("meta"):
        laid = Packed(weight, turned=True)
    wanted = factor.to(HALF).double() @ weight.to(HALF).double().t()
    torch.testing.assert_close(laid.multiply(factor, torch.empty(3, 6)).double(), wanted, rtol=1e-5, atol=1e-5)


def looped(steps: int, asked: int) -> tuple[Tensor, Tensor, Tensor]:
    """What is said after `asked` of so many steps; the weight, and what was read."""
    torch.manual_seed(0)
    weight, given = torch.randn(12, 8, requires_grad=True), torch.randn(4, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=HALF):
        linear = LoopLinear(torch.zeros(steps, 4, 12), weight)
        said = torch.stack([linear(step, given) for step in range(asked)])
    return said, weight, given


def test_a_weight_must_stay_as_it_is_until_gradients_are_made() -> None:
    said, weight, _ = looped(2, 2)
    with torch.no_grad():
        weight.mul_(3)
    with pytest.raises(RuntimeError, match="changed in place"):
        said.sum().backward()


def test_a_loop_that_is_left_early_is_refused() -> None:
    said, weight, _ = looped(3, 2)
    with pytest.raises(ValueError, match="not of as many rows"):
        torch.autograd.grad(said.sum(), weight)


def test_numbers_of_other_kinds_are_read_too() -> None:
    torch.manual_seed(0)
    weight, given = torch.randn(12, 8, requires_grad=True), torch.randn(4, 8).half().requires_grad_()
    with torch.autocast("cpu", dtype=HALF):
        said = LoopLinear(torch.zeros(1, 4, 12), weight)(0, given)
    of_weight, of_given = torch.autograd.grad(said.sum(), (weight, given))
    assert (said.dtype, of_weight.dtype, of_given.dtype) == (torch.float32, torch.float32, torch.half)
    torch.testing.assert_close(said, given.float() @ weight.t(), rtol=0.02, atol=0.05)


def test_who_transforms_functions_is_left_to_torch() -> None:
    torch.manual_seed(0)
    weight, given = torch.randn(6, 4), torch.randn(5, 3, 4)
    with torch.autocast("cpu", dtype=HALF):
        many = torch.func.vmap(lambda one: linear.linear(one, weight))(given)
        slope = torch.func.grad(lambda one: linear.linear(one, weight).sum())(given[0])
    torch.testing.assert_close(many.float(), given @ weight.t(), rtol=0.02, atol=0.05)
    torch.testing.assert_close(slope, weight.sum(0).expand(3, 4), rtol=0.02, atol=0.05)


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What a test does after `by_torch.undo()` is laid out again."""
    monkeypatch.setattr(loops, "in_half", lambda: False)
    yield monkeypatch
    monkeypatch.undo()


def recurred(kind: torch.dtype) -> list[Tensor]:
    """The state after some steps, and gradients for bases, both weights and what was read."""
    generator = torch.Generator().manual_seed(1)
    steps, rows, width, read = 7, 33, 96, 64
    shapes = (steps, rows, width), (width, width), (width, read), (rows, read)
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    leaves = [(one * size).to(kind).requires_grad_() for one, size in zip(drawn, (1, 0.1, 0.1, 1), strict=True)]
    with torch.autocast("cpu", dtype=HALF, enabled=kind is torch.float32):
        mapped, state = LoopLinear(*leaves[:3]), torch.zeros(rows, width, dtype=kind)
        for step in range(steps):
            state = torch.tanh(mapped(step, state, leaves[3]))
    return [state.detach(), *torch.autograd.grad(state.double().square().sum(), leaves)]


def test_steps_are_nearer_than_those_by_torch(by_torch: pytest.MonkeyPatch) -> None:
    exact, slow = recurred(torch.float64), recurred(torch.float32)
    by_torch.undo()
    for wanted, one, other in zip(exact, recurred(torch.float32), slow, strict=True):
        assert float((one - wanted).norm()) < float((other - wanted).norm())
        assert float((one - wanted).norm()) < 0.01 * float(wanted.norm())


def built_system(cell: str, wiring: str) -> EncoderDecoder:
    torch.manual_seed(0)
    encoder = {"kind": "rnn", "cell": cell, "two_way": True, "width": 24}
    section = ModelSection(
        width=40, layers=1, dropout=0.0, encoder=encoder, decoder={"kind": "rnn", "wiring": wiring, "cell": cell}
    )
    system = build_system(section, source_vocabulary=90, target_vocabulary=90)
    assert isinstance(system, EncoderDecoder)
    return system.train()


def a_batch() -> Batch:
    generator = torch.Generator().manual_seed(3)

    def texts() -> list[list[int]]:
        sizes = torch.randint(1, 9, (12,), generator=generator).tolist()
        return [torch.randint(4, 90, (size,), generator=generator).tolist() for size in sizes]

    return make_batch(texts(), texts())


def learned(system: EncoderDecoder, batch: Batch, *, half: bool) -> tuple[float, dict[str, Tensor]]:
    system.zero_grad()
    with torch.autocast("cpu", dtype=HALF, enabled=half):
        loss = system.loss(batch, smoothing=0.1).sum
    loss.backward()
    return loss.item(), {name: one.grad.clone() for name, one in system.named_parameters() if one.grad is not None}


@pytest.mark.parametrize(("cell", "wiring"), list(product(CELLS, ("bahdanau", "luong"))))
def test_translators_learn_more_exactly_than_by_torch(cell: str, wiring: str, by_torch: pytest.MonkeyPatch) -> None:
    system, batch = built_system(cell, wiring), a_batch()
    for module, name in ((linear, "in_half"), (loss_module, "loses_in_half")):
        by_torch.setattr(module, name, lambda *_: False)
    _, slow = learned(system, batch, half=True)
    by_torch.undo()
    wanted, right = learned(system, batch, half=False)
    loss, gradients = learned(system, batch, half=True)
    assert loss == pytest.approx(wanted, rel=2e-3)
    assert gradients.keys() == right.keys() == {name for name, _ in system.named_parameters()}

    def apart(found: dict[str, Tensor]) -> float:
        return sum(float((one - right[name]).square().sum()) for name, one in found.items()) ** 0.5

    whole = sum(float(one.square().sum()) for one in right.values()) ** 0.5
    assert apart(gradients) < min(apart(slow), 0.05 * whole)


def test_a_graph_can_be_gone_through_twice() -> None:
    system, batch = built_system("gru", "bahdanau"), a_batch()
    with torch.autocast("cpu", dtype=HALF):
        loss = system.loss(batch, smoothing=0.1).sum
    weights = list(system.parameters())
    first = torch.autograd.grad(loss, weights, retain_graph=True)
    assert all(torch.equal(one, other) for one, other in zip(first, torch.autograd.grad(loss, weights), strict=True))

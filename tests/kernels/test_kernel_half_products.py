"""Native products in half precision against those of rounded factors in double precision."""

import ctypes

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.kernels.calls import has_half
from regard.kernels.products import projected, projects

HALF = torch.bfloat16


@pytest.fixture(autouse=True)
def half(built: ctypes.CDLL) -> None:
    if not has_half():
        pytest.skip("this processor has no products of bfloat16")


def drawn(rows: int, inputs: int, outputs: int, narrow: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows * 10000 + inputs * 100 + outputs)
    states, weight, bias, errors = (
        torch.randn(shape, generator=generator)
        for shape in ((rows, inputs), (outputs, inputs), (outputs,), (rows, outputs))
    )
    states = states.to(HALF) if narrow else states
    return states.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), errors.to(HALF)


def near(found: Tensor, expected: Tensor) -> bool:
    """Whether all that differs is the rounding of sums and of narrow results."""
    share = 2.0**-8 if found.dtype is HALF else 1e-5
    return bool(((found.double() - expected).abs() <= share * expected.abs() + 1e-4).all())


@settings(deadline=None, max_examples=80)
@given(
    rows=st.integers(1, 300),
    inputs=st.integers(1, 150),
    outputs=st.integers(1, 150),
    narrow=st.booleans(),
    biased=st.booleans(),
)
def test_products_and_gradients_are_those_of_rounded_factors(
    rows: int, inputs: int, outputs: int, narrow: bool, biased: bool
) -> None:
    states, weight, bias, errors = drawn(rows, inputs, outputs, narrow)
    given = [states, weight, *([bias] if biased else [])]
    with torch.autocast("cpu", dtype=HALF):
        assert projects(states, weight, bias if biased else None)
        made = projected(states, weight, bias if biased else None)
    assert made.dtype is HALF
    found = torch.autograd.grad(made, given, errors)
    left, right, wrong = (one.detach().to(HALF).double() for one in (states, weight, errors))
    shift = bias.detach().double() if biased else torch.zeros(outputs, dtype=torch.float64)
    assert near(made.detach(), left @ right.t() + shift)
    for one, like, other in zip(found, given, (wrong @ right, wrong.t() @ left, wrong.sum(0)), strict=False):
        assert one.dtype is like.dtype
        assert near(one, other)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_a_row_is_the_same_in_every_batch_and_on_any_threads(rows: int) -> None:
    states, weight, bias, errors = drawn(rows, 96, 130, narrow=False)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            with torch.autocast("cpu", dtype=HALF):
                made = projected(states, weight, bias)
                alone = projected(states[-1:].detach(), weight, bias)
            assert torch.equal(made[-1:], alone)
            results.append((made, *torch.autograd.grad(made, (states, weight, bias), errors)))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_does_not_learn_has_no_gradient(frozen: int) -> None:
    states, weight, bias, errors = drawn(9, 8, 5, narrow=False)
    given = (states, weight, bias)
    given[frozen].requires_grad_(False)
    with torch.autocast("cpu", dtype=HALF):
        made = projected(states, weight, bias)
    made.backward(errors)
    assert [one.grad is None for one in given] == [index == frozen for index in range(3)]


def test_what_is_not_for_it_is_left_alone() -> None:
    states, weight, bias, _ = drawn(9, 8, 5, narrow=False)
    assert not projects(states, weight, bias)  # single precision is wanted
    with torch.autocast("cpu", dtype=HALF):
        assert projects(states, weight, bias)
        assert not projects(states[:0], weight, bias)
        assert not projects(states, weight.double(), bias)
        assert not projects(states, weight[:, :6].contiguous(), bias)
        assert not projects(states, weight, bias[:3])

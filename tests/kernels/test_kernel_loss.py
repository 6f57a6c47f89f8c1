"""The loss in half precision against that of rounded factors in double precision."""

import ctypes

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from regard.kernels.calls import has_half
from regard.nn import Projection, loss, projected_cross_entropy


@pytest.fixture(autouse=True)
def half(built: ctypes.CDLL) -> None:
    if not has_half():
        pytest.skip("this processor has no products of bfloat16")


def drawn(rows: int, width: int, vocabulary: int, bias: bool, scale: float = 1.0) -> tuple[Projection, Tensor]:
    generator = torch.Generator().manual_seed(rows * 1000 + width * 10 + vocabulary)
    shapes = ((rows, width), (vocabulary, width), (vocabulary,))
    made = [(torch.randn(shape, generator=generator) * scale).requires_grad_() for shape in shapes]
    labels = torch.randint(vocabulary, (rows,), generator=generator)
    return Projection(made[0], made[1], made[2] if bias else None), labels


def parameters(projection: Projection) -> list[Tensor]:
    return [one for one in (projection.features, projection.weight, projection.bias) if one is not None]


def in_half(projection: Projection, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor, list[Tensor]]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, likelihood = projected_cross_entropy(projection, labels, smoothing)
    return total, likelihood, list(torch.autograd.grad(0.3 * total, parameters(projection)))


def near(found: Tensor, expected: Tensor, share: float, size: float = 0.0) -> bool:
    return (
        float((found.double() - expected).norm())
        <= share * float(expected.norm()) + 5e-3 * size + 1e-5 * found.numel() ** 0.5
    )


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 260),
    width=st.integers(1, 140),
    vocabulary=st.integers(1, 300),
    bias=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1, 0.7]),
)
def test_value_and_gradients_are_those_of_rounded_factors(
    rows: int, width: int, vocabulary: int, bias: bool, smoothing: float
) -> None:
    projection, labels = drawn(rows, width, vocabulary, bias, scale=0.7)
    total, likelihood, found = in_half(projection, labels, smoothing)
    exact = [one.detach().bfloat16().double().requires_grad_() for one in (projection.features, projection.weight)]
    shift = None if projection.bias is None else projection.bias.detach().double().requires_grad_()
    logits = functional.linear(exact[0], exact[1], shift)
    expected = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    plain = functional.cross_entropy(logits, labels, reduction="sum")
    scale = max(1.0, logits.abs().max().item())
    assert abs(total.item() - expected.item()) <= 5e-3 * scale * rows
    assert abs(likelihood.item() - plain.item()) <= 1e-4 * scale * rows
    wanted = torch.autograd.grad(0.3 * expected, [*exact, *([] if shift is None else [shift])])
    for one, other in zip(found, wanted, strict=True):
        assert near(one, other, 0.01, size=rows**0.5 * smoothing + 2e-5 * rows)  # 1e-7 for each: that of float


def test_it_is_nearer_than_the_way_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    projection, labels = drawn(300, 64, 700, bias=True)
    exact, _ = projected_cross_entropy(projection, labels, 0.1)
    wanted = torch.autograd.grad(0.3 * exact, parameters(projection))
    total, _, found = in_half(projection, labels, 0.1)
    monkeypatch.setattr(loss, "loses_in_half", lambda *_: False)
    other, _, by_torch = in_half(projection, labels, 0.1)
    assert total.item() == pytest.approx(other.item(), rel=1e-3)
    for one, slow, right in zip(found, by_torch, wanted, strict=True):
        assert float((one - right).norm()) < float((slow - right).norm())


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_does_not_learn_has_no_gradient(frozen: int) -> None:
    projection, labels = drawn(10, 8, 20, bias=True)
    *_, whole = in_half(projection, labels, 0.1)
    parameters(projection)[frozen].requires_grad_(False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = projected_cross_entropy(projection, labels, 0.1)
    (0.3 * total).backward()
    for index, one in enumerate(parameters(projection)):
        assert (one.grad is None) == (index == frozen)
        assert one.grad is None or torch.equal(one.grad, whole[index])


def test_threads_change_nothing() -> None:
    projection, labels = drawn(400, 96, 1000, bias=True, scale=0.5)
    alone = in_half(projection, labels, 0.1)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        shared = in_half(projection, labels, 0.1)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone[0], shared[0])
    for one, other in zip(alone[2], shared[2], strict=True):
        assert torch.equal(one, other)


def test_labels_too_unlikely_to_compare_with_are_left_to_torch() -> None:
    labels = torch.zeros(3, dtype=torch.int64)
    features = torch.zeros(3, 4)
    features[1, 0] = 200.0
    weight = torch.zeros(5, 4)
    weight[:, 0] = torch.arange(5)
    likely = Projection(features.requires_grad_(), weight.requires_grad_())
    total, likelihood, found = in_half(likely, labels, 0.0)
    expected = functional.cross_entropy(features @ weight.t(), labels, reduction="sum")
    assert total.item() == pytest.approx(expected.item(), rel=1e-3)
    assert likelihood.item() == pytest.approx(expected.item(), rel=1e-3)
    for one, other in zip(found, torch.autograd.grad(0.3 * expected, [features, weight]), strict=True):
        assert near(one, other.double(), 0.02)


def test_what_is_no_number_is_told() -> None:
    projection, labels = drawn(7, 4, 5, bias=False)
    with torch.no_grad():
        projection.features[3, 1] = float("nan")
    total, likelihood, _ = in_half(projection, labels, 0.1)
    assert total.isnan()
    assert likelihood.isnan()

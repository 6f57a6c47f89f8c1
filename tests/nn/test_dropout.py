import math
from collections.abc import Callable

import pytest
import torch

from regard.nn import dropout
from regard.nn.dropout import add_dropped, kept, rectified_dropped


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_rate_and_scale(rate: float) -> None:
    torch.manual_seed(1)
    result = dropout(torch.ones(401, 997), rate, training=True)
    share = float((result == 0).double().mean())
    assert abs(share - rate) < 5 * math.sqrt(rate * (1 - rate) / result.numel())
    kept = result[result != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - rate)), rtol=2e-4, atol=0)


def test_every_lane_of_a_draw_is_even() -> None:
    torch.manual_seed(2)
    zeros = (dropout(torch.ones(8, 250_000).T.contiguous(), 0.25, training=True) == 0).double()  # lanes are columns
    assert (zeros.mean(0) - 0.25).abs().max() < 0.005
    together = torch.corrcoef(zeros.T) - torch.eye(8, dtype=torch.double)
    assert together.abs().max() < 0.01


def test_nothing_happens_outside_training_or_without_a_rate() -> None:
    states = torch.randn(3, 5)
    assert dropout(states, 0.5, training=False) is states
    assert dropout(states, 0.0, training=True) is states


def test_same_seed_same_mask_and_gradient_follows_it() -> None:
    states = torch.randn(7, 9, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(states, 0.4, training=True)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(states, 0.4, training=True))
    first.sum().backward()
    assert states.grad is not None
    torch.testing.assert_close(states.grad * states.detach(), first.detach())


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.25 - 1e-9, 0.3, 0.999])
def test_a_rate_between_two_levels_is_met(rate: float) -> None:
    torch.manual_seed(4)
    result = dropout(torch.ones(40_000, 50), rate, training=True)
    share = float((result == 0).double().mean())
    assert abs(share - rate) < 5 * math.sqrt(rate * (1 - rate) / result.numel())


def test_a_rate_just_below_a_level_is_that_level() -> None:
    torch.manual_seed(4)
    below = kept(torch.ones(1000, 50), 0.25 - 1e-12)
    torch.manual_seed(4)
    assert torch.equal(below, kept(torch.ones(1000, 50), 0.25))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 4), (4, 0), (2, 3, 9)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    states = torch.ones(shape)
    assert dropout(states, 0.5, training=True).shape == shape
    assert add_dropped(states, states, 0.5, training=True).shape == shape
    assert rectified_dropped(states, 0.5, training=True).shape == shape


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(5)
    states, result = torch.randn(2, 6, 7, dtype=torch.float64)
    return states.requires_grad_(), result.requires_grad_()


def mask_of(like: torch.Tensor, rate: float) -> torch.Tensor:
    torch.manual_seed(6)
    return kept(like, rate).double() / (1 - rate)


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_together_with_a_sum_or_a_rectifier_it_is_the_plain_expression(rate: float) -> None:
    states, result = drawn()
    mask = mask_of(result, rate)
    assert mask.unique().numel() == 2
    torch.manual_seed(6)
    torch.testing.assert_close(add_dropped(states, result, rate, training=True), states + result * mask)
    torch.manual_seed(6)
    torch.testing.assert_close(rectified_dropped(result, rate, training=True), result.relu() * mask)
    torch.manual_seed(6)
    torch.testing.assert_close(dropout(result, rate, training=True), result * mask)
    assert torch.equal(add_dropped(states, result, rate, training=False), states + result)
    assert torch.equal(rectified_dropped(result, rate, training=False), result.relu())


def test_gradients() -> None:
    def seeded(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def run(*inputs: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(7)
            return function(*inputs, 0.3, training=True)

        return run

    states, result = drawn()
    assert torch.autograd.gradcheck(seeded(add_dropped), (states, result))
    assert torch.autograd.gradcheck(seeded(rectified_dropped), (result,))
    assert torch.autograd.gradcheck(seeded(dropout), (result,))


def test_a_sum_of_two_precisions_is_wide_and_gradients_are_as_narrow_as_what_they_are_of() -> None:
    states = torch.randn(4, 8, requires_grad=True)
    result = torch.randn(4, 8, dtype=torch.bfloat16, requires_grad=True)
    total = add_dropped(states, result, 0.5, training=True)
    assert total.dtype == torch.float32
    total.sum().backward()
    assert states.grad is not None
    assert result.grad is not None
    assert torch.equal(states.grad, torch.ones(4, 8))
    assert result.grad.dtype == torch.bfloat16
    assert set(result.grad.unique().tolist()) <= {0.0, 2.0}


def test_one_of_two_sizes_is_repeated_in_a_sum() -> None:
    states = torch.zeros(3, 4)
    assert add_dropped(states, torch.ones(4), 0.5, training=True).shape == (3, 4)

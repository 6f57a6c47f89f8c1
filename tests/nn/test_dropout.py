import math

import pytest
import torch

from regard.nn import dropout


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
    zeros = (dropout(torch.ones(4, 250_000).T.contiguous(), 0.25, training=True) == 0).double()  # lanes are columns
    assert (zeros.mean(0) - 0.25).abs().max() < 0.005
    together = torch.corrcoef(zeros.T) - torch.eye(4, dtype=torch.double)
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

"""The share of true inputs, against the formulas of Bengio et al. 2015, section 2.4."""

import math

import pytest

from regard.training.decay import Decay, ExponentialDecay, InverseSigmoidDecay, LinearDecay, NoTruth

STEPS = (1, 2, 10, 99, 100, 101, 500, 2000)


@pytest.mark.parametrize("step", STEPS)
def test_shares_follow_the_formulas(step: int) -> None:
    assert LinearDecay(slope=0.001, offset=0.9, floor=0.25).share(step) == max(0.25, 0.9 - 0.001 * step)
    assert ExponentialDecay(base=0.99).share(step) == pytest.approx(0.99**step, rel=1e-12)
    assert InverseSigmoidDecay(k=50.0).share(step) == pytest.approx(50 / (50 + math.exp(step / 50)), abs=1e-15)
    assert NoTruth().share(step) == 0.0


def test_an_offset_above_one_is_a_time_of_teacher_forcing() -> None:
    decay = LinearDecay(slope=0.01, offset=1.5)
    assert [decay.share(step) for step in (1, 50)] == [1.0, 1.0]
    assert decay.share(100) == pytest.approx(0.5)
    assert decay.share(10_000) == 0.0


def test_half_is_true_where_the_documentation_says_so() -> None:
    assert InverseSigmoidDecay(k=500.0).share(round(500 * math.log(500))) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "decay", [LinearDecay(slope=1e-3), ExponentialDecay(base=0.999), InverseSigmoidDecay(k=100.0), NoTruth()]
)
def test_shares_are_shares_that_fall_and_nothing_overflows(decay: Decay) -> None:
    shares = [decay.share(step) for step in (1, 10, 1000, 10**5, 10**9)]
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0.0

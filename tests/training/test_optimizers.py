"""Optimisers against their formulas, written out; what they remember; learning rates that fall in steps, by hand."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from regard.training import Fall, Progress, Settings, learning_rate
from regard.training.groups import Group
from regard.training.optimizers import build_optimizer, load_optimizer_state, optimizer_state

SETTINGS = Settings(seed=1, learning_rate=0.1, betas=(0.8, 0.9), weight_decay=0.05)
Array = npt.NDArray[np.float64]
Changes = Iterator[Array]
RATES = (0.1, 0.05, 0.2, 0.1, 0.01)


def by_sgd(weight: Array, gradients: list[Array], *, momentum: float, decay: float) -> Changes:
    """v ← μ v + g + λ w; w ← w - η v; the first v is g + λ w."""
    velocity = np.zeros_like(weight)
    for gradient, rate in zip(gradients, RATES, strict=True):
        velocity = momentum * velocity + gradient + decay * weight
        weight = weight - rate * velocity
        yield weight


def by_adam(weight: Array, gradients: list[Array], *, decoupled: bool, decay: float) -> Changes:
    """Kingma and Ba 2015, algorithm 1; Loshchilov and Hutter 2019, algorithm 2, where decay is decoupled."""
    first, second = np.zeros_like(weight), np.zeros_like(weight)
    for step, (gradient, rate) in enumerate(zip(gradients, RATES, strict=True), start=1):
        slope = gradient if decoupled else gradient + decay * weight
        first = 0.8 * first + 0.2 * slope
        second = 0.9 * second + 0.1 * slope**2
        change = rate * (first / (1 - 0.8**step)) / (np.sqrt(second / (1 - 0.9**step)) + 1e-8)
        weight = weight - change - (rate * decay * weight if decoupled else 0.0)
        yield weight


CASES: dict[str, tuple[Settings, Callable[[Array, list[Array]], Changes]]] = {
    "adamw": (SETTINGS, lambda w, g: by_adam(w, g, decoupled=True, decay=0.05)),
    "adam": (replace(SETTINGS, optimizer="adam"), lambda w, g: by_adam(w, g, decoupled=False, decay=0.05)),
    "sgd": (replace(SETTINGS, optimizer="sgd"), lambda w, g: by_sgd(w, g, momentum=0.0, decay=0.05)),
    "momentum": (
        replace(SETTINGS, optimizer="sgd", momentum=0.7, weight_decay=0.0),
        lambda w, g: by_sgd(w, g, momentum=0.7, decay=0.0),
    ),
}


def drawn() -> tuple[Array, list[Array]]:
    draw = np.random.default_rng(3)
    return draw.standard_normal((3, 4)), [draw.standard_normal((3, 4)) for _ in RATES]


def stepped(
    settings: Settings, start: Array, gradients: list[Array], interrupted_at: int | None = None
) -> list[Tensor]:
    """The same by our optimisers; a new one may take up the state of the first in between."""
    parameter = nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = build_optimizer([Group(1.0, ("w",), (parameter,))], settings)
    found = []
    for step, (gradient, rate) in enumerate(zip(gradients, RATES, strict=True)):
        if step == interrupted_at:
            state = {name: tensor.clone() for name, tensor in optimizer_state(optimizer, [("w", parameter)]).items()}
            parameter = nn.Parameter(parameter.detach().clone())
            optimizer = build_optimizer([Group(1.0, ("w",), (parameter,))], settings)
            load_optimizer_state(optimizer, [("w", parameter)], state)
        for group in optimizer.param_groups:
            group["lr"] = rate
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
        found.append(parameter.detach().clone())
    return found


@pytest.mark.parametrize("name", CASES)
def test_optimisers_follow_their_formulas(name: str) -> None:
    settings, formula = CASES[name]
    start, gradients = drawn()
    for expected, found in zip(formula(start, gradients), stepped(settings, start, gradients), strict=True):
        assert np.abs(found.numpy() - expected).max() < 1e-12


@pytest.mark.parametrize("step", [0, 1, 3])
@pytest.mark.parametrize("name", CASES)
def test_an_optimiser_goes_on_from_its_state(name: str, step: int) -> None:
    settings, _ = CASES[name]
    straight, resumed = stepped(settings, *drawn()), stepped(settings, *drawn(), interrupted_at=step)
    assert all(torch.equal(one, other) for one, other in zip(straight, resumed, strict=True))


def test_the_state_has_the_names_of_parameters() -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = build_optimizer([Group(1.0, ("w",), (parameter,))], SETTINGS)
    assert optimizer_state(optimizer, [("layers.0/odd", parameter)]) == {}
    parameter.grad = torch.ones(2)
    optimizer.step()
    names = {"layers.0/odd/step", "layers.0/odd/exp_avg", "layers.0/odd/exp_avg_sq"}
    assert set(optimizer_state(optimizer, [("layers.0/odd", parameter)])) == names


def test_by_epoch_halves_after_each_epoch_from_the_fifth_on() -> None:
    """Luong et al. 2015, 4.1: 10 epochs with a rate of 1; after 5 of them it is halved every epoch."""
    settings = Settings(seed=1, learning_rate=1.0, warmup=0, schedule="by_epoch")
    found = [learning_rate(100, settings, Progress(epoch=epoch)) for epoch in range(10)]
    assert found == [1, 1, 1, 1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]


VALUES = [1.0, 2.0, 2.0, 1.5, 3.0, 2.9, 2.9, 2.9, 2.9, math.nan, 4.0]
FALLS = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
"""After two validations in a row that are no gain; what was counted for one fall does not count for the next."""


def test_plateau_falls_after_validations_without_a_gain() -> None:
    settings = Settings(
        seed=1, learning_rate=0.8, warmup=3, schedule="plateau", fall=Fall(factor=0.5, after_validations=2, least=0.2)
    )
    progress = Progress()
    for number, (value, falls) in enumerate(zip(VALUES, FALLS, strict=True), start=1):
        progress = replace(progress, step=10 * number).judged(value, average=1, fall_after=settings.validations_to_fall)
        assert progress.falls == falls, number
        assert learning_rate(10 * number, settings, progress) == pytest.approx(0.8 * max(0.2, 0.5**falls))
    assert [learning_rate(step, settings, progress) for step in (1, 2)] == pytest.approx([0.8 / 3, 1.6 / 3])


def test_only_a_plateau_counts_falls() -> None:
    assert Settings(seed=1, fall=Fall(after_validations=1)).validations_to_fall is None
    progress = Progress(step=1, best=1.0).judged(0.0, average=1, fall_after=None)
    assert (progress.falls, progress.flat, progress.without_gain) == (0, 1, 1)

"""A moving average of the weights, against a plain loop; half precision beside single precision."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.models import System
from regard.training import Checkpoints, Event, Likelihood, Settings, Stepped, Trainer, Verdict, weights
from regard.training.parallel import Learner
from regard.training.weights import MovingAverage
from tests.toys import toy_collation, toy_store, toy_system

SETTINGS = Settings(
    seed=3, steps=25, learning_rate=0.01, warmup=4, validate_every=5, log_every=5, moving_average=0.8, patience=None
)


def trainer(folder: Path, settings: Settings, losses: list[float] | None = None) -> Trainer:
    torch.manual_seed(11)

    def log(event: Event) -> None:
        if isinstance(event, Stepped) and losses is not None:
            losses.append(event.loss)

    return Trainer(
        toy_system(dropout=0.0),
        StoreCorpus(toy_store(folder / "store"), toy_collation(), tokens=60, seed=5),
        settings=settings,
        validate=lambda system: Verdict(loss=1.0, value=1.0, metrics={}),
        checkpoints=Checkpoints(folder / "checkpoints"),
        observers=[log],
    )


def test_the_average_is_that_of_a_plain_loop() -> None:
    """While its decay rises, and after: (1 + 34) / (10 + 34) is less than 0.8, (1 + 35) / (10 + 35) not."""
    draw = torch.Generator().manual_seed(5)
    system = toy_system().double()
    average = MovingAverage(system, 0.8)
    expected = weights(system)
    decays = []
    for step in range(1, 41):
        with torch.no_grad():
            for parameter in system.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
        average.update(step)
        decays.append(decay := min(0.8, (1 + step) / (10 + step)))
        expected = {name: decay * value + (1 - decay) * weights(system)[name] for name, value in expected.items()}
    assert (decays[0], decays[-1]) == (2 / 11, 0.8)
    assert max(float((average.values[name] - value).abs().max()) for name, value in expected.items()) < 1e-12


def test_the_system_has_the_average_for_a_while() -> None:
    system = toy_system()
    average = MovingAverage(system, 0.5)
    before = weights(system)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.add_(1.0)
    learning = weights(system)

    def fail_inside() -> None:
        with Learner(system, Likelihood()).shown(system, average.values):
            assert all(torch.equal(value, before[name]) for name, value in weights(system).items())
            raise RuntimeError("in the midst")

    with pytest.raises(RuntimeError, match="in the midst"):
        fail_inside()
    assert all(torch.equal(value, learning[name]) for name, value in weights(system).items())


def test_training_judges_and_saves_the_average_and_learns_with_the_weights(tmp_path: Path) -> None:
    seen: dict[int, dict[str, torch.Tensor]] = {}
    plain = trainer(tmp_path / "plain", replace(SETTINGS, moving_average=None))
    steps: list[dict[str, torch.Tensor]] = [weights(plain.system)]
    real = plain.apply

    def apply() -> None:
        real()
        steps.append(weights(plain.system))

    plain.apply = apply  # type: ignore[method-assign]
    plain.run()
    averaged = trainer(tmp_path / "averaged", SETTINGS)

    def validate(system: System) -> Verdict:
        seen[averaged.progress.step] = weights(system)
        return Verdict(loss=1.0, value=1.0, metrics={})

    averaged.validate = validate
    averaged.run()
    expected = {name: value.double() for name, value in steps[0].items()}
    for step, after in enumerate(steps[1:], start=1):
        decay = min(0.8, (1 + step) / (10 + step))
        expected = {name: decay * value + (1 - decay) * after[name].double() for name, value in expected.items()}
        if step in seen:
            assert max(float((seen[step][name] - value).abs().max()) for name, value in expected.items()) < 1e-6
    assert list(seen) == [5, 10, 15, 20, 25]
    checkpoint = averaged.checkpoints.load(25)
    assert all(torch.equal(value, seen[25][name]) for name, value in checkpoint.model.items())
    assert all(torch.equal(value, steps[-1][name]) for name, value in weights(averaged.system).items())
    assert all(torch.equal(checkpoint.optimizer[f"learning/{name}"], value) for name, value in steps[-1].items())


def test_half_precision_is_near_and_learns(tmp_path: Path) -> None:
    settings = replace(SETTINGS, moving_average=None, steps=80, learning_rate=0.02)
    single: list[float] = []
    half: list[float] = []
    trainer(tmp_path / "single", settings, single).run()
    made = trainer(tmp_path / "half", replace(settings, precision="bfloat16"), half)
    made.run()
    assert all(value.dtype == torch.float32 for value in weights(made.system).values())
    assert half != single
    assert half[0] == pytest.approx(single[0], rel=0.003)
    assert half[-1] == pytest.approx(single[-1], rel=0.05)
    assert half[-1] < half[0] / 2


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_half_precision_sums_the_loss_in_single(family: str, tmp_path: Path) -> None:
    """In half, a sum of thousands has two or three digits."""
    torch.manual_seed(1)
    system = toy_system(dropout=0.0, kind=family)
    data = StoreCorpus(toy_store(tmp_path / "store"), toy_collation(), tokens=2000, seed=5)
    _, (batch,) = next(data.from_(Cursor(), 1))
    expected = system.loss(batch, smoothing=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = system.loss(batch, smoothing=0.1)
    assert found.sum.dtype == found.parts["likelihood"].dtype == torch.float32
    assert float(found.sum.detach()) == pytest.approx(float(expected.sum.detach()), rel=2e-3)

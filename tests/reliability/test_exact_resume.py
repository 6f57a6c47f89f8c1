"""R1: trainings of every kind are killed by the kernel at random steps and moments, and go on as if nothing happened.

Every loss that was ever logged, before a kill or after it, is the one of the unbroken training as a hex float, and the
files of the last checkpoint hold the same bytes. Each training runs in children that are forked after torch is loaded.
"""

import hashlib
import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.corpus import StoreCorpus
from regard.data.corruption import Corruption
from regard.models import System
from regard.training import Checkpoints, Event, Fall, Likelihood, Objective, Settings, Stepped, Trainer, Verdict
from regard.training import checkpoints as saving
from regard.training.decay import InverseSigmoidDecay
from regard.training.rdrop import RDrop
from regard.training.recompute import recompute_layers
from regard.training.sampled_inputs import ScheduledSampling
from tests.reliability.children import ended, fork, run
from tests.reliability.conftest import Tally
from tests.toys import toy_collation, toy_store, toy_system

STEPS = 200
KILLS = 3
BASIC = Settings(
    seed=7,
    steps=STEPS,
    learning_rate=0.01,
    warmup=20,
    validate_every=25,
    save_every=10,
    log_every=1,
    patience=None,
    average=2,
    weight_decay=0.01,
)


SMOOTHED = Likelihood(smoothing=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to train; dropout is always on. `edge`: saved and judged at the ends of epochs only."""

    settings: Settings = BASIC
    family: str = "transformer"
    objective: Objective = SMOOTHED
    corruption: Corruption | None = None
    recompute: bool = False
    edge: bool = False

    def trainer(self, folder: Path, steps: int) -> Trainer:
        """The training, at its beginning or where its checkpoints are."""
        torch.manual_seed(1)
        system = toy_system(dropout=0.1, kind=self.family)
        if self.recompute:
            recompute_layers(system)
        store = toy_store(folder.parent / "store")
        settings = replace(self.settings, steps=steps)
        return Trainer(
            system,
            StoreCorpus(store, toy_collation(), tokens=50, seed=5, corruption=self.corruption),
            settings=replace(settings, validate_every=None, save_every=None) if self.edge else settings,
            objective=self.objective,
            validate=by_weights,
            checkpoints=Checkpoints(folder),
            observers=[Losses(folder.with_suffix(".losses"))],
        )


NOISE = Corruption(drop=0.1, swap=2, replace=0.1, mask=0.1, word_dropout=0.1)
SAMPLED = ScheduledSampling(inner=RDrop(weight=0.5, smoothing=0.1), decay=InverseSigmoidDecay(k=30.0), draw="sample")
KINDS: dict[str, Kind] = {
    "inverse square root, adamw": Kind(),
    "constant rate, four micro-batches": Kind(settings=replace(BASIC, schedule="constant", accumulate=4)),
    "linear, adam": Kind(settings=replace(BASIC, schedule="linear", optimizer="adam")),
    "cosine, half precision": Kind(settings=replace(BASIC, schedule="cosine", precision="bfloat16")),
    "by epoch, plain descent with momentum": Kind(
        settings=replace(
            BASIC, schedule="by_epoch", optimizer="sgd", momentum=0.8, learning_rate=0.2, fall=Fall(after_epochs=3)
        )
    ),
    "plateau, plain descent": Kind(
        settings=replace(
            BASIC, schedule="plateau", optimizer="sgd", learning_rate=0.2, fall=Fall(after_validations=1, least=0.1)
        )
    ),
    "moving average, four micro-batches": Kind(settings=replace(BASIC, moving_average=0.95, accumulate=4)),
    "recomputed, half precision, moving average": Kind(
        settings=replace(BASIC, precision="bfloat16", moving_average=0.9), recompute=True
    ),
    "recurrent": Kind(family="rnn"),
    "recurrent, recomputed, edges of epochs": Kind(family="rnn", recompute=True, edge=True),
    "sampled inputs and two draws, noise": Kind(objective=SAMPLED, corruption=NOISE),
    "recurrent, sampled inputs, four micro-batches, edges": Kind(
        family="rnn",
        settings=replace(BASIC, accumulate=4, schedule="constant"),
        objective=replace(SAMPLED, inner=SMOOTHED),
        corruption=NOISE,
        edge=True,
    ),
}


def by_weights(system: System) -> Verdict:
    """A validation that is a function of the weights, goes up and down, and draws random numbers as a search would."""
    torch.rand(5)
    value = sum(float(parameter.detach().double().abs().sum()) for parameter in system.parameters())
    return Verdict(loss=value, value=-(value % 1.0), metrics={})


class Losses:
    """An observer that writes exact losses, each on its own, so that no kill can take back what was written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped):
            numbers = (event.loss, event.likelihood, event.gradient_norm, event.learning_rate)
            line = f"{event.progress.step} {' '.join(number.hex() for number in numbers)}\n"
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(handle, line.encode())
            os.close(handle)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counted(real: Callable[..., Any], made: Trainer, step: int, *, spared: int = 0) -> Callable[..., Any]:
    """What it was, but for an end right before it, once training has come to a step; so many calls are `spared`."""
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        if made.progress.step >= step:
            calls += 1
        if calls > spared:
            die()
        return real(*arguments, **named)

    return call


MOMENTS = ("loss", "optimiser", "after the update", "validation", "save", "rename")


def train_until_killed(kind: Kind, folder: Path, steps: int, step: int, moment: str) -> None:
    """Train until a moment of the update after `step`, or of the first validation or save from it on."""
    made = kind.trainer(folder, steps)
    match moment:
        case "loss":
            lesson = made.learner.lesson
            half = kind.settings.accumulate // 2  # of the micro-batches have left their gradients
            lesson.objective = counted(lesson.objective, made, step, spared=half)
        case "optimiser":
            made.optimizer.step = counted(made.optimizer.step, made, step)  # type: ignore[method-assign]
        case "after the update":
            made.between_steps = counted(made.between_steps, made, step)  # type: ignore[method-assign]
        case "validation":
            made.validate = counted(by_weights, made, step)
        case "save":
            saving.write_synced = counted(saving.write_synced, made, step)
        case "rename":
            made.checkpoints.keep = counted(made.checkpoints.keep, made, step)  # type: ignore[method-assign]
    made.run()


def losses(folder: Path) -> list[tuple[int, str]]:
    lines = folder.with_suffix(".losses").read_text(encoding="utf-8").splitlines()
    return [(int(step), numbers) for step, _, numbers in (line.partition(" ") for line in lines)]


def digests(folder: Path, step: int) -> dict[str, str]:
    """Of the files of a checkpoint; of its state without the seconds that it took."""
    path = Checkpoints(folder).path(step)
    state = json.loads((path / "state.json").read_bytes())
    for part in ("progress", "meter"):
        del state[part]["seconds"]
    contents = {name: (path / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")}
    contents["state"] = json.dumps(state, sort_keys=True).encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def killed_and_resumed(kind: Kind, name: str, folder: Path, steps: int, kills: int) -> int:
    """Compare a straight training with one that is killed; the number of losses that were compared."""
    straight, broken = folder / "straight", folder / "broken"
    run(lambda: kind.trainer(straight, steps).run(), folder / "errors")
    draw = random.Random(name)
    for number in range(kills):
        step = number * steps // kills + draw.randint(1, steps // kills // 2)
        moment = draw.choice(MOMENTS)
        killed = fork(partial(train_until_killed, kind, broken, steps, step, moment), folder / "errors")
        assert ended(killed) == -signal.SIGKILL, (step, moment, (folder / "errors").read_text(encoding="utf-8"))
    run(lambda: kind.trainer(broken, steps).run(), folder / "errors")
    expected = dict(losses(straight))
    assert sorted(expected) == list(range(1, steps + 1))
    found = losses(broken)
    assert {step for step, _ in found} == set(expected)
    assert [(step, numbers) for step, numbers in found if expected[step] != numbers] == []
    assert Checkpoints(straight).steps() == Checkpoints(broken).steps()
    for step in Checkpoints(straight).steps():
        assert digests(straight, step) == digests(broken, step), step
    return len(found)


@pytest.mark.parametrize("name", KINDS)
def test_a_training_that_is_killed(name: str, tmp_path: Path, tally: Tally) -> None:
    compared = killed_and_resumed(KINDS[name], name, tmp_path, steps=STEPS, kills=KILLS)
    assert compared >= STEPS
    tally("R1", kills=KILLS, losses_compared=compared)

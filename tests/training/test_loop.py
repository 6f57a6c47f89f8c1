"""The training loop: what a step is, what is left out, when it ends, what it keeps."""

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.batch import Batch
from regard.data.corpus import StoreCorpus
from regard.errors import DivergedError
from regard.models import System
from regard.models.contracts import Loss
from regard.training import (
    Checkpoints,
    Ended,
    Event,
    Likelihood,
    Saved,
    Settings,
    Skipped,
    Started,
    Stepped,
    Trainer,
    Validated,
    Verdict,
    average,
    load_weights,
    weights,
)
from tests.toys import toy_collation, toy_store, toy_system

SETTINGS = Settings(seed=3, steps=6, learning_rate=0.01, warmup=4, validate_every=3, log_every=2)


def judged(*values: float) -> Callable[[System], Verdict]:
    """Validations that find these values, one after the other."""
    rest = iter(values)
    return lambda system: Verdict(loss=-(value := next(rest)), value=value, metrics={"exact": value})


def trainer(folder: Path, settings: Settings = SETTINGS, *, dropout: float = 0.1, **options: Any) -> Trainer:
    torch.manual_seed(11)
    system = options.pop("system", None) or toy_system(dropout=dropout)
    return Trainer(
        system,
        StoreCorpus(toy_store(folder / "store"), toy_collation(), tokens=60, seed=5),
        settings=settings,
        checkpoints=Checkpoints(folder / "checkpoints"),
        **{"validate": judged(*range(1, 100)), **options},
    )


def test_objects_of_before_are_set_aside_while_it_learns(tmp_path: Path) -> None:
    seen: list[int] = []
    trainer(tmp_path, observers=[lambda event: seen.append(gc.get_freeze_count())]).run()
    assert seen[0] == 0  # it has not begun
    assert all(seen[1:])
    assert gc.get_freeze_count() == 0


def test_events_come_in_order(tmp_path: Path) -> None:
    events: list[Event] = []
    outcome = trainer(tmp_path, observers=[events.append]).run()
    told = [(type(event).__name__, event.progress.step) for event in events]
    assert told == [
        ("Started", 0),
        ("Stepped", 2),
        ("Validated", 3),
        ("Saved", 3),
        ("Stepped", 4),
        ("Stepped", 6),
        ("Validated", 6),
        ("Saved", 6),
        ("Ended", 6),
    ]
    assert outcome.reason == "6 steps done"
    assert outcome.progress == events[-1].progress
    started = events[0]
    assert isinstance(started, Started)
    assert started.total_steps == 6
    assert started.estimated_seconds is not None
    assert started.estimated_seconds > 0
    first = events[1]
    assert isinstance(first, Stepped)
    assert first.learning_rate == pytest.approx(0.005)
    assert first.tokens_per_second > 0


def test_the_last_steps_are_reported_too(tmp_path: Path) -> None:
    events: list[Event] = []
    trainer(tmp_path, replace(SETTINGS, log_every=4), observers=[events.append]).run()
    assert [event.progress.step for event in events if isinstance(event, Stepped)] == [4, 6]


def test_reported_losses_are_means_over_tokens(tmp_path: Path) -> None:
    """The second source: the same updates by hand."""
    settings = replace(SETTINGS, clip=0.0, schedule="constant", warmup=0, betas=(0.8, 0.9), precision="float64")
    events: list[Event] = []
    objective = Likelihood(smoothing=0.2)
    made = trainer(tmp_path, settings, dropout=0.0, objective=objective, observers=[events.append])
    made.run()
    torch.manual_seed(11)
    system = toy_system(dropout=0.0).double()
    optimizer = torch.optim.AdamW(system.parameters(), lr=0.01, betas=(0.8, 0.9), weight_decay=0.0)
    stream = made.corpus.from_(replace(made.progress, epoch=0, position=0).cursor, 1)
    losses, counts, norms = [], [], []
    for _ in range(6):
        _, (batch,) = next(stream)
        loss = system.loss(batch, smoothing=0.2)
        optimizer.zero_grad()
        (loss.sum / loss.count).backward()
        optimizer.step()
        losses.append(float(loss.sum.detach()))
        counts.append(loss.count)
        grads = torch.cat([parameter.grad.flatten() for parameter in system.parameters() if parameter.grad is not None])
        norms.append(float(grads.norm()))
    told = [event for event in events if isinstance(event, Stepped)]
    for index, event in enumerate(told):
        both = slice(2 * index, 2 * index + 2)
        assert event.loss == pytest.approx(sum(losses[both]) / sum(counts[both]), rel=1e-5)
        assert event.gradient_norm == pytest.approx(sum(norms[both]) / 2, rel=1e-4)
    assert made.progress.tokens == sum(counts)
    for name, parameter in system.named_parameters():
        assert torch.allclose(parameter, dict(made.system.named_parameters())[name], atol=1e-9), name


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_micro_batches_change_nothing(tmp_path: Path, family: str) -> None:
    ends = []
    for parts, lanes in ((1, 1), (4, 1), (1, 2), (2, 3)):
        events: list[Event] = []
        torch.manual_seed(11)
        torch.set_num_threads(lanes)
        system = toy_system(dropout=0.0, kind=family).double()
        made = trainer(
            tmp_path / f"{parts} {lanes}",
            replace(SETTINGS, accumulate=parts, lanes=lanes, clip=0.5, steps=8),
            system=system,
            observers=[events.append],
        )
        made.run()
        ends.append((weights(made.system), [event.loss for event in events if isinstance(event, Stepped)]))
    (one, losses), *others = ends
    for split, split_losses in others:
        assert max(float((one[name] - split[name]).abs().max()) for name in one) < 1e-9
        assert losses == pytest.approx(split_losses, abs=1e-9)


def test_clipping_bounds_the_first_step_of_plain_descent(tmp_path: Path) -> None:
    """Adam's first moment after one step is (1 - beta) times the clipped gradient."""
    made = trainer(tmp_path, replace(SETTINGS, steps=1, clip=0.01))
    made.run()
    moments = torch.cat(
        [made.optimizer.state[parameter]["exp_avg"].flatten() for parameter in made.system.parameters()]
    )
    assert float(moments.norm()) / (1 - SETTINGS.betas[0]) == pytest.approx(0.01, rel=1e-3)


def test_the_estimate_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_estimate = trainer(tmp_path / "one")
    with_estimate.run()
    without = trainer(tmp_path / "two")
    monkeypatch.setattr(without, "estimate", lambda total: None)
    without.run()
    assert all(torch.equal(one, weights(without.system)[name]) for name, one in weights(with_estimate.system).items())


@pytest.mark.parametrize(
    ("change", "least", "most"),
    [({}, 1e-6, 60.0), ({"minutes": 1e-5}, 1e-9, 6.1e-4), ({"steps": None, "minutes": 2.0}, 120.0, 120.0)],
)
def test_the_estimate_heeds_every_limit(tmp_path: Path, change: dict[str, Any], least: float, most: float) -> None:
    made = trainer(tmp_path, replace(SETTINGS, **change))
    estimate = made.estimate(made.expected_steps())
    assert estimate is not None
    assert least <= estimate <= most


def test_there_is_no_estimate_where_nothing_is_known(tmp_path: Path) -> None:
    made = trainer(tmp_path, replace(SETTINGS, steps=None, patience=2))
    assert made.expected_steps() is None
    assert made.estimate(None) is None


def test_expected_steps_are_the_lesser_limit(tmp_path: Path) -> None:
    made = trainer(tmp_path, replace(SETTINGS, steps=1000, epochs=2))
    assert made.expected_steps() == 2 * made.corpus.batches_in_epoch()


@pytest.mark.parametrize(
    ("limits", "values", "reason", "step"),
    [
        ({"steps": 5}, [1, 2], "5 steps done", 5),
        ({"steps": None, "epochs": 2}, range(99), "2 epochs done", None),
        ({"steps": None, "minutes": 1e-7}, [1], "1e-07 minutes are over", 1),
        ({"steps": 99, "patience": 2}, [5, 6, 6, 1], "2 validations without a gain", 12),
        ({"steps": 99, "patience": 1}, [5, 4], "1 validation without a gain", 6),
    ],
)
def test_reasons_to_end(
    tmp_path: Path, limits: dict[str, Any], values: Sequence[float], reason: str, step: int | None
) -> None:
    made = trainer(tmp_path, replace(SETTINGS, **limits), validate=judged(*values))
    outcome = made.run()
    assert outcome.reason == reason
    assert outcome.progress.step == (step or 2 * len(list(_epoch(made, 0))))
    assert made.checkpoints.steps()[-1] == outcome.progress.step
    assert outcome.progress.validated[-1] == outcome.progress.step


def _epoch(made: Trainer, epoch: int) -> Sequence[int]:
    cursors = []
    for cursor, _ in made.corpus.from_(replace(made.progress, epoch=epoch, position=0).cursor, 1):
        cursors.append(cursor.position)
        if cursor.epoch != epoch:
            return cursors
    raise AssertionError("a corpus has no end")


def test_without_a_number_of_steps_epochs_are_validated(tmp_path: Path) -> None:
    events: list[Event] = []
    made = trainer(tmp_path, replace(SETTINGS, steps=None, epochs=3, validate_every=None), observers=[events.append])
    made.run()
    validated = [event for event in events if isinstance(event, Validated)]
    assert [(event.progress.epoch, event.progress.position) for event in validated] == [(1, 0), (2, 0), (3, 0)]


def test_best_last_and_averaged_checkpoints_are_kept_and_nothing_else(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=12, validate_every=3, save_every=2, average=2)
    made = trainer(tmp_path, settings, validate=judged(1, 9, 2, 3))
    outcome = made.run()
    assert outcome.progress.best_step == 6
    assert outcome.progress.validated == (9, 12)
    names = sorted(path.name for path in made.checkpoints.folder.iterdir())
    assert names == ["step-00000006", "step-00000009", "step-00000012"]


def test_saves_between_validations(tmp_path: Path) -> None:
    events: list[Event] = []
    trainer(tmp_path, replace(SETTINGS, steps=7, validate_every=5, save_every=2), observers=[events.append]).run()
    assert [event.progress.step for event in events if isinstance(event, Saved)] == [2, 4, 5, 6, 7]


def test_gains_are_told(tmp_path: Path) -> None:
    events: list[Event] = []
    settings = replace(SETTINGS, steps=12, validate_every=3)
    trainer(tmp_path, settings, validate=judged(1, 1, 3, 2), observers=[events.append]).run()
    assert [event.gained for event in events if isinstance(event, Validated)] == [True, False, True, False]


def test_the_mean_of_weights() -> None:
    generator = np.random.default_rng(1)
    arrays = [generator.standard_normal((4, 3)).astype(np.float32) for _ in range(5)]
    mean = average([{"w": torch.from_numpy(array), "b": torch.tensor([float(n)])} for n, array in enumerate(arrays)])
    assert mean["w"].dtype == torch.float32
    assert np.array_equal(mean["w"].numpy(), np.mean(np.stack(arrays).astype(np.float64), axis=0).astype(np.float32))
    assert float(mean["b"]) == 2.0


def test_weights_name_each_tensor_once_and_come_back(tmp_path: Path) -> None:
    one, other = toy_system(), toy_system()
    assert len({tensor.data_ptr() for tensor in one.parameters()}) == len(weights(one))
    load_weights(other, weights(one))
    assert all(torch.equal(weights(other)[name], tensor) for name, tensor in weights(one).items())
    held = weights(one)
    with torch.no_grad():
        next(one.parameters()).add_(1)
    assert not torch.equal(next(iter(held.values())), next(one.parameters()))


class Sabotage:
    """Spoils the loss of chosen updates, counted from 0; trial passes of the estimate are not counted."""

    def __init__(self, made: Trainer, *spoiled: int, gradient_only: bool = False) -> None:
        self.real, self.spoiled, self.gradient_only = made.system.loss, spoiled, gradient_only
        self.update, self.number = made.update, -1
        made.estimate = lambda total: None  # type: ignore[method-assign]
        made.update = self.counted  # type: ignore[method-assign]
        made.system.loss = self.loss  # type: ignore[method-assign]

    def counted(self, *arguments: Any) -> bool:
        self.number += 1
        return self.update(*arguments)

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        loss = self.real(batch, smoothing=smoothing)
        if self.number not in self.spoiled:
            return loss
        if self.gradient_only:
            zero = loss.sum - loss.sum.detach()
            return Loss(sum=loss.sum + zero.abs().sqrt(), count=loss.count, parts=loss.parts)
        return Loss(sum=loss.sum * math.nan, count=loss.count, parts=loss.parts)


@pytest.mark.parametrize("gradient_only", [False, True])
@pytest.mark.parametrize("spoiled", [(0,), (1, 2, 3), (3,), (0, 1, 2, 5, 6, 7), (8,)])
def test_updates_that_are_not_finite_are_left_out(
    tmp_path: Path, spoiled: tuple[int, ...], gradient_only: bool
) -> None:
    """Also the first one, and one right behind a validation: the step they leave behind is not judged twice."""
    events: list[Event] = []
    made = trainer(tmp_path, replace(SETTINGS, steps=9), observers=[events.append])
    Sabotage(made, *spoiled, gradient_only=gradient_only)
    outcome = made.run()
    skipped = [event for event in events if isinstance(event, Skipped)]
    assert len(skipped) == len(spoiled)
    assert outcome.progress.step == 9
    assert [event.progress.step for event in events if isinstance(event, Validated)] == [3, 6, 9]
    assert [event.progress.step for event in events if isinstance(event, Stepped)] == [2, 4, 6, 8, 9]
    assert all(math.isfinite(event.loss) for event in events if isinstance(event, Stepped))
    assert all(tensor.isfinite().all() for tensor in weights(made.system).values())
    assert ("loss nan" in skipped[0].reason) == (not gradient_only)


def test_after_three_skips_in_a_row_training_has_diverged(tmp_path: Path) -> None:
    events: list[Event] = []
    made = trainer(tmp_path, replace(SETTINGS, steps=9), observers=[events.append])
    Sabotage(made, 4, 5, 6, 7)
    with pytest.raises(
        DivergedError, match=r"diverged: 4 updates in a row had to be left out \(step 5: loss nan, .*learning_rate"
    ) as caught:
        made.run()
    assert caught.value.exit_code == 6
    assert sum(isinstance(event, Skipped) for event in events) == 4
    assert not any(isinstance(event, Ended) for event in events)
    assert all(tensor.isfinite().all() for tensor in weights(made.system).values())
    latest, damages = made.checkpoints.latest()
    assert latest is not None
    assert (latest.step, damages) == (3, [])


def test_a_skipped_batch_is_not_tried_again(tmp_path: Path) -> None:
    made = trainer(tmp_path, replace(SETTINGS, steps=2))
    sabotage = Sabotage(made, 1)
    made.run()
    assert sabotage.number == 2
    assert made.progress.position + len(_epoch(made, 0)) * made.progress.epoch == 3
    assert made.progress.skipped == 0

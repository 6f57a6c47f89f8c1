"""Memory before a training: state by its formula, activations against what a whole pass keeps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batch import make_batch
from regard.data.batches import BatchOrder
from regard.data.corpus import StoreCorpus
from regard.kernels.calls import has_half
from regard.nn.loops import LoopLinear, LoopMean
from regard.training import Checkpoints, Settings, Trainer, Verdict, memory
from regard.training.memory import (
    LOADED,
    PROGRAMS,
    WORK,
    Memory,
    activation_bytes,
    first_rows,
    kept_bytes,
    needed,
    seen_in_loops,
)
from tests.toys import VOCABULARY, toy_collation, toy_store, toy_system

SETTINGS = Settings(seed=3, steps=4)


def trainer(folder: Path, kind: str = "transformer", **changes: Any) -> Trainer:
    torch.manual_seed(11)
    return Trainer(
        toy_system(dropout=0.1, kind=kind),
        StoreCorpus(toy_store(folder / "store"), toy_collation(), tokens=60, seed=5),
        settings=replace(SETTINGS, **changes),
        validate=lambda system: Verdict(loss=1.0, value=1.0, metrics={}),
        checkpoints=Checkpoints(folder / "checkpoints"),
    )


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({}, 1 + 2 + 1),  # gradient, two moments, the copy that is judged
        ({"optimizer": "sgd"}, 1 + 1),
        ({"optimizer": "sgd", "momentum": 0.9}, 1 + 1 + 1),
        ({"moving_average": 0.9}, 1 + 2 + 1 + 2),
    ],
)
def test_state_is_counted_by_weights(tmp_path: Path, changes: dict[str, Any], numbers: int) -> None:
    made = trainer(tmp_path, **changes)
    parameters = sum(one.numel() for one in made.system.parameters())
    found = needed(made, [], held=1000)
    assert found == Memory(held=1000, state=4 * numbers * parameters, activations=0, work=0)
    assert found.peak == 1000 + found.state + LOADED


def test_frozen_weights_have_neither_gradient_nor_moments(tmp_path: Path) -> None:
    made = trainer(tmp_path, freeze=("encoder",))
    learning = sum(one.numel() for one in made.system.parameters() if one.requires_grad)
    everything = sum(one.numel() for one in made.system.parameters())
    assert learning < everything
    assert needed(made, [], held=0).state == 4 * (3 * learning + everything)


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_few_rows_tell_what_all_will_keep(tmp_path: Path, kind: str, precision: str) -> None:
    made = trainer(tmp_path, kind, precision=precision)
    rows = torch.randint(4, VOCABULARY, (96, 20), generator=torch.Generator().manual_seed(1)).tolist()
    batch = make_batch(rows, rows)
    state = torch.get_rng_state()
    assert activation_bytes(made, batch) == pytest.approx(kept_bytes(made, batch), rel=0.02)
    assert torch.equal(torch.get_rng_state(), state)
    by_torch = precision == "bfloat16" and (kind == "rnn" or not has_half())
    assert needed(made, [first_rows(batch, 8), batch], held=0).more == pytest.approx(
        needed(made, [], held=0).more + (1 + (PROGRAMS if by_torch else WORK)) * kept_bytes(made, batch), rel=0.02
    )


def test_the_pass_holds_at_least_what_is_counted(tmp_path: Path) -> None:
    """A second count: the outputs of all modules, which lie among what is kept."""
    made = trainer(tmp_path)
    rows = torch.randint(4, VOCABULARY, (32, 20), generator=torch.Generator().manual_seed(1)).tolist()
    batch = make_batch(rows, rows)
    outputs: dict[int, int] = {}
    for module in made.system.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.LayerNorm):
            module.register_forward_hook(
                lambda _, __, output: outputs.__setitem__(output.data_ptr(), output.nbytes) or None
            )
    kept = kept_bytes(made, batch)
    assert 0.5 * sum(outputs.values()) < kept < 20 * sum(outputs.values())


def test_what_loops_keep_in_lists_is_found() -> None:
    weights = [torch.randn(5, width, requires_grad=True) for width in (3, 2)]
    linear = LoopLinear(torch.randn(4, 6, 5, requires_grad=True), *weights)
    mean = LoopMean(torch.randn(6, 7, 2, requires_grad=True), 4)
    total, given = torch.zeros(()), []
    for step in range(4):
        attended, state = torch.rand(6, 1, 7), torch.randn(6, 3)
        read = mean(step, attended)
        given += [attended, state, read]
        total = total + linear(step, state, read).tanh().sum()
    found = sorted(one.data_ptr() for one in seen_in_loops(total.grad_fn))
    assert found == sorted(one.data_ptr() for one in given)
    assert list(seen_in_loops(None)) == []


def test_what_a_recurrent_decoder_reads_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it attends to at each of 21 steps is in a list only; all else in lists is kept elsewhere, too."""
    made = trainer(tmp_path, "rnn")
    rows = torch.randint(4, VOCABULARY, (96, 20), generator=torch.Generator().manual_seed(1)).tolist()
    batch, read = make_batch(rows, rows), []
    real = LoopMean.__call__

    def attend(self: LoopMean, step: int, weights: torch.Tensor) -> torch.Tensor:
        read.append(real(self, step, weights))
        return read[-1]

    monkeypatch.setattr(LoopMean, "__call__", attend)
    kept = kept_bytes(made, batch)
    assert len(read) == 21
    expected = sum(one.nbytes for one in read)
    monkeypatch.setattr(memory, "seen_in_loops", lambda last: ())
    assert kept - kept_bytes(made, batch) == expected


def test_first_rows_keep_their_length() -> None:
    batch = make_batch([[4, 5], [4], [5, 6, 7]], [[4], [5, 6], [7]])
    cut = first_rows(batch, 2)
    assert cut.rows == 2
    assert cut.sources["source"].mask.tolist() == batch.sources["source"].mask[:2].tolist()
    assert cut.outputs.tolist() == batch.outputs[:2].tolist()


def test_the_largest_batches_are_those_with_most_items(tmp_path: Path) -> None:
    corpus = StoreCorpus(toy_store(tmp_path), toy_collation(), tokens=60, seed=5)
    sizes = [batch.inputs.numel() + batch.sources["source"].mask.numel() for batch in corpus.once()]
    found = [batch.inputs.numel() + batch.sources["source"].mask.numel() for batch in corpus.largest(1)]
    assert max(sizes) in [size for size in sizes if size in found] or max(found) >= max(sizes) - 2
    halves = corpus.largest(2)
    assert max(batch.rows for batch in halves) < max(batch.rows for batch in corpus.largest(1))


def test_an_epoch_is_planned_once_for_all_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[int] = []
    real = BatchOrder.plan
    monkeypatch.setattr(BatchOrder, "plan", lambda self, epoch: planned.append(epoch) or real(self, epoch))
    corpus = StoreCorpus(toy_store(tmp_path), toy_collation(), tokens=60, seed=5)
    rows = [max(batch.rows for batch in corpus.largest(parts)) for parts in (1, 2, 4)]
    assert rows == sorted(rows, reverse=True)
    assert planned == [0]

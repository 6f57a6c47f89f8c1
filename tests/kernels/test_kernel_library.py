"""Finding the library, doing without it, and whole models that learn the same either way."""

import ctypes
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from regard.data.batch import make_batch
from regard.kernels import attention as kernels_of_attention
from regard.kernels import library as library_module
from regard.kernels.calls import serves
from regard.kernels.library import available, loaded
from regard.kernels.rows import added, dropped
from regard.nn.dropout import add_dropped, dropout, norm_projected, rectified_projection
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection


@pytest.fixture
def _fresh():
    loaded.cache_clear()
    yield
    loaded.cache_clear()


@pytest.mark.usefixtures("without")
def test_switched_off_everything_is_done_by_torch() -> None:
    assert available() == "REGARD_KERNELS is off"
    states = torch.randn(4, 8, requires_grad=True)
    assert not serves(states)
    norm = torch.nn.LayerNorm(8)
    for made in (
        dropout(states, 0.5, True),
        add_dropped(states, states, 0.5, True),
        rectified_projection(torch.nn.Linear(8, 8), states, 0.5, True),
        norm_projected(norm, states, states, torch.nn.Linear(8, 8), 0.5, True),
    ):
        made.sum().backward()
    assert states.grad is not None


@pytest.mark.usefixtures("_fresh")
def test_what_is_wrong_with_a_library_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: ctypes.CDLL
) -> None:
    monkeypatch.setenv("REGARD_KERNELS_LIBRARY", str(tmp_path / "none.so"))
    with pytest.warns(RuntimeWarning, match="no native kernels: it was not built"):
        assert available() == "it was not built; `python -m regard.engine.build` builds it where there is a compiler"
    (tmp_path / "none.so").write_text("nothing")
    loaded.cache_clear()
    with pytest.warns(RuntimeWarning, match="cannot be loaded"):
        assert "none.so cannot be loaded (" in available()
    monkeypatch.delenv("REGARD_KERNELS_LIBRARY")
    monkeypatch.setattr(library_module, "INTERFACE", 99)
    loaded.cache_clear()
    assert "is of another version; build it again with `python -m regard.engine.build`" in available()
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_KERNELS", "fast")
    loaded.cache_clear()
    with pytest.warns(RuntimeWarning, match="torch does without"):
        told = available()
    sets = "amx_bf16, avx512_bf16, avx512, avx2, portable"
    assert told == f"REGARD_KERNELS is 'fast', which is none of off, {sets}"
    monkeypatch.setattr(library_module, "SETS", ("fast",))
    loaded.cache_clear()
    with pytest.warns(RuntimeWarning, match="torch does without"):
        assert available() == "REGARD_KERNELS is 'fast', which this processor cannot do"


@pytest.mark.usefixtures("_fresh")
def test_a_set_of_kernels_can_be_asked_for(monkeypatch: pytest.MonkeyPatch, built: ctypes.CDLL) -> None:
    best = built.regard_kernels_used()
    monkeypatch.setenv("REGARD_KERNELS", "portable")
    found = loaded().library
    assert found is not None
    assert found.regard_kernels_used() == b"portable"
    built.regard_use_kernels(best)


def test_what_kernels_are_for(built: ctypes.CDLL) -> None:
    states = torch.randn(4, 6)
    assert serves(states, torch.nn.Parameter(states))
    for other in (states.double(), states.t(), states[:0], states.to("meta"), states.bfloat16(), states[:, ::2]):
        assert not serves(states, other)


@pytest.mark.skipif(sys.platform != "linux", reason="where OpenMP is found elsewhere was not tried")
def test_threads_are_those_of_torch(built: ctypes.CDLL) -> None:
    assert loaded().shares


def test_a_forked_process_computes_alone(built: ctypes.CDLL) -> None:
    """The threads of its parent are not there, and waiting for them would last for ever."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        states = torch.ones(1000, 100)
        torch.manual_seed(1)
        expected = dropped(states, 0.5)
        child = os.fork()
        if not child:
            torch.manual_seed(1)
            same = dropped(states, 0.5).numpy() == expected.numpy()  # torch's own threads are not there, either
            os._exit(0 if same.all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        torch.set_num_threads(before)


def test_what_is_computed_again_drops_the_same(built: ctypes.CDLL) -> None:
    states, result = torch.randn(2, 30, 16).requires_grad_().unbind(0)
    gradients = []
    for again in (False, True):
        torch.manual_seed(3)
        inputs = (states, result, 0.5)
        total = checkpoint(added, *inputs, use_reentrant=False) if again else added(*inputs)
        torch.rand(5)
        gradients.append(torch.autograd.grad(total.square().sum(), (states, result)))
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


SIDE = {"kind": "transformer", "heads": 2, "feedforward": 24}


def losses(norm: str, dropout: float, steps: int) -> list[float]:
    """Of a small Transformer that learns; the same weights and batches at every call."""
    torch.manual_seed(0)
    side = {**SIDE, "norm": norm}
    section = ModelSection(width=16, layers=2, dropout=dropout, tie="all", encoder=side, decoder=side)
    system = build_system(section, source_vocabulary=40, target_vocabulary=40).train()
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(4, 40, (12, 9), generator=generator).tolist()
    batch = make_batch([row[: 4 + number % 6] for number, row in enumerate(rows)], [row[::-1] for row in rows])
    optimizer = torch.optim.AdamW(system.parameters(), lr=1e-3)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = system.loss(batch, smoothing=0.1)
        (loss.sum / loss.count).backward()
        optimizer.step()
        found.append(float(loss.sum.detach()) / loss.count)
    return found


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_same_is_learned_with_and_without(built: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, norm: str) -> None:
    calls = []

    def counted(name: str) -> None:
        asked = getattr(kernels_of_attention, name)

        def noted(*given: object) -> torch.Tensor:
            calls.append(name)
            made: torch.Tensor = asked(*given)
            return made

        monkeypatch.setattr(kernels_of_attention, name, noted)

    counted("attention")
    counted("attention_within")
    native = losses(norm, 0.0, 30)
    assert Counter(calls) == {"attention": 30 * 2, "attention_within": 30 * 4}
    monkeypatch.setenv("REGARD_KERNELS", "off")
    loaded.cache_clear()
    try:
        assert losses(norm, 0.0, 30) == pytest.approx(native, abs=1e-4)
    finally:
        monkeypatch.undo()
        loaded.cache_clear()
    assert native[-1] < native[0] - 0.5


def test_a_training_with_dropout_repeats_itself_and_learns(built: ctypes.CDLL) -> None:
    first = losses("post", 0.2, 12)
    assert losses("post", 0.2, 12) == first
    assert first[-1] < first[0]

"""Layers that compute again, and layers that are compiled: the same gradients, for less memory or more speed."""

import os
import shutil
import sysconfig
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.errors import RecipeError, UsageError
from regard.models import System
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from regard.run.training import train
from regard.training.compiling import compile_layers
from regard.training.recompute import recompute_layers
from tests.toys import VOCABULARY, toy_collation, toy_pairs, toy_recipe, toy_store, toy_system, write_tsv


def deep_system(family: str, *, layers: int = 3, width: int = 32) -> System:
    torch.manual_seed(1)
    side = {"kind": family} | ({"heads": 2} if family == "transformer" else {})
    section = ModelSection.model_validate(
        {"width": width, "layers": layers, "dropout": 0.3, "encoder": side, "decoder": side}
    )
    return build_system(section, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


def corpus(folder: Path, tokens: int = 100) -> StoreCorpus:
    return StoreCorpus(toy_store(folder / "store"), toy_collation(), tokens=tokens, seed=5)


class Kept:
    """Counts the bytes that the forward pass leaves for the backward pass, each storage once."""

    def __init__(self) -> None:
        self.storages: dict[int, int] = {}

    def pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    def bytes(self, system: System) -> int:
        """Without the weights, which are kept anyway."""
        ours = {parameter.untyped_storage().data_ptr() for parameter in system.parameters()}
        return sum(size for pointer, size in self.storages.items() if pointer not in ours)


def gradients(system: System, data: StoreCorpus, *, half: bool = False) -> tuple[dict[str, Tensor], float, int]:
    """Of one batch, with dropout; the loss, and what was kept for the backward pass."""
    _, (batch,) = next(data.from_(Cursor(), 1))
    torch.manual_seed(9)
    system.train()
    kept = Kept()
    with (
        torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=half),
    ):
        loss = system.loss(batch, smoothing=0.1)
    loss.sum.backward()
    found = {name: one.grad.clone() for name, one in system.named_parameters() if one.grad is not None}
    return found, float(loss.sum.detach()), kept.bytes(system)


@pytest.mark.parametrize("half", [False, True], ids=["single", "half"])
@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_recomputed_gradients_are_the_same_bits_from_less_memory(family: str, half: bool, tmp_path: Path) -> None:
    data = corpus(tmp_path)
    expected, loss, kept = gradients(deep_system(family), data, half=half)
    system = deep_system(family)
    recompute_layers(system)
    found, again, kept_again = gradients(system, data, half=half)
    assert again == loss
    assert found.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in found.items())
    assert kept_again < 0.6 * kept if family == "transformer" else kept_again < kept


def test_what_has_no_layers_cannot_recompute() -> None:
    with pytest.raises(UsageError, match=r"`training.recompute` has no effect on a model without layers; leave it out"):
        recompute_layers(torch.nn.Linear(2, 2))


def test_only_transformer_layers_are_compiled() -> None:
    with pytest.raises(UsageError, match=r"`training.compile` is for Transformer layers, and this model has none"):
        compile_layers(toy_system(kind="rnn"))


def test_without_a_compiler_compiling_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        UsageError, match=r"needs a C\+\+ compiler, and no-such-compiler is not there; install it, name"
    ):
        compile_layers(toy_system())
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(UsageError, match=r"needs the headers of Python, and .*Python\.h is not there; install them"):
        compile_layers(toy_system())


@pytest.mark.parametrize("setting", ["recompute", "compile"])
def test_a_recipe_asks_for_it(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("recompute", "compile"):
        monkeypatch.setattr(f"regard.run.training.{name}_layers", lambda system, name=name: asked.append(name))
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(40))
    train(toy_recipe(tmp_path / "run", pairs, f"training.{setting}=true", "training.steps=1"))
    assert asked == [setting]


def test_layers_that_compute_again_are_not_compiled(tmp_path: Path) -> None:
    """torch leaves them out without a word, whichever is asked for first."""
    with pytest.raises(RecipeError, match=r"training: `compile` has no effect on layers that `recompute`; choose one"):
        toy_recipe(tmp_path / "run", tmp_path / "pairs.tsv", "training.compile=true", "training.recompute=true")


needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)


def losses(system: System, data: StoreCorpus, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(system.parameters(), lr=0.01)
    found = []
    for _, (_, (batch,)) in zip(range(steps), data.from_(Cursor(), 1), strict=False):
        system.train()
        optimizer.zero_grad()
        loss = system.loss(batch, smoothing=0.1)
        (loss.sum / loss.count).backward()
        optimizer.step()
        found.append(float(loss.sum.detach()) / loss.count)
    return found


@pytest.mark.long
@needs_compiler
@pytest.mark.filterwarnings("ignore")
def test_compiled_training_is_the_same_but_for_rounding(tmp_path: Path) -> None:
    """Without dropout, whose draws differ; batches are of several sizes. Other warnings are those of torch itself."""
    data = corpus(tmp_path, tokens=60)
    torch.manual_seed(1)
    plain = toy_system(dropout=0.0)
    expected = losses(plain, data, 30)
    torch.manual_seed(1)
    system = toy_system(dropout=0.0)
    counters.clear()
    compile_layers(system)
    found = losses(system, data, 30)
    assert counters["stats"]["unique_graphs"] > 0
    assert found == pytest.approx(expected, abs=1e-4)
    assert found[-1] < 0.7 * found[0]
    compiled = counters["stats"]["unique_graphs"]
    system.eval()
    _, (batch,) = next(data.from_(Cursor(), 1))
    system.loss(batch)
    assert counters["stats"]["unique_graphs"] == compiled


@pytest.mark.long
@needs_compiler
@pytest.mark.filterwarnings("ignore")
def test_compiled_layers_drop_numbers_too(tmp_path: Path) -> None:
    """Batches of several sizes; numbers of random draws are views of wider ones, which a compiler can get wrong."""
    system = toy_system(dropout=0.1)
    counters.clear()
    compile_layers(system)
    found = losses(system, corpus(tmp_path, tokens=60), 30)
    assert counters["stats"]["unique_graphs"] > 0
    assert found[-1] < 0.8 * found[0]

"""Products counted by hand against the parameters of the real models and against torch's own counter."""

from dataclasses import replace

import pytest
import torch
from peers.configs import regard_recipe
from peers.corpus import Corpus
from peers.limit import tokens_per_second
from peers.shapes import SHAPES, Shape, calls, linear_products, pair_operations, training_calls, training_operations
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.data.batch import make_batch
from regard.models import System
from regard.nn import Site, watching
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection

SMALL = {
    "A": replace(SHAPES["A"], layers=2, width=16, inner=24, vocabulary=40),
    "B": replace(SHAPES["B"], layers=1, width=24, inner=8, heads=4, vocabulary=32),
    "C": replace(SHAPES["C"], width=16, vocabulary=40),
}


class Explicit:
    """Watches every attention, so that its products are made one by one and can be counted."""

    def watches(self, site: Site) -> bool:
        return site.kind in ("self", "cross")

    def visit(self, site: Site, value: Tensor) -> Tensor:
        return value


@pytest.fixture
def corpus(tmp_path) -> Corpus:
    return Corpus(tmp_path)


def system_of(shape: Shape, corpus: Corpus) -> System:
    recipe = regard_recipe(shape, corpus, corpus.folder / "run", steps=1)
    section = ModelSection.model_validate({**recipe["model"], "dropout": 0.0})
    return build_system(section, source_vocabulary=shape.vocabulary, target_vocabulary=shape.vocabulary)


@pytest.mark.parametrize("name", SMALL)
def test_every_product_is_with_a_matrix_of_the_model(name: str, corpus: Corpus) -> None:
    shape = SMALL[name]
    matrices = [one for one in system_of(shape, corpus).parameters() if one.dim() > 1 and min(one.shape[-2:]) > 1]
    counted = sum(product.inner * product.outer * product.count for product in linear_products(shape))
    assert counted == sum(one.numel() for one in matrices)


@pytest.mark.parametrize("name", ["A", "B"])
def test_operations_are_those_that_torch_counts(name: str, corpus: Corpus) -> None:
    shape, rows = SMALL[name], 3
    source, target = 7, 5
    system = system_of(shape, corpus).train()
    draw = [torch.randint(4, shape.vocabulary, (rows, length)).tolist() for length in (source, target - 1)]
    batch = make_batch(*draw)
    read = batch.sources["source"].mask.size(1)
    with FlopCounterMode(display=False) as counter, watching(Explicit()), torch.no_grad():
        system.loss(batch)
    forward = counter.get_total_flops()
    assert forward == rows * pair_operations(shape, read, target)
    with FlopCounterMode(display=False) as counter, watching(Explicit()):
        loss = system.loss(batch)
        (loss.sum / loss.count).backward()
    in_place = 2 * rows * target * shape.width * shape.vocabulary  # the gradient of the output: torch leaves it out
    assert counter.get_total_flops() + in_place == rows * target * training_operations(shape, read, target)


def test_the_models_have_the_sizes_that_they_are_known_by() -> None:
    sizes = {name: sum(one.inner * one.outer * one.count for one in linear_products(SHAPES[name])) for name in SHAPES}
    assert sizes == {"A": 2_334_720, "B": 19_824_640, "C": 9_863_168}


@pytest.mark.parametrize("name", SHAPES)
def test_the_calls_of_a_batch_are_its_operations(name: str) -> None:
    shape, rows, lengths = SHAPES[name], 4096, (16.0, 16.0)
    attention = pair_operations(shape, *lengths) - sum(product.operations * 16 for product in linear_products(shape))
    linear = rows * (training_operations(shape, *lengths) - 3 * attention / 16)
    assert sum(times * call.operations for call, times in training_calls(shape, *lengths, rows)) == pytest.approx(
        linear
    )


def test_gradients_are_products_of_turned_shapes() -> None:
    forward, inputs, weights = calls(linear_products(SHAPES["A"])[1], 100)
    assert (forward.rows, forward.inner, forward.outer) == (100, 128, 256)
    assert (inputs.rows, inputs.inner, inputs.outer) == (100, 256, 128)
    assert (weights.rows, weights.inner, weights.outer) == (128, 100, 256)
    assert forward.operations == inputs.operations == weights.operations


def test_a_machine_of_one_speed_has_the_limit_that_follows_from_it() -> None:
    shape, lengths = SHAPES["A"], (15.0, 16.0)
    speed = {call: 1e9 for call, _ in training_calls(shape, *lengths, 4096)}
    total = sum(times * call.operations for call, times in training_calls(shape, *lengths, 4096))
    assert tokens_per_second(shape, lengths, 4096, speed) == pytest.approx(4096 * 1e9 / total)

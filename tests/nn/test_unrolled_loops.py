"""Loops whose weights learn after them: they equal the steps, and blocks of scores equal their equation."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.nn import Recurrent, RecurrentLayer, build_cell, scores
from regard.nn.loops import LoopLinear, LoopMean, can_loop
from regard.nn.scores import compare
from regard.nn.unrolled import NetworkLoop, can_unroll

CELLS = ("lstm", "gru", "gru_cho", "elman")
WIDTH, ROWS, STEPS, READ = 6, 3, 5, 4


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def gradients(result: Tensor, *leaves: Tensor) -> list[Tensor]:
    """Of a sum in which each number has a weight of its own."""
    factors = torch.linspace(0.5, 2, result.numel(), dtype=result.dtype).view_as(result)
    return list(torch.autograd.grad((result * factors).sum(), leaves))


def plain_scores(queries: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
    """vᵀ tanh(q + k) as it is written."""
    return torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1)) @ energy


@pytest.mark.parametrize(("asked", "in_cache"), list(product((1, 3), (1, 40, 1 << 17))))
def test_scores_in_blocks_equal_their_equation(asked: int, in_cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "IN_CACHE", in_cache)
    torch.manual_seed(0)
    leaves = drawn(ROWS, asked, 4), drawn(ROWS, 5, 4), drawn(4)
    made, same = compare(*leaves)
    wanted = plain_scores(*leaves)
    torch.testing.assert_close(made, wanted)
    assert torch.equal(same, leaves[1])
    torch.testing.assert_close(gradients(made, *leaves), gradients(wanted, *leaves))
    with torch.no_grad():
        torch.testing.assert_close(compare(*leaves)[0], wanted)


def test_keys_handed_from_step_to_step_learn_from_all() -> None:
    torch.manual_seed(0)
    queries, keys, energy = drawn(ROWS, STEPS, 4), drawn(ROWS, 5, 4), drawn(4)
    handed, said = keys, list[Tensor]()
    for query in queries.split(1, dim=1):
        one, handed = compare(query, handed, energy)
        said.append(one)
    made, wanted = torch.cat(said, dim=1), plain_scores(queries, keys, energy)
    for _ in range(2):  # a graph that is kept gives the same again
        again = torch.autograd.grad(made.square().sum(), (queries, keys, energy), retain_graph=True)
        torch.testing.assert_close(
            again, torch.autograd.grad(wanted.square().sum(), (queries, keys, energy), retain_graph=True)
        )


def test_a_loop_of_products_and_one_of_means_learn_as_their_steps_do() -> None:
    torch.manual_seed(0)
    bases, first, second, values = drawn(STEPS, ROWS, 4), drawn(4, 4), drawn(4, 2), drawn(ROWS, 5, 2)
    leaves = (bases, first, second, values)

    def run(*, looped: bool) -> Tensor:
        linear, mean = LoopLinear(bases, first, second), LoopMean(values, STEPS)
        state, read = torch.ones(ROWS, 4, dtype=torch.float64), torch.ones(ROWS, 2, dtype=torch.float64)
        for step in range(STEPS):
            if looped:
                state = torch.tanh(linear(step, state, read))
                read = mean(step, functional.pad(state, (0, 1)).softmax(-1).unsqueeze(1))
            else:
                state = torch.tanh(bases[step] + state @ first.t() + read @ second.t())
                read = (functional.pad(state, (0, 1)).softmax(-1).unsqueeze(1) @ values).squeeze(1)
        return torch.cat((state, read), dim=-1)

    torch.testing.assert_close(run(looped=True), run(looped=False))
    torch.testing.assert_close(gradients(run(looped=True), *leaves), gradients(run(looped=False), *leaves))


@pytest.mark.parametrize(("cell", "layers"), list(product(CELLS, (1, 2))))
def test_a_network_in_a_loop_equals_its_steps(cell: str, layers: int) -> None:
    torch.manual_seed(0)
    network = Recurrent(
        part="decoder", input_width=3, width=WIDTH, layers=layers, cell=cell, residual=layers > 1, dropout=0.3
    ).double()
    reading, inputs, reads = drawn(network.blocks * WIDTH, READ), drawn(ROWS, STEPS, 3), drawn(STEPS, ROWS, READ)
    start = drawn(ROWS, layers, network.size.parts, WIDTH)
    leaves = (reading, inputs, reads, start, *network.parameters())
    assert can_unroll(network)

    torch.manual_seed(1)
    loop = NetworkLoop(network, inputs, reading)
    states, looped = loop.start(start), list[Tensor]()
    for step in range(STEPS):
        output, states = loop.step(step, states, reads[step])
        looped.append(output)

    torch.manual_seed(1)
    grid, stepped = start.unsqueeze(1), list[Tensor]()
    for step, products in enumerate(network.products(inputs).split(1, dim=1)):
        output, grid = network.step(products + (reads[step] @ reading.t()).unsqueeze(1), grid)
        stepped.append(output.squeeze(1))

    made, wanted = torch.stack(looped), torch.stack(stepped)
    torch.testing.assert_close(made, wanted)
    torch.testing.assert_close(gradients(made, *leaves), gradients(wanted, *leaves))


@pytest.mark.parametrize(("cell", "layer_norm"), [("multiplicative", False), *((cell, True) for cell in CELLS)])
def test_cells_without_a_loop_are_known(cell: str, layer_norm: bool) -> None:
    assert not can_loop(build_cell(cell, width=WIDTH, layer_norm=layer_norm))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_padding_leaves_the_memory_of_an_lstm_as_it_is(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its padding in one call (share 0) and packed (1): both as step by step."""
    monkeypatch.setattr("regard.nn.recurrent.DENSE", share)
    torch.manual_seed(0)
    layer = RecurrentLayer(input_width=3, cell=build_cell("lstm", width=WIDTH)).double()
    inputs, state = drawn(4, STEPS, 3), drawn(4, 2, WIDTH)
    mask = torch.arange(STEPS) < torch.tensor([5, 3, 1, 4]).unsqueeze(1)
    leaves = (inputs, state, *layer.parameters())

    def told(*, fast: bool) -> Tensor:
        sweep = layer(inputs, mask, state) if fast else layer.steps(inputs, mask, state)
        return torch.cat((sweep.outputs[mask], sweep.final.flatten(0, 1)))

    torch.testing.assert_close(told(fast=True), told(fast=False))
    torch.testing.assert_close(gradients(told(fast=True), *leaves), gradients(told(fast=False), *leaves))


def test_a_layer_that_resets_before_the_product_equals_its_steps() -> None:
    torch.manual_seed(0)
    layer = RecurrentLayer(input_width=3, cell=build_cell("gru_cho", width=WIDTH)).double()
    inputs, state = drawn(4, STEPS, 3), drawn(4, 1, WIDTH)
    lengths = torch.arange(STEPS) < torch.tensor([5, 3, 0, 4]).unsqueeze(1)
    leaves = (inputs, state, *layer.parameters())
    for mask in (None, lengths):
        real = torch.ones(4, STEPS, dtype=torch.bool) if mask is None else mask
        made, wanted = (
            torch.cat((sweep.outputs[real], sweep.final.flatten(0, 1)))
            for sweep in (layer(inputs, mask, state), layer.steps(inputs, mask, state))
        )
        torch.testing.assert_close(made, wanted)
        torch.testing.assert_close(gradients(made, *leaves), gradients(wanted, *leaves))


def test_a_row_of_padding_alone_keeps_its_first_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.nn.recurrent.DENSE", 0.0)
    layer = RecurrentLayer(input_width=3, cell=build_cell("lstm", width=WIDTH))
    mask = torch.tensor([[True, True], [False, False]])
    state = torch.randn(2, 2, WIDTH)
    final = layer(torch.randn(2, 2, 3), mask, state).final
    assert torch.equal(final[1], state[1])
    assert not torch.equal(final[0], state[0])

"""Recurrent networks against plain loops over each row, and padding, dropout and sites."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from regard.nn import CellName, Recurrent, Site, reverse, watching
from regard.nn.recurrent import RecurrentLayer, opposite, pairs

CELLS: tuple[CellName, ...] = ("elman", "lstm", "gru", "gru_cho", "multiplicative")


def network(
    cell: CellName,
    *,
    layers: int = 1,
    two_way: bool = True,
    dropout: float = 0.0,
    residual: bool = False,
    pyramid: bool = False,
    layer_norm: bool = False,
) -> Recurrent:
    module = Recurrent(
        part="encoder",
        input_width=4,
        width=3,
        layers=layers,
        two_way=two_way,
        cell=cell,
        dropout=dropout,
        residual=residual,
        pyramid=pyramid,
        layer_norm=layer_norm,
    ).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)
    return module.eval()


def naive_direction(layer: RecurrentLayer, inputs: Tensor, *, backward: bool) -> tuple[Tensor, Tensor]:
    """One row (N, I) through one direction of a layer, a step at a time: outputs (N, D), final state (P, D)."""
    state = torch.zeros(layer.cell.parts, 3, dtype=torch.float64)
    states: dict[int, Tensor] = {}
    for item in reversed(range(len(inputs))) if backward else range(len(inputs)):
        state = layer.cell.step(layer.inputs(inputs[item]), state).state
        states[item] = state[0]
    return torch.stack([states[item] for item in range(len(inputs))]), state


def naive(module: Recurrent, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """One row without padding through all layers."""
    states, finals = inputs, []
    for index in range(len(module.layers())):
        if index and module.pyramid:
            rows = [*states, *[torch.zeros_like(states[0])] * (len(states) % 2)]
            states = torch.stack([torch.cat((rows[item], rows[item + 1])) for item in range(0, len(rows), 2)])
        ways = [
            naive_direction(module.layers(direction)[index], states, backward=bool(direction))
            for direction in range(len(module.directions))
        ]
        outputs = torch.cat([one for one, _ in ways], dim=-1)
        finals.append(torch.cat([final for _, final in ways], dim=-1))
        states = states + outputs if module.residual and index else outputs
    return states, finals


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize(
    ("layers", "residual", "pyramid", "layer_norm"),
    [(1, False, False, False), (3, False, False, False), (3, True, False, True), (3, False, True, False)],
)
@torch.no_grad()
def test_network_equals_a_plain_loop_over_each_row(
    cell: CellName, two_way: bool, layers: int, residual: bool, pyramid: bool, layer_norm: bool
) -> None:
    module = network(cell, layers=layers, two_way=two_way, residual=residual, pyramid=pyramid, layer_norm=layer_norm)
    lengths = (2, 5, 1)
    inputs = torch.randn(3, 5, 4, dtype=torch.float64)
    run = module(inputs, torch.arange(5) < torch.tensor(lengths).unsqueeze(1))
    assert run.outputs.shape == (3, 2 if pyramid else 5, module.output_width)
    assert module.output_width == (6 if two_way else 3)
    for row, length in enumerate(lengths):
        outputs, finals = naive(module, inputs[row, :length])
        assert run.mask is not None
        torch.testing.assert_close(run.outputs[row][run.mask[row]], outputs, rtol=0, atol=1e-12)
        for ours, expected in zip(run.finals, finals, strict=True):
            torch.testing.assert_close(ours[row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_of_kernel_and_steps_agree(cell: CellName) -> None:
    """In single precision too, where other kernels are taken, and in evaluation."""
    module = network(cell, layers=1, two_way=False).float()
    (layer,) = module.layers()
    inputs = torch.randn(3, 5, 4)
    mask = torch.arange(5) < torch.tensor([2, 5, 1]).unsqueeze(1)
    gradients = []
    for path in (layer.forward, layer.steps):
        module.zero_grad()
        sweep = path(inputs, mask, layer.cell.start(inputs))
        (sweep.outputs[mask].sum() + sweep.final.square().sum()).backward()
        gradients.append([parameter.grad for parameter in module.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_padding_never_changes_a_result(cell: CellName, layers: int) -> None:
    module = network(cell, layers=layers)
    inputs = torch.randn(2, 4, 4, dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    expected = module(inputs, mask)
    other = inputs.clone()
    other[0, 3] = 1e3
    longer = torch.cat((other, torch.full((2, 3, 4), -1e3, dtype=torch.float64)), dim=1)
    longer_mask = torch.cat((mask, torch.zeros(2, 3, dtype=torch.bool)), dim=1)
    assert torch.equal(module(other, mask).outputs[mask], expected.outputs[mask])
    lengthened = module(longer, longer_mask)
    torch.testing.assert_close(lengthened.outputs[:, :4][mask], expected.outputs[mask], rtol=0, atol=1e-14)
    for one, final in zip(lengthened.finals, expected.finals, strict=True):
        torch.testing.assert_close(one, final, rtol=0, atol=1e-14)


@pytest.mark.parametrize("cell", CELLS)
def test_dropout_acts_between_layers_in_training_only(cell: CellName) -> None:
    inputs, mask = torch.randn(2, 4, 4, dtype=torch.float64), torch.ones(2, 4, dtype=torch.bool)
    for layers, changes in ((1, False), (2, True)):
        module = network(cell, layers=layers, dropout=0.5)
        still = module(inputs, mask).outputs
        assert torch.equal(module(inputs, mask).outputs, still)
        module.train()
        assert torch.allclose(module(inputs, mask).outputs, still) is not changes


@pytest.mark.parametrize(("cell", "residual"), list(product(CELLS, [False, True])))
@torch.no_grad()
def test_rolling_equals_stepping(cell: CellName, residual: bool) -> None:
    module = network(cell, layers=3, two_way=False, residual=residual)
    inputs = torch.randn(2, 5, 4, dtype=torch.float64)
    size = module.size
    assert (size.layers, size.width) == (3, 3)
    start = torch.randn(2, 3, size.parts, 3, dtype=torch.float64)
    states, outputs = start.unsqueeze(1), []
    for item in range(5):
        one, states = module.step(module.products(inputs[:, item : item + 1]), states)
        outputs.append(one)
    torch.testing.assert_close(module.roll(inputs, start), torch.cat(outputs, dim=1), rtol=0, atol=1e-12)


class Replacing:
    """Adds 1 to the states of a layer, and counts how often it was asked."""

    def __init__(self, layer: int) -> None:
        self.site = Site("encoder", "cell", layer)
        self.shapes: list[tuple[int, ...]] = []

    def watches(self, site: Site) -> bool:
        return site == self.site

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self.shapes.append(tuple(value.shape))
        return value + 1


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layer", [0, 1])
@torch.no_grad()
def test_what_replaces_a_state_goes_on_in_the_recurrence(cell: CellName, layer: int) -> None:
    module = network(cell, layers=2, two_way=False)
    inputs = torch.randn(2, 4, 4, dtype=torch.float64)
    start = torch.zeros(2, 2, module.size.parts, 3, dtype=torch.float64)
    watcher = Replacing(layer)
    with watching(watcher):
        changed = module.roll(inputs, start)
    assert watcher.shapes == [(2, 1, 3)] * 4
    states = [start[:, index] for index in range(2)]
    for item in range(4):
        read = inputs[:, item]
        for index, one in enumerate(module.layers()):
            state = one.cell.step(one.inputs(read), states[index]).state.clone()
            if index == layer:
                state[:, 0] += 1
            states[index], read = state, state[:, 0]
        torch.testing.assert_close(changed[:, item], read, rtol=0, atol=1e-12)


@torch.no_grad()
def test_every_layer_shows_its_states() -> None:
    module = network("lstm", layers=3, pyramid=True)
    inputs, mask = torch.randn(2, 5, 4, dtype=torch.float64), torch.ones(2, 5, dtype=torch.bool)
    for layer, items in enumerate((5, 3, 2)):
        watcher = Replacing(layer)
        with watching(watcher):
            changed = module(inputs, mask).outputs
        assert watcher.shapes == [(2, items, 6)]
        assert not torch.allclose(changed, module(inputs, mask).outputs)


def test_rows_are_reversed_up_to_their_length() -> None:
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    assert opposite(mask).tolist() == [[2, 1, 0, 3], [0, 1, 2, 3]]
    assert reverse(torch.tensor([[1, 2, 3, 9], [4, 9, 9, 9]]), mask).tolist() == [[3, 2, 1, 9], [4, 9, 9, 9]]
    assert reverse(torch.tensor([[1, 2, 3]]), None).tolist() == [[3, 2, 1]]


def test_neighbours_stand_side_by_side() -> None:
    assert pairs(torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist() == [[[1, 2], [3, 0]], [[4, 5], [6, 0]]]
    assert pairs(torch.ones(1, 4, 2)).shape == (1, 2, 2, 2)


@torch.no_grad()
def test_a_row_without_items_ends_where_it_began() -> None:
    module = network("gru", two_way=False)
    run = module(torch.randn(2, 3, 4, dtype=torch.float64), torch.tensor([[True, True, True], [False, False, False]]))
    assert not run.finals[0][1].any()
    assert run.finals[0][0].any()


def test_a_pyramid_cannot_be_residual() -> None:
    with pytest.raises(ValueError, match="a layer of a pyramid reads two states at once, so it cannot add them"):
        network("gru", layers=2, pyramid=True, residual=True)

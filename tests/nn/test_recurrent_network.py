"""Gated recurrent units against torch's cell and against their equations as plain loops."""

import pytest
import torch
from torch import Tensor, nn

from regard.nn import GRUCell, Recurrent
from regard.nn.recurrent import CellName, GRULayer

CELLS: tuple[CellName, ...] = ("gru", "gru_cho")


def wild(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)


def cho_step(cell: GRUCell, products: Tensor, state: Tensor) -> Tensor:
    """Cho et al. 2014, one row, gate by gate: h̃ = tanh(W x + U (r ∘ h)), h' = (1 - z) ∘ h + z ∘ h̃."""
    width = cell.width
    for_reset, for_update, for_candidate = products[:width], products[width : 2 * width], products[2 * width :]
    reset_weight, update_weight = cell.gates.weight[:width], cell.gates.weight[width:]
    reset_bias, update_bias = cell.gates.bias[:width], cell.gates.bias[width:]
    reset = 1 / (1 + torch.exp(-(for_reset + reset_weight @ state + reset_bias)))
    update = 1 / (1 + torch.exp(-(for_update + update_weight @ state + update_bias)))
    candidate = torch.tanh(for_candidate + cell.candidate.weight @ (reset * state) + cell.candidate.bias)
    return (1 - update) * state + update * candidate


def test_gru_equals_the_cell_of_torch() -> None:
    """torch's z is the share that is kept, ours the share that is taken: 1 - σ(a) = σ(-a)."""
    theirs = nn.GRUCell(4, 3).double()
    wild(theirs)
    ours = GRUCell(width=3, name="gru").double()
    sign = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    with torch.no_grad():
        hidden_weight, hidden_bias = theirs.weight_hh * sign.unsqueeze(1), theirs.bias_hh * sign
        ours.gates.weight.copy_(hidden_weight[:6])
        ours.gates.bias.copy_(hidden_bias[:6])
        ours.candidate.weight.copy_(hidden_weight[6:])
        ours.candidate.bias.copy_(hidden_bias[6:])
    inputs, state = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    products = (inputs @ theirs.weight_ih.T + theirs.bias_ih) * sign
    torch.testing.assert_close(ours(products, state), theirs(inputs, state), rtol=0, atol=1e-12)


def test_gru_cho_follows_its_equations() -> None:
    cell = GRUCell(width=3, name="gru_cho").double()
    wild(cell)
    products, state = torch.randn(5, 9, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    expected = torch.stack([cho_step(cell, products[row], state[row]) for row in range(5)])
    torch.testing.assert_close(cell(products, state), expected, rtol=0, atol=1e-12)


def test_the_two_readings_differ_only_in_where_the_reset_acts() -> None:
    before, after = GRUCell(width=3, name="gru_cho"), GRUCell(width=3, name="gru")
    after.load_state_dict(before.state_dict())
    products, state = torch.randn(5, 9), torch.randn(5, 3)
    assert not torch.allclose(before(products, state), after(products, state))
    products[:, :3] = 100.0  # r = 1
    nn.init.zeros_(before.candidate.bias)
    nn.init.zeros_(after.candidate.bias)
    torch.testing.assert_close(before(products, state), after(products, state))


def test_recurrent_weights_begin_orthogonal() -> None:
    cell = GRUCell(width=6, name="gru")
    for weight in (cell.gates.weight[:6], cell.gates.weight[6:], cell.candidate.weight):
        torch.testing.assert_close(weight @ weight.T, torch.eye(6), rtol=0, atol=1e-5)


def network(cell: CellName, *, layers: int = 1, two_way: bool = True, dropout: float = 0.0) -> Recurrent:
    module = Recurrent(input_width=4, width=3, layers=layers, two_way=two_way, cell=cell, dropout=dropout).double()
    wild(module)
    return module.eval()


def naive_direction(layer: nn.Module, inputs: Tensor, *, backward: bool) -> Tensor:
    """One row (N, I) through one direction of a layer, a step at a time."""
    state = torch.zeros(3, dtype=torch.float64)
    states: dict[int, Tensor] = {}
    suffix = "_reverse" if backward else ""
    for item in reversed(range(len(inputs))) if backward else range(len(inputs)):
        if isinstance(layer, nn.GRU):
            cell = nn.GRUCell(inputs.size(1), 3).double()
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            cell.load_state_dict({name: getattr(layer, f"{name}_l0{suffix}") for name in names})
            state = cell(inputs[item], state)
        else:
            assert isinstance(layer, nn.ModuleList)
            one = layer[int(backward)]
            assert isinstance(one, GRULayer)
            state = cho_step(one.cell, one.inputs.weight @ inputs[item] + one.inputs.bias, state)
        states[item] = state
    return torch.stack([states[item] for item in range(len(inputs))])


def naive(module: Recurrent, inputs: Tensor) -> Tensor:
    """One row without padding through all layers."""
    states = inputs
    for layer in module.layers:
        directions = (False, True) if module.two_way else (False,)
        states = torch.cat([naive_direction(layer, states, backward=backward) for backward in directions], dim=-1)
    return states


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_network_equals_a_plain_loop_over_each_row(cell: CellName, two_way: bool, layers: int) -> None:
    module = network(cell, layers=layers, two_way=two_way)
    lengths = (2, 5, 1)
    inputs = torch.randn(3, 5, 4, dtype=torch.float64)
    states = module(inputs, torch.arange(5) < torch.tensor(lengths).unsqueeze(1))
    assert states.shape == (3, 5, module.output_width)
    assert module.output_width == (6 if two_way else 3)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(states[row, :length], naive(module, inputs[row, :length]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
def test_padding_never_changes_a_result(cell: CellName, layers: int) -> None:
    module = network(cell, layers=layers)
    inputs = torch.randn(2, 4, 4, dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    expected = module(inputs, mask)
    other = inputs.clone()
    other[0, 3] = 1e3
    longer = torch.cat((other, torch.full((2, 3, 4), -1e3, dtype=torch.float64)), dim=1)
    longer_mask = torch.cat((mask, torch.zeros(2, 3, dtype=torch.bool)), dim=1)
    assert torch.equal(module(other, mask)[mask], expected[mask])
    torch.testing.assert_close(module(longer, longer_mask)[:, :4][mask], expected[mask], rtol=0, atol=1e-14)


@pytest.mark.parametrize("cell", CELLS)
def test_dropout_acts_between_layers_in_training_only(cell: CellName) -> None:
    inputs, mask = torch.randn(2, 4, 4, dtype=torch.float64), torch.ones(2, 4, dtype=torch.bool)
    for layers, changes in ((1, False), (2, True)):
        module = network(cell, layers=layers, dropout=0.5)
        still = module(inputs, mask)
        assert torch.equal(module(inputs, mask), still)
        module.train()
        assert torch.allclose(module(inputs, mask), still) is not changes

"""Recurrent cells against torch's networks and against their equations as plain loops."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from regard.nn import CellName, RecurrentLayer, build_cell, candidate_weights
from regard.nn.cells import Cell, ElmanCell, GRUCell, LSTMCell, MultiplicativeCell

CELLS: tuple[CellName, ...] = ("elman", "lstm", "gru", "gru_cho", "multiplicative")
THEIRS = {"elman": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def wild(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)


def a_layer(name: CellName, *, layer_norm: bool = False) -> RecurrentLayer:
    layer = RecurrentLayer(input_width=4, cell=build_cell(name, width=3, layer_norm=layer_norm)).double()
    wild(layer)
    return layer


def cho_step(cell: Cell, products: Tensor, state: Tensor) -> Tensor:
    """Cho et al. 2014, one row, gate by gate: h̃ = tanh(W x + U (r ∘ h)), h' = (1 - z) ∘ h + z ∘ h̃."""
    for_reset, for_update, for_candidate = products.chunk(3)
    reset_weight, update_weight, candidate_weight = cell.recurrent.weight.chunk(3)
    reset_bias, update_bias, candidate_bias = cell.recurrent.bias.chunk(3)
    reset = 1 / (1 + torch.exp(-(for_reset + reset_weight @ state + reset_bias)))
    update = 1 / (1 + torch.exp(-(for_update + update_weight @ state + update_bias)))
    candidate = torch.tanh(for_candidate + candidate_weight @ (reset * state) + candidate_bias)
    return (1 - update) * state + update * candidate


@pytest.mark.parametrize("name", ["elman", "lstm", "gru"])
@pytest.mark.parametrize("path", ["fused", "steps"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_equal_those_of_torch(name: CellName, path: str, dtype: torch.dtype) -> None:
    layer = a_layer(name).to(dtype)
    theirs = THEIRS[name](4, 3, batch_first=True).to(dtype)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    ours = (layer.inputs.weight, layer.cell.recurrent.weight, layer.inputs.bias, layer.cell.recurrent.bias)
    theirs.load_state_dict(dict(zip(names, ours, strict=True)))
    inputs = torch.randn(5, 7, 4, dtype=dtype)
    state = torch.randn(5, layer.cell.parts, 3, dtype=dtype)
    start = state.transpose(0, 1).contiguous()  # (P, B, D)
    outputs, final = theirs(inputs, (start[:1], start[1:]) if name == "lstm" else start)
    expected = torch.cat(final) if name == "lstm" else final
    sweep = layer(inputs, None, state) if path == "fused" else layer.steps(inputs, None, state)
    assert layer.cell.fused
    torch.testing.assert_close(sweep.outputs, outputs, rtol=0, atol=1e-6)
    torch.testing.assert_close(sweep.final, expected.transpose(0, 1), rtol=0, atol=1e-6)


def test_gru_cho_follows_its_equations() -> None:
    layer = a_layer("gru_cho")
    inputs, state = torch.randn(5, 4, 4, dtype=torch.float64), torch.randn(5, 1, 3, dtype=torch.float64)
    sweep = layer(inputs, None, state)
    for row in range(5):
        hidden = state[row, 0]
        for item in range(4):
            hidden = cho_step(layer.cell, layer.inputs(inputs[row, item]), hidden)
            torch.testing.assert_close(sweep.outputs[row, item], hidden, rtol=0, atol=1e-12)


def test_the_multiplicative_cell_follows_its_equations() -> None:
    """Sutskever et al. 2011: f = diag(W_fx x) W_fh h, h' = tanh(W_hf f + W_hx x), number by number."""
    layer = a_layer("multiplicative")
    nn.init.zeros_(layer.inputs.bias)
    nn.init.zeros_(layer.cell.recurrent.bias)
    from_input, to_hidden = layer.inputs.weight.chunk(2)
    to_factors, from_factors = layer.cell.recurrent.weight.chunk(2)
    inputs, state = torch.randn(2, 4, 4, dtype=torch.float64), torch.randn(2, 1, 3, dtype=torch.float64)
    outputs, trace = layer(inputs, None, state).outputs, layer.trace(inputs, state)
    for row in range(2):
        hidden = state[row, 0]
        for item in range(4):
            read = inputs[row, item]
            transition = from_factors @ torch.diag(from_input @ read) @ to_factors
            factors = torch.stack([(from_input[f] @ read) * (to_factors[f] @ hidden) for f in range(3)])
            hidden = torch.tanh(transition @ hidden + to_hidden @ read)
            torch.testing.assert_close(outputs[row, item], hidden, rtol=0, atol=1e-12)
            torch.testing.assert_close(trace[item].gates["factors"][row], factors, rtol=0, atol=1e-12)


def test_a_fresh_multiplicative_cell_keeps_what_it_has_read() -> None:
    """With an input of zero its transition is orthogonal, as that of a fresh Elman cell."""
    cell = build_cell("multiplicative", width=6)
    nn.init.zeros_(cell.recurrent.bias[6:])
    state = torch.randn(5, 1, 6) * 1e-3
    after = cell.step(torch.zeros(5, 12), state).state
    torch.testing.assert_close(after.norm(dim=-1), state.norm(dim=-1), rtol=1e-4, atol=0)


def test_the_two_readings_differ_only_in_where_the_reset_acts() -> None:
    before, after = build_cell("gru_cho", width=3), build_cell("gru", width=3)
    after.load_state_dict(before.state_dict())
    sign = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0])  # torch's z is 1 - z, and 1 - σ(a) = σ(-a)
    with torch.no_grad():
        after.recurrent.weight.mul_(sign.unsqueeze(1))
        after.recurrent.bias.mul_(sign)
    products, state = torch.randn(5, 9), torch.randn(5, 1, 3)

    def states() -> tuple[Tensor, Tensor]:
        return before.step(products, state).state, after.step(products * sign, state).state

    one, other = states()
    assert not torch.allclose(one, other)
    products[:, :3] = 100.0  # r = 1
    torch.testing.assert_close(*states())


def reference_norms(cell: Cell, products: Tensor, state: Tensor) -> Tensor:
    """Ba et al. 2016: equation 4 (Elman), 20 to 22 (LSTM) and 26 to 29 (GRU) of the supplement; one row (P, D)."""

    def norm(values: Tensor, module: nn.Module) -> Tensor:
        assert isinstance(module, nn.LayerNorm)
        return layer_norm(values, values.shape, module.weight, module.bias)

    weight, bias, hidden = cell.recurrent.weight, cell.recurrent.bias, state[0]
    if isinstance(cell, ElmanCell):
        return torch.tanh(norm(products + weight @ hidden + bias, cell.norm)).unsqueeze(0)
    if isinstance(cell, MultiplicativeCell):
        factors = (products[:3] + bias[:3]) * (weight[:3] @ hidden)
        return torch.tanh(norm(products[3:] + weight[3:] @ factors + bias[3:], cell.norm)).unsqueeze(0)
    if isinstance(cell, LSTMCell):
        total = norm(products, cell.input_norm) + norm(weight @ hidden + bias, cell.state_norm)
        into, forget, candidate, out = total.chunk(4)
        memory = torch.sigmoid(forget) * state[1] + torch.sigmoid(into) * torch.tanh(candidate)
        return torch.stack((torch.sigmoid(out) * torch.tanh(norm(memory, cell.memory_norm)), memory))
    assert isinstance(cell, GRUCell)
    state_gates = norm(weight[:6] @ hidden + bias[:6], cell.state_gates_norm)
    reset, update = torch.sigmoid(norm(products[:6], cell.input_gates_norm) + state_gates).chunk(2)
    input_candidate = norm(products[6:], cell.input_candidate_norm)
    if cell.reset == "before":
        product = norm(weight[6:] @ (reset * hidden) + bias[6:], cell.state_candidate_norm)
        candidate, kept = torch.tanh(input_candidate + product), 1 - update
    else:
        product = norm(weight[6:] @ hidden + bias[6:], cell.state_candidate_norm)
        candidate, kept = torch.tanh(input_candidate + reset * product), update
    return (kept * hidden + (1 - kept) * candidate).unsqueeze(0)


@pytest.mark.parametrize("name", CELLS)
def test_layer_norm_follows_its_equations(name: CellName) -> None:
    cell = build_cell(name, width=3, layer_norm=True).double()
    wild(cell)
    assert not cell.fused
    products = torch.randn(5, 3 * cell.blocks, dtype=torch.float64)
    state = torch.randn(5, cell.parts, 3, dtype=torch.float64)
    expected = torch.stack([reference_norms(cell, products[row], state[row]) for row in range(5)])
    torch.testing.assert_close(cell.step(products, state).state, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_any_grid_of_rows_steps_alike(name: CellName) -> None:
    cell = build_cell(name, width=3).double()
    products = torch.randn(2, 5, 3 * cell.blocks, dtype=torch.float64)
    state = torch.randn(2, 5, cell.parts, 3, dtype=torch.float64)
    grid = cell.step(products, state)
    rows = cell.step(products.flatten(0, 1), state.flatten(0, 1))
    torch.testing.assert_close(grid.state.flatten(0, 1), rows.state)
    assert grid.gates.keys() == rows.gates.keys()
    assert all(gate.shape == (2, 5, 3) for gate in grid.gates.values())


GATES = {
    "elman": [],
    "lstm": ["input", "forget", "candidate", "output"],
    "gru": ["reset", "update", "candidate"],
    "gru_cho": ["reset", "update", "candidate"],
    "multiplicative": ["factors"],
}


@pytest.mark.parametrize("name", CELLS)
def test_gates_say_how_a_state_came_about(name: CellName) -> None:
    layer = a_layer(name)
    inputs = torch.randn(2, 4, 4, dtype=torch.float64)
    state = torch.randn(2, layer.cell.parts, 3, dtype=torch.float64)
    trace = layer.trace(inputs, state)
    torch.testing.assert_close(
        torch.stack([one.state[:, 0] for one in trace], dim=1), layer(inputs, None, state).outputs
    )
    for step in trace:
        gates = step.gates
        assert list(gates) == GATES[name]
        if name == "lstm":
            memory = gates["forget"] * state[:, 1] + gates["input"] * gates["candidate"]
            torch.testing.assert_close(step.state[:, 1], memory)
            torch.testing.assert_close(step.state[:, 0], gates["output"] * torch.tanh(memory))
        elif name in ("gru", "gru_cho"):
            mixed = (1 - gates["update"]) * state[:, 0] + gates["update"] * gates["candidate"]
            torch.testing.assert_close(step.state[:, 0], mixed)
        state = step.state


@pytest.mark.parametrize("name", ["gru", "gru_cho"])
def test_an_unrolled_gru_is_a_weighted_sum_of_its_candidates(name: CellName) -> None:
    layer = a_layer(name)
    inputs, start = torch.randn(2, 6, 4, dtype=torch.float64), torch.randn(2, 1, 3, dtype=torch.float64)
    trace = layer.trace(inputs, start)
    updates, candidates = (torch.stack([one.gates[gate] for one in trace], dim=1) for gate in ("update", "candidate"))
    weights = candidate_weights(updates)
    assert weights.shape == (2, 6, 6, 3)
    states = torch.stack([one.state[:, 0] for one in trace], dim=1)  # (B, N, D)
    summed = (weights * candidates.unsqueeze(1)).sum(2)
    torch.testing.assert_close(summed + (1 - weights.sum(2)) * start, states, rtol=0, atol=1e-12)
    nothing = layer.trace(inputs, torch.zeros_like(start))
    updates, candidates = (torch.stack([one.gates[gate] for one in nothing], dim=1) for gate in ("update", "candidate"))
    summed = (candidate_weights(updates) * candidates.unsqueeze(1)).sum(2)
    torch.testing.assert_close(summed, torch.stack([one.state[:, 0] for one in nothing], dim=1), rtol=0, atol=1e-12)


def test_weights_of_candidates_as_their_product() -> None:
    updates = torch.rand(5, 2, dtype=torch.float64)
    weights = candidate_weights(updates)
    for item in range(5):
        for earlier in range(5):
            expected = updates[earlier] * torch.prod(1 - updates[earlier + 1 : item + 1], dim=0)
            expected = expected if earlier <= item else torch.zeros(2, dtype=torch.float64)
            torch.testing.assert_close(weights[item, earlier], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_weights_begin_orthogonal(name: CellName) -> None:
    cell = build_cell(name, width=6)
    for weight in cell.recurrent.weight.split(6):
        torch.testing.assert_close(weight @ weight.T, torch.eye(6), rtol=0, atol=1e-5)
    if name == "lstm":
        assert (cell.recurrent.bias[6:12] == 1).all()
    if name == "multiplicative":
        assert (cell.recurrent.bias[:6] == 1).all()


def test_a_layer_without_a_kernel_is_never_fused() -> None:
    layer = a_layer("gru_cho")

    class Unknown(Cell):
        parts = blocks = 1
        fused = True

        def step(self, products: Tensor, state: Tensor) -> None:  # type: ignore[override]
            raise NotImplementedError

    layer.cell = Unknown(width=3, blocks=1)
    with pytest.raises(AssertionError, match="Unknown has no fused kernel"):
        layer(torch.randn(1, 2, 4, dtype=torch.float64), None, torch.zeros(1, 1, 3, dtype=torch.float64))


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_steps_under_autocast(name: CellName, layer_norm: bool) -> None:
    """States come in single precision, products in half."""
    cell = build_cell(name, width=8, layer_norm=layer_norm)
    products, state = torch.randn(3, cell.recurrent.weight.size(0)), torch.randn(3, cell.parts, 8)
    exact = cell.step(products, state).state
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cell.step(products.bfloat16(), state).state
    torch.testing.assert_close(found.float(), exact, rtol=0.05, atol=0.05)

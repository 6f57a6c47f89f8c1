"""Attention against torch's own module, against plain loops, and its fused path against its explicit one."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.nn import Attention, Site, additive_attention, masked_softmax, watching
from regard.nn.scores import AdditiveScore

SITE = Site("decoder", "cross", 1)


class Onlooker:
    """Watches everything and changes nothing."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []

    def watches(self, site: Site) -> bool:
        return True

    def visit(self, site: Site, value: Tensor) -> Tensor:
        assert site == SITE
        self.values.append(value)
        return value


def attention(*, memory_width: int = 8, dtype: torch.dtype = torch.float64, dropout: float = 0.0) -> Attention:
    module = Attention(query_width=8, memory_width=memory_width, heads=2, dropout=dropout, site=SITE).to(dtype)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.eval()


def torch_twin(ours: Attention, memory_width: int) -> nn.MultiheadAttention:
    """torch's module with our weights."""
    twin = nn.MultiheadAttention(8, 2, batch_first=True, kdim=memory_width, vdim=memory_width).double().eval()
    keys, values = ours.key_value.weight.chunk(2)
    with torch.no_grad():
        if twin.in_proj_weight is not None:
            twin.in_proj_weight.copy_(torch.cat((ours.query.weight, keys, values)))
        else:
            twin.q_proj_weight.copy_(ours.query.weight)
            twin.k_proj_weight.copy_(keys)
            twin.v_proj_weight.copy_(values)
        twin.in_proj_bias.copy_(torch.cat((ours.query.bias, ours.key_value.bias)))
        twin.out_proj.weight.copy_(ours.output.weight)
        twin.out_proj.bias.copy_(ours.output.bias)
    return twin


def on_both_paths(
    module: Attention, queries: Tensor, states: Tensor, mask: Tensor | None, *, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The fused result, the explicit result, and the weights that the explicit path showed."""
    fused = module.attend(queries, module.prepare(states), mask, causal=causal)
    onlooker = Onlooker()
    with watching(onlooker):
        explicit = module.attend(queries, module.prepare(states), mask, causal=causal)
    assert len(onlooker.values) == 1
    return fused, explicit, onlooker.values[0]


@pytest.mark.parametrize("memory_width", [8, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_equal_those_of_torch(memory_width: int, masked: bool, causal: bool) -> None:
    ours = attention(memory_width=memory_width)
    twin = torch_twin(ours, memory_width)
    items = 6
    queries = torch.randn(3, items, 8, dtype=torch.float64)
    states = torch.randn(3, items, memory_width, dtype=torch.float64)
    real = torch.arange(items) < torch.tensor([6, 2, 4]).unsqueeze(1)
    mask = real[:, None, None, :] if masked else None
    expected, weights = twin(
        queries,
        states,
        states,
        key_padding_mask=~real if masked else None,
        attn_mask=torch.ones(items, items, dtype=torch.bool).triu(1) if causal else None,
        average_attn_weights=False,
    )
    fused, explicit, shown = on_both_paths(ours, queries, states, mask, causal=causal)
    torch.testing.assert_close(fused, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(explicit, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(shown, weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", ["none", "keys", "pairs"])
@pytest.mark.parametrize("items", [1, 3, 40])
def test_fused_and_explicit_paths_agree(
    dtype: torch.dtype, tolerance: float, causal: bool, shape: str, items: int
) -> None:
    module = attention(dtype=dtype)
    nn.init.normal_(module.key_value.weight, std=0.4)
    states = torch.randn(3, items, 8, dtype=dtype)
    lengths = torch.tensor([items, 1, (items + 1) // 2])
    mask = {
        "none": None,
        "keys": (torch.arange(items) < lengths.unsqueeze(1))[:, None, None, :],
        "pairs": (torch.rand(3, 1, items, items) < 0.4) | torch.eye(items, dtype=torch.bool),
    }[shape]
    fused, explicit, weights = on_both_paths(module, states, states, mask, causal=causal)
    torch.testing.assert_close(fused, explicit, rtol=0, atol=tolerance * max(1.0, explicit.abs().max().item()))
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("looking", [False, True])
@pytest.mark.parametrize("learning", [False, True])
def test_no_permitted_key_gives_a_zero_context(dtype: torch.dtype, looking: bool, learning: bool) -> None:
    module = attention(dtype=dtype)
    queries = torch.randn(2, 4, 8, dtype=dtype, requires_grad=learning)
    states = torch.randn(2, 5, 8, dtype=dtype, requires_grad=learning)
    mask = torch.tensor([[True, False, True, True, False], [False] * 5])[:, None, None, :]
    if looking:
        with watching(Onlooker()):
            result = module.attend(queries, module.prepare(states), mask)
    else:
        result = module.attend(queries, module.prepare(states), mask)
    torch.testing.assert_close(result[1], module.output.bias.expand(4, -1))
    assert (result[0] - module.output.bias).abs().min() > 0
    if learning:
        result.sum().backward()
        assert queries.grad is not None
        assert states.grad is not None
        assert queries.grad.isfinite().all()
        assert not queries.grad[1].any()
        assert not states.grad[1].any()
        assert states.grad[0].any()


def test_dropout_of_weights_acts_only_in_training() -> None:
    module = attention(dropout=0.5)
    states = torch.randn(2, 6, 8, dtype=torch.float64)
    still = module.attend(states, module.prepare(states), None)
    assert torch.equal(still, module.attend(states, module.prepare(states), None))
    module.train()
    assert not torch.allclose(still, module.attend(states, module.prepare(states), None))
    with watching(Onlooker()):
        assert not torch.allclose(still, module.attend(states, module.prepare(states), None))


@pytest.mark.parametrize("looking", [False, True])
def test_additive_attention_follows_its_equations(looking: bool) -> None:
    """e_ij = vᵀ tanh(W_a s_{i-1} + U_a h_j), α = softmax(e), c_i = Σ_j α_ij h_j, number by number."""
    module = additive_attention(query_width=4, memory_width=3, width=5, site=SITE).double()
    score = module.score
    assert isinstance(score, AdditiveScore)
    queries = torch.randn(2, 3, 4, dtype=torch.float64)
    states = torch.randn(2, 6, 3, dtype=torch.float64)
    lengths = (6, 4)
    mask = torch.arange(6) < torch.tensor(lengths).unsqueeze(1)
    onlooker = Onlooker()
    if looking:
        with watching(onlooker):
            context = module.attend(queries, module.prepare(states), mask[:, None, None, :])
        assert onlooker.values[0].shape == (2, 1, 3, 6)
    else:
        context = module.attend(queries, module.prepare(states), mask[:, None, None, :])
    assert context.shape == (2, 3, 3)
    for row in range(2):
        for item in range(3):
            energies = []
            for key in range(lengths[row]):
                inner = score.query[0] @ queries[row, item] + score.key[0] @ states[row, key]
                energies.append((score.energy[0] @ torch.tanh(inner + score.bias[0])).item())
            total = sum(math.exp(energy) for energy in energies)
            shares = [math.exp(energy) / total for energy in energies]
            expected = sum(share * states[row, key] for key, share in enumerate(shares))
            torch.testing.assert_close(context[row, item], expected, rtol=0, atol=1e-12)
            if looking:
                shown = onlooker.values[0][row, 0, item].tolist()
                assert shown == pytest.approx([*shares, *[0.0] * (6 - lengths[row])], abs=1e-12)


def test_additive_attention_without_permitted_keys_gives_a_zero_context() -> None:
    module = additive_attention(query_width=4, memory_width=3, width=5, site=SITE)
    states = torch.randn(1, 2, 3, requires_grad=True)
    context = module.attend(torch.randn(1, 2, 4), module.prepare(states), torch.zeros(1, 1, 1, 2, dtype=torch.bool))
    assert not context.any()
    context.sum().backward()
    assert states.grad is not None
    assert not states.grad.any()
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("scores", "mask", "expected"),
    [
        ([0.0, 0.0], None, [0.5, 0.5]),
        ([1.0, 1.0, 5.0], [True, True, False], [0.5, 0.5, 0.0]),
        ([3.0, 7.0], [False, False], [0.0, 0.0]),
        ([-1e30, 2.0], [True, False], [1.0, 0.0]),
        ([math.log(1.0), math.log(3.0)], [True, True], [0.25, 0.75]),
    ],
)
def test_masked_softmax(scores: list[float], mask: list[bool] | None, expected: list[float]) -> None:
    allowed = None if mask is None else torch.tensor(mask)
    assert masked_softmax(torch.tensor(scores), allowed).tolist() == pytest.approx(expected)


def test_gradient_of_masked_softmax_is_finite_where_nothing_is_permitted() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
    (weights * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert not scores.grad[1].any()
    assert scores.grad[0, :2].all()

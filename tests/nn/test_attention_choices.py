"""Every score with every kind of projections and heads, against plain loops over the equations."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from regard.nn import Attention, Site, watching
from regard.nn.attention import Projections
from regard.nn.relations import RelativeTerms
from regard.nn.scores import AdditiveScore, BilinearScore, ScoreName

SITE = Site("decoder", "cross")
SCORES: tuple[ScoreName, ...] = ("dot", "scaled_dot", "bilinear", "additive")
PROJECTIONS: tuple[Projections, ...] = ("learned", "none", "split")
HEADS = ((1, None), (2, None), (4, 2), (4, 1))
LENGTHS = (5, 3, 0)


class Onlooker:
    """Watches everything and changes nothing."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []

    def watches(self, site: Site) -> bool:
        return True

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self.values.append(value)
        return value


def built(score: ScoreName, projections: Projections, heads: int, key_heads: int | None) -> Attention:
    """Queries of width 8; the memory is so wide that all products exist, or otherwise wide where that is allowed."""
    of_key = 8 // heads if score in ("dot", "scaled_dot") else 3
    memory_width = {"learned": 5, "none": of_key * (key_heads or heads), "split": 2 * of_key * (key_heads or heads)}
    module = Attention(
        query_width=8,
        memory_width=memory_width[projections],
        score=score,
        projections=projections,
        heads=heads,
        key_heads=key_heads,
        site=SITE,
    ).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)
    return module.eval()


def states_for(module: Attention, projections: Projections) -> Tensor:
    width = {
        "learned": 5,
        "none": module.context_width // module.heads * module.key_heads,
        "split": 2 * module.context_width // module.heads * module.key_heads,
    }[projections]
    return torch.randn(3, 5, width, dtype=torch.float64)


def fit(module: Attention, name: ScoreName, head: int, query: Tensor, key: Tensor) -> float:
    """One score, number by number."""
    group = head * module.key_heads // module.heads
    match name:
        case "dot":
            return float(query @ key)
        case "scaled_dot":
            return float(query @ key) / math.sqrt(len(key))
        case "bilinear":
            assert isinstance(module.score, BilinearScore)
            return float(query @ module.score.weight[group] @ key)
        case "additive":
            score = module.score
            assert isinstance(score, AdditiveScore)
            inner = score.query[head] @ query + score.key[group] @ key + score.bias[group]
            return float(score.energy[head] @ torch.tanh(inner))


def by_loops(
    module: Attention, name: ScoreName, projections: Projections, queries: Tensor, states: Tensor
) -> tuple[Tensor, Tensor]:
    """Contexts (B, Q, ·) and weights (B, H, Q, N)."""
    weights = torch.zeros(3, module.heads, queries.size(1), states.size(1), dtype=torch.float64)
    contexts = torch.zeros(3, queries.size(1), module.context_width, dtype=torch.float64)
    for row, item, head in product(range(3), range(queries.size(1)), range(module.heads)):
        query, memory = queries[row, item], states[row]
        if projections == "learned":
            assert module.query is not None
            assert module.key_value is not None
            query, memory = module.query(query), module.key_value(memory)
        keys, values = (memory, memory) if projections == "none" else memory.chunk(2, dim=-1)
        group = head * module.key_heads // module.heads
        query = query.chunk(module.heads)[head]
        keys, values = keys.chunk(module.key_heads, -1)[group], values.chunk(module.key_heads, -1)[group]
        energies = [math.exp(fit(module, name, head, query, keys[key])) for key in range(LENGTHS[row])]
        size = values.size(-1)
        for key, energy in enumerate(energies):
            weights[row, head, item, key] = energy / sum(energies)
            contexts[row, item, head * size : (head + 1) * size] += energy / sum(energies) * values[key]
    return contexts if module.output is None else module.output(contexts), weights


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("projections", PROJECTIONS)
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_every_choice_follows_its_equations(
    score: ScoreName, projections: Projections, heads: tuple[int, int | None]
) -> None:
    """The last row has no permitted key: its context is zero (before the last projection)."""
    module = built(score, projections, *heads)
    states, queries = states_for(module, projections), torch.randn(3, 2, 8, dtype=torch.float64)
    mask = (torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1))[:, None, None, :]
    expected, weights = by_loops(module, score, projections, queries, states)
    normal = module.attend(queries, module.prepare(states), mask)
    onlooker = Onlooker()
    with watching(onlooker):
        explicit = module.attend(queries, module.prepare(states), mask)
    assert expected.shape == (3, 2, module.context_width)
    assert not weights[2].any()
    torch.testing.assert_close(onlooker.values[0], weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(explicit, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(normal, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("score", SCORES)
def test_causal_queries_see_no_later_keys(score: ScoreName, heads: tuple[int, int | None]) -> None:
    module = built(score, "learned", *heads)
    states, queries = torch.randn(2, 4, 5, dtype=torch.float64), torch.randn(2, 4, 8, dtype=torch.float64)
    together = module.attend(queries, module.prepare(states), None, causal=True)
    for item in range(4):
        alone = module.attend(queries[:, item : item + 1], module.prepare(states[:, : item + 1]), None)
        torch.testing.assert_close(together[:, item : item + 1], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("projections", PROJECTIONS)
@pytest.mark.parametrize("score", SCORES)
def test_gradients_reach_every_parameter(score: ScoreName, projections: Projections) -> None:
    module = built(score, projections, 4, 2)
    states = states_for(module, projections).requires_grad_()
    module.attend(torch.randn(3, 2, 8, dtype=torch.float64), module.prepare(states), None).square().sum().backward()
    for name, parameter in (*module.named_parameters(), ("states", states)):
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-9, name


def test_grouped_heads_equal_repeated_ones() -> None:
    """Ainslie et al. 2023: a key head that serves two heads is that head twice."""
    grouped, full = built("scaled_dot", "learned", 4, 2), built("scaled_dot", "learned", 4, None)
    assert grouped.key_value is not None
    assert full.key_value is not None
    twice = [0, 0, 1, 1]
    with torch.no_grad():
        full.load_state_dict(grouped.state_dict() | {k: v for k, v in full.state_dict().items() if "key_value" in k})
        weight = grouped.key_value.weight.view(2, 2, 2, 5)[:, twice]  # key or value, head, width of a head, memory
        full.key_value.weight.copy_(weight.reshape(16, 5))
        full.key_value.bias.copy_(grouped.key_value.bias.view(2, 2, 2)[:, twice].reshape(16))
    states, queries = torch.randn(3, 5, 5, dtype=torch.float64), torch.randn(3, 2, 8, dtype=torch.float64)
    assert grouped.prepare(states).keys.shape == (3, 2, 5, 2)
    torch.testing.assert_close(
        grouped.attend(queries, grouped.prepare(states), None), full.attend(queries, full.prepare(states), None)
    )


def refused(**choices: object) -> str:
    settings = {"query_width": 8, "memory_width": 8, "site": SITE} | choices
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the callers compare the text)
        Attention(**settings)  # type: ignore[arg-type]
    return str(caught.value)


def test_what_cannot_be_compared_is_refused() -> None:
    assert refused(query_width=10, heads=4) == "width 10 cannot be split into 4 heads"
    assert refused(heads=4, key_heads=3) == "3 key heads cannot serve 4 heads in equal shares"
    assert refused(memory_width=7, projections="split") == "width 7 cannot be split into key and value"
    assert refused(memory_width=9, projections="none", heads=2) == "width 9 cannot be split into 2 key heads"
    assert refused(memory_width=6, projections="none", score="dot") == (
        "a dot score needs queries and keys of one width, but each head has 8 and 6; "
        "take learned projections, or a bilinear or additive score"
    )
    terms = RelativeTerms(width=8, furthest=2, causal=False)
    assert refused(score="additive", relative=terms) == (
        "relative positions need a score that is a product, and additive is none"
    )

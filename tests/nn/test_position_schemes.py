"""Schemes that tell positions inside attention, each against plain loops; learned ones; and none at all."""

import cmath
import math

import pytest
import torch
from torch import Tensor, nn

from regard.errors import ModelError
from regard.models import TransformerEncoder
from regard.nn import (
    Attention,
    Embedding,
    LearnedPositions,
    Positions,
    Site,
    TransformerEncoderLayer,
    Variant,
    embedding_table,
)
from regard.nn.positions import PositionsName, RelativeBias, RotaryPositions, alibi_slopes, bias_buckets

WIDTH, HEADS, ITEMS = 8, 2, 6
HEAD = WIDTH // HEADS
FURTHEST, FURTHEST_BIAS = 3, 5
RELATED: tuple[PositionsName, ...] = ("relative", "relative_bias", "rotary", "alibi")


def built(name: PositionsName, *, causal: bool) -> tuple[Attention, Positions]:
    furthest = FURTHEST_BIAS if name == "relative_bias" else FURTHEST
    variant = Variant(positions=name, furthest=furthest, buckets=8 if causal else 12)
    site = Site("decoder" if causal else "encoder", "self")
    attention = variant.build_attention(width=WIDTH, memory_width=WIDTH, heads=HEADS, site=site).double()
    positions = variant.build_positions(width=WIDTH, heads=HEADS, causal=causal).double()
    for part in (attention, positions):
        for parameter in part.parameters():
            nn.init.normal_(parameter, std=0.7)
    return attention, positions


def turned(vector: Tensor, position: int) -> Tensor:
    """Su et al. 2021: pairs as complex numbers, times e^{i p θ}, θ_i = 10000^{-2i/E}."""
    numbers = vector.tolist()
    result: list[float] = []
    for pair in range(len(numbers) // 2):
        angle = position * 10000 ** (-2 * pair / len(numbers))
        number = complex(numbers[2 * pair], numbers[2 * pair + 1]) * cmath.exp(1j * angle)
        result += [number.real, number.imag]
    return torch.tensor(result, dtype=torch.float64)


def bucket(distance: int, buckets: int, furthest: int, causal: bool) -> int:
    """Raffel et al. 2020, in plain numbers."""
    offset = 0
    if not causal:
        buckets //= 2
        offset = buckets if distance > 0 else 0
        distance = -abs(distance)
    size = max(0, -distance)
    exact = buckets // 2
    if size < exact:
        return offset + size
    growth = math.log(size / exact) / math.log(furthest / exact) * (buckets - exact)
    return offset + min(exact + int(growth + 1e-6), buckets - 1)


def by_loops(attention: Attention, positions: Positions, name: PositionsName, states: Tensor, causal: bool) -> Tensor:
    """Self-attention of one row (N, D), number by number."""
    assert attention.query is not None
    assert attention.key_value is not None
    assert attention.output is not None
    contexts = torch.zeros(ITEMS, WIDTH, dtype=torch.float64)
    for head in range(HEADS):
        here = slice(head * HEAD, (head + 1) * HEAD)
        queries = attention.query(states)[:, here]
        keys, values = (part[:, here] for part in attention.key_value(states).chunk(2, -1))
        for i in range(ITEMS):
            energies, shown = [], []
            for j in range(i + 1 if causal else ITEMS):
                key, value, bias = keys[j], values[j], 0.0
                query = queries[i]
                match name:
                    case "relative":
                        assert attention.relative is not None
                        row = max(-FURTHEST, min(FURTHEST, j - i)) + FURTHEST
                        key, value = key + attention.relative.keys[row], value + attention.relative.values[row]
                    case "relative_bias":
                        weight = next(positions.parameters())
                        bias = weight[bucket(j - i, len(weight), FURTHEST_BIAS, causal), head].item()
                    case "rotary":
                        query, key = turned(query, i), turned(key, j)
                    case "alibi":
                        bias = -abs(i - j) * 2 ** (-8 * (head + 1) / HEADS)
                energies.append(math.exp(float(query @ key) / math.sqrt(HEAD) + bias))
                shown.append(value)
            for energy, value in zip(energies, shown, strict=True):
                contexts[i, here] += energy / sum(energies) * value
    return attention.output(contexts)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", RELATED)
@torch.no_grad()
def test_schemes_follow_their_equations(name: PositionsName, causal: bool) -> None:
    attention, positions = built(name, causal=causal)
    states = torch.randn(2, ITEMS, WIDTH, dtype=torch.float64)
    assert positions(states) is states
    relations = positions.among(states)
    keys = attention.prepare(states, relations)
    result = attention.attend(states, keys, None, causal=causal, relations=relations)
    expected = torch.stack([by_loops(attention, positions, name, row, causal) for row in states])
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RELATED)
@torch.no_grad()
def test_distance_counts_and_not_position(name: PositionsName) -> None:
    """The same items two places later give the same context."""
    attention, positions = built(name, causal=False)
    states = torch.randn(1, ITEMS, WIDTH, dtype=torch.float64)
    padded = torch.cat((torch.randn(1, 2, WIDTH, dtype=torch.float64), states), dim=1)
    mask = (torch.arange(ITEMS + 2) >= 2)[None, None, None]
    results = []
    for rows, permitted in ((states, None), (padded, mask)):
        relations = positions.among(rows)
        results.append(attention.attend(rows, attention.prepare(rows, relations), permitted, relations=relations))
    torch.testing.assert_close(results[0], results[1][:, 2:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["none", *RELATED])
@torch.no_grad()
def test_only_without_positions_order_is_not_seen(name: PositionsName) -> None:
    """Permuting the input permutes the output, and does nothing else."""
    variant = Variant(positions=name, furthest=3, buckets=8)
    layer = TransformerEncoderLayer(
        width=WIDTH, heads=HEADS, inner=12, norm_first=True, dropout=0.0, layer=0, variant=variant
    ).double()
    positions = variant.build_positions(width=WIDTH, heads=HEADS, causal=False).double()
    for parameter in (*layer.parameters(), *positions.parameters()):
        nn.init.normal_(parameter, std=0.7)
    states = torch.randn(2, ITEMS, WIDTH, dtype=torch.float64)
    mask = torch.ones(2, 1, 1, ITEMS, dtype=torch.bool)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    straight = layer(positions(states), mask, positions.among(states))
    permuted = layer(positions(states[:, order]), mask, positions.among(states))
    assert torch.allclose(permuted, straight[:, order], rtol=0, atol=1e-12) == (name == "none")


@pytest.mark.parametrize("looking_back", [0, 3])
@torch.no_grad()
def test_without_positions_the_newest_item_stands_alone(looking_back: int) -> None:
    positions = Positions()
    states = torch.randn(2, 1, WIDTH)
    assert positions.newest(states, torch.tensor([looking_back, 0]), looking_back + 1) is None
    assert positions.step(states, torch.tensor([looking_back, 0])) is states


def test_what_cannot_be_told_is_refused() -> None:
    for buckets, furthest, causal, parts in ((6, 9, False, 4), (5, 9, True, 2), (8, 4, True, 2), (8, 2, False, 4)):
        message = (
            f"{buckets} buckets must be a multiple of {parts}, and their furthest distance, {furthest}, must be "
            f"above the {buckets // parts} distances with a bucket each"
        )
        with pytest.raises(ValueError, match=message):
            RelativeBias(heads=2, buckets=buckets, furthest=furthest, causal=causal)
    with pytest.raises(ValueError, match="rotary positions turn pairs of numbers, but a head has 3"):
        RotaryPositions(head_width=3)


@pytest.mark.parametrize(
    ("buckets", "furthest", "causal", "firsts"),
    [  # made once with T5Attention._relative_position_bucket of transformers 5.22
        (32, 128, False, [*range(9), 12, 16, 23, 32, 46, 64, 91]),
        (32, 128, True, [*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]),
        (8, 20, False, [0, 1, 2, 7]),
        (8, 20, True, [0, 1, 2, 3, 4, 6, 9, 14]),
    ],
)
def test_buckets_are_those_of_published_models(buckets: int, furthest: int, causal: bool, firsts: list[int]) -> None:
    """Bucket b begins `firsts[b]` items back; what follows has as many buckets of its own, or none."""
    back = bias_buckets(-torch.arange(300), buckets=buckets, furthest=furthest, causal=causal).tolist()
    assert [back.index(number) for number in range(len(firsts))] == firsts
    assert back == sorted(back)
    assert max(back) == len(firsts) - 1
    ahead = bias_buckets(torch.arange(1, 300), buckets=buckets, furthest=furthest, causal=causal).tolist()
    assert ahead == ([0] * 299 if causal else [number + buckets // 2 for number in back[1:]])


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [  # made once with the slopes of BLOOM in transformers 5.22
        (1, [0.003906]),
        (3, [0.0625, 0.003906, 0.25]),
        (4, [0.25, 0.0625, 0.015625, 0.003906]),
        (6, [0.25, 0.0625, 0.015625, 0.003906, 0.5, 0.125]),
        (8, [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.007812, 0.003906]),
        (
            12,
            [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.007812, 0.003906, 0.707107, 0.353553, 0.176777, 0.088388],
        ),
    ],
)
def test_slopes_are_those_of_published_models(heads: int, slopes: list[float]) -> None:
    assert list(alibi_slopes(heads)) == pytest.approx(slopes, abs=1e-6)


def test_learned_positions_are_added_and_end() -> None:
    positions = LearnedPositions(width=WIDTH, longest=4)
    embedded = torch.randn(2, 4, WIDTH)
    torch.testing.assert_close(positions(embedded) - embedded, positions.weight.expand(2, -1, -1))
    stepped = positions.step(embedded[:, :3], torch.tensor([3, 1]))
    torch.testing.assert_close(stepped - embedded[:, :3], positions.weight[[3, 1]].unsqueeze(1).expand(-1, 3, -1))
    message = (
        r"^a sequence of 5 tokens \(START or END included\) is longer than the 4 learned positions of this model; "
        r"cut it \(`search.max_length` for outputs\), or train with `longest: 5` or more, or with positions that have "
        r"no longest length \(sinusoidal, relative, relative_bias, rotary, alibi\)$"
    )
    with pytest.raises(ModelError, match=message):
        positions(torch.randn(1, 5, WIDTH))
    with pytest.raises(ModelError, match=message):
        positions.step(torch.randn(2, 1, WIDTH), torch.tensor([0, 4]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RELATED)
def test_no_permitted_key_gives_a_zero_context(name: PositionsName, dtype: torch.dtype) -> None:
    attention, positions = (part.to(dtype) for part in built(name, causal=False))
    assert isinstance(attention, Attention)
    assert isinstance(positions, Positions)
    assert attention.output is not None
    states = torch.randn(2, ITEMS, WIDTH, dtype=dtype, requires_grad=True)
    mask = torch.tensor([[True] * 4 + [False] * 2, [False] * 6])[:, None, None, :]
    relations = positions.among(states)
    result = attention.attend(states, attention.prepare(states, relations), mask, relations=relations)
    torch.testing.assert_close(result[1], attention.output.bias.expand(ITEMS, -1))
    result.square().sum().backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()
    assert states.grad[0, :4].all()
    assert not states.grad[1].any()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in positions.parameters())


@pytest.mark.parametrize("scaled", [True, False])
def test_learned_positions_begin_half_as_strong_as_embeddings(scaled: bool) -> None:
    torch.manual_seed(1)
    embedding = Embedding(weight=embedding_table(500, 64), scaled=scaled)
    encoder = TransformerEncoder(
        embedding=embedding,
        layers=1,
        heads=2,
        inner=8,
        norm_first=True,
        dropout=0.0,
        variant=Variant(positions="learned", longest=500),
    )
    added = encoder.positions.added
    assert isinstance(added, LearnedPositions)
    words = embedding(torch.arange(4, 500))
    assert float((added.weight.var() / words.var()).detach()) == pytest.approx(0.5, rel=0.05)

"""Attention over short sequences, against its equation in double precision."""

import ctypes

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels.attention import LONGEST, Heads, attends, attends_within, attention, attention_within
from regard.nn import Attention, Site

# B, Q, N, H, G, E
SIZES = [
    (2, 5, 7, 4, 4, 32),
    (1, 1, 1, 1, 1, 1),
    (3, 1, 9, 2, 2, 8),
    (2, 6, 1, 2, 1, 5),
    (2, 20, 20, 4, 2, 16),
    (1, 33, 33, 3, 3, 20),
    (2, 70, 70, 2, 1, 9),
    (1, 100, 40, 1, 1, 48),
]


def plain(query: Tensor, joined: Tensor, permitted: Tensor, how: Heads) -> Tensor:
    def heads(states: Tensor, count: int) -> Tensor:
        return states.unflatten(-1, (count, -1)).transpose(1, 2).repeat_interleave(how.heads // count, 1)

    keys, values = (heads(one, how.key_heads) for one in joined.chunk(2, dim=-1))
    scores = heads(query, how.heads) @ keys.transpose(-1, -2) * how.scale
    weights = scores.masked_fill(~permitted, -1e300).softmax(-1).masked_fill(~permitted, 0.0)
    return (weights @ values).transpose(1, 2).flatten(2)


def drawn(size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    rows, queries, keys, heads, key_heads, width = size
    generator = torch.Generator().manual_seed(queries)
    query = torch.randn(rows, queries, heads * width, generator=generator)
    return query.requires_grad_(), torch.randn(rows, keys, 2 * key_heads * width, generator=generator).requires_grad_()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_value_and_gradients(kernels: ctypes.CDLL, size: tuple[int, ...], masked: bool, causal: bool) -> None:
    query, joined = drawn(size)
    rows, queries, keys, heads, key_heads, width = size
    how = Heads(heads=heads, key_heads=key_heads, scale=1.5 / width**0.5, causal=causal)
    permitted = torch.ones(queries, keys, dtype=torch.bool)[None, None]
    mask = None
    if causal:
        permitted = permitted.tril()
    if masked:
        mask = torch.rand(rows, 1, 1, keys) > 0.3
        mask[0] = False
        permitted = permitted & mask
    assert attends(query, joined, mask, how)
    ours = attention(query, joined, mask, how)
    wide = query.detach().double().requires_grad_(), joined.detach().double().requires_grad_()
    expected = plain(*wide, permitted, how)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=2e-6)
    if masked:
        assert not ours[0].any()
    gradient = torch.randn_like(ours)
    found = torch.autograd.grad(ours, (query, joined), gradient)
    wanted = torch.autograd.grad(expected, wide, gradient.double())
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "size", [(rows, items, heads, key_heads, width) for rows, items, _, heads, key_heads, width in SIZES]
)
def test_states_that_look_at_each_other(
    kernels: ctypes.CDLL, size: tuple[int, ...], masked: bool, causal: bool
) -> None:
    rows, items, heads, key_heads, width = size
    generator = torch.Generator().manual_seed(items)
    shapes = ((rows, items, 11), (heads * width, 11), (heads * width,), (2 * key_heads * width, 11))
    given = [torch.randn(shape, generator=generator).requires_grad_() for shape in (*shapes, (2 * key_heads * width,))]
    how = Heads(heads=heads, key_heads=key_heads, scale=0.5 / width**0.5, causal=causal)
    permitted, mask = torch.ones(items, items, dtype=torch.bool)[None, None], None
    if causal:
        permitted = permitted.tril()
    if masked:
        mask = torch.rand(rows, 1, 1, items, generator=generator) > 0.3
        permitted = permitted & mask
    states, query, query_bias, joined, bias = given
    assert attends_within(states, (query, query_bias), (joined, bias), mask, how)
    ours = attention_within(states, (query, query_bias), (joined, bias), mask, how)
    wide = [one.detach().double().requires_grad_() for one in given]
    states, query, query_bias, joined, bias = wide
    projected = functional.linear(states, query, query_bias), functional.linear(states, joined, bias)
    expected = plain(*projected, permitted, how)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=2e-5)
    gradient = torch.randn(ours.shape, generator=generator)
    found = torch.autograd.grad(ours, given, gradient)
    wanted = torch.autograd.grad(expected, wide, gradient.double())
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4 * max(1.0, float(other.abs().max())))


def test_large_scores_do_not_overflow(built: ctypes.CDLL) -> None:
    query = torch.tensor([[[1e4]]], requires_grad=True)
    joined = torch.tensor([[[1.0, 2.0], [-1.0, 3.0]]])
    context = attention(query, joined, None, Heads(heads=1, key_heads=1, scale=1.0, causal=False))
    assert context.item() == 2.0


def test_what_is_not_finite_shows(built: ctypes.CDLL) -> None:
    query, joined = drawn((1, 3, 4, 1, 1, 8))
    with torch.no_grad():
        query[0, 1, 2] = torch.nan
    context = attention(query, joined, None, Heads(heads=1, key_heads=1, scale=1.0, causal=False))
    assert context[0, 1].isnan().all()
    assert context[0, 0].isfinite().all()


def test_threads_change_nothing(built: ctypes.CDLL) -> None:
    query, joined = drawn((60, 20, 20, 4, 2, 16))
    how = Heads(heads=4, key_heads=2, scale=0.25, causal=True)
    results = []
    before = torch.get_num_threads()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        try:
            context = attention(query, joined, None, how)
            results.append([context, *torch.autograd.grad(context, (query, joined), torch.ones_like(context))])
        finally:
            torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(one, another) for one, another in zip(results[0], other, strict=True))


def test_what_it_is_not_for(built: ctypes.CDLL) -> None:
    query, joined = drawn((2, 4, 4, 2, 2, 8))
    mask = torch.ones(2, 1, 1, 4, dtype=torch.bool)
    how = Heads(heads=2, key_heads=2, scale=1.0, causal=False)
    assert attends(query, joined, mask, how)
    assert not attends(query, joined, mask.expand(2, 1, 4, 4), how)
    assert not attends(query, joined, mask.float(), how)
    assert not attends(query, joined, mask.transpose(0, 3).contiguous().transpose(0, 3), how)
    assert not attends(query.double(), joined.double(), mask, how)
    assert not attends(query.transpose(0, 1), joined, None, how)
    assert not attends(query[:0], joined[:0], None, how)
    assert not attends(query.detach(), joined.detach(), None, how)
    assert not attends(query.to("meta"), joined.to("meta"), None, how)
    far = torch.zeros(1, LONGEST + 1, 16, requires_grad=True)
    assert not attends(far, joined, None, how)
    with torch.no_grad():
        assert not attends(query, joined, mask, how)
    for heads, key_heads in ((2, 1), (3, 3), (4, 2)):
        assert not attends(query, joined, mask, Heads(heads=heads, key_heads=key_heads, scale=1.0, causal=False))


@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["_native", "_native_within"])
def test_a_module_learns_the_same_with_and_without(
    built: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, key_heads: int, causal: bool, name: str
) -> None:
    module = Attention(query_width=24, memory_width=24, heads=4, key_heads=key_heads, site=Site("encoder", "self"))
    states, mask = torch.randn(3, 9, 24), torch.rand(3, 1, 1, 9) > 0.2
    results = []
    called: list[bool] = []
    asked = getattr(Attention, name)

    def noted(*arguments: object) -> Tensor | None:
        made: Tensor | None = asked(*arguments)
        called.append(made is not None)
        return made

    monkeypatch.setattr(Attention, name, noted)
    for natively in (True, False):
        module.zero_grad()
        if not natively:
            monkeypatch.setattr(Attention, "_native", lambda *_: None)
            monkeypatch.setattr(Attention, "_native_within", lambda *_: None)
        if name == "_native":
            context = module.attend(states, module.prepare(states), mask, causal=causal)
        else:
            context = module.look_within(states, mask, causal=causal)
        context.square().sum().backward()
        results.append([context, *(one.grad for one in module.parameters() if one.grad is not None)])
    assert called == [True]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

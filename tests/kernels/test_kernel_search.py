"""What recurrent decoders do under search, natively, against torch in double precision."""

import ctypes
import math

import pytest
import torch

from regard.kernels.search import chosen, compared, compares, gated, gates, summed, sums
from regard.models.contracts import State, Step
from regard.models.likelihood import said
from regard.nn import Attention, Site
from regard.nn.cells import LSTMCell
from regard.search import Hypothesis, Request, Search, SearchOptions
from regard.special import END
from tests.markov import Markov, which


def drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(("width", "value_width"), [(1, 3), (7, 16), (33, 5), (64, 40)])
@torch.no_grad()
def test_additive_attention(kernels: ctypes.CDLL, width: int, value_width: int, scale: float) -> None:
    query, key, value = drawn(4, 3, width, scale=scale), drawn(4, 9, width, seed=1), drawn(4, 9, value_width, seed=2)
    energy, mask = drawn(width, seed=3), torch.ones(4, 1, 1, 9, dtype=torch.bool)
    mask[0, ..., 5:] = mask[1, ..., ::2] = mask[2] = False
    inner = torch.tanh(query.double().unsqueeze(2) + key.double().unsqueeze(1))  # (B, Q, N, A)
    scores = inner @ energy.double()
    for hides in (None, mask):
        assert compares(len(query), key, value, energy, hides)
        assert not compares(len(query) + 1, key, value, energy, hides)
        assert not compares(len(query), key, value[:, 1:].contiguous(), energy, hides)
        assert not compares(len(query), key, value, energy[1:], hides)
        context = compared(query, key, value, energy, hides)
        seen = torch.ones_like(mask[:, 0]) if hides is None else hides[:, 0]
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1).masked_fill(~seen, 0.0)
        torch.testing.assert_close(context.double(), weights @ value.double(), rtol=1e-5, atol=1e-5)
    assert not compared(query, key, value, energy, mask)[2].any(), "a query that may look at nothing gets zeros"


@torch.no_grad()
def test_what_is_hidden_changes_nothing(kernels: ctypes.CDLL) -> None:
    query, key, value, energy = drawn(2, 3, 20), drawn(2, 9, 20, seed=1), drawn(2, 9, 12, seed=2), drawn(20, seed=3)
    mask = torch.arange(9).expand(2, 1, 1, 9) < 6
    wild = key.clone()
    wild[:, 6:] = math.nan
    alone = compared(query[:1, 1:2].contiguous(), key[:1, :6].contiguous(), value[:1, :6].contiguous(), energy, None)
    among = compared(query, wild, value, energy, mask.contiguous())
    assert torch.equal(among[0, 1], alone[0, 0])


@torch.no_grad()
def test_attention_takes_the_kernel_only_where_nobody_looks_or_learns(
    built: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    attention = Attention(
        query_width=6, memory_width=5, width=7, score="additive", projections="none", site=Site("decoder", "cross")
    ).eval()
    states, queries, mask = torch.randn(3, 4, 5), torch.randn(3, 2, 6), torch.ones(3, 1, 1, 4, dtype=torch.bool)
    mask[1, ..., 2:] = False
    keys = attention.prepare(states)
    quick = attention.attend(queries, keys, mask)
    wanted = attention.explicit(queries.unsqueeze(1), keys, mask, None)[:, 0]
    torch.testing.assert_close(quick, wanted, rtol=1e-5, atol=1e-6)
    calls: list[int] = []
    monkeypatch.setattr("regard.kernels.search.compared", lambda *given: calls.append(1) or compared(*given))
    attention.attend(queries, keys, mask)
    assert len(calls) == 1
    with torch.enable_grad():
        assert attention.attend(queries, attention.prepare(states), mask).requires_grad
    each = torch.ones(3, 1, 2, 4, dtype=torch.bool)  # a mask for each query
    attention.attend(queries, keys, each)
    attention.double().attend(queries.double(), attention.prepare(states.double()), mask)
    assert len(calls) == 1


@pytest.mark.parametrize("width", [1, 5, 16, 50])
@pytest.mark.parametrize("shared", [False, True])
@torch.no_grad()
def test_gates_of_an_lstm(kernels: ctypes.CDLL, width: int, shared: bool) -> None:
    torch.manual_seed(width)
    cell = LSTMCell(width=width)
    bases, tokens = torch.randn(11, 4 * width) * 4, torch.tensor([3, 10, 0, 3, 7])
    rows = torch.tensor([1, 0, 1, 1, 2]) if shared else None
    hidden, memory = torch.randn(3 if shared else 5, width), torch.randn(5, width)
    assert gates(bases, tokens, memory)
    shown, kept = gated(bases, tokens, cell.recurrent(hidden), rows, memory)
    before = torch.stack((hidden if rows is None else hidden[rows], memory), dim=1)
    wanted = cell.double().step(bases[tokens].double(), before.double()).state
    torch.testing.assert_close(torch.stack((shown, kept), dim=1).double(), wanted, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_gates_are_not_for_rows_that_are_not_there(built: ctypes.CDLL) -> None:
    bases, memory = torch.randn(3, 8), torch.randn(2, 2)
    assert gates(bases, torch.tensor([0, 2]), memory)
    assert not gates(bases, torch.tensor([0, 3]), memory)
    assert not gates(bases, torch.tensor([-1, 0]), memory)
    assert not gates(bases.double(), torch.tensor([0, 1]), memory.double())
    with torch.enable_grad():
        assert not gates(bases, torch.tensor([0, 2]), memory)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 5), (2, 64), (2, 65), (5, 1000)])
@torch.no_grad()
def test_normalisers_and_the_largest_of_blocks(kernels: ctypes.CDLL, rows: int, width: int) -> None:
    logits = drawn(rows, width, seed=width, scale=5.0)
    assert sums(logits)
    normaliser, largest = summed(logits)
    torch.testing.assert_close(normaliser.double(), logits.double().logsumexp(-1), rtol=1e-6, atol=2e-6)
    assert torch.equal(largest, torch.stack([block.amax(-1) for block in logits.split(64, dim=1)], dim=1))


@pytest.mark.parametrize("vocabulary", [5, 33, 64, 97, 1000])
@pytest.mark.parametrize("count", [1, 5, 12, 300])
@torch.no_grad()
def test_the_best_continuations_equal_sorting_them_all(kernels: ctypes.CDLL, vocabulary: int, count: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary + count)
    scores = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    logits = torch.randn(3, 4, vocabulary, generator=generator) * 3
    logits[0, 0, :4] += 20.0  # what must not come out would be the best
    scores[1, 2:] = -math.inf
    early = torch.tensor([True, False, False])
    normaliser, largest = summed(logits.flatten(0, 1))
    told = normaliser.view(3, 4), largest.view(3, 4, -1)
    values, rows, tokens = chosen(scores, logits, told, count=count, forbidden=[0, 1, 2], early=(END, early))
    every = (logits - told[0].unsqueeze(2)) + scores.unsqueeze(2)
    every[:, :, :3] = -math.inf
    every[0, :, END] = -math.inf
    total = every.flatten(1).sort(dim=1, descending=True)
    width = min(count, 4 * vocabulary)
    assert torch.equal(values, total.values[:, :width])
    real = values.isfinite()
    assert torch.equal((rows * vocabulary + tokens)[real], total.indices[:, :width][real])


@pytest.mark.parametrize("damage", [math.nan, math.inf])
@torch.no_grad()
def test_what_is_no_number_is_told(kernels: ctypes.CDLL, damage: float) -> None:
    logits = drawn(2, 3, 100)
    logits[1, 2, 70] = damage
    normaliser, largest = summed(logits.flatten(0, 1))
    told = normaliser.view(2, 3), largest.view(2, 3, -1)
    early = torch.zeros(2, dtype=torch.bool)
    values, _, _ = chosen(torch.zeros(2, 3), logits, told, count=2, forbidden=[], early=(END, early))
    assert values[0].isfinite().all()
    assert values[1, 0].isnan()


@torch.no_grad()
def test_threads_change_nothing(built: ctypes.CDLL) -> None:
    query, key, energy, logits = drawn(70, 5, 40), drawn(70, 6, 40, seed=1), drawn(40), drawn(70, 500)
    memory, bases, tokens = drawn(700, 20), drawn(9, 80), torch.arange(700) % 9
    found, before = [], torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            said = (*summed(logits), *gated(bases, tokens, drawn(700, 80, seed=2), None, memory))
            found.append((*said, compared(query, key, key, energy, None)))
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


class Level(Markov):
    """Says logits in single precision, of which many are equal."""

    def step(self, tokens: torch.Tensor, state: State) -> Step:
        step = super().step(tokens, state)
        return said(step.logits.float().round().contiguous(), step.state)


@pytest.mark.parametrize("beam", [1, 3, 8])
def test_among_equals_one_sentence_alone_chooses_as_among_others(built: ctypes.CDLL, beam: int) -> None:
    scorer = Level(vocabulary=150, tables=2, spread=1.0, end=1.0)
    options = SearchOptions(beam=beam, best=beam, max_length=6, max_ratio=None)

    def found(*tables: int) -> dict[int, tuple[Hypothesis, ...]]:
        search, done = Search(scorer), dict[int, tuple[Hypothesis, ...]]()
        search.add([Request(id=one, sources=which(one), items=3, options=options) for one in tables])
        while search.busy:
            done |= {one.id: one.hypotheses for one in search.step()}
        return done

    assert found(0) | found(1) == found(0, 1)

"""A step of all layers of a decoder for one sentence, natively, against the same in torch with double precision."""

import copy
import ctypes
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.batch import source_ids
from regard.kernels.steps import LayerParts, StepLayers, steps
from regard.models.transformer import SingleState, TransformerDecoder
from regard.nn.kept import Product
from regard.nn.lean import LeanLayer, Looking, Norm
from regard.nn.single import Folded, SinglePast, native_layers, single_step
from tests.families import family

SHAPES = [  # width, heads, inner, items, layers
    (8, 2, 5, 1, 1),
    (12, 3, 30, 4, 2),
    (64, 4, 96, 13, 2),
    (70, 7, 33, 9, 1),
    (128, 4, 256, 14, 4),
]


def drawn(*shape: int, seed: int, kind: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(kind)


def layers_of(width: int, heads: int, inner: int, count: int, *, first: bool, bias: bool) -> tuple[LeanLayer, ...]:
    """Layers with drawn parameters, in double precision."""

    def product(rows: int, columns: int, seed: int) -> Product:
        return Product(drawn(rows, columns, seed=seed) * rows**-0.5, drawn(columns, seed=seed + 1) if bias else None)

    def looking(seed: int, columns: int) -> Looking:
        asked = product(width, columns, seed)
        return Looking(
            asked=asked,
            query=asked.part(0, width),
            entry=asked.part(width, columns),
            output=product(width, width, seed + 2),
            heads=heads,
            key_heads=heads,
        )

    return tuple(
        LeanLayer(
            index=layer,
            itself=looking(100 * layer, 3 * width),
            cross=looking(100 * layer + 10, width),
            inner=product(width, inner, 100 * layer + 20),
            outer=product(inner, width, 100 * layer + 30),
            norms=tuple(
                Norm((width,), 1 + 0.1 * drawn(width, seed=one), drawn(width, seed=one + 9) if bias else None, 1e-5)
                for one in range(3)
            ),
            norm_first=first,
        )
        for layer in range(count)
    )


def single(part: Any) -> Any:
    """The same in single precision."""
    if isinstance(part, torch.Tensor):
        return part.float().contiguous()
    if isinstance(part, tuple):
        return tuple(single(one) for one in part)
    if isinstance(part, LeanLayer):
        names = ("itself", "cross", "inner", "outer", "norms")
        return replace(part, **{name: single(getattr(part, name)) for name in names})
    if isinstance(part, Looking):
        return replace(part, **{name: single(getattr(part, name)) for name in ("asked", "query", "entry", "output")})
    if isinstance(part, Product):
        return Product(single(part.weight), single(part.bias))
    if isinstance(part, Norm):
        return Norm(part.size, single(part.weight), single(part.bias), part.epsilon)
    return part


def memory_of(width: int, heads: int, items: int, count: int) -> Folded:
    together = heads * items
    return Folded(
        drawn(count, width, together, seed=1) * width**-0.5,
        drawn(count, together, seed=2),
        drawn(count, together, width, seed=3),
    )


def native_step(layers: StepLayers, memory: Folded, past: SinglePast, rows: torch.Tensor) -> torch.Tensor:
    looked = single(memory.keys), single(memory.bias), single(memory.values)
    return layers.step(rows, looked, past.pages.entries, past.seen, past.entries)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("width", "heads", "inner", "items", "count"), SHAPES)
@torch.no_grad()
def test_steps_of_beams_that_part_and_meet(
    kernels: ctypes.CDLL, width: int, heads: int, inner: int, items: int, count: int, first: bool, bias: bool
) -> None:
    exact = layers_of(width, heads, inner, count, first=first, bias=bias)
    layers: tuple[LeanLayer, ...] = single(exact)
    memory = memory_of(width, heads, items, count)
    native = native_layers(layers)
    assert native is not None
    wide = SinglePast.start(exact, drawn(1, seed=0))
    narrow = SinglePast.start(layers, drawn(1, seed=0, kind=torch.float32))
    choice = np.random.default_rng(width)
    beams = 1
    for turn, following in enumerate([1, 5, 6, 13, 4, 4, 1, 7, 2, 3]):
        rows = drawn(beams, width, seed=turn)
        wide, narrow = wide.grow(), narrow.grow()
        wanted = single_step(exact, memory, wide, rows.clone())
        found = native_step(native, memory, narrow, rows.float())
        torch.testing.assert_close(found.double(), wanted, rtol=2e-5, atol=2e-5)
        places = choice.integers(0, beams, following)
        wide, narrow, beams = wide.select(places), narrow.select(places), following


@torch.no_grad()
def test_a_row_does_not_depend_on_others(kernels: ctypes.CDLL) -> None:
    """To the bit: neither on how many there are nor on its place among them."""
    layers = single(layers_of(70, 7, 33, 2, first=False, bias=True))
    native, memory = native_layers(layers), memory_of(70, 7, 9, 2)
    assert native is not None
    begun = SinglePast.start(layers, drawn(1, seed=0, kind=torch.float32)).grow()
    native_step(native, memory, begun, drawn(1, 70, seed=5, kind=torch.float32))
    rows = drawn(11, 70, seed=6, kind=torch.float32)
    together = native_step(native, memory, begun.select(np.zeros(11, np.int64)).grow(), rows)
    for place in range(11):
        alone = begun.select(np.zeros(1, np.int64)).grow()
        found = native_step(native, memory, alone, rows[place : place + 1])
        assert torch.equal(found[0], together[place])


@torch.no_grad()
def test_what_is_no_number_comes_through(kernels: ctypes.CDLL) -> None:
    layers = single(layers_of(12, 3, 30, 1, first=False, bias=True))
    native, memory = native_layers(layers), memory_of(12, 3, 4, 1)
    assert native is not None
    past = SinglePast.start(layers, drawn(1, seed=0, kind=torch.float32)).select(np.zeros(2, np.int64)).grow()
    rows = drawn(2, 12, seed=1, kind=torch.float32)
    rows[1, 3] = math.nan
    found = native_step(native, memory, past, rows)
    assert found[1].isnan().all()
    assert found[0].isfinite().all()


def parts_of(layer: LeanLayer) -> LayerParts:
    (made,) = native_layers((layer,)).layers  # type: ignore[union-attr]
    return made


def test_other_layers_are_left_to_torch(kernels: ctypes.CDLL) -> None:
    exact = layers_of(12, 3, 30, 2, first=False, bias=True)
    assert native_layers(exact) is None, "double precision"
    layers = single(exact)
    good = parts_of(layers[0])
    assert StepLayers.of([]) is None
    assert StepLayers.of([good, replace(good, norm_first=True)]) is None
    assert StepLayers.of([replace(good, heads=5)]) is None
    assert StepLayers.of([replace(good, cross_bias=good.cross_bias[1:])]) is None  # type: ignore[index]
    weight, bias = good.outer
    assert StepLayers.of([replace(good, outer=(weight.t(), bias))]) is None
    assert StepLayers.of([replace(good, outer=(weight[1:], bias))]) is None
    assert StepLayers.of([replace(good, asked=(good.asked[0][:, 1:].contiguous(), good.asked[1]))]) is None
    assert native_layers([replace(layers[0], cross=None)]) is None
    assert native_layers([replace(layers[0], itself=replace(layers[0].itself, key_heads=1))]) is None


def test_sizes_are_looked_at_before_memory_is(kernels: ctypes.CDLL) -> None:
    layers = single(layers_of(12, 3, 30, 1, first=False, bias=True))
    native, memory = native_layers(layers), memory_of(12, 3, 4, 1)
    assert native is not None
    past = SinglePast.start(layers, drawn(1, seed=0, kind=torch.float32)).grow()
    rows = drawn(1, 12, seed=1, kind=torch.float32)
    looked = single(memory.keys), single(memory.bias), single(memory.values)
    entries, seen = past.pages.entries, past.seen
    for wrong in (
        (rows[:, 1:], looked, entries, seen, 1),
        (rows.repeat(2, 1), looked, entries, seen, 1),
        (rows, (looked[0], looked[1][:, 1:], looked[2]), entries, seen, 1),
        (rows, (looked[0], looked[1], looked[2][:, 1:]), entries, seen, 1),
        (rows, (looked[0][:, :, 1:], looked[1], looked[2]), entries, seen, 1),
        (rows, looked, entries[:, 1:], seen, 1),
        (rows, looked, entries, seen, 0),
        (rows, looked, entries, seen, seen.shape[1] + 1),
    ):
        with pytest.raises(AssertionError):
            native.step(*wrong)


def test_no_step_is_taken_natively_where_somebody_learns(built: ctypes.CDLL) -> None:
    rows = torch.zeros(2, 3)
    assert not steps(rows)
    with torch.no_grad():
        assert steps(rows)
        assert not steps(rows.double())
        assert not steps(rows.t())


@pytest.mark.parametrize("name", ["transformer post", "transformer pre", "rnn to transformer"])
@torch.no_grad()
def test_a_decoder_takes_the_native_step(built: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    system = family(name).float().eval()
    decoder = system.decoder
    taken: list[int] = []
    alone: list[bool] = []
    assert isinstance(decoder, TransformerDecoder)
    step = StepLayers.step

    def counted(self: StepLayers, *given: Any) -> torch.Tensor:
        taken.append(1)
        return step(self, *given)

    monkeypatch.setattr(StepLayers, "step", counted)

    def three_steps() -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        state: Any = system.start({"source": source_ids([[4, 5, 6, 7]])})
        for tokens in ([[3]], [[5, 6]], [[7, 4]]):
            state = state.select(None, torch.zeros(1, len(tokens[0]), dtype=torch.long))
            alone.append(isinstance(state, SingleState))
            said, state = decoder.step(torch.tensor(tokens), state)
            found.append(said)
        return found

    natively = three_steps()
    assert len(taken) == 3
    assert all(alone)
    monkeypatch.setattr("regard.models.transformer.steps", lambda rows: False)
    for one, other in zip(natively, three_steps(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert len(taken) == 3


@torch.no_grad()
def test_parameters_that_are_given_other_memory_leave_theirs_to_a_search(built: ctypes.CDLL) -> None:
    """As `to` does while a search goes on, after which another one begins."""
    system = family("transformer post", dtype=torch.float32)
    sources, tokens = {"source": source_ids([[4, 5, 6, 7]])}, torch.tensor([[5]])
    state: Any = system.step(torch.tensor([[3]]), system.start(sources)).state
    wanted = system.step(tokens, state).logits
    native: StepLayers | None = state.lean.native
    assert native is not None
    places = [place.data_ptr() for part in native.layers for place in part.tensors()]
    for one in system.parameters():
        one.data = one.detach().clone()
    system.start(sources)
    taken = [torch.full((8,), math.nan) for _ in range(2000)]  # as wide as a norm
    assert not {one.data_ptr() for one in taken} & set(places), "somebody else has come to stand there"
    assert torch.equal(system.step(tokens, state).logits, wanted)


@pytest.mark.parametrize("name", ["transformer post", "transformer pre"])
@torch.no_grad()
def test_what_goes_in_stays_as_it_is(built: ctypes.CDLL, name: str) -> None:
    """A hook may hold it, or give what is its own."""
    system, own = family(name, dtype=torch.float32), drawn(1, 8, seed=1, kind=torch.float32)
    given = own.clone()
    system.get_submodule("decoder.embedding_norm").register_forward_hook(lambda *_: given)
    state: Any = system.start({"source": source_ids([[4, 5, 6, 7]])})
    system.step(torch.tensor([[3]]), state)
    assert state.lean.native is not None
    assert torch.equal(given, own)


@torch.no_grad()
def test_a_copy_of_a_state_goes_on_with_memory_of_its_own(built: ctypes.CDLL) -> None:
    system, tokens = family("transformer post", dtype=torch.float32), torch.tensor([[5]])
    state: Any = system.start({"source": source_ids([[4, 5, 6, 7]])})
    state = system.step(torch.tensor([[3]]), state).state
    other = copy.deepcopy(state)
    wanted = system.step(tokens, state).logits
    for one in system.parameters():
        one.zero_()
    whole = family("transformer post", dtype=torch.float32)
    assert torch.equal(whole.step(tokens, other).logits, wanted)


@pytest.mark.parametrize("name", ["transformer post", "transformer pre"])
@torch.no_grad()
def test_a_state_can_be_gone_on_from_twice(built: ctypes.CDLL, name: str) -> None:
    """What one continuation writes is not seen by another."""
    system = family(name, dtype=torch.float32)

    def after(state: Any, *tokens: int) -> Any:
        for token in tokens:
            state = system.step(torch.tensor([[token]]), state).state
            assert state.lean.native is not None
        return state

    def said(state: Any) -> torch.Tensor:
        return system.step(torch.tensor([[6]]), state).logits

    sources = {"source": source_ids([[4, 5, 6, 7]])}
    begun = after(system.start(sources), 3, 5)
    first, second = after(begun, 4), after(begun, 8)
    found = said(second), said(first), said(second)
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[0], said(after(system.start(sources), 3, 5, 8)))
    assert torch.equal(found[1], said(after(system.start(sources), 3, 5, 4)))
    assert not torch.allclose(found[0], found[1])

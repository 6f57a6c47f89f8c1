"""Packed products are those of torch, whatever the number of rows, and are made anew when weights change."""

import pytest
import torch
from torch import nn

from regard.data.batch import source_ids
from regard.nn import packed
from regard.nn.packed import LEAST, Packed, can_pack, packs
from regard.special import START
from tests.families import FAMILIES, family

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4])
pytestmark = pytest.mark.skipif(not can_pack(), reason="this torch cannot pack weights")


@pytest.mark.parametrize("rows", [1, 3, 16, 65])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 5), (512, 1030), (33, 64)])
@pytest.mark.parametrize("biased", [False, True])
@torch.no_grad()
def test_it_is_the_product_of_torch(rows: int, inputs: int, outputs: int, biased: bool) -> None:
    read, layer = torch.randn(rows, inputs), nn.Linear(inputs, outputs, bias=biased)
    expected = nn.functional.linear(
        read.double(), layer.weight.double(), None if layer.bias is None else layer.bias.double()
    )
    made = Packed.of(layer.weight, layer.bias)(read)
    torch.testing.assert_close(made.double(), expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_row_does_not_know_of_others() -> None:
    read, product = torch.randn(200, 512), Packed.of(torch.randn(1500, 512))
    whole = product(read)
    for count in (1, 2, 5, 16, 31, 64, 199):
        assert torch.equal(product(read[:count]), whole[:count])


@torch.no_grad()
def test_few_numbers_of_rows_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a program that is kept."""
    product, asked = Packed.of(torch.randn(40, 8)), set()
    real = torch.ops.mkldnn._linear_pointwise

    class Watched:
        _linear_pointwise = staticmethod(lambda rows, *others: (asked.add(len(rows)), real(rows, *others))[1])

    monkeypatch.setattr(packed.torch.ops, "mkldnn", Watched)
    for count in range(1, 321):
        assert product(torch.randn(count, 8)).shape == (count, 40)
    assert len(asked) == 16 + 19


def test_only_large_weights_of_single_precision_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.empty(LEAST // 64, 64)
    assert packs(weight)
    assert not packs(weight[1:])
    assert not packs(weight.double())
    assert not packs(weight.to("meta"))
    monkeypatch.setattr(packed, "can_pack", lambda: False)
    assert not packs(weight)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_packed_decoders_say_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of these models are small: here all are packed, for a few rows and for many."""

    def told(least: int) -> list[torch.Tensor]:
        monkeypatch.setattr(packed, "LEAST", least)
        system, chance = family(name, dtype=torch.float32).eval(), torch.Generator().manual_seed(1)
        state, found = system.start({"source": source_ids(SOURCES)}), []
        tokens = torch.full((3, 1), START)
        for _ in range(5):
            step = system.step(tokens, state)
            found.append(step.log_probabilities)
            state = step.state.select(None, torch.randint(0, tokens.size(1), (3, 12), generator=chance))
            tokens = torch.randint(4, 9, (3, 12), generator=chance)
        return found

    torch.testing.assert_close(told(1), told(LEAST), rtol=0, atol=2e-5)


@torch.no_grad()
def test_weights_that_change_are_packed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LEAST", 1)
    system = family("transformer post", dtype=torch.float32).eval()
    start = system.start({"source": source_ids(SOURCES)})
    before = system.step(torch.full((3, 1), START), start).log_probabilities
    system.decoder.output.weight.mul_(0.5)
    after = system.step(torch.full((3, 1), START), start).log_probabilities
    assert not torch.allclose(before, after)
    with monkeypatch.context() as patch:
        patch.setattr(packed, "LEAST", LEAST)
        expected = system.step(torch.full((3, 1), START), start).log_probabilities
    torch.testing.assert_close(after, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("fault", [AttributeError("no such call"), RuntimeError("not for this processor"), None])
def test_nothing_is_packed_where_the_calls_fail_or_say_something_else(
    monkeypatch: pytest.MonkeyPatch, fault: Exception | None
) -> None:
    def called(self: Packed, rows: torch.Tensor) -> torch.Tensor:
        if fault is not None:
            raise fault
        return rows.new_zeros(len(rows), 5)

    monkeypatch.setattr(Packed, "__call__", called)
    can_pack.cache_clear()
    try:
        assert not can_pack()
    finally:
        monkeypatch.undo()
        can_pack.cache_clear()

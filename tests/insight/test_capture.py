"""Looking at a model changes nothing in it, and shows what it computes."""

import threading

import pytest
import torch

from regard.data.batch import Batch, make_batch
from regard.insight import capture
from regard.models import AttentiveDecoder, BahdanauDecoder, TransformerDecoder
from regard.nn.sites import Site
from regard.run.alignment import source_attention
from tests.families import FAMILIES, family

SOURCES = [[4, 5, 6, 7], [8], [5, 5, 4, 6, 8, 7]]
TARGETS = [[6, 5], [4, 4, 7, 8, 5], [7]]


@pytest.fixture
def batch() -> Batch:
    return make_batch(SOURCES, TARGETS)


@pytest.mark.parametrize("name", FAMILIES)
def test_looking_changes_no_output(name: str, batch: Batch) -> None:
    system = family(name)
    with torch.no_grad():
        before = system.token_log_probabilities(batch)
        with capture() as captured:
            during = system.token_log_probabilities(batch)
        after = system.token_log_probabilities(batch)
    assert captured.values
    assert torch.allclose(before, during, atol=1e-10)
    assert torch.equal(before, after)


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_spreads_one_over_the_real_tokens(name: str, batch: Batch) -> None:
    system = family(name)
    with torch.no_grad(), capture(kinds=("self", "cross")) as captured:
        system.token_log_probabilities(batch)
    memory_mask = batch.sources["source"].mask
    for site, weights in captured.values.items():
        rows = batch.mask if site.part == "decoder" else memory_mask
        for row in range(batch.rows):
            real = weights[row][:, : int(rows[row].sum())]
            assert torch.allclose(real.sum(-1), torch.ones_like(real.sum(-1)), atol=1e-12), site
            keys = int((batch.mask if (site.part, site.kind) == ("decoder", "self") else memory_mask)[row].sum())
            assert float(real[..., keys:].abs().sum()) == 0.0, site


@pytest.mark.parametrize("name", FAMILIES)
def test_cross_attention_of_each_row_is_without_padding(name: str, batch: Batch) -> None:
    system = family(name)
    rows = source_attention(system, batch)
    assert len(rows) == 3
    attentive = isinstance(system.decoder, BahdanauDecoder | AttentiveDecoder)
    expected = len(system.decoder.layers) if isinstance(system.decoder, TransformerDecoder) else int(attentive)
    for layers, source, target in zip(rows, SOURCES, TARGETS, strict=True):
        assert len(layers) == expected
        for weights in layers:
            assert weights.shape[1:] == (len(target) + 1, len(source) + 1)
            assert torch.allclose(weights.sum(-1), torch.ones_like(weights.sum(-1)), atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_attention_of_a_sentence_is_the_same_alone_and_in_a_batch(name: str, batch: Batch) -> None:
    system = family(name)
    together = source_attention(system, batch)
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        (alone,) = source_attention(system, make_batch([source], [target]))
        for one, other in zip(alone, together[row], strict=True):
            assert torch.allclose(one, other, atol=1e-10)


def test_parts_and_kinds_choose_sites(batch: Batch) -> None:
    system = family("transformer post")
    chosen = {}
    for parts, kinds in ((("encoder",), None), (None, ("ffn",)), (("decoder",), ("self", "cross")), ((), None)):
        with torch.no_grad(), capture(parts=parts, kinds=kinds) as captured:
            system.token_log_probabilities(batch)
        chosen[parts, kinds] = set(captured.values)
    assert {site.part for site in chosen[("encoder",), None]} == {"encoder"}
    assert chosen[None, ("ffn",)] == {Site(part, "ffn", layer) for part in ("encoder", "decoder") for layer in (0, 1)}
    assert chosen[("decoder",), ("self", "cross")] == {
        Site("decoder", kind, layer) for kind in ("self", "cross") for layer in (0, 1)
    }
    assert chosen[(), None] == set()


def test_values_have_the_shapes_of_their_sites(batch: Batch) -> None:
    with torch.no_grad(), capture() as captured:
        family("bahdanau gru").token_log_probabilities(batch)
    values = captured.values
    targets, sources = batch.mask.shape[1], batch.sources["source"].mask.shape[1]
    assert values[Site("decoder", "cross")].shape == (3, 1, targets, sources)
    assert values[Site("decoder", "cell")].shape[:2] == (3, targets)


def test_what_is_captured_carries_no_gradient(batch: Batch) -> None:
    with capture() as captured:
        family("transformer pre").loss(batch)
    assert not any(value.requires_grad for value in captured.values.values())


def test_nobody_looks_outside_of_the_block_or_in_another_thread(batch: Batch) -> None:
    system = family("transformer pre")
    seen: list[int] = []

    def inside() -> None:
        with torch.no_grad():
            system.token_log_probabilities(batch)
        seen.append(len(captured.values))

    with capture() as captured:
        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
    inside()
    assert seen == [0, 0]


def test_an_error_ends_the_looking(batch: Batch) -> None:
    with pytest.raises(ZeroDivisionError), capture() as captured:
        _ = 1 / 0
    with torch.no_grad():
        family("transformer pre").token_log_probabilities(batch)
    assert not captured.values

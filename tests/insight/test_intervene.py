"""Changes at every site: they take effect alike in forced and stepped mode, and each equals what it stands for."""

import copy
import re
from dataclasses import replace as with_fields

import pytest
import torch
from torch import Tensor

from regard.data.batch import Batch, make_batch, source_ids
from regard.errors import UsageError
from regard.insight import at_items, capture, even, intervene, point, replace, silence
from regard.insight.intervene import Change
from regard.models import EncoderDecoder, Memory
from regard.models.attending import RecurrentState
from regard.nn import CellName, Site, TransformerDecoderLayer
from regard.search import Request, Search, SearchOptions
from regard.special import START
from tests.families import FAMILIES, family, recurrent_encoder

SOURCES = ([4, 5, 6, 7], [8, 4], [5, 5, 4])
TARGETS = ([5, 6, 7], [8, 8, 4], [4, 6, 5])
CROSS = Site("decoder", "cross")
CELL = Site("decoder", "cell")


def batch() -> Batch:
    return make_batch(SOURCES, TARGETS)


def stepped(system: EncoderDecoder, given: Batch) -> Tensor:
    """log p of each output, read one token at a time: (B, M)."""
    state = system.start(given.sources)
    columns: list[Tensor] = []
    for item in range(given.inputs.size(1)):
        step = system.step(given.inputs[:, item : item + 1], state)
        state = step.state
        columns.append(step.log_probabilities[:, 0].gather(1, given.outputs[:, item : item + 1]))
    return torch.cat(columns, dim=1)


def sites(system: EncoderDecoder) -> list[Site]:
    with capture() as captured:
        system.token_log_probabilities(batch())
    return list(captured.values)


def moved(value: Tensor, _: int) -> Tensor:
    """Some other value; a weight of 0 stays 0, so that nobody sees what is to come."""
    return value.square() * 0.5 if value.dim() == 4 else value * 0.5 + 0.1


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_every_site_can_be_changed_in_both_modes(name: str) -> None:
    system, given = family(name), batch()
    plain = system.token_log_probabilities(given)
    found = sites(system)
    assert {site.part for site in found} == {"encoder", "decoder"}
    if name in ("transformer post", "bahdanau gru"):
        kinds = {"embedding", "self", "cross", "ffn"} if name.startswith("tr") else {"embedding", "cell", "cross"}
        assert {site.kind for site in found} == kinds
    for site in found:
        with intervene({site: lambda value, _: value}):
            torch.testing.assert_close(system.token_log_probabilities(given), plain, rtol=0, atol=1e-9)
        with intervene({site: moved}):
            forced = system.token_log_probabilities(given)
        with intervene({site: moved}):
            one_by_one = stepped(system, given)
        assert (forced - plain).abs().max() > 1e-5, site
        torch.testing.assert_close(forced, one_by_one, rtol=0, atol=1e-9, msg=str(site))
    torch.testing.assert_close(system.token_log_probabilities(given), plain, rtol=0, atol=0)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("two_way", [False, True])
@torch.no_grad()
def test_changed_states_of_an_encoder_are_what_it_ends_with(cell: CellName, two_way: bool) -> None:
    encoder = recurrent_encoder(9, cell, layers=2, two_way=two_way).double().eval()
    source = source_ids(SOURCES)
    plain, vector = encoder.encode(source), torch.linspace(-1, 1, 10 if two_way else 5, dtype=torch.float64)
    with intervene({Site("encoder", "cell", 1): replace(vector)}):
        changed = encoder.encode(source)
    torch.testing.assert_close(changed.summary, vector.expand(3, -1))
    assert changed.layers is not None
    assert plain.layers is not None
    torch.testing.assert_close(changed.layers[1][:, 0], vector.expand(3, -1))
    assert torch.equal(changed.layers[1][:, 1:], plain.layers[1][:, 1:])
    assert torch.equal(changed.layers[0], plain.layers[0])
    with capture() as captured:
        seen = encoder.encode(source)
    assert captured.values
    assert all(torch.equal(one, other) for one, other in zip(seen.layers or (), plain.layers, strict=True))


ATTENTION: list[tuple[Change, str]] = [(silence(1), "silence"), (point(0, 0), "point"), (even(), "even")]


@pytest.mark.parametrize(("change", "label"), ATTENTION, ids=[label for _, label in ATTENTION])
@pytest.mark.parametrize("kind", ["self", "cross"])
@torch.no_grad()
def test_changes_of_attention_are_the_same_in_both_modes(change: Change, label: str, kind: str) -> None:
    system, given = family("transformer rotary"), batch()
    plain = system.token_log_probabilities(given)
    site = Site("decoder", "self" if kind == "self" else "cross", 1)
    with intervene({site: change}):
        forced, one_by_one = system.token_log_probabilities(given), stepped(system, given)
    torch.testing.assert_close(forced, one_by_one, rtol=0, atol=1e-9)
    assert (forced - plain).abs().max() > 1e-3, label


def without_head(system: EncoderDecoder, layer: int, head: int) -> EncoderDecoder:
    """The same system with the part of W_o that reads a head of cross-attention set to zero."""
    other = copy.deepcopy(system)
    module = other.decoder.get_submodule(f"layers.{layer}")
    assert isinstance(module, TransformerDecoderLayer)
    assert module.cross.output is not None
    size = module.cross.context_width // module.cross.heads
    module.cross.output.weight[:, head * size : (head + 1) * size] = 0.0
    return other


@pytest.mark.parametrize("name", ["transformer post", "transformer relative"])
@torch.no_grad()
def test_a_silent_head_is_one_that_nobody_reads(name: str) -> None:
    system, given = family(name), batch()
    blind = without_head(system, 1, 0)
    with intervene({Site("decoder", "cross", 1): silence(0)}):
        silenced = system.token_log_probabilities(given)
    torch.testing.assert_close(silenced, blind.token_log_probabilities(given), rtol=0, atol=1e-9)


@torch.no_grad()
def test_search_runs_with_the_changes() -> None:
    system = family("transformer pre")
    blind = without_head(system, 0, 1)
    options = SearchOptions(beam=3, best=2, max_length=8, max_ratio=None)
    requests = [
        Request(id=index, sources={"source": source_ids([row])}, items=len(row) + 1, options=options)
        for index, row in enumerate(SOURCES)
    ]

    def found(scorer: EncoderDecoder) -> dict[int, list[tuple[tuple[int, ...], float]]]:
        search = Search(scorer)
        search.add(requests)
        results = {}
        while search.busy:
            for one in search.step():
                results[one.id] = [(tuple(h.tokens), round(h.log_probability, 6)) for h in one.hypotheses]
        return results

    with intervene({CROSS: silence(1)}):
        changed = found(system)
    assert changed == found(blind)
    assert changed != found(system)


@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru"])
@torch.no_grad()
def test_pointing_at_a_word_is_seeing_only_that_word(name: str) -> None:
    system, given = family(name), batch()
    layers = [site for site in sites(system) if (site.part, site.kind) == ("decoder", "cross")]
    with intervene({site: point(1) for site in layers}):
        pointed = system.token_log_probabilities(given)
    memory = system.encoder.encode(given.sources["source"])
    alone = Memory(
        states=memory.states[:, 1:2].expand_as(memory.states), mask=memory.mask, summary=memory.summary,
        spans=memory.spans,
    )  # fmt: skip
    logits = system.decoder.logits(system.decoder.hidden(alone, given.inputs))
    expected = logits.log_softmax(-1).gather(-1, given.outputs.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(pointed, expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_even_attention_is_the_mean_of_what_may_be_seen() -> None:
    system, given = family("bahdanau gru"), batch()
    with intervene({CROSS: even()}), capture(kinds=("cross",)) as captured:
        system.token_log_probabilities(given)
    mask = given.sources["source"].mask
    expected = (mask / mask.sum(1, keepdim=True))[:, None, None].expand(-1, -1, 4, -1).double()
    torch.testing.assert_close(captured.values[CROSS], expected)


@torch.no_grad()
def test_a_replaced_state_goes_on_from_there() -> None:
    """In the recurrence of Bahdanau's decoder, one state in the middle."""
    system, given = family("bahdanau gru"), batch()
    vector = torch.linspace(-1, 1, 6, dtype=torch.float64)
    change = at_items({1}, replace(vector), stepped=True)
    with intervene({CELL: change}):
        forced = system.token_log_probabilities(given)
    with intervene({CELL: change}):
        one_by_one = stepped(system, given)
    state = system.start(given.sources)
    by_hand: list[Tensor] = []
    for item in range(4):
        step = system.step(given.inputs[:, item : item + 1], state)
        state = step.state
        assert isinstance(state, RecurrentState)
        if item == 1:
            state = with_fields(state, cell=vector.expand_as(state.cell))
        by_hand.append(step.log_probabilities[:, 0].gather(1, given.outputs[:, item : item + 1]))
    torch.testing.assert_close(forced, torch.cat(by_hand, dim=1), rtol=0, atol=1e-9)
    torch.testing.assert_close(one_by_one, forced, rtol=0, atol=1e-9)
    plain = system.token_log_probabilities(given)
    torch.testing.assert_close(forced[:, :2], plain[:, :2], rtol=0, atol=1e-12)
    assert (forced[:, 2:] - plain[:, 2:]).abs().max() > 1e-3


@torch.no_grad()
def test_single_items_are_the_same_in_both_modes() -> None:
    system, given = family("transformer alibi"), batch()
    sites_ = {Site("decoder", "cross", 0): point(1), Site("decoder", "ffn", 1): replace(torch.ones(8))}
    with intervene({site: at_items([2], change, stepped=False) for site, change in sites_.items()}):
        forced = system.token_log_probabilities(given)
    with intervene({site: at_items([2], change, stepped=True) for site, change in sites_.items()}):
        one_by_one = stepped(system, given)
    torch.testing.assert_close(forced, one_by_one, rtol=0, atol=1e-9)
    plain = system.token_log_probabilities(given)
    torch.testing.assert_close(forced[:, :2], plain[:, :2], rtol=0, atol=1e-9)
    assert (forced[:, 2] - plain[:, 2]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["transformer pre", "bahdanau gru"])
@torch.no_grad()
def test_capture_inside_sees_what_was_changed(name: str) -> None:
    system, given = family(name), batch()
    with intervene({CROSS: point(0)}), capture(parts=("decoder",), kinds=("cross",)) as captured:
        system.token_log_probabilities(given)
    assert captured.values[CROSS][..., 0].eq(1).all()
    assert not captured.values[CROSS][..., 1:].any()


def test_gradients_pass_through_changes() -> None:
    system, given = family("transformer relative"), batch()
    vector = torch.zeros(8, dtype=torch.float64, requires_grad=True)
    with intervene({Site("encoder", "ffn", 0): lambda value, _: value + vector}):
        system.loss(given).sum.backward()
    assert vector.grad is not None
    assert vector.grad.abs().min() > 0


MISTAKES: list[tuple[Site, Change, str]] = [
    (CROSS, lambda value, _: value[..., :1], "the change at decoder.cross.0 gives (3, 2, 4, 1) in the place of (3, 2,"),
    (CROSS, silence(2), "there is no head 2: this attention has heads 0 to 1"),
    (CROSS, point(9), "attention cannot point at key 9: there are 5 keys"),
    (Site("decoder", "ffn"), even(), "only attention has heads: this change belongs at the sites `self` and `cross`"),
    (
        Site("decoder", "cell", 7),
        silence(),
        "nothing passed decoder.cell.7 in this block; sites that were passed: decoder.cross.0, decoder.cross.1, deco",
    ),
]


@pytest.mark.parametrize(("site", "change", "message"), MISTAKES)
@torch.no_grad()
def test_a_change_that_cannot_be_made_is_refused(site: Site, change: Change, message: str) -> None:
    system = family("transformer pre")
    with pytest.raises(UsageError, match="^" + re.escape(message)), intervene({site: change}):
        system.token_log_probabilities(batch())
    assert system.step(torch.full((3, 1), START), system.start(batch().sources)).log_probabilities.isfinite().all()


def test_an_error_inside_is_not_hidden_by_a_missed_site() -> None:
    with pytest.raises(RuntimeError, match="inside"), intervene({CROSS: silence()}):
        raise RuntimeError("inside")
    with pytest.raises(UsageError, match=r"sites that were passed: none$"), intervene({CROSS: silence()}):
        pass

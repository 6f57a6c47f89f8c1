"""The decoder of Bahdanau et al. 2015 against its equations as a plain loop over rows, items and gates."""

import pytest
import torch
from torch import Tensor, nn

from regard.data.batch import source_ids
from regard.models import BahdanauDecoder, Memory, TransformedSummary
from regard.nn import Attention, CellName, Site, watching
from regard.nn.cells import GRUCell
from regard.nn.scores import AdditiveScore
from regard.special import START
from tests.families import bahdanau_decoder, recurrent_encoder

CELLS: tuple[CellName, ...] = ("gru", "gru_cho")
INPUTS = torch.tensor([[START, 4, 5, 6], [START, 8, 8, 7]])


def affine(layer: nn.Linear, vector: Tensor) -> Tensor:
    product = layer.weight @ vector
    return product if layer.bias is None else product + layer.bias


def attend(decoder: BahdanauDecoder, state: Tensor, annotations: Tensor) -> tuple[Tensor, Tensor]:
    """α_ij ∝ exp(v_aᵀ tanh(W_a s_{i-1} + U_a h_j)), c_i = Σ_j α_ij h_j."""
    assert isinstance(decoder.attention, Attention)
    part = decoder.attention.score
    assert isinstance(part, AdditiveScore)
    energies = torch.stack(
        [part.energy[0] @ torch.tanh(part.query[0] @ state + part.key[0] @ one + part.bias[0]) for one in annotations]
    )
    shares = torch.exp(energies) / torch.exp(energies).sum()
    return sum((share * one for share, one in zip(shares, annotations, strict=True)), torch.zeros(1)), shares


def recurrence(decoder: BahdanauDecoder, token: Tensor, context: Tensor, state: Tensor) -> Tensor:
    """s_i = (1 - z_i) ∘ s_{i-1} + z_i ∘ s̃_i; the products of token and context for r, z and s̃ stand in this order.

    torch writes 1 - z for z.
    """
    (layer,) = decoder.network.layers()
    assert isinstance(layer.cell, GRUCell)
    for_reset, for_update, for_candidate = (affine(layer.inputs, token) + affine(decoder.from_context, context)).chunk(
        3
    )
    reset_weight, update_weight, candidate_weight = layer.cell.recurrent.weight.chunk(3)
    reset_bias, update_bias, candidate_bias = layer.cell.recurrent.bias.chunk(3)
    reset = torch.sigmoid(for_reset + reset_weight @ state + reset_bias)
    update = torch.sigmoid(for_update + update_weight @ state + update_bias)
    if layer.cell.reset == "before":
        candidate = torch.tanh(for_candidate + candidate_weight @ (reset * state) + candidate_bias)
        return (1 - update) * state + update * candidate
    candidate = torch.tanh(for_candidate + reset * (candidate_weight @ state + candidate_bias))
    return update * state + (1 - update) * candidate


def reference(decoder: BahdanauDecoder, memory: Memory, row: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits (M, V), attention (M, N) and states s_1, ..., s_M (M, D) of one row."""
    annotations = memory.states[row, : int(memory.mask[row].sum())]
    assert isinstance(decoder.bridge, TransformedSummary)
    state = torch.tanh(affine(decoder.bridge.linear, memory.summary[row]))
    from_state, from_token, from_context = decoder.deep.parts
    logits, attention, states = [], [], []
    for token in decoder.embedding.weight[INPUTS[row]]:
        context, shares = attend(decoder, state, annotations)
        pairs = affine(from_state, state) + affine(from_token, token)
        pairs = pairs + affine(from_context, context)
        maxout = torch.stack([torch.maximum(pairs[2 * unit], pairs[2 * unit + 1]) for unit in range(len(pairs) // 2)])
        logits.append(affine(decoder.output, maxout))
        attention.append(shares)
        state = recurrence(decoder, token, context, state)
        states.append(state)
    return torch.stack(logits), torch.stack(attention), torch.stack(states)


class Onlooker:
    """Keeps what passes each site."""

    def __init__(self) -> None:
        self.values: dict[Site, list[Tensor]] = {}

    def watches(self, site: Site) -> bool:
        return site.part == "decoder"

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self.values.setdefault(site, []).append(value)
        return value


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_decoder_follows_its_equations(cell: CellName) -> None:
    encoder = recurrent_encoder(9, cell).double().eval()
    decoder = bahdanau_decoder(9, encoder, cell).double().eval()
    for parameter in (*encoder.parameters(), *decoder.parameters()):
        nn.init.normal_(parameter, std=0.6)
    memory = encoder.encode(source_ids([[4, 5, 6, 7], [8]]))
    onlooker = Onlooker()
    with watching(onlooker):
        logits = decoder.logits(decoder.hidden(memory, INPUTS))
    # The decoder goes step by step, so it shows one item at a time: (B, 1, 1, N) and (B, 1, D).
    shown_attention = torch.cat(onlooker.values[Site("decoder", "cross")], dim=2)
    shown_states = torch.cat(onlooker.values[Site("decoder", "cell")], dim=1)
    assert shown_attention.shape == (2, 1, 4, 5)
    assert shown_states.shape == (2, 4, 6)
    for row in range(2):
        expected, attention, states = reference(decoder, memory, row)
        items = attention.size(1)
        torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(shown_attention[row, 0, :, :items], attention, rtol=0, atol=1e-12)
        assert not shown_attention[row, 0, :, items:].any()
        torch.testing.assert_close(shown_states[row], states, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_steps_show_the_same_sites_as_forced_decoding(cell: CellName) -> None:
    encoder = recurrent_encoder(9, cell).double().eval()
    decoder = bahdanau_decoder(9, encoder, cell).double().eval()
    memory = encoder.encode(source_ids([[4, 5, 6, 7], [8]]))
    forced, stepped = Onlooker(), Onlooker()
    with watching(forced):
        decoder.hidden(memory, INPUTS)
    with watching(stepped):
        state = decoder.start(memory)
        for item in range(INPUTS.size(1)):
            _, state = decoder.step(INPUTS[:, item : item + 1], state)
    assert forced.values.keys() == stepped.values.keys()
    for site, dim in ((Site("decoder", "cross"), 2), (Site("decoder", "cell"), 1), (Site("decoder", "embedding"), 1)):
        torch.testing.assert_close(
            torch.cat(forced.values[site], dim=dim), torch.cat(stepped.values[site], dim=dim), rtol=0, atol=1e-12
        )


class Silenced:
    """Puts zeros in the place of the attention, so that the decoder sees nothing of the source."""

    def watches(self, site: Site) -> bool:
        return site == Site("decoder", "cross")

    def visit(self, site: Site, value: Tensor) -> Tensor:
        return torch.zeros_like(value)


@torch.no_grad()
def test_what_replaces_attention_takes_effect() -> None:
    encoder = recurrent_encoder(9, "gru").eval()
    decoder = bahdanau_decoder(9, encoder, "gru").eval()
    memory = encoder.encode(source_ids([[4, 5], [8]]))
    blind = Memory(states=torch.zeros_like(memory.states), mask=memory.mask, summary=memory.summary, spans=memory.spans)
    with watching(Silenced()):
        silenced = decoder.hidden(memory, INPUTS)
    torch.testing.assert_close(silenced, decoder.hidden(blind, INPUTS))
    assert not torch.allclose(silenced, decoder.hidden(memory, INPUTS))

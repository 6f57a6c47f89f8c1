"""Decoders without attention against their equations as plain loops."""

import pytest
import torch
from torch import Tensor, nn

from regard.data.batch import source_ids
from regard.models import TransformedSummary
from regard.nn import CellName, Site, watching
from regard.special import START
from tests.families import every_step_decoder, initial_decoder, recurrent_encoder

INPUTS = torch.tensor([[START, 4, 5, 6], [START, 8, 8, 7]])
CELLS: tuple[CellName, ...] = ("elman", "lstm", "gru", "gru_cho", "multiplicative")
SOURCE = ([4, 5, 6, 7], [8])


def affine(layer: nn.Module, vector: Tensor) -> Tensor:
    assert isinstance(layer, nn.Linear)
    product = layer.weight @ vector
    return product if layer.bias is None else product + layer.bias


def wild(*modules: nn.Module) -> None:
    for module in modules:
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.6)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backwards", [False, True])
@torch.no_grad()
def test_final_states_are_where_the_decoder_begins(cell: CellName, backwards: bool) -> None:
    """Sutskever et al. 2014: one network reads the source, another goes on from its states, layer by layer."""
    encoder = recurrent_encoder(9, cell, layers=2, width=6, two_way=False, backwards=backwards).double().eval()
    decoder = initial_decoder(9, encoder, cell, handed=True, layers=2).double().eval()
    wild(encoder, decoder)
    logits = decoder.logits(decoder.hidden(encoder.encode(source_ids(SOURCE)), INPUTS))
    for row, ids in enumerate(SOURCE):
        items = source_ids([ids]).ids[0, :, 0]
        states = [torch.zeros(decoder.network.size.parts, 6, dtype=torch.float64)] * 2
        for network, table, tokens in (
            (encoder.network, encoder.embedding.weight, items.flip(0) if backwards else items),
            (decoder.network, decoder.embedding.weight, INPUTS[row]),
        ):
            said = []
            for token in table[tokens]:
                read = token
                for index, layer in enumerate(network.layers()):
                    states = [*states]
                    states[index] = layer.cell.step(affine(layer.inputs, read), states[index]).state
                    read = states[index][0]
                said.append(read)
        expected = torch.stack([affine(decoder.output, one) for one in said])
        torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_a_transformed_summary_is_where_the_decoder_begins(cell: CellName) -> None:
    encoder = recurrent_encoder(9, "gru").double().eval()
    decoder = initial_decoder(9, encoder, cell, handed=False).double().eval()
    wild(encoder, decoder)
    memory = encoder.encode(source_ids(SOURCE))
    logits = decoder.logits(decoder.hidden(memory, INPUTS))
    assert isinstance(decoder.bridge, TransformedSummary)
    (layer,) = decoder.network.layers()
    for row in range(2):
        state = torch.tanh(affine(decoder.bridge.linear, memory.summary[row])).view(-1, 6)
        for item, token in enumerate(decoder.embedding.weight[INPUTS[row]]):
            state = layer.cell.step(affine(layer.inputs, token), state).state
            torch.testing.assert_close(logits[row, item], affine(decoder.output, state[0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_a_vector_at_every_step(cell: CellName) -> None:
    """Cho et al. 2014, A.1.2, with the context as a part of the input."""
    encoder = recurrent_encoder(9, cell, two_way=False).double().eval()
    decoder = every_step_decoder(9, encoder, cell).double().eval()
    wild(encoder, decoder)
    memory = encoder.encode(source_ids(SOURCE))
    logits = decoder.logits(decoder.hidden(memory, INPUTS))
    (layer,) = decoder.network.layers()
    from_state, from_token, from_context = decoder.deep.parts
    for row in range(2):
        context = torch.tanh(affine(decoder.context, memory.summary[row]))
        state = torch.tanh(affine(decoder.bridge.linear, context)).view(-1, 6)
        for item, token in enumerate(decoder.embedding.weight[INPUTS[row]]):
            state = layer.cell.step(affine(layer.inputs, torch.cat((token, context))), state).state
            pairs = affine(from_state, state[0]) + affine(from_token, token) + affine(from_context, context)
            maxout = torch.stack([pairs[2 * unit : 2 * unit + 2].max() for unit in range(len(pairs) // 2)])
            torch.testing.assert_close(logits[row, item], affine(decoder.output, maxout), rtol=0, atol=1e-12)


class Zeroed:
    """Puts zeros in the place of every state of the decoder."""

    def __init__(self) -> None:
        self.count = 0

    def watches(self, site: Site) -> bool:
        return site == Site("decoder", "cell")

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self.count += 1
        return torch.zeros_like(value)


@torch.no_grad()
def test_what_replaces_a_state_takes_effect_in_forced_decoding_and_steps() -> None:
    encoder = recurrent_encoder(9, "gru").double().eval()
    decoder = initial_decoder(9, encoder, "gru", handed=False).double().eval()
    memory = encoder.encode(source_ids(SOURCE))
    watcher = Zeroed()
    with watching(watcher):
        assert not decoder.hidden(memory, INPUTS).any()
        state = decoder.start(memory)
        said, state = decoder.step(INPUTS[:, :1], state)
    assert not said.any()
    assert not state.cell.any()
    assert watcher.count == 5

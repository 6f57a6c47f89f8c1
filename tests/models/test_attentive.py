"""Decoders that attend after the recurrence (Luong et al. 2015; attention at the output only), as plain loops."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.data.batch import source_ids
from regard.models import Attending, AttentionalVector, AttentiveDecoder, LocalAttention, Memory, TransformedSummary
from regard.nn import Attention, CellName, Recurrent, Site, watching
from regard.nn.scores import AdditiveScore, BilinearScore, ScoreName
from regard.special import START
from tests.families import luong_decoder, output_decoder, recurrent_encoder

INPUTS = torch.tensor([[START, 4, 5, 6], [START, 8, 8, 7]])
CELLS: tuple[CellName, ...] = ("elman", "lstm", "gru", "gru_cho", "multiplicative")


def affine(layer: nn.Linear, vector: Tensor) -> Tensor:
    product = layer.weight @ vector
    return product if layer.bias is None else product + layer.bias


def align(attention: Attending, state: Tensor, annotations: Tensor) -> Tensor:
    """exp(score(s, h_j)) as shares. Luong et al. 2015, section 3.1: dot, general (bilinear), concat (additive)."""
    assert isinstance(attention, Attention)
    match attention.score:
        case AdditiveScore() as score:
            energies = [
                score.energy[0] @ torch.tanh(score.query[0] @ state + score.key[0] @ one + score.bias[0])
                for one in annotations
            ]
        case BilinearScore() as score:
            energies = [state @ score.weight[0] @ one for one in annotations]
        case _:
            energies = [state @ one for one in annotations]
    shares = torch.exp(torch.stack(energies))
    return shares / shares.sum()


def context_of(decoder: AttentiveDecoder, state: Tensor, annotations: Tensor) -> tuple[Tensor, Tensor]:
    """Context, and the weights it is the sum with."""
    attention = decoder.attention
    if not isinstance(attention, LocalAttention):
        weights = align(attention, state, annotations)
        return sum((weight * one for weight, one in zip(weights, annotations, strict=True)), torch.zeros(1)), weights
    predicted = attention.outer.weight[0] @ torch.tanh(attention.inner.weight @ state)
    place = len(annotations) / (1 + math.exp(-float(predicted)))
    near = [item for item in range(len(annotations)) if place - attention.window <= item <= place + attention.window]
    shares = align(attention.attention, state, annotations[near])
    deviation = attention.window / 2
    weights = torch.zeros(len(annotations), dtype=torch.float64)
    for item, share in zip(near, shares, strict=True):
        weights[item] = share * math.exp(-((item - place) ** 2) / (2 * deviation**2))
    return sum((weight * one for weight, one in zip(weights, annotations, strict=True)), torch.zeros(1)), weights


def recur(network: Recurrent, extra: Tensor, token: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """One step through all layers; `extra` are products of what is fed beside the token."""
    new, read = [], token
    for index, (layer, state) in enumerate(zip(network.layers(), states, strict=True)):
        products = affine(layer.inputs, read) + (extra if index == 0 else 0)
        state = layer.cell.step(products, state).state
        new.append(state)
        read = read + state[0] if network.residual and index else state[0]
    return read, new


def reference(decoder: AttentiveDecoder, memory: Memory, row: int) -> tuple[Tensor, Tensor]:
    """Logits (M, V) and the weights of the memory in each context (M, N) of one row."""
    annotations = memory.states[row, : int(memory.mask[row].sum())]
    assert isinstance(decoder.bridge, TransformedSummary)
    size = decoder.network.size
    start = torch.tanh(affine(decoder.bridge.linear, memory.summary[row])).view(size.layers, size.parts, size.width)
    states = list(start)
    said = torch.zeros(decoder.combine.width, dtype=torch.float64)
    logits, weights = [], []
    for token in decoder.embedding.weight[INPUTS[row]]:
        extra = torch.zeros(1) if decoder.from_fed is None else decoder.from_fed.weight @ said
        state, states = recur(decoder.network, extra, token, states)
        context, shares = context_of(decoder, state, annotations)
        if isinstance(decoder.combine, AttentionalVector):
            said = torch.tanh(decoder.combine.linear.weight @ torch.cat((context, state)))
        else:
            said = torch.cat((state, context))
        logits.append(affine(decoder.output, said))
        weights.append(shares)
    return torch.stack(logits), torch.stack(weights)


def wild(*modules: nn.Module) -> None:
    for module in modules:
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.6)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("window", [None, 1, 2])
@pytest.mark.parametrize("score", ["dot", "bilinear", "additive"])
@torch.no_grad()
def test_luong_follows_its_equations(
    cell: CellName, layers: int, feeding: bool, window: int | None, score: ScoreName
) -> None:
    encoder = recurrent_encoder(9, "gru", width=6, two_way=False).double().eval()
    decoder = luong_decoder(9, encoder, cell, layers=layers, feeding=feeding, window=window, score=score)
    decoder = decoder.double().eval()
    wild(encoder, decoder)
    memory = encoder.encode(source_ids([[4, 5, 6, 7, 4], [8, 5]]))
    logits = decoder.logits(decoder.hidden(memory, INPUTS))
    for row in range(2):
        expected, weights = reference(decoder, memory, row)
        torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-12)
        if window is None:
            torch.testing.assert_close(weights.sum(1), torch.ones(4, dtype=torch.float64))
        elif row == 0 and window == 1:
            assert (weights == 0).any(), "no window was narrower than the source"


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("score", ["dot", "bilinear", "additive"])
@torch.no_grad()
def test_attention_at_the_output_follows_its_equations(cell: CellName, score: ScoreName) -> None:
    """With `dot` and an Elman cell this is the simple attention of the lecture."""
    encoder = recurrent_encoder(9, cell, width=6, two_way=False).double().eval()
    decoder = output_decoder(9, encoder, cell, score=score).double().eval()
    wild(encoder, decoder)
    assert decoder.output.in_features == 6 + encoder.memory_width
    memory = encoder.encode(source_ids([[4, 5, 6, 7, 4], [8, 5]]))
    logits = decoder.logits(decoder.hidden(memory, INPUTS))
    for row in range(2):
        torch.testing.assert_close(logits[row], reference(decoder, memory, row)[0], rtol=0, atol=1e-12)


@torch.no_grad()
def test_shared_output_weights_are_reached_by_a_projection() -> None:
    """softmax(W^o [y^d; y^a]) with W^o = output · projection."""
    encoder = recurrent_encoder(9, "elman").double().eval()
    narrow = output_decoder(9, encoder, "elman", width=8).double().eval()
    wide = output_decoder(9, encoder, "elman").double().eval()
    wild(encoder, narrow, wide)
    wide.network.load_state_dict(narrow.network.state_dict())
    wide.bridge.load_state_dict(narrow.bridge.state_dict())
    wide.embedding.load_state_dict(narrow.embedding.state_dict())
    assert isinstance(wide.attention, nn.Module)
    assert isinstance(narrow.attention, nn.Module)
    wide.attention.load_state_dict(narrow.attention.state_dict())
    wide.output.weight.copy_(narrow.output.weight @ narrow.combine.get_parameter("project.weight"))
    wide.output.bias.copy_(narrow.output.bias)
    memory = encoder.encode(source_ids([[4, 5, 6], [8]]))
    one, other = (decoder.logits(decoder.hidden(memory, INPUTS)) for decoder in (narrow, wide))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


class Onlooker:
    def __init__(self) -> None:
        self.values: dict[Site, list[Tensor]] = {}

    def watches(self, site: Site) -> bool:
        return site.part == "decoder"

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self.values.setdefault(site, []).append(value)
        return value


@pytest.mark.parametrize(("feeding", "window"), [(False, None), (True, None), (True, 2), (False, 2)])
@torch.no_grad()
def test_forced_decoding_and_steps_show_the_same(feeding: bool, window: int | None) -> None:
    encoder = recurrent_encoder(9, "lstm").double().eval()
    decoder = luong_decoder(9, encoder, "lstm", layers=2, feeding=feeding, window=window).double().eval()
    wild(encoder, decoder)
    memory = encoder.encode(source_ids([[4, 5, 6, 7], [8]]))
    forced, stepped = Onlooker(), Onlooker()
    unwatched = decoder.hidden(memory, INPUTS)
    with watching(forced):
        torch.testing.assert_close(decoder.hidden(memory, INPUTS), unwatched, rtol=0, atol=1e-12)
    with watching(stepped):
        state = decoder.start(memory)
        for item in range(INPUTS.size(1)):
            _, state = decoder.step(INPUTS[:, item : item + 1], state)
    assert forced.values.keys() == stepped.values.keys()
    assert forced.values.keys() >= {Site("decoder", "cell", 0), Site("decoder", "cell", 1), Site("decoder", "cross")}
    for site, values in forced.values.items():
        dim = 2 if site.kind == "cross" else 1
        one, other = torch.cat(values, dim=dim), torch.cat(stepped.values[site], dim=dim)
        assert one.size(dim) == 4
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [None, 2])
@torch.no_grad()
def test_any_attention_serves(window: int | None) -> None:
    """Several heads with projections, in the place of the additive one."""
    encoder = recurrent_encoder(9, "gru").double().eval()
    heads = Attention(query_width=6, memory_width=encoder.memory_width, heads=2, site=Site("decoder", "cross"))
    plain = luong_decoder(9, encoder, "gru")
    decoder = AttentiveDecoder(
        embedding=plain.embedding,
        output=plain.output,
        network=plain.network,
        bridge=plain.bridge,
        attention=heads if window is None else LocalAttention(attention=heads, query_width=6, window=window),
        combine=AttentionalVector(state_width=6, context_width=6, width=8),
        feeding=True,
        dropout=0.0,
    ).double()
    wild(encoder, decoder)
    decoder.eval()
    memory = encoder.encode(source_ids([[4, 5, 6, 7], [8]]))
    forced = decoder.hidden(memory, INPUTS)
    state = decoder.start(memory)
    for item in range(4):
        said, state = decoder.step(INPUTS[:, item : item + 1], state)
        torch.testing.assert_close(said[:, 0], forced[:, item], rtol=0, atol=1e-12)

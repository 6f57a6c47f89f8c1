"""Shapes that write no sequence, against their equations; and language models, which read none."""

import math
from collections.abc import Sequence
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batch import Batch, Category, Ids, source_ids
from regard.data.collation import SourceTexts, TextCollation
from regard.models import (
    Acceptor,
    AttributeJoin,
    BagEncoder,
    CategoryEncoder,
    Encoder,
    EncoderDecoder,
    FromNothing,
    InitialStateDecoder,
    Labelling,
    MaskedLanguageModel,
    NoSource,
    Rater,
    Transducer,
    TransformerDecoder,
)
from regard.models.labelling import in_source_order
from regard.nn import CellName, Embedding, Recurrent, embedding_table
from regard.special import END, FIRST_FREE, UNKNOWN
from regard.text import WordTokenizer
from tests.families import (
    WIDTH,
    bag_encoder,
    decoder_network,
    recurrent_encoder,
    self_attentive_encoder,
    target_embedding,
    transformer_encoder,
)

VOCABULARY, ANSWERS = 9, 7
S = TypeVar("S", bound=nn.Module)
ROWS = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4])
ENCODERS = ("one-way", "two-way", "reversed", "self-attentive", "transformer", "bag")


def encoder_of(name: str) -> Encoder:
    match name:
        case "one-way":
            return recurrent_encoder(VOCABULARY, "gru", two_way=False)
        case "two-way":
            return recurrent_encoder(VOCABULARY, "lstm", layers=2)
        case "reversed":
            return recurrent_encoder(VOCABULARY, "elman", two_way=False, backwards=True)
        case "self-attentive":
            return self_attentive_encoder(VOCABULARY)
        case "transformer":
            return transformer_encoder(VOCABULARY, norm_first=True)
        case _:
            return bag_encoder(VOCABULARY)


def wild(system: S) -> S:
    """Weights that are far from where training begins, in double precision."""
    system = system.double()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.6)
    return system.eval()


def system_of(shape: str, encoder: Encoder) -> Labelling:
    match shape:
        case "acceptor":
            return wild(Acceptor(encoder=encoder, summary_width=encoder.summary_width, answers=ANSWERS, dropout=0.0))
        case "rater":
            return wild(Rater(encoder=encoder, summary_width=encoder.summary_width, dropout=0.0))
        case "transducer":
            return wild(Transducer(encoder=encoder, answers=ANSWERS, dropout=0.0))
        case _:
            output = nn.Linear(WIDTH, VOCABULARY, bias=False)
            return wild(MaskedLanguageModel(encoder=encoder, output=output))


def batch_of(shape: str, rows: Sequence[int]) -> Batch:
    """Some rows with the same answers in whatever batch they stand."""
    sources = source_ids([ROWS[row] for row in rows])
    places = 1 if shape in ("acceptor", "rater") else sources.mask.size(1)
    outputs = torch.zeros(len(rows), places, dtype=torch.float64 if shape == "rater" else torch.long)
    mask = torch.zeros(len(rows), places, dtype=torch.bool)
    for index, row in enumerate(rows):
        if places == 1:
            outputs[index] = [1.5, -2.0, 0.25][row] if shape == "rater" else 4 + row
            mask[index] = True
        else:
            for place in range(0, len(ROWS[row]), 2):
                outputs[index, place] = 4 + (row + place) % 3
                mask[index, place] = True
    return Batch(
        sources={"source": sources}, inputs=torch.zeros(len(rows), 0, dtype=torch.long), outputs=outputs, mask=mask
    )


CASES = [
    (shape, encoder)
    for shape in ("acceptor", "rater", "transducer", "masked")
    for encoder in ENCODERS
    if shape in ("acceptor", "rater") or encoder != "bag"
]
cases = pytest.mark.parametrize(("shape", "encoder"), CASES)


@cases
def test_padding_never_changes_an_answer(shape: str, encoder: str) -> None:
    system = system_of(shape, encoder_of(encoder))
    batch = batch_of(shape, (0, 1, 2))
    source = batch.sources["source"]
    assert isinstance(source, Ids)
    source.ids[~source.mask] = 5
    with torch.no_grad():
        together = system.token_log_probabilities(batch)
        for row in range(3):
            alone = system.token_log_probabilities(batch_of(shape, (row,)))[0]
            torch.testing.assert_close(together[row, : len(alone)], alone, rtol=0, atol=1e-9)
            assert not together[row, len(alone) :].any()
            assert alone.abs().max() > 1e-3


@cases
def test_gradients_reach_every_parameter(shape: str, encoder: str) -> None:
    system = system_of(shape, encoder_of(encoder))
    loss = system.loss(batch_of(shape, (0, 1, 2)))
    loss.sum.backward()
    for name, parameter in system.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-12, name


@cases
def test_the_loss_is_the_likelihood_of_what_is_asked(shape: str, encoder: str) -> None:
    system = system_of(shape, encoder_of(encoder))
    batch = batch_of(shape, (0, 1, 2))
    with torch.no_grad():
        loss = system.loss(batch)
        scored = system.token_log_probabilities(batch)
    assert loss.count == batch.tokens == int(batch.mask.sum())
    torch.testing.assert_close(loss.parts["likelihood"], -scored.sum(), rtol=0, atol=1e-9)
    if shape == "rater":
        constant = loss.count * 0.5 * math.log(2 * math.pi)
        torch.testing.assert_close(loss.sum + constant, -scored.sum(), rtol=0, atol=1e-9)
    else:
        torch.testing.assert_close(loss.sum, -scored.sum(), rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("shape", ["acceptor", "transducer", "masked"])
def test_probabilities_are_those_of_items_and_sum_to_one(shape: str) -> None:
    """Smoothing is over items too, by torch's own definition; R-Drop sees the same columns."""
    system = system_of(shape, encoder_of("two-way"))
    batch = batch_of(shape, (0, 1, 2))
    said = system.log_probabilities(batch.sources).exp()
    torch.testing.assert_close(said.sum(-1), torch.ones_like(said[..., 0]))
    assert not said[..., :FIRST_FREE].any()
    logits = system.projection(system.places(system.memory(batch.sources))).logits()[batch.mask][:, FIRST_FREE:]
    labels = batch.outputs[batch.mask] - FIRST_FREE
    expected = functional.cross_entropy(logits, labels, label_smoothing=0.2, reduction="sum")
    torch.testing.assert_close(system.loss(batch, smoothing=0.2).sum, expected)
    chosen = system.log_distribution(batch).gather(1, system.labels(batch).unsqueeze(1))
    torch.testing.assert_close(chosen.sum(), system.token_log_probabilities(batch).sum())


@torch.no_grad()
def test_a_coin_has_a_perplexity_of_two() -> None:
    encoder = encoder_of("bag")
    system = Acceptor(encoder=encoder, summary_width=encoder.summary_width, answers=FIRST_FREE + 2, dropout=0.0)
    for parameter in system.parameters():
        parameter.zero_()
    batch = batch_of("acceptor", (0, 1))
    loss = system.loss(batch)
    assert math.exp(float(loss.parts["likelihood"]) / loss.count) == pytest.approx(2)


@torch.no_grad()
@pytest.mark.parametrize("shape", ["acceptor", "transducer"])
def test_what_is_no_item_is_not_asked_for(shape: str) -> None:
    system = system_of(shape, encoder_of("two-way"))
    batch = batch_of(shape, (0, 1, 2))
    whole = system.token_log_probabilities(batch)
    batch.outputs[0, 0] = UNKNOWN
    found, loss = system.token_log_probabilities(batch), system.loss(batch)
    assert found[0, 0] == 0
    assert loss.count == batch.tokens - 1 == len(system.labels(batch))
    torch.testing.assert_close(loss.sum, whole[0, 0] - whole.sum())


@torch.no_grad()
def test_an_acceptor_by_its_equation() -> None:
    """p(y | x) ∝ exp(W h_N + b), h_i = tanh(A x_i + a + U h_{i-1} + u)."""
    encoder = recurrent_encoder(VOCABULARY, "elman", two_way=False)
    system = system_of("acceptor", encoder)
    assert isinstance(system, Acceptor)
    network = {name.rsplit("0.", 1)[-1]: value for name, value in encoder.network.named_parameters()}
    assert network.keys() == {"inputs.weight", "inputs.bias", "cell.recurrent.weight", "cell.recurrent.bias"}
    batch = batch_of("acceptor", (0, 1, 2))
    for row, ids in enumerate(ROWS):
        state = torch.zeros(5, dtype=torch.float64)
        for id_ in (*ids, END):
            product = network["inputs.weight"] @ encoder.embedding.weight[id_] + network["inputs.bias"]
            state = torch.tanh(product + network["cell.recurrent.weight"] @ state + network["cell.recurrent.bias"])
        expected = functional.log_softmax((system.head.weight @ state + system.head.bias)[FIRST_FREE:], dim=-1)
        found = system.log_probabilities(batch.sources)[row, 0]
        torch.testing.assert_close(found[FIRST_FREE:], expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_rater_by_its_equation() -> None:
    """y = w · mean of embeddings + b; the density is that of torch's normal distribution."""
    encoder = bag_encoder(VOCABULARY)
    system = system_of("rater", encoder)
    assert isinstance(system, Rater)
    batch = batch_of("rater", (0, 1, 2))
    memory = encoder.encode(batch.sources["source"])
    expected = functional.linear(memory.summary, system.head.weight, system.head.bias)
    torch.testing.assert_close(system.numbers(batch.sources), expected, rtol=0, atol=1e-12)
    density = torch.distributions.Normal(expected, 1.0).log_prob(batch.outputs)
    torch.testing.assert_close(system.token_log_probabilities(batch), density, rtol=0, atol=1e-9)
    error = 0.5 * functional.mse_loss(expected, batch.outputs, reduction="sum")
    torch.testing.assert_close(system.loss(batch, smoothing=0.5).sum, error, rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_transducer_says_something_at_each_item() -> None:
    encoder = transformer_encoder(VOCABULARY, norm_first=False)
    system = system_of("transducer", encoder)
    assert isinstance(system, Transducer)
    batch = batch_of("transducer", (0, 1, 2))
    states = encoder.encode(batch.sources["source"]).states
    logits = states @ system.head.weight.T + system.head.bias
    expected = functional.log_softmax(logits[..., FIRST_FREE:], dim=-1)
    found = system.log_probabilities(batch.sources)
    torch.testing.assert_close(found[..., FIRST_FREE:], expected, rtol=0, atol=1e-12)
    loss = functional.nll_loss(expected[batch.mask], batch.outputs[batch.mask] - FIRST_FREE, reduction="sum")
    torch.testing.assert_close(system.loss(batch).sum, loss, rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_a_reversed_encoder_is_answered_in_the_order_of_the_source(cell: CellName) -> None:
    """The state of an item has read what stands behind it: with a changed first item only the first differs."""
    encoder = wild(recurrent_encoder(VOCABULARY, cell, two_way=False, backwards=True))
    forward = wild(recurrent_encoder(VOCABULARY, cell, two_way=False, backwards=False))
    rows = ([4, 5, 6], [7, 8])
    ordered = in_source_order(encoder.encode(source_ids(rows)))
    changed = in_source_order(encoder.encode(source_ids(([8, 5, 6], [7, 8]))))
    assert (ordered[0, 0] - changed[0, 0]).abs().max() > 1e-3
    torch.testing.assert_close(ordered[0, 1:], changed[0, 1:], rtol=0, atol=1e-12)
    for row, ids in enumerate(rows):
        items = [*ids, END][::-1]
        mirrored = forward.encode(Ids(torch.tensor(items).view(1, -1, 1), torch.ones(1, len(items)).bool())).states
        torch.testing.assert_close(ordered[row, : len(items)], mirrored[0].flip(0), rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_masked_language_model_by_its_equation() -> None:
    """E · LayerNorm(GELU(W h + b)) + c."""
    encoder = transformer_encoder(VOCABULARY, norm_first=True)
    system = system_of("masked", encoder)
    assert isinstance(system, MaskedLanguageModel)
    batch = batch_of("masked", (0, 1, 2))
    states = encoder.encode(batch.sources["source"]).states
    inner = functional.gelu(functional.linear(states, system.dense.weight, system.dense.bias))
    normed = functional.layer_norm(inner, (WIDTH,), system.norm.weight, system.norm.bias)
    expected = (normed @ system.output.weight.T + system.bias)[..., FIRST_FREE:].log_softmax(-1)
    found = system.log_probabilities(batch.sources)
    torch.testing.assert_close(found[..., FIRST_FREE:], expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_attributes_join_the_summary_of_an_acceptor() -> None:
    encoder: BagEncoder = bag_encoder(VOCABULARY)
    category = CategoryEncoder(tables=[embedding_table(5, WIDTH), embedding_table(6, WIDTH)], dropout=0.0)
    join = AttributeJoin(category, encoder.memory_width)
    width = join.summary_width(encoder.summary_width)
    system = wild(Acceptor(encoder=encoder, summary_width=width, answers=7, dropout=0.0, attributes=join))
    values = Category(values=torch.tensor([[4, 5], [3, 0]]), mask=torch.tensor([[True, True], [True, False]]))
    text = source_ids([ROWS[0], ROWS[1]])
    summary = encoder.encode(text).summary
    first, second = category.tables
    attributes = torch.stack((first[4] + second[5], first[3]))
    expected = functional.linear(torch.cat((summary, attributes), -1), system.head.weight, system.head.bias)
    found = system.log_probabilities({"source": text, "attributes": values})[:, 0]
    torch.testing.assert_close(found[:, FIRST_FREE:], expected[:, FIRST_FREE:].log_softmax(-1), rtol=0, atol=1e-9)


def language_model(kind: str) -> EncoderDecoder:
    if kind == "transformer":
        table = embedding_table(VOCABULARY, WIDTH)
        output = nn.Linear(WIDTH, VOCABULARY, bias=False)
        output.weight = table
        decoder: TransformerDecoder | InitialStateDecoder = TransformerDecoder(
            embedding=Embedding(weight=table, scaled=True),
            output=output,
            memory_width=None,
            layers=2,
            heads=2,
            inner=12,
            norm_first=True,
            dropout=0.0,
        )
    else:
        network: Recurrent = decoder_network(kind, layers=2)  # type: ignore[arg-type]
        decoder = InitialStateDecoder(
            embedding=target_embedding(VOCABULARY),
            output=nn.Linear(6, VOCABULARY),
            network=network,
            bridge=FromNothing(wanted=network.size),
            dropout=0.0,
        )
    return wild(EncoderDecoder(encoder=NoSource(width=WIDTH), decoder=decoder, vocabulary=VOCABULARY))


LANGUAGE = TextCollation(source=SourceTexts(text=None), target=WordTokenizer(words=("a", "b", "c", "d", "e")))
TEXTS = ([4, 5, 6, 7], [], [8, 8, 4, 5, 5, 6], [7])


def texts_of(rows: Sequence[int]) -> Batch:
    return LANGUAGE.batch({"target": [TEXTS[row] for row in rows]}, [()] * len(rows))


@pytest.mark.parametrize("kind", ["elman", "gru", "gru_cho", "lstm", "multiplicative", "transformer"])
def test_a_language_model_steps_as_it_scores(kind: str) -> None:
    system, batch = language_model(kind), texts_of(range(4))
    system.loss(batch).sum.backward()
    for name, parameter in system.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-12, name
    with torch.no_grad():
        forced = system.token_log_probabilities(batch)
        state, columns = system.start(batch.sources), []
        for item in range(batch.inputs.size(1)):
            step = system.step(batch.inputs[:, item : item + 1], state)
            state = step.state
            columns.append(step.log_probabilities[:, 0].gather(1, batch.outputs[:, item : item + 1]))
        stepped: Tensor = torch.cat(columns, dim=1)
        torch.testing.assert_close(stepped[batch.mask], forced[batch.mask], rtol=0, atol=1e-9)
        for row in range(4):
            alone = system.token_log_probabilities(texts_of([row]))[0]
            torch.testing.assert_close(forced[row, : len(alone)], alone, rtol=0, atol=1e-9)


@torch.no_grad()
def test_probabilities_of_all_short_texts_sum_to_one_with_those_that_go_on() -> None:
    """Σ over texts of up to two items, and prefixes of three: a language model is a distribution over texts."""
    system = language_model("gru")
    total = 0.0
    words = range(VOCABULARY)
    texts = [[], *([a] for a in words), *([a, b] for a in words for b in words)]
    for text in texts:
        batch = LANGUAGE.batch({"target": [text]}, [()])
        scored = system.token_log_probabilities(batch)[0]
        ends = END in text
        total += 0.0 if ends else math.exp(float(scored.sum()))
        if len(text) == 2 and not ends:
            total += math.exp(float(scored[:-1].sum())) * (1 - math.exp(float(scored[-1])))
    assert total == pytest.approx(1.0, abs=1e-9)

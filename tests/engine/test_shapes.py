"""Systems of odd sizes, in every set of kernels, against torch: one column, one item, widths around a vector's."""

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from regard.engine import Engine, Session
from regard.engine.library import kernels_here
from regard.engine.preparation import prepare
from regard.models import (
    AttentionalVector,
    AttentiveDecoder,
    Decoder,
    Encoder,
    EncoderDecoder,
    RecurrentEncoder,
    TransformedSummary,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.nn import Attention, Embedding, Recurrent, Site, Variant, embedding_table
from regard.special import END, START
from tests.engine.searching import as_source

WIDTHS = st.sampled_from([1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65])
CELLS = st.sampled_from(["elman", "lstm", "gru", "gru_cho"])


def transformer(data: st.DataObject, vocabulary: int) -> tuple[Encoder, Decoder]:
    head, heads = data.draw(WIDTHS), data.draw(st.integers(1, 5))
    turns = ["rotary"] if head % 2 == 0 else []
    variant = Variant(
        positions=data.draw(st.sampled_from(["none", "sinusoidal", "alibi", "relative_bias", *turns])),
        activation=data.draw(st.sampled_from(["relu", "gelu", "swiglu"])),
        buckets=4,
        furthest=6,
    )
    inner, first = data.draw(st.integers(1, 70)), data.draw(st.booleans())
    sizes = {"layers": 1, "heads": heads, "inner": inner, "norm_first": first, "dropout": 0.0, "variant": variant}
    tables = [embedding_table(vocabulary, head * heads) for _ in range(2)]
    output = nn.Linear(head * heads, vocabulary)
    encoder = TransformerEncoder(embedding=Embedding(weight=tables[0], scaled=True), **sizes)
    embedding = Embedding(weight=tables[1], scaled=True)
    return encoder, TransformerDecoder(embedding=embedding, output=output, memory_width=head * heads, **sizes)


def recurrent(data: st.DataObject, vocabulary: int) -> tuple[Encoder, Decoder]:
    read, width, own, said = (data.draw(WIDTHS) for _ in range(4))
    embeddings = [Embedding(weight=embedding_table(vocabulary, read), scaled=False) for _ in range(2)]
    shape = {"input_width": read, "layers": data.draw(st.integers(1, 2)), "cell": data.draw(CELLS)}
    network = Recurrent(part="encoder", width=width, two_way=data.draw(st.booleans()), **shape)
    encoder = RecurrentEncoder(embedding=embeddings[0], network=network, dropout=0.0, summary="all", backwards=False)
    follows = Recurrent(part="decoder", width=own, **shape)
    memory = encoder.memory_width
    decoder = AttentiveDecoder(
        embedding=embeddings[1],
        output=nn.Linear(said, vocabulary),
        network=follows,
        bridge=TransformedSummary(summary_width=encoder.summary_width, wanted=follows.size),
        attention=Attention(
            query_width=own,
            memory_width=memory,
            width=7,
            score="additive",
            projections="none",
            site=Site("decoder", "x"),
        ),
        combine=AttentionalVector(state_width=own, context_width=memory, width=said),
        feeding=data.draw(st.booleans()),
        dropout=0.0,
    )
    return encoder, decoder


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_logits_are_those_of_torch_whatever_the_sizes(library, tmp_path, data):
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    vocabulary = data.draw(st.sampled_from([5, 63, 64, 65, 130]))
    encoder, decoder = data.draw(st.sampled_from([transformer, recurrent]))(data, vocabulary)
    system = EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=vocabulary).eval()
    prepare(system, tmp_path / "engine.bin", int8=False)
    length = data.draw(st.sampled_from([1, 2, 15, 16, 17, 33]))
    ids = [4 + place % (vocabulary - 4) for place in range(length - 1)] + [END]
    said = [START, 4, END, vocabulary - 1, 4]
    with torch.no_grad():
        expected = system.decoder.logits(system.decoder.hidden(system.memory(as_source(ids)), torch.tensor([said])))[0]
    for kernels in kernels_here():
        session = Session(Engine(tmp_path / "engine.bin", kernels=kernels), slots=3, beam=1)
        beside, slot = session.start([[END], ids])
        for place, token in enumerate(said):
            before = (0, 1) if place else (-1, -1)
            rows = [[beside, before[0], 0, START, place], [slot, before[1], 0, token, place]]
            logits, weights = session.step(np.array(rows, dtype=np.int32), longest=length)
            np.testing.assert_allclose(logits[1], expected[place], atol=2e-4, rtol=1e-4, err_msg=kernels)
            np.testing.assert_allclose(weights.sum(1), [1, 1], atol=1e-5)

"""Products with embeddings that a recurrent decoder keeps: when they take the places of others, nothing changes."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.engine import Session
from regard.models import EncoderDecoder, InitialStateDecoder, TransformedSummary
from regard.nn import Recurrent
from regard.special import END
from tests.engine.searching import as_source, opened
from tests.families import WIDTH, recurrent_encoder, target_embedding

pytestmark = pytest.mark.usefixtures("library")
TOKENS, ROWS = 900, 90
"""More tokens than the engine keeps of so wide a network, 749."""


def wide_system():
    torch.manual_seed(1)
    encoder = recurrent_encoder(TOKENS, "elman")
    network = Recurrent(part="decoder", input_width=WIDTH, width=700, layers=1, cell="lstm")
    decoder = InitialStateDecoder(
        embedding=target_embedding(TOKENS),
        output=nn.Linear(700, TOKENS),
        network=network,
        bridge=TransformedSummary(summary_width=encoder.summary_width, wanted=network.size),
        dropout=0.0,
    )
    return EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=TOKENS).eval()


def followed(engine, tokens):
    """Logits after each token of each row; all rows have the same source."""
    rows, steps = tokens.shape
    session = Session(engine, slots=rows, beam=1)
    slots = session.start([[7, 9, END]] * rows)
    found = []
    for step in range(steps):
        before = np.full(rows, -1) if step == 0 else np.arange(rows)
        asked = np.stack([slots, before, np.zeros(rows), tokens[:, step], np.full(rows, step)], axis=1)
        found.append(session.step(asked.astype(np.int32))[0])
    return np.stack(found, axis=1)


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
def test_more_tokens_than_are_kept(int8, tmp_path):
    system = wide_system()
    engine = opened(system, tmp_path, int8=int8)
    order = np.random.default_rng(1).permutation(TOKENS).reshape(ROWS, -1)
    tokens = np.concatenate([order, order[::-1, :3]], axis=1)
    together = followed(engine, tokens)
    for row in (0, 44, 89):
        np.testing.assert_array_equal(followed(engine, tokens[row : row + 1])[0], together[row])
    with torch.no_grad():
        hidden = system.decoder.hidden(system.memory(as_source([7, 9, END])), torch.tensor(tokens[:1]))
        expected = system.decoder.logits(hidden)[0].numpy()
    np.testing.assert_allclose(together[0], expected, atol=0.1 if int8 else 1e-4)

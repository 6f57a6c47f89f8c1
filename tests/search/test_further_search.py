"""Search over categories, pictures, factors and nothing at all (language models): exhaustive, greedy, all alike."""

import math

import pytest
import torch

from regard.data.batch import Sources, make_batch
from regard.models import EncoderDecoder
from regard.search import Hypothesis, Request, Search, SearchOptions
from regard.special import END, PAD, START, UNKNOWN
from tests.further_sources import CASES, ROWS, VOCABULARY, one_row, reader, rows_of
from tests.markov import every_output, permitted

LIMIT = 3
cases = pytest.mark.parametrize(("kind", "decoder"), CASES)


def system(kind: str, decoder: str) -> EncoderDecoder:
    parts = reader(kind, decoder)
    return EncoderDecoder(
        encoder=parts.encoder, decoder=parts.decoder, vocabulary=VOCABULARY, attributes=parts.encoder.join
    ).eval()


def found(scorer: EncoderDecoder, options: SearchOptions, rows: tuple[int, ...], kind: str) -> list[list[Hypothesis]]:
    search = Search(scorer)
    search.add([Request(id=row, sources=one_row(kind, row), items=3, options=options) for row in rows])
    results: dict[int, list[Hypothesis]] = {}
    while search.busy:
        results.update((one.id, list(one.hypotheses)) for one in search.step())
    return [results[row] for row in rows]


def by_scoring(scorer: EncoderDecoder, sources: Sources, outputs: list[tuple[int, ...]]) -> list[float]:
    """log p of outputs, teacher-forced; the sources are as many."""
    batch = make_batch([[]] * len(outputs), outputs)
    hidden = scorer.decoder.hidden(scorer.memory(sources), batch.inputs)
    said = scorer.decoder.logits(hidden).log_softmax(-1).gather(-1, batch.outputs.unsqueeze(-1)).squeeze(-1)
    return [float(total) for total in said.masked_fill(~batch.mask, 0.0).sum(1)]


@cases
@pytest.mark.parametrize("penalty", [0.0, 1.0])
@torch.no_grad()
def test_a_beam_as_wide_as_the_space_is_exhaustive(kind: str, decoder: str, penalty: float) -> None:
    scorer = system(kind, decoder)
    options = SearchOptions(beam=160, best=9, length_penalty=penalty, max_length=LIMIT)
    outputs = every_output(permitted(VOCABULARY, options), LIMIT)
    assert len(outputs) == 31
    for row, hypotheses in zip((0, 1), found(scorer, options, (0, 1), kind), strict=True):
        totals = by_scoring(scorer, rows_of(kind, [row] * len(outputs)), outputs)
        scored = [
            (total / (len(tokens) + 1) ** penalty, tokens, total) for total, tokens in zip(totals, outputs, strict=True)
        ]
        scored.sort(reverse=True)
        assert [one.tokens for one in hypotheses] == [tokens for _, tokens, _ in scored[:9]]
        assert [one.log_probability for one in hypotheses] == pytest.approx([one[2] for one in scored[:9]], abs=1e-9)


@cases
@torch.no_grad()
def test_beam_one_is_greedy(kind: str, decoder: str) -> None:
    scorer = system(kind, decoder)
    rows = tuple(range(ROWS))
    for row, (hypothesis,) in zip(rows, found(scorer, SearchOptions(beam=1, max_length=8), rows, kind), strict=True):
        state, token, tokens = scorer.start(one_row(kind, row)), START, []
        while token != END and len(tokens) < 8:
            step = scorer.step(torch.tensor([[token]]), state)
            state, said = step.state, step.log_probabilities[0, 0].clone()
            said[[PAD, START, UNKNOWN]] = -math.inf
            token = int(said.argmax())
            tokens.append(token)
        assert list(hypothesis.tokens) == [token for token in tokens if token != END]
        assert hypothesis.complete is (token == END)

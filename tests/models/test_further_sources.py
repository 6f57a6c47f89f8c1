"""Categories, pictures, factors and nothing at all, with every decoder: the promises that hold for plain text."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.data.batch import Batch, Sources, make_batch
from regard.models import EncoderDecoder, State
from regard.search import Request, Search
from regard.search.options import SearchOptions
from regard.special import START
from tests.further_sources import CASES, ROWS, VOCABULARY, Reader, one_row, reader, rows_of, spoil

TARGETS = ([5, 6, 7], [8, 8, 4, 5, 6], [], [4], [7, 8])
EVERY = tuple(range(ROWS))
WORDS = (4, 5, 6, 7, 8)
cases = pytest.mark.parametrize(("kind", "decoder"), CASES)


def targets() -> Batch:
    return make_batch([[]] * ROWS, TARGETS)


def forced(system: Reader, sources: Sources, batch: Batch) -> Tensor:
    """log p of each output, teacher-forced: (B, M)."""
    hidden = system.decoder.hidden(system.encoder.read(sources), batch.inputs)
    logits = system.decoder.logits(hidden).log_softmax(-1)
    return logits.gather(-1, batch.outputs.unsqueeze(-1)).squeeze(-1)


def said(system: Reader, tokens: Tensor, state: State) -> tuple[Tensor, State]:
    hidden, state = system.decoder.step(tokens, state)
    return system.decoder.logits(hidden).log_softmax(-1), state


@cases
@torch.no_grad()
def test_forced_scoring_equals_stepping(kind: str, decoder: str) -> None:
    system, sources, batch = reader(kind, decoder), rows_of(kind, EVERY), targets()
    state: State = system.decoder.start(system.encoder.read(sources))
    columns = []
    for item in range(batch.inputs.size(1)):
        step, state = said(system, batch.inputs[:, item : item + 1], state)
        columns.append(step[:, 0].gather(1, batch.outputs[:, item : item + 1]))
    expected = forced(system, sources, batch)
    torch.testing.assert_close(torch.cat(columns, dim=1)[batch.mask], expected[batch.mask], rtol=0, atol=1e-9)
    assert expected[batch.mask].std() > 0.3, "the weights are too tame for this test to mean anything"


@cases
@torch.no_grad()
def test_a_row_alone_equals_the_row_in_a_batch_whatever_stands_in_padding(kind: str, decoder: str) -> None:
    system, sources, batch = reader(kind, decoder), rows_of(kind, EVERY), targets()
    for source in sources.values():
        spoil(source)
    together = forced(system, sources, batch)
    for row in EVERY:
        one = replace(batch, inputs=batch.inputs[row : row + 1], outputs=batch.outputs[row : row + 1])
        alone = forced(system, one_row(kind, row), one)[0]
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-9)


def reaches(kind: str, decoder: str, name: str) -> bool:
    """All but two: a memory without positions has nothing to attend to, final states know no attributes."""
    if kind == "nothing" and decoder in ("bahdanau", "luong", "luong local", "transformer"):
        return not any(part in name for part in ("attention.", "cross.", "from_context", "deep.parts.2"))
    return not (decoder == "handed" and name.startswith("encoder.join"))


@cases
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_reach_every_parameter(kind: str, decoder: str, dropout: float) -> None:
    system = reader(kind, decoder, dropout=dropout).train()
    batch = targets()
    scores = forced(system, rows_of(kind, EVERY), batch)
    scores[batch.mask].sum().backward()
    for name, parameter in system.named_parameters():
        if reaches(kind, decoder, name):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 1e-9, name
        if parameter.grad is not None:
            assert parameter.grad.isfinite().all(), name


class Book:
    """A grid of rows kept by hand beside the state: which row each sentence is, and what each beam has read."""

    def __init__(self, system: Reader, kind: str, rows: list[int]) -> None:
        self.system, self.kind, self.rows = system, kind, rows
        self.state: State = system.decoder.start(system.encoder.read(rows_of(kind, rows)))
        self.beams: list[list[tuple[int, ...]]] = [[()] for _ in rows]

    def read(self, chance: random.Random) -> None:
        """Step every beam with a token of its own, and compare with scoring all histories from scratch."""
        self.beams = [
            [(*history, chance.choice(WORDS)) if history else (START,) for history in row] for row in self.beams
        ]
        step, self.state = said(
            self.system, torch.tensor([[history[-1] for history in row] for row in self.beams]), self.state
        )
        for place, row in enumerate(self.rows):
            memory = self.system.encoder.read(one_row(self.kind, row))
            for beam, history in enumerate(self.beams[place]):
                hidden = self.system.decoder.hidden(memory, torch.tensor([history]))[0, -1]
                expected = self.system.decoder.logits(hidden).log_softmax(-1)
                torch.testing.assert_close(step[place, beam], expected, rtol=0, atol=1e-9)

    def select(self, sentences: list[int], beams: list[list[int]]) -> None:
        self.state = self.state.select(torch.tensor(sentences), torch.tensor(beams))
        self.beams = [[self.beams[place][beam] for beam in row] for place, row in zip(sentences, beams, strict=True)]
        self.rows = [self.rows[place] for place in sentences]


@cases
@torch.no_grad()
def test_selected_and_joined_rows_go_on_as_from_scratch(kind: str, decoder: str) -> None:
    chance, system = random.Random(2), reader(kind, decoder)
    early, late = Book(system, kind, [0, 2]), Book(system, kind, [1, 3, 4])
    early.read(chance)
    early.select([1, 0], [[0, 0], [0, 0]])
    early.read(chance)
    late.read(chance)
    late.select([0, 2, 1], [[0, 0]] * 3)
    early.state = early.state.join(late.state)
    early.rows, early.beams = early.rows + late.rows, early.beams + late.beams
    early.read(chance)
    early.select([4, 0, 2], [[1, 0], [1, 1], [0, 1]])
    early.read(chance)


@pytest.mark.parametrize(
    ("kind", "decoder"), [(kind, decoder) for kind, decoder in CASES if kind in ("category", "nothing", "image")]
)
@torch.no_grad()
def test_search_scores_as_the_model_does_and_alone_as_together(kind: str, decoder: str) -> None:
    system = reader(kind, decoder)
    scorer = EncoderDecoder(encoder=system.encoder, decoder=system.decoder, vocabulary=VOCABULARY)
    requests = [
        Request(id=row, sources=one_row(kind, row), items=3, options=SearchOptions(beam=2 + row % 2)) for row in EVERY
    ]

    def found(search: Search) -> dict[int, tuple[tuple[int, ...], float]]:
        results = {}
        while search.busy:
            for one in search.step():
                best = one.hypotheses[0]
                results[one.id] = (best.tokens, best.log_probability)
                if best.complete:
                    batch = make_batch([[]], [list(best.tokens)])
                    score = float(forced(system, one_row(kind, one.id), batch).sum())
                    assert best.log_probability == pytest.approx(score, abs=1e-9)
        return results

    together = Search(scorer, capacity=3)
    together.add(requests)
    results = found(together)
    assert results.keys() == set(EVERY)
    for request in requests:
        alone = Search(scorer)
        alone.add([request])
        tokens, score = found(alone)[request.id]
        assert results[request.id][0] == tokens
        assert results[request.id][1] == pytest.approx(score, abs=1e-9)

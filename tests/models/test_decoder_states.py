"""States under search: rows are selected, repeated, reordered and joined, and must go on as if nothing had happened."""

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from regard.data.batch import make_batch, source_ids
from regard.models import EncoderDecoder, State
from regard.special import START
from tests.families import FAMILIES, family

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4], [7, 7], [6, 8, 4])
WORDS = (4, 5, 6, 7, 8)

History = tuple[int, ...]


class Book:
    """A grid of rows kept by hand beside the state: which source each sentence has, and what each row has read."""

    def __init__(self, system: EncoderDecoder, sentences: Sequence[int]) -> None:
        self.system = system
        self.sentences = list(sentences)
        self.rows: list[list[History]] = [[(START,)] for _ in sentences]
        self.state: State = system.start({"source": source_ids([SOURCES[sentence] for sentence in sentences])})
        self.unread = True

    def read(self, chance: random.Random) -> None:
        """Step every row with a token of its own, and compare with scoring all histories from scratch."""
        if not self.unread:
            self.rows = [[(*history, chance.choice(WORDS)) for history in beams] for beams in self.rows]
        self.unread = False
        tokens = torch.tensor([[history[-1] for history in beams] for beams in self.rows])
        step = self.system.step(tokens, self.state)
        self.state = step.state
        torch.testing.assert_close(step.log_probabilities, self.from_scratch(), rtol=0, atol=1e-9)

    def from_scratch(self) -> Tensor:
        """log p(· | history) of each row by teacher forcing, one row at a time: (S, K, V)."""
        grid = []
        for sentence, beams in zip(self.sentences, self.rows, strict=True):
            for history in beams:
                memory = self.system.encoder.encode(source_ids([SOURCES[sentence]]))
                hidden = self.system.decoder.hidden(memory, torch.tensor([history]))[0, -1]
                grid.append(self.system.decoder.logits(hidden).log_softmax(-1))
        return torch.stack(grid).unflatten(0, (len(self.rows), -1))

    def select(self, sentences: list[int] | None, beams: list[list[int]]) -> None:
        places = range(len(self.rows)) if sentences is None else sentences
        self.state = self.state.select(
            None if sentences is None else torch.tensor(sentences), torch.tensor(beams, dtype=torch.long)
        )
        self.rows = [[self.rows[place][beam] for beam in row] for place, row in zip(places, beams, strict=True)]
        self.sentences = [self.sentences[place] for place in places]

    def join(self, other: "Book") -> None:
        self.state = self.state.join(other.state)
        self.rows += other.rows
        self.sentences += other.sentences
        assert self.unread == other.unread


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_repeated_and_reordered_beams_go_on_as_from_scratch(name: str) -> None:
    chance = random.Random(3)
    book = Book(family(name), [0, 1, 2])
    book.read(chance)
    book.select(None, [[0, 0, 0]] * 3)
    book.read(chance)
    book.select(None, [[2, 1, 0], [0, 0, 2], [1, 1, 1]])
    book.read(chance)
    book.select([2, 0], [[0, 2], [1, 1]])
    book.read(chance)
    book.select([1, 1, 0], [[0, 1, 1, 0]] * 3)
    book.read(chance)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("late_first", [False, True])
@pytest.mark.parametrize("behind", [0, 1, 3])
@torch.no_grad()
def test_groups_joined_at_different_times_go_on_as_from_scratch(name: str, late_first: bool, behind: int) -> None:
    chance = random.Random(4)
    system = family(name)
    early, late = Book(system, [1, 0, 3]), Book(system, [2, 4])
    for _ in range(4):
        early.read(chance)
    early.select(None, [[0, 0]] * 3)
    early.read(chance)
    for _ in range(behind):
        late.read(chance)
    late.select(None, [[0, 0]] * 2)
    # A row that has read nothing is about to read START, the others a token of their own.
    if behind == 0:
        early.rows = [[(*history, chance.choice(WORDS)) for history in beams] for beams in early.rows]
        early.unread = True
    first, second = (late, early) if late_first else (early, late)
    first.join(second)
    for _ in range(3):
        first.read(chance)
    first.select([4, 0, 2], [[1, 0]] * 3)
    first.read(chance)
    first.select([0], [[1]])
    first.read(chance)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_random_walks_of_states(name: str, seed: int) -> None:
    chance = random.Random(seed)
    system = family(name, seed=seed)
    book = Book(system, chance.sample(range(5), 2))
    for _ in range(8):
        book.read(chance)
        beams = chance.randint(1, 3)
        sentences = None
        if chance.random() < 0.5:
            sentences = [chance.randrange(len(book.rows)) for _ in range(chance.randint(1, 3))]
        present, count = len(book.rows[0]), len(book.rows) if sentences is None else len(sentences)
        book.select(sentences, [[chance.randrange(present) for _ in range(beams)] for _ in range(count)])
        if chance.random() < 0.4 and len(book.rows) < 5:
            other = Book(system, [chance.randrange(5)])
            for _ in range(chance.randint(1, 3)):
                other.read(chance)
            other.select(None, [[0] * beams])
            book.join(other)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_states_are_values(name: str) -> None:
    """Neither select, join nor step changes the state it is called on."""
    system = family(name)
    state = system.start({"source": source_ids(SOURCES[:2])})
    tokens = torch.tensor([[START], [START]])
    expected = system.step(tokens, state).log_probabilities
    state.select(torch.tensor([1, 0]), torch.zeros(2, 3, dtype=torch.long))
    state.join(system.start({"source": source_ids(SOURCES[2:])}))
    assert torch.equal(system.step(tokens, state).log_probabilities, expected)
    second = system.step(tokens, state).state
    words = torch.tensor([[4], [5]])
    expected = system.step(words, second).log_probabilities
    second.select(None, torch.zeros(2, 3, dtype=torch.long))
    second.join(state)
    assert torch.equal(system.step(words, second).log_probabilities, expected)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_outputs_may_be_longer_than_any_prepared_table(name: str) -> None:
    system = family(name)
    target = [WORDS[item % 5] for item in range(520)]
    batch = make_batch([SOURCES[0]], [target])
    forced = system.token_log_probabilities(batch)
    state = system.start(batch.sources)
    for item in range(batch.inputs.size(1)):
        step = system.step(batch.inputs[:, item : item + 1], state)
        state = step.state
        if item in (510, 511, 512, 520):
            torch.testing.assert_close(
                step.log_probabilities[0, 0, batch.outputs[0, item]], forced[0, item], rtol=0, atol=1e-6
            )

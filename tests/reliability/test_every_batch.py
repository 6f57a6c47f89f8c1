"""The same sentence gives the same output and score whatever its batch, order and threads; and `score` agrees.

Scores are compared as they are told, that is, for each token; sums over a sentence may differ by that much for each of
its tokens. All of it in single precision.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from regard.recipe import recipe_from
from regard.run.model import Model
from regard.run.prediction import Prediction
from regard.run.training import Trained, train
from tests.reliability.conftest import Tally

WITHIN = 1e-5
SCORED_WITHIN = 1e-4
BATCHES = ((1, 1), (2, 2), (7, 7), (32, 32), (64, None))
"""Sentences that are searched at once and read ahead; the last sorts many of them by length, as files are predicted."""

WORDS = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
SIDES = {
    "transformer": {"kind": "transformer", "heads": 4},
    "attentive rnn": {"kind": "rnn", "cell": "gru"},
}


def sentences(count: int, *, seed: int, longest: int = 14) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


def trained_on_sentences(kind: str, folder: Path) -> Model:
    """A model of two layers that has begun to learn to spell sentences in other words: it is neither sure nor lost."""
    for name, count, seed in (("train", 2000, 1), ("valid", 50, 2), ("test", 50, 3)):
        lines = [f"{text}\t{text.upper()[::-1]}\n" for text in sentences(count, seed=seed)]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    decoder = SIDES[kind] | ({"wiring": "bahdanau"} if kind == "attentive rnn" else {})
    recipe = recipe_from(
        {
            "run": str(folder / "run"),
            "data": {name: str(folder / f"{name}.tsv") for name in ("train", "valid", "test")},
            "text": {"unit": "word", "size": 200, "shared": False},
            "model": {"width": 64, "layers": 2, "dropout": 0.0, "encoder": SIDES[kind], "decoder": decoder},
            "training": {"steps": 150, "batch_tokens": 1000, "learning_rate": 0.003, "validate_every": 150},
            "evaluation": {"metrics": ["exact"], "resamples": 10},
        }
    )
    return train(recipe).model


def with_batch(model: Model, sentences_at_once: int) -> Model:
    """The same model, searching so many sentences at once."""
    search = model.recipe.search.model_copy(update={"batch_sentences": sentences_at_once})
    recipe = model.recipe.model_copy(update={"search": search})
    return Model(recipe=recipe, system=model.system, texts=model.texts, folder=model.folder)


@pytest.fixture
def _threads() -> Iterator[None]:
    """Puts the number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@dataclass(slots=True)
class Compared:
    """How much was compared, and the largest differences that were found."""

    translations: int = 0
    score: float = 0.0
    token: float = 0.0

    def add(self, found: Prediction, expected: Prediction) -> None:
        assert [one.text for one in found.outputs] == [one.text for one in expected.outputs], found.source
        for one, other in zip(found.outputs, expected.outputs, strict=True):
            assert one.complete is other.complete
            self.score = max(self.score, abs(one.score - other.score))
            tokens = len(one.pieces) + one.complete
            self.token = max(self.token, abs(one.log_probability - other.log_probability) / tokens)
        self.translations += 1


def compare(
    model: Model, texts: Sequence[str], *, batches: Sequence[tuple[int, int | None]], orders: int, threads: int
) -> Compared:
    """Greedy and beam search of all texts in every batch and order, against each text alone on one thread.

    Numbers of threads take turns, up to `threads`.
    """
    compared = Compared()
    for beam in (1, 5):
        torch.set_num_threads(1)
        expected = {text: model.predict(text, beam=beam) for text in texts}
        for at_once, ahead in batches:
            own = with_batch(model, at_once)
            for order in range(orders):
                torch.set_num_threads(1 + (order + at_once) % threads)
                shuffled = random.Random(order).sample(texts, len(texts))
                for found in own.predict_many(shuffled, beam=beam, ahead=ahead):
                    compared.add(found, expected[found.source])
    return compared


def assert_scored(model: Model, predictions: Sequence[Prediction]) -> float:
    """`score` says of outputs what search said; the largest difference."""
    largest = 0.0
    scored = model.score_many((one.source, one.text) for one in predictions)
    for prediction, score in zip(predictions, scored, strict=True):
        output = prediction.outputs[0]
        assert score.pieces[: len(output.pieces)] == output.pieces
        tokens = len(output.pieces) + output.complete
        largest = max(largest, abs(sum(score.log_probabilities[:tokens]) - output.log_probability))
    assert largest <= SCORED_WITHIN
    return largest


def drawn(model: Model, texts: Sequence[str], seed: int) -> str:
    """A checksum of all samples."""
    options = model.options(sample=True, best=2, seed=seed)
    outputs = [one.text for each in model.predict_many(texts, options=options) for one in each.outputs]
    assert len(outputs) == 2 * len(texts)
    return hashlib.sha256("\n".join(outputs).encode()).hexdigest()


def assert_draws_follow_from_seeds(model: Model, texts: Sequence[str]) -> None:
    again = [drawn(with_batch(model, at_once), texts, seed=1) for at_once in (64, 64, 7)]
    assert len(set(again)) == 1
    assert drawn(model, texts, seed=2) not in again


def test_the_same_in_some_batches(trained: Trained, tally: Tally) -> None:
    texts = list(dict.fromkeys(one.source for one in trained.evaluations["test"].predictions))
    compared = compare(trained.model, texts, batches=((2, 2), (7, 7), (64, None)), orders=1, threads=1)
    assert compared.translations == 6 * len(texts)
    assert compared.score <= WITHIN
    assert compared.token <= WITHIN
    assert_scored(trained.model, list(trained.model.predict_many(texts)))
    assert_draws_follow_from_seeds(trained.model, texts)
    tally("N3", translations=compared.translations)


@pytest.mark.long
@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("kind", SIDES)
def test_the_same_in_every_batch(
    kind: str, tmp_path: Path, tally: Tally, record_property: Callable[[str, object], None]
) -> None:
    """500 sentences, 5 ways to batch them, 5 orders, greedy and beam 5, one thread and two: 25,000 of each model."""
    model = trained_on_sentences(kind, tmp_path)
    texts = list(dict.fromkeys(sentences(550, seed=4)))[:500]
    assert len(texts) == 500
    compared = compare(model, texts, batches=BATCHES, orders=5, threads=2)
    assert compared.translations == 25_000
    assert compared.score <= WITHIN
    assert compared.token <= WITHIN
    tally("N3", translations=compared.translations)
    greedy = list(model.predict_many(texts, beam=1))
    assert len({one.text for one in greedy}) > 250, "the outputs are too much alike for this test to mean anything"
    samples = list(model.predict_many(texts, options=replace(model.options(), beam=1, sample=True)))
    largest = max(assert_scored(model, each) for each in (greedy, list(model.predict_many(texts)), samples))
    assert_draws_follow_from_seeds(model, texts)
    tally("N4", sentences=500, runs=3)
    for name, value in (("score", compared.score), ("token", compared.token), ("scored", largest)):
        record_property(f"largest difference: {name}", value)

"""Scores of given pairs, alignments that are judged, and texts that masked language models cannot learn from."""

import dataclasses
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import Example, Ledger, Place, Store
from regard.data.batch import Batch
from regard.data.collation import MaskCollation, Masking, SourceTexts
from regard.data.example import NothingToLearn
from regard.errors import DataError
from regard.insight import Aligned, Reading, best_reading
from regard.run import alignment, prediction
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.preparation import prepare_run
from regard.run.training import Trained, train
from regard.text import WordTokenizer
from tests.toy_shapes import shape_recipe
from tests.toys import toy_sources


def pairs_of_all_lengths(count: int) -> list[tuple[str, str]]:
    return [(source, source.upper()) for source in toy_sources(count, seed=5, longest=40)]


def test_scores_in_sorted_windows_are_those_of_each_pair_alone(trained: Trained) -> None:
    pairs = pairs_of_all_lengths(90)
    alone = [trained.model.score(*pair) for pair in pairs]
    for batch in (2, 5, 64):  # windows of 32, 80 and more pairs
        together = list(trained.model.score_many(pairs, batch=batch))
        assert [(one.source, one.target, one.pieces) for one in together] == [
            (one.source, one.target, one.pieces) for one in alone
        ]
        for first, second in zip(alone, together, strict=True):
            assert first.log_probabilities == pytest.approx(second.log_probabilities, rel=2e-5, abs=2e-5)


def test_scoring_pads_little(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Batch] = []
    system = trained.model.system
    real = type(system).token_log_probabilities
    monkeypatch.setattr(
        type(system), "token_log_probabilities", lambda self, batch: seen.append(batch) or real(self, batch)
    )
    pairs = pairs_of_all_lengths(256)
    list(trained.model.score_many(pairs, batch=16))
    tokens = sum(batch.tokens for batch in seen)
    assert sum(batch.rows for batch in seen) == len(pairs)
    assert sum(batch.mask.numel() for batch in seen) < 1.15 * tokens
    unsorted = sum(
        16 * max(len(one.split()) + 1 for one, _ in pairs[start : start + 16]) for start in range(0, 256, 16)
    )
    assert unsorted > 1.5 * tokens


def test_pairs_are_read_only_as_far_as_scores_are_asked_for(trained: Trained) -> None:
    read = 0

    def endless() -> Iterator[tuple[str, str]]:
        nonlocal read
        while True:
            read += 1
            yield "a b", "A B"

    scores = trained.model.score_many(endless(), batch=4)
    for _ in range(3):
        assert next(scores).log_probability < 0
    assert read == 64


def test_a_pair_that_is_too_long_has_a_fault_and_disturbs_no_other(trained: Trained) -> None:
    pairs = [("a b", "A B"), ("a " * 300, "A"), ("c", "C " * 257), ("d", "D")]
    scored = list(trained.model.score_many(pairs))
    assert [one.fault for one in scored] == [
        "",
        "300 tokens (source) are more than data.max_length (256)",
        "257 tokens (target) are more than data.max_length (256)",
        "",
    ]
    assert scored[3].log_probability == pytest.approx(trained.model.score("d", "D").log_probability, abs=1e-5)
    assert (scored[1].log_probability, scored[1].pieces) == (0, ())
    with pytest.raises(
        DataError, match=r"a pair cannot be scored: 300 tokens \(source\) are more than data.max_length"
    ):
        trained.model.score(*pairs[1])


# alignments


def factored_example(links: str) -> Example:
    return Example({"source": "a b\tu l", "target": "A b", "alignment": links}, Place("x.jsonl", 7))


@pytest.fixture(scope="module")
def factored(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return train(shape_recipe("factored", tmp_path_factory.mktemp("factored"), steps=4)).model


def test_gold_links_count_the_words_of_the_text_not_those_of_factors(factored: Model) -> None:
    scores = factored.evaluate([factored_example("0-0 1-1")]).scores
    assert [score.name for score in scores][-1] == "alignment error"
    with pytest.raises(DataError, match=r"x.jsonl:7: .* source word 2 .* there are 2 source and 2 target words"):
        factored.evaluate([factored_example("0-0 2-1")])


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tensors of attention are held whenever those of a batch have been made."""
    held: list[weakref.ref[torch.Tensor]] = []
    counts: list[int] = []
    real = alignment.source_attention

    def watched(system, batch):
        counts.append(sum(one() is not None for one in held))
        rows = real(system, batch)
        held.extend(weakref.ref(layer) for row in rows for layer in row)
        return rows

    monkeypatch.setattr(alignment, "source_attention", watched)
    return counts


def test_attention_is_not_kept(trained: Trained, alive: list[int]) -> None:
    examples = list(trained.evaluations["test"].examples) * 10
    (score,) = (one for one in trained.model.evaluate(examples).scores if one.name == "alignment error")
    (once,) = (one for one in trained.evaluations["test"].scores if one.name == "alignment error")
    assert score.value == pytest.approx(once.value)
    assert len(alive) == len(examples) // 64 + 1
    assert max(alive) <= 64 * 2
    alive.clear()
    assert trained.model.best_reading(examples) is not None
    assert len(alive) == len(examples) // 64 + 1
    assert max(alive) <= 64 * 2


def test_without_attention_there_is_no_best_reading(trained: Trained) -> None:
    assert best_reading([]) is None
    words = WordTokenizer(words="ab")
    one = Aligned([], "a b", "a b", words.encode("a b"), words.encode("a b"), frozenset({(0, 0)}))
    assert best_reading([one]) is None
    layer = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    found = best_reading(iter([dataclasses.replace(one, layers=[layer], gold=frozenset({(0, 0), (1, 1)}))]))
    assert found is not None
    assert found[0] == Reading(layer=0, head=None, shift=0)
    assert found[1][found[0]] == 0


# texts of unknown items only


def masks() -> MaskCollation:
    return MaskCollation(source=SourceTexts(text=WordTokenizer(words="ab")), masking=Masking(share=0.15))


def test_a_text_of_unknown_items_has_nothing_to_ask_for() -> None:
    with pytest.raises(NothingToLearn, match="every item of the text is unknown, so there is none to hide"):
        masks().encode("x y", "")
    assert masks().encode("x a", "")["source"]
    assert masks().encode("  ", "") == {"source": ()}


@pytest.fixture
def unknown(tmp_path: Path) -> Trained:
    """A masked language model, some of whose texts consist of words that are too rare for its vocabulary."""
    recipe = shape_recipe("masked", tmp_path, steps=6)
    for part, letters in (("train", "ijklm"), ("valid", "nop"), ("test", "qr")):
        path = tmp_path / f"{part}.txt"
        path.write_text(
            "".join(f"{letter}\n" for letter in letters) + path.read_text(encoding="utf-8"), encoding="utf-8"
        )
    text = recipe.text.model_copy(update={"size": 12})
    return train(recipe.model_copy(update={"text": text}))


def test_texts_of_unknown_items_are_left_out_and_counted(unknown: Trained) -> None:
    skipped = Ledger.read(unknown.model.folder / "data" / "skipped.tsv")
    assert skipped.counts == {"nothing": 8}
    assert "examples whose text or answer is unknown, left out: 8 (" in skipped.summary()
    assert skipped.findings("nothing")[0].place.line == 1
    evaluation = unknown.evaluations["test"]
    assert evaluation.unscored == 2
    assert evaluation.notes[0].startswith("2 examples were not scored: ")
    assert all(np.isfinite(score.value) for score in evaluation.scores)
    loss = [unknown.model.system.loss(unknown.model.batch([("a b", ""), ("c", "")]))]
    assert all(one.count for one in loss)


def test_every_row_of_a_masked_store_is_asked_about_something(unknown: Trained) -> None:
    prepared = prepare_run(unknown.model.recipe, RunFolder(unknown.model.folder))
    stores: list[Store] = [prepared.train, prepared.valid]
    for store in stores:
        for row in range(len(store)):
            ids = store.ids("source", row)
            batch = prepared.collation.batch({"source": [ids]}, [(1, 0, row)])
            assert batch.tokens >= 1


def test_only_unknown_items_cannot_be_judged(unknown: Trained) -> None:
    examples = [Example({"source": "q", "target": ""}, Place("x", 1))]
    evaluation = unknown.model.evaluate(examples)
    assert (evaluation.scores, evaluation.unscored) == ((), 1)


# texts that never end


def test_endless_pairs_and_factors_have_a_fault(trained: Trained, factored: Model) -> None:
    (one,) = trained.model.score_many([("a " * 70_000, "A")])
    assert one.fault == "all those tokens (source) are more than data.max_length (256)"
    answer = factored.predict(f"{'a ' * 70_000}\t{'u ' * 70_000}")
    assert answer.fault == "the source has more than 65,536 tokens, the most that any model reads"
    assert answer.text == ""


def test_windows_end_at_many_lines_or_at_many_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "MOST_CHARACTERS", 10)
    texts = ["a", "b", "c", "d" * 30, "", "", "", "", "e"]
    assert list(prediction.windows(texts, 3)) == [["a", "b", "c"], ["d" * 30], ["", "", ""], ["", "e"]]
    assert list(prediction.windows([], 3)) == []
    assert list(prediction.windows(["e" * 6, "f" * 6, "g"], 9)) == [["e" * 6, "f" * 6], ["g"]]

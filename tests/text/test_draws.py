"""Random segmentations against their exact distributions, counted out by brute force."""

from collections import Counter
from itertools import combinations, pairwise, product
from math import exp
from random import Random

import pytest
import sentencepiece

from regard.text import Tokenizer
from regard.text.lattice import draw_cuts, edges
from regard.text.merges import merge

RANKS = {("a", "b"): 0, ("b", "a"): 1, ("ab", "a"): 2, ("ab", "ab"): 3, ("a", "a"): 4, ("aa", "a"): 5, ("a", "ba"): 6}
SCORES = {"a": -2.0, "b": -2.5, "c": -3.0, "ab": -2.2, "bc": -3.5, "abc": -4.0, "ca": -3.1, "abca": -6.0}
DRAWS = 20_000


def dropout_distribution(symbols: tuple[str, ...], rate: float, *, everywhere: bool) -> Counter[tuple[str, ...]]:
    """Provilkov et al. 2020, Algorithm 1, over every set of merges that may be left."""
    places = [place for place, pair in enumerate(pairwise(symbols)) if pair in RANKS]
    result: Counter[tuple[str, ...]] = Counter()
    for count in range(len(places) + 1):
        for left in combinations(places, count):
            weight = (1 - rate) ** count * rate ** (len(places) - count)
            if not left:
                result[symbols] += weight
            if not left or not weight:
                continue
            best = min(left, key=lambda place: (RANKS[symbols[place : place + 2]], place))
            chosen = [place for place in left if symbols[place : place + 2] == symbols[best : best + 2]]
            merged = apply_merge(symbols, chosen if everywhere else [best])
            for outcome, probability in dropout_distribution(merged, rate, everywhere=everywhere).items():
                result[outcome] += weight * probability
    return result


def apply_merge(symbols: tuple[str, ...], places: list[int]) -> tuple[str, ...]:
    merged, place = [], 0
    while place < len(symbols):
        width = 2 if place in places else 1
        merged.append("".join(symbols[place : place + width]))
        place += width
    return tuple(merged)


def distance(drawn: Counter, exact: Counter) -> float:
    """Total variation."""
    keys = drawn.keys() | exact.keys()
    return sum(abs(drawn[key] / drawn.total() - exact[key]) for key in keys) / 2


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("word", ["abab", "aaaaa", "ababa", "baab"])
def test_dropout_follows_its_algorithm(word: str, rate: float, everywhere: bool) -> None:
    random = Random(1)
    drawn = Counter(
        tuple(merge(word, lambda *pair: RANKS.get(pair), everywhere=everywhere, rate=rate, random=random))
        for _ in range(DRAWS)
    )
    exact = dropout_distribution(tuple(word), rate, everywhere=everywhere)
    assert sum(exact.values()) == pytest.approx(1)
    assert set(drawn) <= set(exact)
    assert distance(drawn, exact) < 0.02


@pytest.mark.parametrize("everywhere", [True, False])
def test_merging_without_dropout_against_the_algorithm(everywhere: bool) -> None:
    for length in range(1, 9):
        for word in product("ab", repeat=length):
            merged = merge(word, lambda *pair: RANKS.get(pair), everywhere=everywhere, rate=0.0, random=None)
            assert {tuple(merged): 1.0} == {
                key: value for key, value in dropout_distribution(word, 0.0, everywhere=everywhere).items() if value
            }


def segmentations(word: str) -> list[tuple[str, ...]]:
    if not word:
        return [()]
    return [
        (word[:length], *rest)
        for length in range(1, len(word) + 1)
        if word[:length] in SCORES or length == 1
        for rest in segmentations(word[length:])
    ]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("word", ["abcab", "abca", "axbc", "a"])
def test_unigram_draws_follow_kudo(word: str, alpha: float) -> None:
    unknown = min(SCORES.values()) - 10
    weights = {cut: exp(alpha * sum(SCORES.get(piece, unknown) for piece in cut)) for cut in segmentations(word)}
    exact = Counter({cut: weight / sum(weights.values()) for cut, weight in weights.items()})
    random = Random(2)
    found = edges(word, SCORES, longest=4, unknown=unknown)
    drawn: Counter[tuple[str, ...]] = Counter()
    for _ in range(DRAWS):
        drawn[tuple(word[start:end] for start, end in pairwise(draw_cuts(found, alpha, random)))] += 1
    assert set(drawn) <= set(exact)
    assert distance(drawn, exact) < 0.02


def test_a_sharp_draw_is_the_best_segmentation_of_sentencepiece(corpus, tokenizers: dict[str, Tokenizer]) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizers["unigram"].stored().model)
    numbers = range(260, processor.get_piece_size())
    scores = {processor.id_to_piece(id_): processor.get_score(id_) for id_ in numbers}
    words = {f"▁{word}" for text in corpus for word in text.split()} | {"▁unlikeliest", "▁thecats"}
    for word in words:
        found = edges(word, scores, longest=16, unknown=min(scores.values()) - 10)
        cuts = draw_cuts(found, 10_000.0, Random(3))
        pieces = [word[start:end] for start, end in pairwise(cuts)]
        best = processor.encode(word.replace("▁", " "), out_type=str)
        assert pieces == best or any(piece.startswith("<0x") for piece in best)


def test_unigram_draws_have_the_spread_of_sentencepiece(tokenizers: dict[str, Tokenizer]) -> None:
    """sentencepiece draws from the same distribution: the shares of the pieces of a word agree."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizers["unigram"].stored().model)
    scores = {processor.id_to_piece(id_): processor.get_score(id_) for id_ in range(260, processor.get_piece_size())}
    found = edges("▁letters", scores, longest=16, unknown=min(scores.values()) - 10)
    random = Random(4)
    ours: Counter[tuple[str, ...]] = Counter()
    theirs: Counter[tuple[str, ...]] = Counter()
    for _ in range(DRAWS):
        cuts = draw_cuts(found, 0.3, random)
        ours[tuple("▁letters"[start:end] for start, end in pairwise(cuts))] += 1
        theirs[tuple(processor.encode(" letters", out_type=str, enable_sampling=True, alpha=0.3, nbest_size=-1))] += 1
    shares = Counter({key: count / DRAWS for key, count in theirs.items()})
    assert distance(ours, shares) < 0.06

"""Span F1 against the rules of conlleval, bracket F1 against worked examples and a plain second reading of trees."""

import random
from collections import Counter

import pytest

from regard.errors import DataError
from regard.metrics import BracketF1, BracketRules, SpanF1, evaluate, metric
from regard.metrics.brackets import read_tree
from regard.metrics.spans import Span, read_spans, span_types

# spans


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O O", []),
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("I-PER I-PER B-PER O", [("PER", 0, 2), ("PER", 2, 3)]),  # IOB1
        ("B-PER B-PER I-LOC", [("PER", 0, 1), ("PER", 1, 2), ("LOC", 2, 3)]),
        ("S-PER B-ORG I-ORG E-ORG", [("PER", 0, 1), ("ORG", 1, 4)]),  # IOBES
        ("E-PER I-PER E-PER S-PER I-PER", [("PER", 0, 1), ("PER", 1, 3), ("PER", 3, 4), ("PER", 4, 5)]),
        ("NOUN VERB", [("NOUN", 0, 1), ("VERB", 1, 2)]),
        ("B-per-son I-per-son", [("per-son", 0, 2)]),
        ("", []),
    ],
)
def test_spans_of_tags(tags: str, spans: list[Span]) -> None:
    assert read_spans(tags.split()) == spans


def conlleval(gold: list[list[str]], found: list[list[str]]) -> tuple[int, int, int]:
    """Right, found and true chunks, tag by tag, from the script's two tables of where chunks begin and end."""

    def cut(tag: str) -> tuple[str, str]:
        return ("O", "") if tag == "O" else (tag[0], tag[2:])

    def ends(before: str, kind: str, tag: str, now: str) -> bool:
        table = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("B", "S"), ("I", "S")}
        return (before, tag) in table or before in ("E", "S") or (before != "O" and kind != now)

    def starts(before: str, kind: str, tag: str, now: str) -> bool:
        table = {("O", "I"), ("E", "I"), ("O", "E"), ("E", "E"), ("S", "I"), ("S", "E")}
        return tag in ("B", "S") or (before, tag) in table or (tag != "O" and kind != now)

    right = true = guessed = 0
    for left, other in zip(gold, found, strict=True):
        going = False
        last = ("O", ""), ("O", "")
        for tags in [*zip(left, other, strict=True), ("O", "O")]:
            now = cut(tags[0]), cut(tags[1])
            over = [ends(*before, *tag) for before, tag in zip(last, now, strict=True)]
            begun = [starts(*before, *tag) for before, tag in zip(last, now, strict=True)]
            if going:
                if over[0] and over[1] and last[0][1] == last[1][1]:
                    going = False
                    right += 1
                elif over[0] != over[1] or now[0][1] != now[1][1]:
                    going = False
            if begun[0] and begun[1] and now[0][1] == now[1][1]:
                going = True
            true += begun[0]
            guessed += begun[1]
            last = now
    return right, guessed, true


@pytest.mark.parametrize("letters", ["BI", "IO", "BIO", "BIESO"])
def test_counts_are_those_of_conlleval(letters: str) -> None:
    chance = random.Random(letters)

    def tag() -> str:
        letter = chance.choice(letters)
        return "O" if letter == "O" else f"{letter}-{chance.choice(('A', 'B'))}"

    for _ in range(200):
        gold = [[tag() for _ in range(chance.randint(1, 9))] for _ in range(4)]
        found = [[one if chance.random() < 0.7 else tag() for one in line] for line in gold]
        texts = [" ".join(line) for line in found], [[" ".join(line)] for line in gold]
        assert tuple(SpanF1().statistics(*texts).sum(axis=0)[:3]) == conlleval(gold, found)


def test_span_f1_by_hand_and_by_type() -> None:
    gold = ["B-PER I-PER O B-LOC", "B-LOC O"]
    found = ["B-PER I-PER O O", "B-LOC B-PER"]
    score = evaluate(metric("span_F1"), found, [[text] for text in gold], resamples=0)
    assert score.value == pytest.approx(100 * 2 * 2 / (3 + 3))
    assert score.parts["precision"] == score.parts["recall"] == pytest.approx(200 / 3)
    types = {
        one: evaluate(SpanF1(type=one), found, [[text] for text in gold], resamples=0).value
        for one in span_types([*gold, *found])
    }
    assert types == {"LOC": pytest.approx(200 / 3), "PER": pytest.approx(200 / 3)}
    assert SpanF1(type="PER").signature == "scheme:conlleval|type:PER|version:regard-1"


def test_unequal_numbers_of_tags_are_counted_and_nothing_is_cut() -> None:
    score = evaluate(SpanF1(), ["B-A O B-A", "O"], [["B-A O"], ["O"]], resamples=0)
    assert score.parts == {"precision": 50.0, "recall": 100.0, "found": 2.0, "true": 1.0, "unequal_lengths": 1.0}
    assert evaluate(SpanF1(), ["O"], [["O"]]).value == 100
    assert evaluate(SpanF1(), ["O"], [["B-A"]]).parts["precision"] == 0


# brackets

CAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .)))"


def test_a_tree_is_read() -> None:
    tree = read_tree(CAT)
    assert tree.words == ("the", "cat", "sat", "on", "the", "mat", ".")
    assert tree.tags == ("DT", "NN", "VBD", "IN", "DT", "NN", ".")
    assert set(tree.brackets) == {
        ("NP", 0, 2), ("NP", 4, 6), ("PP", 3, 6), ("VP", 2, 6), ("S", 0, 7), ("TOP", 0, 7)
    }  # fmt: skip
    assert read_tree(f"( {CAT[5:-1]})").brackets == tree.brackets[:-1]
    assert read_tree("(S (NP XX XX) (VP XX))", tagged=False).brackets == (("NP", 0, 2), ("VP", 2, 3), ("S", 0, 3))
    assert read_tree("(S (NP) (VP (V x)))").brackets == (("VP", 0, 1), ("S", 0, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP x)", "1 brackets are not closed, or there is no tree"),
        ("", "0 brackets are not closed, or there is no tree: ''"),
        ("(S x) y", "a tree is followed by 'y': there must be one tree in a line"),
        ("(S ())", "a bracket is empty"),
        (")", "a bracket is closed that was not opened"),
        ("S x", "a tree begins with a bracket, not with 'S'"),
    ],
)
def test_what_is_no_tree(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_tree(text)
    with pytest.raises(DataError, match="reference 2: "):
        evaluate(BracketF1(), [CAT, CAT], [[CAT], [text]])
    score = evaluate(BracketF1(), [text, CAT], [[CAT], [CAT]], resamples=0)
    assert score.parts["invalid"] == 1
    assert (score.parts["precision"], score.parts["recall"]) == (100.0, 50.0)


def test_bracket_f1_by_hand() -> None:
    """The phrase with glasses hangs on the verb in the reference, and on the man in the output."""
    gold = "(TOP (S (NP (PRP I)) (VP (VBD saw) (NP (DT a) (NN man)) (PP (IN with) (NP (NNS glasses)))) (. .)))"
    found = "(TOP (S (NP (PRP I)) (VP (VBD saw) (NP (NP (DT a) (NN man)) (PP (IN with) (NP (NN glasses))))) (. .)))"
    score = evaluate(BracketF1(), [found], [[gold]], resamples=0)
    # gold: S, NP(I), VP, NP(a man), PP, NP(glasses): 6; found: these and NP(a man with glasses): 7
    assert score.parts["recall"] == 100
    assert score.parts["precision"] == pytest.approx(600 / 7)
    assert score.value == pytest.approx(100 * 2 * 6 / 13)
    assert (score.parts["exact"], score.parts["crossing"]) == (0.0, 0.0)
    assert score.parts["tagging"] == pytest.approx(100 * 5 / 6)  # glasses; the full stop does not count


def test_crossing_brackets() -> None:
    gold = "(S (A (x a) (x b)) (B (x c) (x d)))"
    found = "(S (x a) (C (x b) (x c)) (x d))"
    score = evaluate(BracketF1(), [found, gold], [[gold], [gold]], resamples=0)
    assert (score.parts["crossing"], score.parts["without_crossing"], score.parts["exact"]) == (0.5, 50.0, 50.0)
    assert score.value == pytest.approx(100 * 2 * (1 + 3) / (3 + 2 + 3 + 3))


@pytest.mark.parametrize(
    ("found", "gold", "value"),
    [
        ("(S (PRT (RP up)) (V x))", "(S (ADVP (RB up)) (V x))", 100.0),
        ("(S (NP-SBJ (N x)) (V y))", "(S (NP (N x)) (V y))", 100.0),
        ("(S (NP=2 (N x)) (V y))", "(S (NP-TMP-3 (N x)) (V y))", 100.0),
        ("(S (NP (N x) (, ,)) (V y))", "(S (NP (N x)) (, ,) (V y))", 100.0),
        ("(ROOT (S (NP (N x)) (V y)))", "(TOP (S (NP (N x)) (V y)))", 100.0),
        ("(S (NP (NP (N x))) (V y))", "(S (NP (N x)) (V y))", 80.0),
        ("(S (NP XX) (VP XX XX))", "(S (NP XX XX) (VP XX))", 100 / 3),
        ("(S (NP (N x)))", "(S (NP (N x)) (V y))", 0.0),
    ],
)
def test_rules_of_collins(found: str, gold: str, value: float) -> None:
    assert evaluate(metric("bracket_F1"), [found], [[gold]], resamples=0).value == pytest.approx(value)


def test_rules_can_be_others() -> None:
    own = BracketF1(BracketRules(deleted=frozenset(), equal={}, labelled=False))
    assert own.signature == "rules:own|labelled:no|invalid:zero|version:regard-1"
    pair = ["(S (A (x a)) (x b))"], [["(S (B (x a)) (x b))"]]
    assert evaluate(own, *pair).value == 100
    assert evaluate(BracketF1(), *pair).value == 50


def plain(text: str) -> Counter[tuple[str, int, int]]:
    """Brackets of a tagged tree by a recursive reading of its own, for trees without punctuation."""
    pieces = text.replace("(", " ( ").replace(")", " ) ").split()
    found: Counter[tuple[str, int, int]] = Counter()

    def read(place: int, words: int) -> tuple[int, int]:
        label, place, start = pieces[place + 1], place + 2, words
        if pieces[place] != "(":
            return place + 2, words + 1
        while pieces[place] == "(":
            place, words = read(place, words)
        found[label, start, words] += 1
        return place + 1, words

    read(0, 0)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_a_plain_reading(seed: int) -> None:
    chance = random.Random(seed)

    def grow(words: int) -> str:
        if words == 1 and chance.random() < 0.6:
            return "(T w)"
        cut = chance.randint(1, words)
        parts = [cut, words - cut] if words > cut else [words]
        inside = " ".join(grow(part) if part < words else " ".join(["(T w)"] * part) for part in parts)
        return f"({chance.choice('ABC')} {inside})"

    for _ in range(40):
        size = chance.randint(2, 8)
        gold, found = grow(size), grow(size)
        right = (plain(gold) & plain(found)).total()
        counts = (right, plain(found).total(), plain(gold).total())
        assert tuple(BracketF1().statistics([found], [[gold]])[0, :3]) == counts

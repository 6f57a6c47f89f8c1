"""Search under constraints: a wide beam against all outputs, filtered; every output satisfies, whatever the company."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.search import Finished, Request, Search, SearchOptions
from regard.search.constraints import (
    Automaton,
    Lifted,
    Surfaces,
    bracketing,
    forbidding,
    forcing,
    lift_all,
    matching,
    number_table,
    one_of,
    surfaces_of,
    tagging,
)
from regard.search.constraints import lifted as lifting
from regard.search.constraints.pattern import beginning
from regard.search.constraints.phrases import contains
from regard.special import END
from regard.text import BackwardTokenizer, ByteTokenizer, CharacterTokenizer, PieceTokenizer, WordTokenizer
from regard.text.utf8 import reserved_surfaces
from tests.markov import Found, Markov, every_output, which

Test = Callable[[str], bool]


@dataclass(frozen=True)
class Demand:
    """An automaton, another that reads texts from right to left, and the same demand by other means."""

    automaton: Automaton
    backwards: Automaton
    holds: Test


def both(make: Callable[..., Automaton], *given: object, holds: Test, **more: object) -> Demand:
    return Demand(make(*given, **more), make(*given, **more, backwards=True), holds)


def demands() -> list[Demand]:
    tags = re.compile(r"(O|B-X( I-X)*)( O| B-X( I-X)*)*")
    return [
        both(forbidding, ("ab", "b a"), holds=lambda text: not (contains(text, "ab") or contains(text, "b a"))),
        both(forbidding, ("a",), holds=lambda text: not contains(text, "a")),
        both(forcing, ("ab",), holds=lambda text: contains(text, "ab")),
        both(forcing, ("a", "b"), holds=lambda text: contains(text, "a") and contains(text, "b")),
        both(forcing, ("é",), holds=lambda text: contains(text, "é")),
        both(one_of, ("ab", "a b", "ba ab", "é"), holds=lambda text: text in ("ab", "a b", "ba ab", "é")),
        both(matching, "a*b*", holds=lambda text: re.fullmatch("a*b*", text) is not None),
        both(matching, r"\w+( \w+)?", holds=lambda text: re.fullmatch(r"\w+( \w+)?", text) is not None),
        both(beginning, "a b", holds=lambda text: text.startswith("a b")),
        both(number_table, ("1",), "same", holds=lambda text: set(re.findall(r"\d+", text)) == {"1"}),
        both(number_table, ("1", "12"), "only", holds=lambda text: set(re.findall(r"\d+", text)) <= {"1", "12"}),
        both(bracketing, ("a",), ("b",), deepest=2, holds=lambda text: text in ("(a b)", "(a (a b))")),
        both(tagging, ("X",), 2, holds=lambda text: tags.fullmatch(text) is not None and len(text.split()) == 2),
    ]


DEMANDS = demands()
TEXTS = [b"a", b"b", b"ab", b"ba", b" ", b"1", b"2", b"\xc3", b"\xa9", "é".encode(), b" a", b" b", b"a ", b"b ", b"12"]
TEXTS += [b"(a", b"b)", b")", b"O", b"O ", b" O", b"B-X", b" I-X", b"I-X ", b"B-X ", b"", b"\n", b"(", b"a b", b"ab "]
MARGINS = [(b"", b""), (b" ", b""), (b"", b" ")]


def text_of(
    surfaces: list[bytes], margin: tuple[bytes, bytes], tokens: tuple[int, ...], backwards: bool = False
) -> str | None:
    """What `decode` makes of tokens; None where it is no text of one line, or of whole characters from the end on."""
    each = [surfaces[token] for token in tokens]
    joined = b"".join(each[::-1] if backwards else each)
    try:
        if backwards:
            "".join(one.decode() for one in each)
        text = joined.removeprefix(margin[0]).removesuffix(margin[1]).decode()
    except UnicodeDecodeError:
        return None
    return None if "\n" in text else text


def found_by(scorer: Markov, requests: list[Request]) -> dict[int, Finished]:
    search = Search(scorer, capacity=3)
    search.add(requests)
    found: dict[int, Finished] = {}
    while search.busy:
        found.update((one.id, one) for one in search.step())
    return found


def lifted(chosen: list[Demand], surfaces: list[bytes], margin: tuple[bytes, bytes], backwards: bool = False) -> Lifted:
    automata = [demand.backwards if backwards else demand.automaton for demand in chosen]
    return lift_all(automata, Surfaces(surfaces, margin, backwards=backwards))


worlds = {
    "words": st.lists(st.sampled_from(TEXTS), min_size=2, max_size=6, unique=True),
    "margin": st.sampled_from(MARGINS),
    "chosen": st.lists(st.sampled_from(DEMANDS), min_size=1, max_size=2),
    "seed": st.integers(0, 10**6),
    "limit": st.integers(1, 4),
    "backwards": st.booleans(),
    "explored": st.sampled_from([0, 3000]),  # with 0, ways to an end are looked for as in the largest automata
}


@settings(max_examples=200, deadline=None)
@given(**worlds)
def test_a_wide_beam_finds_the_best_of_all_outputs_that_satisfy(
    words: list[bytes],
    margin: tuple[bytes, bytes],
    chosen: list[Demand],
    seed: int,
    limit: int,
    backwards: bool,
    explored: int,
) -> None:
    surfaces = [*reserved_surfaces("?"), *words]
    scorer = Markov(vocabulary=len(surfaces), seed=seed)
    constraint = lifted(chosen, surfaces, margin, backwards)
    if constraint.goal:
        explored = 3000  # only a bound is known of what is demanded in large automata
    options = SearchOptions(beam=3000, best=3000, max_length=limit, max_ratio=None)
    with patch.object(lifting, "MOST_EXPLORED", explored):
        (finished,) = found_by(scorer, [Request(0, which(0), 3, options, constraint=constraint)]).values()
    look_up = scorer.following(0)
    everything = [(), *every_output(range(4, len(surfaces)), limit + 1)]
    good = {
        tokens
        for tokens in everything
        if (text := text_of(surfaces, margin, tokens, backwards)) is not None and all(one.holds(text) for one in chosen)
    }
    expected = []
    for tokens in every_output(range(4, len(surfaces)), limit):
        if tokens in good:
            steps = [look_up(tokens[:item])[token] for item, token in enumerate((*tokens, END))]
            expected.append(Found(tokens=tokens, steps=tuple(steps), complete=True))
    expected.sort(key=lambda one: -one.score(1.0))
    if expected:
        assert [one.tokens for one in finished.hypotheses] == [one.tokens for one in expected]
        for one, other in zip(finished.hypotheses, expected, strict=True):
            assert one.score == pytest.approx(other.score(1.0), abs=1e-9)
    else:  # what the limit cuts off satisfies the constraint as it is
        assert {one.tokens for one in finished.hypotheses} == {one for one in good if len(one) == limit}
    assert bool(finished.reason) is not bool(good)
    if not good:
        assert f"no output of at most {limit} tokens is as demanded" in finished.reason


@settings(max_examples=200, deadline=None)
@given(**worlds, beam=st.integers(1, 4), sample=st.booleans())
def test_whatever_comes_out_satisfies_and_something_does_if_anything_can(
    words: list[bytes],
    margin: tuple[bytes, bytes],
    chosen: list[Demand],
    seed: int,
    limit: int,
    backwards: bool,
    explored: int,
    beam: int,
    sample: bool,
) -> None:
    surfaces = [*reserved_surfaces("?"), *words]
    scorer = Markov(vocabulary=len(surfaces), seed=seed, spread=3.0)
    options = SearchOptions(beam=beam, best=beam, sample=sample, max_length=limit, max_ratio=None, seed=seed * sample)
    request = Request(0, which(0), 3, options, constraint=lifted(chosen, surfaces, margin, backwards))
    with patch.object(lifting, "MOST_EXPLORED", explored):
        (finished,) = found_by(scorer, [request]).values()
    everything = [(), *every_output(range(4, len(surfaces)), limit + 1)]
    texts = [text_of(surfaces, margin, tokens, backwards) for tokens in everything]
    possible = any(text is not None and all(one.holds(text) for one in chosen) for text in texts)
    if possible and not finished.hypotheses:  # a bound that is not the shortest way forbade it, and it is said
        assert explored == 0
        assert request.constraint is not None
        assert request.constraint.goal
        assert f"no output of at most {limit} tokens was found that is as demanded" in finished.reason
        return
    assert bool(finished.hypotheses) is possible
    if sample and possible:
        assert len(finished.hypotheses) == beam
    for one in finished.hypotheses:
        text = text_of(surfaces, margin, one.tokens, backwards)
        assert text is not None
        assert all(demand.holds(text) for demand in chosen)
    if not possible:
        assert "as demanded: " + chosen[0].automaton.told[:20] in finished.reason


@settings(max_examples=40, deadline=None)
@given(
    words=st.lists(st.sampled_from(TEXTS), min_size=3, max_size=6, unique=True),
    margin=st.sampled_from(MARGINS),
    seed=st.integers(0, 10**6),
    kinds=st.lists(
        st.tuples(st.sampled_from([None, *DEMANDS]), st.integers(1, 5), st.sampled_from(["beam", "sample", "drawn"])),
        min_size=2,
        max_size=7,
    ),
)
def test_the_company_of_other_constraints_changes_nothing(
    words: list[bytes], margin: tuple[bytes, bytes], seed: int, kinds: list[tuple[Demand | None, int, str]]
) -> None:
    surfaces = [*reserved_surfaces("?"), *words]
    scorer = Markov(vocabulary=len(surfaces), seed=seed, tables=3)
    requests = []
    for number, (demand, beam, kind) in enumerate(kinds):
        options = SearchOptions(
            beam=beam, best=beam, sample=kind == "sample", stochastic=kind == "drawn", max_length=3 + beam
        )
        constraint = None if demand is None else lifted([demand], surfaces, margin)
        requests.append(Request(number, which(number % 3), 3, options, constraint=constraint))
    together = found_by(scorer, requests)
    for request in requests:
        (alone,) = found_by(scorer, [request]).values()
        assert [one.tokens for one in together[request.id].hypotheses] == [one.tokens for one in alone.hypotheses]
        assert together[request.id] == alone


def test_a_forced_phrase_gets_a_place_in_the_beam_before_the_limit_forces_it() -> None:
    """The phrase comes in where it costs little, not as the last resort: near the best of all outputs that have it."""
    surfaces = [*reserved_surfaces("?"), b"a ", b"b ", b"c "]
    constraint = lift_all([forcing(("c c",))], Surfaces(surfaces, (b"", b" ")))
    lost: dict[int, float] = {}
    for beam in (1, 6):
        for seed in range(20):
            scorer = Markov(vocabulary=7, seed=seed, spread=2.0, end=3.0)
            found = []
            for width in (beam, 3000):
                options = SearchOptions(beam=width, max_length=7, max_ratio=None, length_penalty=0.0)
                (finished,) = found_by(scorer, [Request(0, which(0), 3, options, constraint=constraint)]).values()
                found.append(finished.hypotheses[0])
            assert found[1].complete
            assert not found[0].complete or found[0].score <= found[1].score + 1e-9
            lost[beam] = lost.get(beam, 0.0) + found[1].score - found[0].score
    assert lost[6] < lost[1] / 4


def test_a_prefix_that_contradicts_is_told() -> None:
    surfaces = [*reserved_surfaces("?"), b"a ", b"b "]
    constraint = lift_all([forbidding(("a",))], Surfaces(surfaces, (b"", b" ")))
    options = SearchOptions(beam=2)
    scorer = Markov(vocabulary=6)
    (finished,) = found_by(scorer, [Request(0, which(0), 3, options, prefix=(5, 5), constraint=constraint)]).values()
    assert finished.hypotheses[0].tokens[:2] == (5, 5)
    assert finished.reason == ""
    (finished,) = found_by(scorer, [Request(0, which(0), 3, options, prefix=(4, 5), constraint=constraint)]).values()
    assert finished.reason == ("the prefix contradicts what is demanded: the output must not have any of 'a' in it")


def test_a_model_that_holds_the_demanded_for_impossible_is_told() -> None:
    surfaces = [*reserved_surfaces("?"), b"a ", b"b "]
    scorer = Markov(vocabulary=6)
    scorer.table[..., 5] = -math.inf
    constraint = lift_all([matching("a b")], Surfaces(surfaces, (b"", b" ")))
    for options in (SearchOptions(), SearchOptions(sample=True, best=3), SearchOptions(stochastic=True)):
        (finished,) = found_by(scorer, [Request(0, which(0), 3, options, constraint=constraint)]).values()
        assert finished.hypotheses == ()
        assert finished.reason == (
            "no hypothesis that was kept came to an end as demanded: the whole output must match 'a b'"
        )


@pytest.mark.parametrize("count", [3, 14])
def test_many_phrases_come_in_where_there_is_room(count: int) -> None:
    """With 14 phrases there are 2^14 sets of those that are there: more states than can be explored."""
    words = [f"w{number}" for number in range(count)]
    tokenizer = WordTokenizer(words=[*words, "x"])
    surfaces = Surfaces([tokenizer.surface(id_) for id_ in range(tokenizer.size)], tokenizer.margin)
    constraint = lift_all([forcing(tuple(words))], surfaces)
    scorer = Markov(vocabulary=tokenizer.size, seed=1, spread=1.0)
    for options in (SearchOptions(beam=1, max_length=40), SearchOptions(beam=5), SearchOptions(sample=True, best=2)):
        (finished,) = found_by(scorer, [Request(0, which(0), 20, options, constraint=constraint)]).values()
        assert finished.hypotheses
        assert all(set(words) <= set(tokenizer.decode(one.tokens).split()) for one in finished.hypotheses)
    (finished,) = found_by(
        scorer, [Request(0, which(0), 20, SearchOptions(max_length=count - 1), constraint=constraint)]
    ).values()
    assert finished.hypotheses == ()
    assert "tokens was found that is as demanded" in finished.reason or count == 3


LINES = ["the cat sat on the mat", "a cat and a dog", "concatenate 12 and 7", "the café is über", "no dogs on the mat"]


def tokenizers() -> list[object]:
    return [
        ByteTokenizer(),
        CharacterTokenizer.train(LINES, size=60),
        WordTokenizer.train(LINES, size=60),
        PieceTokenizer.train(LINES * 3, unit="bpe", size=300),
        PieceTokenizer.train(LINES * 3, unit="unigram", size=300),
    ]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("tokenizer", tokenizers(), ids=lambda one: one.unit)
def test_real_vocabularies(tokenizer: WordTokenizer | BackwardTokenizer, backwards: bool) -> None:
    cases: list[tuple[list[Automaton], Test]] = [
        ([forbidding(("cat", "the"), backwards=backwards)], lambda text: not re.search(r"\b(cat|the)\b", text)),
        (
            [forcing(("the cat", "dog"), backwards=backwards)],
            lambda text: contains(text, "the cat") and contains(text, "dog"),
        ),
        ([one_of(tuple(LINES), backwards=backwards)], lambda text: text in LINES),
        (
            [matching(r"the \w+ is \w+", backwards=backwards)],
            lambda text: re.fullmatch(r"the \w+ is \w+", text) is not None,
        ),
        (
            [number_table(("12", "7"), "same", backwards=backwards)],
            lambda text: set(re.findall(r"\d+", text)) == {"12", "7"},
        ),
        (
            [forbidding(("cat",), backwards=backwards), one_of(tuple(LINES), backwards=backwards)],
            lambda text: text in LINES and not re.search(r"\bcat\b", text),
        ),
    ]
    if backwards:
        tokenizer = BackwardTokenizer(tokenizer)
    surfaces = surfaces_of(tokenizer)
    scorer = Markov(vocabulary=tokenizer.size, seed=1, spread=1.0) if tokenizer.size < 90 else Flat(tokenizer.size)
    for automata, holds in cases:
        constraint = lift_all(automata, surfaces)
        for line in LINES:  # any segmentation is accepted: here the tokenizer's own
            state = constraint.start
            for id_ in tokenizer.encode(line).ids:
                state = None if state is None else constraint.advance(state, id_)
            parts = any(0x80 <= tokenizer.surface(id_)[0] < 0xC0 for id_ in tokenizer.encode(line).ids)
            if not (backwards and parts):  # bytes that go on come before that which they go on from
                assert (state is not None and constraint.may_end(state)) is holds(line)
        for options in (SearchOptions(beam=1, max_length=40), SearchOptions(sample=True, best=3, max_length=40)):
            (finished,) = found_by(scorer, [Request(0, which(0), 20, options, constraint=constraint)]).values()
            assert finished.hypotheses
            assert all(holds(tokenizer.decode(one.tokens)) for one in finished.hypotheses)


class Flat(Markov):
    """All tokens are about as likely, whatever came before: a table for large vocabularies."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary=5)
        self.vocabulary = vocabulary
        small = Markov(vocabulary=5, seed=3).table[:, :, 0, 0]
        row = small.new_tensor([math.sin(7 * number) for number in range(vocabulary)]).log_softmax(-1)
        self.table = row.expand(1, 101, vocabulary, vocabulary)


@pytest.mark.parametrize("closing", [False, True])
def test_the_shortest_tree_over_many_words_is_found_letter_by_letter(closing: bool) -> None:
    words = ("aa", "ab", "a", "b", "abc", "cab", "bb", "c", "ca", "aab", "ba", "cc")
    surfaces = Surfaces([*reserved_surfaces("?"), *(sign.encode() for sign in "abcNPS() ")], (b"", b""))
    shortest = len(f"(S {' '.join(words)})") + len("S" if closing else "")
    constraint = lift_all([bracketing(("S", "NP", "NPS"), words, closing=closing)], surfaces)
    assert constraint.within(constraint.start, shortest)
    assert constraint.disproves(constraint.start, shortest - 1)


def test_bytes_of_a_character_that_are_written_are_not_waited_for() -> None:
    surfaces = Surfaces([*reserved_surfaces("?"), b"\xc3", b"\xa9a"], (b"", b""))
    constraint = lift_all([one_of(("éa",))], surfaces)
    assert constraint.within(constraint.start, 2)
    assert constraint.disproves(constraint.start, 1)

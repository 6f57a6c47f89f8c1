"""Automata over text against Python's own regular expressions, string searches and parsers written here."""

import itertools
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UsageError
from regard.search.constraints import (
    Automaton,
    bracketing,
    forbidding,
    forcing,
    matching,
    number_table,
    one_of,
    tagging,
)
from regard.search.constraints.phrases import contains, numbers_in
from regard.search.constraints.table import Table, intersect


def accepted(automaton: Automaton, text: str) -> bool:
    state = automaton.start
    for character in text:
        after = automaton.next(state, character)
        assert automaton.takes(state, ord(character), ord(character)) is (after is not None)
        if after is None:
            return False
        state = after
    assert not automaton.accepts(state) or automaton.least(state) == 0
    assert 0 <= automaton.progress(state) <= automaton.goal
    return automaton.accepts(state)


def texts(signs: str, longest: int) -> list[str]:
    return ["".join(each) for length in range(longest + 1) for each in itertools.product(signs, repeat=length)]


def whole_word(phrase: str) -> str:
    before = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    behind = r"(?!\w)" if re.search(r"\w$", phrase) else ""
    return before + re.escape(phrase) + behind


PHRASES = [("ab",), ("a", "b a"), ("a b",), ("-a", "b-"), ("ab", "abb", "b"), ("aba",), ("a-", "-")]


@pytest.mark.parametrize("phrases", PHRASES)
def test_phrases_are_found_as_whole_words(phrases: tuple[str, ...]) -> None:
    never, every = forbidding(phrases), forcing(phrases)
    turned = forbidding(phrases, backwards=True), forcing(phrases, backwards=True)
    for text in texts("ab -", 6):
        found = [re.search(whole_word(phrase), text) is not None for phrase in phrases]
        assert [contains(text, phrase) for phrase in phrases] == found
        assert accepted(never, text) is not any(found)
        assert accepted(every, text) is all(found)
        assert [accepted(one, text[::-1]) for one in turned] == [not any(found), all(found)]


def test_words_of_all_alphabets_have_edges() -> None:
    automaton = forbidding(("кот", "é"))
    assert not accepted(automaton, "«кот»")
    assert accepted(automaton, "который")
    assert not accepted(automaton, "a é")
    assert accepted(automaton, "né")


NUMBERS = [("1",), ("12", "1"), ("21", "2"), ()]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_numbers_are_runs_of_digits(numbers: tuple[str, ...]) -> None:
    every, no_other, same = (number_table(numbers, which) for which in ("all", "only", "same"))
    for text in texts("12.", 6):
        found = set(re.findall(r"\d+", text))
        assert set(numbers_in(text)) == found
        assert accepted(every, text) is (set(numbers) <= found)
        assert accepted(no_other, text) is (found <= set(numbers))
        assert accepted(same, text) is (found == set(numbers))


PATTERNS = [
    "a*",
    "(ab|ba)+",
    "a{2,3}b?",
    "a{2}|b{2,}",
    "[ab]c",
    "[^a]*a",
    r"\w+ \w+",
    r"\d|\D\W",
    ".a.",
    "(?:a|b(c|))*",
    "",
    "a||b",
    r"[a\-c]+",
    "[]a]+",
    r"\.?\(",
    r"[\w-]*",
    "((a{1,2}){2}|c)b",
    "[a-]b",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_what_python_matches(pattern: str) -> None:
    automaton, turned = matching(pattern), matching(pattern, backwards=True)
    for text in texts("abc", 5) + texts("a1 -", 4) + texts("]-.(", 3):
        matched = re.fullmatch(pattern, text) is not None
        assert (accepted(automaton, text), accepted(turned, text[::-1])) == (matched, matched), text


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> str:
    kind = draw(st.sampled_from(["sign", "set", "any"] + ["chain", "choice", "repeat"] * (depth > 0)))
    inner = patterns(depth=depth - 1)
    match kind:
        case "sign":
            return draw(st.sampled_from("ab"))
        case "set":
            return draw(st.sampled_from(["[ab]", "[^b]", r"\w", "[a-c]"]))
        case "chain":
            return draw(inner) + draw(inner)
        case "choice":
            return f"({draw(inner)}|{draw(inner)})"
        case "repeat":
            return f"({draw(inner)}){draw(st.sampled_from(['*', '+', '?', '{2}', '{1,}', '{0,2}']))}"
    return "."


@settings(max_examples=150, deadline=None)
@given(pattern=patterns(), other=patterns())
def test_drawn_patterns_and_what_two_of_them_match(pattern: str, other: str) -> None:
    one, two, turned = matching(pattern), matching(other), matching(pattern, backwards=True)
    both = intersect(one, two)
    assert both is not None
    for text in texts("abd", 4):
        first, second = (re.fullmatch(each, text) is not None for each in (pattern, other))
        assert (accepted(one, text), accepted(two, text), accepted(turned, text[::-1])) == (first, second, first)
        assert accepted(both, text) is (first and second)


def test_tables_that_are_made_one_keep_their_marks() -> None:
    both = intersect(forcing(("a", "b a")), forcing(("b",)))
    assert both is not None
    for text in texts("ab ", 6):
        assert accepted(both, text) is all(contains(text, phrase) for phrase in ("a", "b a", "b"))


def test_tables_that_would_be_too_large_stay_two() -> None:
    many = [forcing(tuple(f"{first}{number}" for number in range(40))) for first in "ab"]
    assert intersect(*many) is None
    long = [matching(f"(.*{first}.{{8}})") for first in "ab"]
    assert intersect(long[0], matching(".*x.{7}y.{6}")) is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a)", r"the pattern 'a)' has a ) that closes nothing (character 2)"),
        ("(a", "the pattern '(a' has a ( that is not closed (character 3)"),
        ("(?=a)", "the pattern '(?=a)' has a group of a kind that is not understood; there are ( ) and (?: )"),
        ("*a", "the pattern '*a' has a * with nothing before it to repeat (character 1)"),
        ("a{x}", "the pattern 'a{x}' has a { that no number of repetitions follows"),
        ("a{3,2}", "the pattern 'a{3,2}' has repetitions from 3 to 2, which cannot be"),
        ("^a", "the pattern '^a' has a ^, which is not needed: the whole output must match (character 1)"),
        ("a$", "the pattern 'a$' has a $, which is not needed"),
        ("[a", "the pattern '[a' has a [ that is not closed"),
        ("[b-a]", "the pattern '[b-a]' has a range that goes backwards"),
        (r"[\d-z]", r"the pattern '[\\d-z]' has a range that goes backwards, or from or to more than one character"),
        ("a\\", r"the pattern 'a\\' ends in a backslash"),
        (r"\b", r"the pattern '\\b' has \b, which has no meaning here"),
        ("a\nb", r"the pattern 'a\nb' has a line break in it"),
        ("((a{100}){100}){100}", "the pattern '((a{100}){100}){100}' is too large; make its repetitions shorter"),
        (".*a.{16}", "the pattern '.*a.{16}' has too many states (more than 10,000, or large ones)"),
        ("(" * 101 + ")" * 101, "has more than 100 groups inside each other"),
    ],
)
def test_patterns_that_cannot_be_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        matching(pattern)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        (("a", " "), "an empty phrase can be neither forced nor forbidden"),
        (("a\nb",), r"the phrase 'a\nb' has a line break in it"),
    ],
)
def test_phrases_that_cannot_be_are_refused(phrases: tuple[str, ...], message: str) -> None:
    for make in (forbidding, forcing):
        with pytest.raises(UsageError) as error:
            make(phrases)
        assert str(error.value).startswith(message)


def test_too_many_phrases_are_refused() -> None:
    with pytest.raises(UsageError, match="63 phrases are to be in one output, and there may be 62"):
        forcing(tuple(f"w{number}" for number in range(63)))
    with pytest.raises(UsageError, match="a line has 63 numbers, and 62 at most can be forced"):
        number_table(tuple(map(str, range(63))), "all")
    drawn = random.Random(1)
    many = tuple("".join(drawn.choices("abcdefgh", k=40)) for _ in range(3_000))
    with pytest.raises(UsageError, match="3,000 phrases are too many to be looked for at once"):
        forbidding(many)


def test_one_of_many_lines() -> None:
    drawn = random.Random(1)
    lines = {"".join(drawn.choices("ab ", k=drawn.randint(1, 6))) for _ in range(200)}
    automaton, turned = one_of(tuple(lines)), one_of(tuple(lines), backwards=True)
    for text in texts("ab ", 6):
        assert accepted(automaton, text) is accepted(turned, text[::-1]) is (text in lines)
    assert repr(min(line[::-1] for line in lines)[::-1]) in turned.told
    with pytest.raises(UsageError, match="the list of the only outputs there may be is empty"):
        one_of(("",))


def tags_are_good(tags: list[str], count: int) -> bool:
    before = ["O", *tags]
    inside = all(
        tag[0] != "I" or last in (f"B-{tag[2:]}", f"I-{tag[2:]}") for last, tag in zip(before, tags, strict=False)
    )
    return inside and len(tags) == count


@pytest.mark.parametrize("count", [1, 2, 3])
def test_tags_are_well_formed(count: int) -> None:
    automaton, turned = tagging(("X", "XY"), count), tagging(("X", "XY"), count, backwards=True)
    for length in range(5):
        for tags in itertools.product(("O", "B-X", "I-X", "B-XY", "I-XY"), repeat=length):
            assert accepted(automaton, " ".join(tags)) is tags_are_good(list(tags), count)
            assert accepted(turned, " ".join(tags)[::-1]) is tags_are_good(list(tags), count)
    assert not accepted(automaton, "O" * count if count > 1 else "")


def trees(words: list[str], depth: int) -> set[tuple[str, str]]:
    """All trees over some words with labels S and N and at most so many brackets inside each other: plain, labelled."""
    found = set()
    if depth:
        for children in rows(words, depth - 1):
            inside = (" ".join(plain for plain, _ in children), " ".join(labelled for _, labelled in children))
            found |= {(f"({label} {inside[0]})", f"({label} {inside[1]}){label}") for label in "SN"}
    return found


def rows(words: list[str], depth: int) -> list[list[tuple[str, str]]]:
    if not words:
        return []
    found = []
    for first in range(1, len(words) + 1):
        heads = [*([(words[0], words[0])] if first == 1 else []), *trees(words[:first], depth)]
        rest = [[]] if first == len(words) else rows(words[first:], depth)
        found += [[head, *more] for head in heads for more in rest]
    return found


@pytest.mark.parametrize("words", [["a"], ["a", "b"]])
def test_brackets_are_all_trees_over_the_words(words: list[str]) -> None:
    expected = trees(words, 2)
    found: set[str] = set()
    for closing, backwards in itertools.product((False, True), repeat=2):
        automaton = bracketing(("S", "N"), tuple(words), closing=closing, deepest=2, backwards=backwards)
        left = [("", automaton.start)]
        found = set()
        while left:
            text, state = left.pop()
            if automaton.accepts(state):
                found.add(text[::-1] if backwards else text)
            signs = "() SN" + "".join(words)
            left += [(text + sign, after) for sign in signs if (after := automaton.next(state, sign)) is not None]
        assert found == {labelled if closing else plain for plain, labelled in expected}
    assert len(expected) > 2


@pytest.mark.parametrize(
    ("labels", "words", "message"),
    [
        (("S", "N P"), ("a",), "'N P' is no label of brackets: it must have a sign in it, and none of ' ()\\n'"),
        ((), ("a",), "no label of brackets is given; name at least one"),
        (("S",), (), "a tree of brackets needs words, and the source has none"),
    ],
)
def test_brackets_that_cannot_be_are_refused(labels: tuple[str, ...], words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        bracketing(labels, words)
    assert str(error.value) == message
    with pytest.raises(UsageError, match="'' is no label of tags"):
        tagging(("",), 1)


def test_distances_are_the_least_bytes_to_an_end() -> None:
    table = matching("a{3}|éb")
    assert isinstance(table, Table)
    assert table.least(table.start) == 3
    after = table.next(table.start, "a")
    assert after is not None
    assert table.least(after) == 2

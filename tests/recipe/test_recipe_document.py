"""YAML to values with places: what is read, and what is refused with its line."""

import math
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RecipeError
from regard.recipe.document import describe, dotted, parse_document, plain_value, read_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        (".5", 0.5),
        ("3.", 3.0),
        ("-2", -2),
        ("+7", 7),
        ("4_000", 4000),
        ("010", 10),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("2024-01-01", "2024-01-01"),
        ("1:30", "1:30"),
        ("0x10", "0x10"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        pytest.param("9" * 5000, "9" * 5000, id="digits"),
        ("a b", "a b"),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text, value):
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_read_back(number):
    assert plain_value(repr(number)) == number


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**9), 10**9)
        | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdef", min_size=1), inner, max_size=4),
        max_leaves=20,
    )
)
def test_agrees_with_the_library_on_quoted_text(value):
    text = yaml.safe_dump({"a": value}, default_style='"', allow_unicode=True)
    text = text.replace('!!int "', '"').replace('!!null "', '"').replace('!!bool "', '"')
    expected = yaml.load(text, Loader=yaml.BaseLoader)
    assert parse_document(text, "x").tree == expected


def test_every_path_has_a_place():
    document = parse_document("a: 1\nb:\n  - x\n  - {c: 2}\n", "r.yaml")
    assert document.tree == {"a": 1, "b": ["x", {"c": 2}]}
    assert document.keys[("b",)].place == "r.yaml:2:1"
    assert document.values[("b", 0)].place == "r.yaml:3:5"
    assert document.values[("b", 1, "c")].place == "r.yaml:4:9"
    assert str(document.problem(("b", 1, "missing"), "gone")) == "r.yaml:2:1: b[1].missing: gone"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "r:3:1: a: given twice, first at r:1:1; keep one of them"),
        ("a: {b: 1}\na: {b: 2, c: [1]}\n", "r:2:1: a: given twice, first at r:1:1; keep one of them"),
        ("a: !!python/object/apply:os.system [x]", "r:1:4: a: the tag `!!python/object/apply:os.system` is refused"),
        ("a: !mine 3", "r:1:4: a: the tag `!mine` is refused"),
        ("a: &x 3", "r:1:4: a: the anchor `&x` is not read"),
        ("a: *x", "r:1:4: a: the alias `*x` is not read"),
        ('a: "\\ud800"', "r:1:4: a: the character U+D800 cannot be part of a text"),
        ('a: "\\0"', "r:1:4: a: the character U+0000 cannot be part of a text"),
    ],
)
def test_what_can_be_read_around_is_a_problem(text, message):
    (problem,) = parse_document(text, "r").problems
    assert str(problem).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "r: a recipe is a mapping of sections such as `data:` and `model:`, but this is a list of 2"),
        ("just text", "r: a recipe is a mapping of sections such as `data:` and `model:`, but this is 'just text'"),
        ("a: [", "r:1:5: not valid YAML"),
        ("a: 1\n  b: 2\n", "r:2:4: not valid YAML"),
        ("a:\n\t- 1\n", "r:2:1: not valid YAML"),
        ("a: 1\n---\nb: 2\n", "r:2:1: a second YAML document"),
        ("x: 1\na: \x07", "r:2: the character U+0007 cannot stand in YAML"),
        ("? [a]\n: 1\n", "r:1:3: a key must be one word"),
        ("? *a\n: 1\n", "r:1:3: a key must be one word"),
        pytest.param("a: " + "[" * 100_000, "r:1:20: nested deeper than 16", id="deep"),
        pytest.param("a: [" + "1," * 20_000 + "]", "r:1:20001: more than 10,000 values", id="many"),
        pytest.param("#" * 1_000_001, "r: larger than 1,000,000 bytes", id="large"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(text, message):
    before = time.perf_counter()
    with pytest.raises(RecipeError) as error:
        parse_document(text, "r")
    assert str(error.value).startswith(message)
    assert time.perf_counter() - before < 5


def test_alias_bombs_cost_nothing():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(20)
    )
    document = parse_document(bomb, "r")
    assert len(document.values) < 300
    assert len(document.problems) > 20


def test_empty_documents_and_byte_order_marks(tmp_path):
    assert parse_document("", "r").tree == {}
    assert parse_document("# only a comment\n", "r").tree == {}
    path = tmp_path / "r.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert parse_document(read_text(path), "r").tree == {"a": 1}


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(RecipeError, match=r"r\.yaml:2: byte 11 \(0xe9\) is not UTF-8; save the recipe as UTF-8"):
        read_text(path)
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(RecipeError, match=r"r\.yaml: larger than 1,000,000 bytes; a recipe is a short text"):
        read_text(path)
    with pytest.raises(RecipeError, match=r"gone\.yaml: cannot be read: No such file or directory"):
        read_text(tmp_path / "gone.yaml")
    with pytest.raises(RecipeError, match="cannot be read: Is a directory"):
        read_text(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing (null)"),
        (True, "true"),
        (3, "3"),
        (10**50, "a huge number"),
        (math.inf, "inf"),
        ("a" * 100, repr("a" * 57 + "...")),
        ({}, "an empty section"),
        ({"a": 1}, "a section"),
        ((1, 2), "a list of 2"),
        (b"x", "a value of type bytes"),
    ],
)
def test_values_are_described(value, text):
    assert describe(value) == text


def test_paths_are_dotted():
    assert dotted(("evaluation", "metrics", 1)) == "evaluation.metrics[1]"
    assert dotted(()) == ""


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        parse_document(text, "r")
    except RecipeError as error:
        assert str(error).startswith("r")  # noqa: PT017

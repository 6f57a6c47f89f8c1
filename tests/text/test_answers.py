"""Labels and numbers: through ids and files and back."""

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, ModelError
from regard.special import FIRST_FREE, UNKNOWN
from regard.text import LabelTokenizer, NumberTokenizer, load_tokenizer, train_answers

LABELS = ("very good", "bad", "søt ▁")


def test_labels_are_whole_texts() -> None:
    labels = LabelTokenizer(labels=LABELS)
    assert labels.size == FIRST_FREE + 3
    for number, label in enumerate(LABELS, start=FIRST_FREE):
        encoding = labels.encode(f"  {label} ")
        assert encoding.ids == (number,)
        assert encoding.spans == ((2, 2 + len(label)),)
        assert labels.decode([number]) == labels.surface(number).decode() == label
    assert labels.encode("very").ids == (UNKNOWN,)
    assert labels.encode(" \t").ids == labels.encode("").ids == labels.encode(" ").spans == ()


def test_labels_are_learned_by_frequency() -> None:
    labels = train_answers(["b", "a ", " b", "", "c", "b", "a"], unit="label")
    assert [labels.decode([id_]) for id_ in range(FIRST_FREE, labels.size)] == ["b", "a", "c"]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_is_its_bits(value: float) -> None:
    numbers = NumberTokenizer()
    (id_,) = numbers.encode(f" {value!r} ").ids
    assert -(2**31) <= id_ < 2**31
    assert numbers.value(id_) == value
    assert np.array([id_], dtype=np.int32).view(np.float32)[0] == np.float32(value)
    assert float(numbers.decode([id_])) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(("text", "told"), [("3.5", "3.5"), ("-0.25", "-0.25"), ("1e-3", "0.001"), ("7", "7")])
def test_a_number_is_told_as_people_write_it(text: str, told: str) -> None:
    numbers = NumberTokenizer()
    (id_,) = numbers.encode(text).ids
    assert numbers.decode([id_]) == numbers.piece(id_) == numbers.surface(id_).decode() == told
    assert numbers.encode(" ").ids == ()
    assert id_ == struct.unpack("<i", struct.pack("<f", float(text)))[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("three", "a number was expected, such as 3.5, and found is 'three'"),
        ("1,5", "a number was expected, such as 3.5, and found is '1,5'"),
        ("1 2", "a number was expected, such as 3.5, and found is '1 2'"),
        ("1e39", "a number was expected, such as 3.5, and found is '1e39'"),
        (" nan ", "a finite number was expected, and found is 'nan'"),
        ("-inf", "a finite number was expected, and found is '-inf'"),
    ],
)
def test_what_is_no_number_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        NumberTokenizer().encode(text)
    assert str(caught.value) == message


def test_answers_survive_files(tmp_path: Path) -> None:
    labels = LabelTokenizer(labels=LABELS)
    labels.save(tmp_path, "target")
    loaded = load_tokenizer(tmp_path, "target")
    assert (loaded.unit, loaded.size) == ("label", labels.size)
    assert [loaded.piece(id_) for id_ in range(loaded.size)] == [labels.piece(id_) for id_ in range(labels.size)]
    assert loaded.encode("bad") == labels.encode("bad")
    train_answers(["1", "2"], unit="number").save(tmp_path, "target")
    loaded = load_tokenizer(tmp_path, "target")
    assert loaded.unit == "number"
    assert math.isclose(float(loaded.decode(loaded.encode("2.5").ids)), 2.5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 1, "unit": "label"}', "the field `labels` is missing"),
        ('{"format": 1, "unit": "label", "labels": [1]}', "`labels` must hold texts that are not empty"),
        ('{"format": 1, "unit": "number", "labels": []}', "labels"),
    ],
)
def test_files_of_answers_that_are_damaged(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "target.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        load_tokenizer(tmp_path, "target")
    assert message in str(caught.value)

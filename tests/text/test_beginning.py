"""Very long texts: their first tokens are those of the whole text, and no more is made."""

import random

import pytest

from regard.text import Tokenizer, beginning
from regard.text.beginning import LONGEST_TEXT, encode_beginning
from regard.text.encoding import Encoding
from tests.text.test_every_unit import NAMES

WORDS = ("the", "cat", "cats", "Straße", "日本", "x", "", "lantern,", "a▁b", "é")


def texts() -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS, k=count)) for count in (1, 5, 20, 60, 200) for _ in range(4)]


@pytest.mark.parametrize("name", NAMES)
def test_first_tokens_are_those_of_the_whole_text(
    name: str, tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "LONGEST_TEXT", 12)
    monkeypatch.setattr(beginning, "REACH", 40)
    for text in texts():
        for line in (text, text + "\tV;PST;SG", f"{text}\t{text}\tN;PL"):
            whole = tokenizers[name].encode(line)
            found = encode_beginning(tokenizers[name], line)
            assert found.ids[:12] == whole.ids[:12]
            assert found.spans[:12] == whole.spans[:12]
            assert len(found) == len(found.spans) == min(13, len(whole))


class Watched:
    """A tokenizer of single characters that writes down how much it is given."""

    unit = "character"

    def __init__(self) -> None:
        self.given: list[int] = []

    def encode(self, text: str) -> Encoding:
        self.given.append(len(text))
        return Encoding(ids=(5,) * len(text), spans=((0, 1),) * len(text))


@pytest.mark.parametrize("text", ["a" * 2**21, "a " * 2**20, " " * 2**21])
def test_no_more_is_read_than_is_of_use(text: str) -> None:
    watched = Watched()
    assert len(encode_beginning(watched, text)) == LONGEST_TEXT + 1  # type: ignore[arg-type]
    assert sum(watched.given) <= 4 * LONGEST_TEXT


def test_a_long_word_is_one_word(tokenizers: dict[str, Tokenizer]) -> None:
    assert len(encode_beginning(tokenizers["word"], "a" * 2**20)) == 1
    assert len(encode_beginning(tokenizers["word"], "the " + "a" * 2**20 + " cat")) == 3
    assert encode_beginning(tokenizers["inflection"], "cat\t" + ";" * 2**20 + "SG").ids[:3] == (
        tokenizers["inflection"].encode("cat").ids
    )

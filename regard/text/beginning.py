"""Texts of any size: no more of them is made into tokens than a model can be told to read."""

from typing import Final

from regard.text.encoding import Encoding
from regard.text.tokenizer import Tokenizer

LONGEST_TEXT: Final = 2**16
"""The largest `data.max_length`. Tokens take a hundred times the memory of the text they stand for."""

REACH: Final = 4 * LONGEST_TEXT


def encode_beginning(tokenizer: Tokenizer, text: str) -> Encoding:
    """The tokens of a text; of one with more than `LONGEST_TEXT`, the first of them, and one more.

    A text of more than `REACH` characters is read word by word only as far as needed: its first tokens are those of the
    whole text, for no token reaches over a space. (Where a word is longer than `REACH` it is cut.)
    """
    reach = REACH
    while reach < len(text):
        encoding = tokenizer.encode(_first(text, reach, tokenizer.unit))
        if len(encoding) > LONGEST_TEXT:
            return _cut(encoding)
        reach *= 4
    return _cut(tokenizer.encode(text))


def read_part(tokenizer: Tokenizer, text: str, longest: int) -> str:
    """What of a text its first tokens stand for, so that it has no more of them; a character of which only some bytes
    are read is not in it.
    """
    spans = encode_beginning(tokenizer, text).spans
    return text if len(spans) <= longest else text[: min(spans[longest - 1][1], spans[longest][0])]


def _first(text: str, reach: int, unit: str) -> str:
    if unit == "inflection":  # what stands behind the last tab is no lemma
        lemma, tab, features = text.rpartition("\t")
        return lemma[:reach] + tab if len(lemma) > reach else lemma + tab + features[: reach - len(lemma)]
    space = text.rfind(" ", 0, reach)
    return text[: space if space > 0 else reach]


def _cut(encoding: Encoding) -> Encoding:
    if len(encoding) <= LONGEST_TEXT + 1:
        return encoding
    return Encoding(ids=encoding.ids[: LONGEST_TEXT + 1], spans=encoding.spans[: LONGEST_TEXT + 1])

"""Inflection requests: the characters of a lemma, then its morphological features, each one token.

A source is `lemma<TAB>features`, for example `laufen<TAB>V;PST;3;SG`. What stands before the last tab is the lemma; the
features after it are parted by `;` or `,` (SIGMORPHON uses both) and spaces around them do not count. Features have ids
of their own: the feature `3` is not the character `3`. A text without a tab is a lemma without features.

There is one UNKNOWN for both, so an unknown first feature reads like a last character of the lemma when decoded.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from regard.special import FIRST_FREE, UNKNOWN
from regard.text.encoding import Encoding
from regard.text.storage import Fields, Stored, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, check_ids, reserved_name, reserved_surfaces, show, to_bytes
from regard.text.vocabulary import Vocabulary, most_frequent

_FEATURE: Final = re.compile("[^;,]+")


def split_request(text: str) -> tuple[str, list[tuple[str, int]]]:
    """The lemma, and the features with the places of their first characters."""
    tab = text.rfind("\t")
    return (text, []) if tab < 0 else (text[:tab], list(_features(text, tab + 1)))


def _features(text: str, start: int) -> Iterator[tuple[str, int]]:
    for match in _FEATURE.finditer(text, start):
        feature = match.group().strip(" ")
        if feature:
            yield feature, match.start() + len(match.group()) - len(match.group().lstrip(" "))


class InflectionTokenizer:
    """Ids of characters first, then ids of features."""

    unit = "inflection"
    margin = (b"", b"")

    def __init__(self, *, characters: Sequence[str], features: Sequence[str]) -> None:
        self._characters = Vocabulary(characters)
        self._features = Vocabulary(features)
        self._surfaces = (
            *reserved_surfaces(UNKNOWN_SIGN),
            *(character.encode() for character in characters),
            *(b";" + feature.encode() for feature in features),
        )

    @classmethod
    def train(cls, texts: Iterable[str], *, size: int, minimum_count: int = 1) -> "InflectionTokenizer":
        """The most frequent characters and features, which share the room of `size` ids."""
        counts: Counter[tuple[str, bool]] = Counter()
        for text in texts:
            to_bytes(text)
            lemma, features = split_request(text)
            counts.update((character, False) for character in lemma)
            counts.update((feature, True) for feature, _ in features)
        chosen = most_frequent(counts, size=size, minimum_count=minimum_count)
        return cls(
            characters=[entry for entry, is_feature in chosen if not is_feature],
            features=[entry for entry, is_feature in chosen if is_feature],
        )

    @classmethod
    def restore(cls, fields: Fields) -> "InflectionTokenizer":
        """Build the tokenizer that a file describes."""
        characters, features = fields.texts("characters"), fields.texts("features")
        if any(len(character) != 1 for character in characters):
            fields.refuse("`characters` holds an entry of more than one character")
        if any(split_request(f"\t{feature}")[1] != [(feature, 1)] for feature in features):
            fields.refuse("`features` holds an entry that is not one feature")
        fields.finish()
        return cls(characters=characters, features=features)

    @property
    def size(self) -> int:
        return len(self._surfaces)

    @property
    def first_feature(self) -> int:
        """The first id that stands for a feature; all later ones do, too."""
        return self._characters.size

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:  # noqa: ARG002
        to_bytes(text)
        lemma, features = split_request(text)
        return Encoding(
            ids=(*map(self._characters.id, lemma), *(self._feature_id(feature) for feature, _ in features)),
            spans=(
                *((place, place + 1) for place in range(len(lemma))),
                *((start, start + len(feature)) for feature, start in features),
            ),
        )

    def _feature_id(self, feature: str) -> int:
        id_ = self._features.id(feature)
        return id_ if id_ == UNKNOWN else id_ - FIRST_FREE + self.first_feature

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.size)
        shown = [id_ for id_ in ids if id_ >= FIRST_FREE or id_ == UNKNOWN]
        lemma_length = next((place for place, id_ in enumerate(shown) if id_ >= self.first_feature), len(shown))
        lemma = b"".join(self._surfaces[id_] for id_ in shown[:lemma_length]).decode()
        features = [self._surfaces[id_].decode().removeprefix(";") for id_ in shown[lemma_length:]]
        return f"{lemma}\t{';'.join(features)}" if features else lemma

    def piece(self, id_: int) -> str:
        if id_ >= self.first_feature:
            return show(self._features.entries[id_ - self.first_feature])
        return reserved_name(id_) or show(self._characters.entries[id_ - FIRST_FREE])

    def surface(self, id_: int) -> bytes:
        """The bytes of one id; a feature has the `;` before it, where the first of a text has a tab instead."""
        return self._surfaces[id_]

    def stored(self) -> Stored:
        return Stored({"unit": self.unit, "characters": self._characters.entries, "features": self._features.entries})

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())

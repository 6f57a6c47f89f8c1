"""Slot error rate: which slots of a meaning representation are missing in a text, and which of its values are wrong.

A meaning representation is written as in the E2E challenge (Novikova et al. 2017): `name[Aromi], food[Chinese]`. A slot
is realised if its value stands in the text, in any case, between word boundaries. Slots that are yes or no, and other
values that people put in other words, are realised by one of the patterns of `WORDINGS`. Slot error rate after Wen et
al. 2015: (missing + added) / slots, in per cent.

A slot that is not asked for is added where the text has one of the wordings of its yes or no. Added values of open
slots (a second name) cannot be seen without knowing all values; they are not counted.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from regard.errors import DataError
from regard.metrics.matching import VERSION
from regard.metrics.resampling import Statistics

_SLOT: Final = re.compile(r"\s*([^\[\],]+?)\s*\[([^\[\]]*)\]\s*(?:,|$)")

_NO_CHILDREN: Final = (
    r"\b(?:not|n't|non|no|isn't|aren't|doesn't|never|un)\b[\w\s,'-]{0,30}\b(?:famil|kid|child)"
    r"|\b(?:adults? only|adult(?:-only)?|unsuitable for)\b|\b(?:child|kid|famil\w*)[\s-]*(?:free|unfriendly)"
)
_CHILDREN: Final = r"\b(?:famil|kid|child)"

WORDINGS: Final[Mapping[tuple[str, str], str]] = {
    ("familyfriendly", "no"): _NO_CHILDREN,
    ("familyfriendly", "yes"): _CHILDREN,
    ("customer rating", "1 out of 5"): r"\b(?:1|one)[\s-]*(?:out of|/|of)?[\s-]*(?:5|five)\b|\b(?:1|one)[\s-]?star",
    ("customer rating", "3 out of 5"): r"\b(?:3|three)[\s-]*(?:out of|/|of)?[\s-]*(?:5|five)\b|\b(?:3|three)[\s-]?star",
    ("customer rating", "5 out of 5"): r"\b(?:5|five)[\s-]*(?:out of|/|of)[\s-]*(?:5|five)\b|\b(?:5|five)[\s-]?star",
    ("customer rating", "low"): r"\b(?:low|poor|bad|badly)",
    ("customer rating", "average"): r"\b(?:average|decent|middling|mediocre|moderate)",
    ("customer rating", "high"): r"\b(?:high|excellent|great|good|well|top|best)",
    ("pricerange", "cheap"): r"\b(?:cheap|inexpensive|low[\s-]*(?:price|cost)|affordable|low)",
    ("pricerange", "moderate"): r"\b(?:moderate|mid|medium|average|reasonabl)",
    ("pricerange", "high"): r"\b(?:high|expensive|pricey|costly|upscale)",
    ("pricerange", "less than £20"): r"\b(?:less than|under|below|cheap|low|up to|inexpensive)",
    ("pricerange", "£20-25"): r"£?\s*20\s*(?:-|–|to|and)\s*£?\s*25|\b(?:moderate|mid|average)",
    ("pricerange", "more than £30"): r"\b(?:more than|over|above|high|expensive|pricey)",
    ("area", "riverside"): r"\briver",
    ("area", "city centre"): r"\b(?:cent(?:re|er)|downtown|city)\b",
    ("eattype", "coffee shop"): r"\b(?:coffee|cafe|café)",
    ("eattype", "pub"): r"\b(?:pub|bar)s?\b",
    ("eattype", "restaurant"): r"\b(?:restaurant|dining|place to eat|eatery)",
    ("food", "fast food"): r"\bfast[\s-]?food",
    ("food", "english"): r"\b(?:english|british)",
}
"""How values of the E2E slots are told; names and values in small letters."""


class SlotError:
    """The slot error rate of texts; the references are meaning representations, the sources of data-to-text."""

    name: Final = "slot_error"
    signature: Final = f"case:lc|slots:e2e|{VERSION}"
    higher_is_better: Final = False

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: missing slots, added slots, slots, 1 if there is any error, 1."""
        rows = []
        for number, (text, meanings) in enumerate(zip(hypotheses, references, strict=True), start=1):
            if len(meanings) != 1:
                raise DataError(f"segment {number} has {len(meanings)} references; a text has one meaning")
            slots = parse_slots(meanings[0], where=f"segment {number}")
            missing = len(missing_slots(text, slots))
            added = len(added_slots(text, slots))
            rows.append((missing, added, len(slots), missing + added > 0, 1))
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """100 · (missing + added) / slots."""
        missing, added, slots, wrong, segments = totals.tolist()
        return 100 * (missing + added) / slots if slots else 0.0, {
            "missing": missing,
            "added": added,
            "slots": slots,
            "wrong_texts": 100 * wrong / segments,
        }


def parse_slots(text: str, *, where: str = "") -> tuple[tuple[str, str], ...]:
    """Read `name[Aromi], area[riverside]` as names and values."""
    slots: list[tuple[str, str]] = []
    place = 0
    while place < len(text.rstrip()):
        match = _SLOT.match(text, place)
        if match is None:
            told = f"{where}: " if where else ""
            raise DataError(
                f"{told}{text[place : place + 40]!r} is no slot of a meaning representation: write name[value], "
                "with commas between slots. (The references of slot_error are meaning representations)"
            )
        slots.append((match[1], match[2].strip()))
        place = match.end()
    return tuple(slots)


def missing_slots(text: str, slots: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Slots whose value the text does not tell; one that says it is not for families does not say that it is."""
    lower = text.lower()
    return [slot for slot in slots if not _realised(lower, *slot)]


def added_slots(text: str, slots: Sequence[tuple[str, str]]) -> list[str]:
    """Slots with two values, yes and no, that the text tells though they are not asked for."""
    given = {name.lower() for name, _ in slots}
    lower = text.lower()
    return ["familyFriendly"] if "familyfriendly" not in given and re.search(_CHILDREN, lower) else []


def _realised(text: str, name: str, value: str) -> bool:
    key = (name.lower(), value.lower())
    if key == ("familyfriendly", "yes"):
        return re.search(_CHILDREN, text) is not None and re.search(_NO_CHILDREN, text) is None
    return _wording(*key).search(text) is not None


@lru_cache(maxsize=10_000)
def _wording(name: str, value: str) -> re.Pattern[str]:
    literal = r"(?<!\w)" + r"[\s-]+".join(map(re.escape, value.split())) + r"(?!\w)" if value.strip() else r"^"
    further = WORDINGS.get((name, value))
    return re.compile(f"{literal}|{further}" if further else literal)

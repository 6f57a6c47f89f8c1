"""The one interface between text and ids; every unit of text is a class that has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from regard.errors import UsageError
from regard.text.encoding import Encoding


@dataclass(frozen=True, slots=True)
class Draw:
    """Asks for a random segmentation instead of the best one.

    `rate` is the share of merges that are dropped (bpe, codes: Provilkov et al. 2020) or the smoothing of the draw
    (unigram: the exponent alpha of Kudo 2018, where 1 draws by probability and small values draw nearly evenly). A rate
    of 0 asks for the best segmentation in every unit. The draw is a pure function of text, `rate` and `key`, so that
    training data is the same whoever prepares it and in whatever order.
    """

    rate: float
    key: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise UsageError(f"the rate of a drawn segmentation is {self.rate}; it must lie between 0 and 1")


class Tokenizer(Protocol):
    """Characters to ids and back. Reserved ids (`regard.special`) never come out of `encode`, except UNKNOWN."""

    @property
    def unit(self) -> str:
        """The name of the unit in recipes: word, character, byte, bpe, unigram, codes, inflection, imported."""
        ...

    @property
    def size(self) -> int:
        """How many ids there are, the reserved ones included."""
        ...

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:
        """Ids of a text with their spans. `draw` has no effect on units that have one segmentation only."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids. Reserved ids give nothing, except UNKNOWN, which gives `⁇`."""
        ...

    def piece(self, id_: int) -> str:
        """How one id is shown to people."""
        ...

    def surface(self, id_: int) -> bytes:
        """The bytes that one id adds to the output text; what constraints on the output are lifted to tokens by.

        `decode` is the joined surfaces without the `margin`, read as UTF-8 (unit inflection, which is for sources only,
        is the one exception).
        """
        ...

    @property
    def margin(self) -> tuple[bytes, bytes]:
        """What `decode` takes off the two ends of the joined surfaces, where it is there.

        A space in front for bpe and unigram, so that a word is the same piece at the start of a text and after a space;
        a space at the end for word and codes, whose last piece of a word carries the space that follows it.
        """
        ...

    def save(self, folder: Path, name: str) -> None:
        """Write `name.json` (and other files that start with `name.`) into a folder."""
        ...

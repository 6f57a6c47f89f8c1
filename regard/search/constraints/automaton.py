"""What a constraint on an output is: a deterministic automaton over the characters of its text.

The guarantee is on the text, so it cannot be evaded by spelling a word with other tokens. An automaton is data: frozen
values, and functions of nothing else.
"""

from collections.abc import Hashable
from typing import Protocol


class Automaton(Protocol):
    """Reads a text character by character."""

    @property
    def start(self) -> Hashable: ...

    @property
    def told(self) -> str:
        """What is demanded of an output, for people: a sentence without its first words and its stop."""
        ...

    @property
    def goal(self) -> int:
        """The largest progress, where parts of the text are demanded; 0 where nothing is."""
        ...

    @property
    def size(self) -> int:
        """About how many states there are; a large number where nobody knows."""
        ...

    def next(self, state: Hashable, character: str) -> Hashable | None:
        """The state after a character; None where no text that begins so is accepted."""
        ...

    def accepts(self, state: Hashable) -> bool:
        """Whether the text may be over here."""
        ...

    def least(self, state: Hashable) -> int:
        """A lower bound of the bytes that must still come before the text may be over."""
        ...

    def progress(self, state: Hashable) -> int:
        """How much of what is demanded is there, from 0 to `goal`."""
        ...

    def takes(self, state: Hashable, low: int, high: int) -> bool:
        """Whether some character between two code points can come next."""
        ...

    def characters_between(self, state: Hashable, low: int, high: int) -> list[str]:
        """Characters between two code points that can come next, one at least for each way to go on."""
        ...

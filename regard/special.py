"""The four reserved ids, the same in every vocabulary.

They are numbers, never text: a user who types `<s>` gets the characters `<`, `s`, `>`.
"""

from typing import Final

PAD: Final = 0
UNKNOWN: Final = 1
START: Final = 2
END: Final = 3

MASK: Final = START
"""What a hidden item of a source reads as: no source has a start, so its id is free there."""

NAMES: Final = ("<pad>", "<unk>", "<s>", "</s>")
"""How reserved ids are shown to people; never parsed back."""

FIRST_FREE: Final = len(NAMES)
"""The first id that stands for text."""

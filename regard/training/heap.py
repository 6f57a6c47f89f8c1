"""Gives back what the heap keeps beyond need.

Training keeps its heap from step to step (`regard.process.keep_heap`), for giving memory back and taking it again costs
a fifth of a step. Batches of other lengths leave holes in it that fit no later tensor, so that the heap of a wide model
grows to several times of what is in it. Where it has grown by half, what is free is given back once: one step takes it
anew, and pays for it.
"""

from typing import Final

from regard.process import give_back
from regard.training.events import Event, Stepped

GROWN: Final = 1.5
"""Times what was held when steps were first told, or first told after memory was given back."""


class HeapWatch:
    """An observer of a training."""

    def __init__(self) -> None:
        self.usual = 0

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Stepped) or not event.memory:
            return
        if not self.usual:
            self.usual = event.memory
        elif event.memory > GROWN * self.usual:
            give_back()
            self.usual = 0

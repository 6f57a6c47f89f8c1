"""A constraint in the terms of the engine alone: one token must come, another must not. It needs no torch."""

from array import array

from regard.engine.constraints import EngineState
from regard.special import FIRST_FREE


class Wanting:
    """State 0: `wanted` has not come yet; state 1: it has. Distances are told, or asked for."""

    start = 0
    goal = 1

    def __init__(self, vocabulary: int, *, wanted: int = 7, forbidden: int = 9, asked: bool = False) -> None:
        self.vocabulary, self.wanted, self.forbidden, self.asked = vocabulary, wanted, forbidden, asked

    def state(self, number: int) -> EngineState:
        tokens = [token for token in range(FIRST_FREE, self.vocabulary) if token != self.forbidden]
        return EngineState(
            tokens=array("i", tokens),
            ways=array("i", [int(token == self.wanted) for token in tokens]),
            states=[number, 1],
            progresses=[number, 1],
            distances=None if self.asked else [1 - number, 0],
            may_end=number == 1,
            progress=number,
            enough=1 << 40 if self.asked else 1,
        )

    def open(self, number: int, left: int) -> bytes:
        return bytes([number == 1 or left > 1, 1])

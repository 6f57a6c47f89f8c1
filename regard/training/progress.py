"""How far a training has come: everything the loop must remember besides weights and optimiser."""

import math
from collections.abc import Container
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from regard.data.batches import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Counts after `step` updates. `validated` lists the steps whose checkpoints may be averaged.

    `judged_step` is the last step that was validated, `falls` how often the learning rate fell on a plateau, `flat` the
    validations without a gain since then.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    without_gain: int = 0
    skipped: int = 0
    judged_step: int = 0
    falls: int = 0
    flat: int = 0
    validated: tuple[int, ...] = ()

    @property
    def cursor(self) -> Cursor:
        return Cursor(epoch=self.epoch, position=self.position)

    def moved(self, cursor: Cursor) -> "Progress":
        """With the data before `cursor` done."""
        return replace(self, epoch=cursor.epoch, position=cursor.position)

    def judged(self, value: float, *, average: int, fall_after: int | None = None) -> "Progress":
        """After a validation whose `value` is better when larger; one that is not finite is no gain."""
        gained = math.isfinite(value) and (self.best is None or value > self.best)
        flat = 0 if gained else self.flat + 1
        falling = fall_after is not None and flat >= fall_after
        return replace(
            self,
            best=value if gained else self.best,
            best_step=self.step if gained else self.best_step,
            without_gain=0 if gained else self.without_gain + 1,
            judged_step=self.step,
            falls=self.falls + falling,
            flat=0 if falling else flat,
            validated=(*self.validated, self.step)[-average:],
        )

    def without(self, steps: Container[int]) -> "Progress":
        """With the checkpoints of some steps lost: any later one is better than a best that is gone."""
        lost = self.best_step in steps
        return replace(
            self,
            best=None if lost else self.best,
            best_step=0 if lost else self.best_step,
            validated=tuple(step for step in self.validated if step not in steps),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Progress":
        """What `to_json` made; counts that an earlier version did not have begin anew."""
        known = {field.name for field in fields(cls)}
        kept = {name: value for name, value in record.items() if name in known}
        return cls(**{**kept, "validated": tuple(record["validated"])})

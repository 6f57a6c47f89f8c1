"""Warnings in words when learning looks wrong.

`Health` reads what the loop tells and answers with `Warned` events. Every rule compares a run with its own past, never
with what other tasks reach, and asks for more than one sign, so that a good run is left in peace: a warning that is
often wrong is not read. A kind of warning is told once, and again only after it has been gone for a while.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Literal

from regard.training.events import Event, Sampled, Shown, Skipped, Started, StartedFrom, Stepped, Validated, Warned

Kind = Literal[
    "flat",
    "diverging",
    "exploding",
    "overfitting",
    "vanishing",
    "alike",
    "repeating",
    "rate",
    "clipped",
    "skipped",
]

WINDOW = 5
"""Reports (each a mean over many steps) that must agree: one is chance, five are a state."""

PATIENT_STEPS = 300
"""Steps after the warm-up before anything but numbers that explode is called wrong."""

FLAT_FALL = 0.02
"""A loss that fell by less than this share of its first value was not learned from: frequencies alone give more."""

RISE, RISE_NATS = 1.25, 0.5
"""A loss is diverging above this multiple of its best and by more than these nats. Batches differ by far less, and a
loss near 0 may double without harm."""

EXPLODING = 30.0
"""The gradient's norm moves by a factor of ten in good runs; this is beyond it."""

VANISHING = 1e-3
"""Of what the norm was. It falls with the loss, so the loss must still be high: above `STILL_HIGH` of its first
value."""
STILL_HIGH = 0.7

OVERFITTING_VALIDATIONS = 3
OVERFITTING_RISE, OVERFITTING_NATS, OVERFITTING_FALL = 1.05, 0.1, 0.05
"""Validation losses in a row above this multiple of the best and by these nats, while the training loss fell by this
share: less is the noise of small validation sets."""

ALIKE_VALIDATIONS = 2
LEAST_SAMPLES = 3
"""Two outputs may be the same by chance; three for different sources with different references, twice, are not."""

CYCLES = 6
LONGEST_CYCLE = 4
"""Up to so many words (or characters) that come so often in a row are a loop, not a style."""

CLIPPED_SHARE = 0.9
CLIPPED_FACTOR = 10.0
"""Many good recipes cut most gradients a little, and Adam does not care; cut to a tenth on average, the limit and not
the gradient decides."""

MANY_SKIPPED, SKIPPED_WITHIN = 5, 1000
"""One update in 200 that is not finite is more than an accident."""

GONE, GONE_VALIDATIONS = 2 * WINDOW, 3
"""For so many reports, or validations, must a rule not hold before it is told again: what comes and goes is told
once, and a single good report is in five windows."""


@dataclass(frozen=True, slots=True)
class _Report:
    step: int
    loss: float
    likelihood: float
    norm: float
    clipped: float


class Health:
    """Reads events, answers with warnings.

    `clip` is the largest norm of gradients, 0 for none; `guessing` the loss of one who knows nothing and holds every
    token for equally likely, where that means something. `steady` is false where the objective itself changes while
    training goes on (more and more of the model's own outputs are read, say), so that a rising loss means nothing.
    A run that goes on is judged by its past, so the events of its log are to be read again first.
    """

    def __init__(self, *, warmup: int, clip: float, guessing: float | None = None, steady: bool = True) -> None:
        self.warmup = warmup
        self.guessing = guessing
        self.clip = clip
        self.steady = steady
        self.fresh = True
        self.total: int | None = None
        self.reports: list[_Report] = []
        self.validations: list[tuple[int, float, bool]] = []
        self.sampled: list[tuple[Shown, ...]] = []
        self.skipped: list[int] = []
        self.absent: dict[Kind, int] = {}

    def __call__(self, event: Event) -> list[Warned]:
        """What is to be told after an event."""
        match event:
            case StartedFrom():
                self.fresh = False
            case Started(total_steps=total, progress=progress):
                self.total = total
                self.fresh = self.fresh and (not progress.step or bool(self.reports))
            case Stepped(progress=progress):
                likelihood, norm = event.likelihood, event.gradient_norm
                self.reports.append(_Report(progress.step, event.loss, likelihood, norm, event.clipped))
                found = self._of_steps()
                found["rate"] = self._zero_rate(event)
                return self._told(event, found)
            case Validated(progress=progress):
                self.validations.append((progress.step, event.loss, event.gained))
                return self._told(event, {"overfitting": self._overfitting()})
            case Sampled(samples=samples):
                self.sampled = [*self.sampled, samples][-ALIKE_VALIDATIONS:]
                settled = event.progress.step >= 2 * self.warmup + PATIENT_STEPS
                return self._told(event, self._of_samples() if settled else {})
            case Skipped(progress=progress):
                self.skipped.append(progress.step)
                return self._told(event, {"skipped": self._many_skipped(progress.step)})
            case _:
                pass
        return []

    def _told(self, event: Event, found: dict[Kind, str]) -> list[Warned]:
        """Those of the sentences that are news."""
        told = []
        for kind, text in found.items():
            if not text:
                self.absent[kind] = self.absent.get(kind, GONE) + 1
                continue
            long = GONE_VALIDATIONS if kind in ("overfitting", "alike", "repeating") else GONE
            if self.absent.get(kind, GONE) >= long:
                told.append(Warned(event.progress, kind, text))
            self.absent[kind] = 0
        return told

    def _of_steps(self) -> dict[Kind, str]:
        now = self.reports[-1].step
        recent, before = self.reports[-WINDOW:], self.reports[:-WINDOW]
        if len(before) < WINDOW:
            return {}
        settled = now >= self.warmup + PATIENT_STEPS
        flat = _flat(self.reports) if settled and self.fresh else ""
        risen = _diverging(before, recent) if self.steady else ""
        wild = _beyond_guessing(recent, self.guessing) if settled and not flat else ""
        return {
            "flat": flat,
            "diverging": risen or wild,
            "exploding": _exploding(before, recent),
            "vanishing": _vanishing(self.reports) if settled and self.fresh else "",
            "clipped": self._clipped(self.reports[-2 * WINDOW :]) if settled else "",
            "skipped": self._many_skipped(now),
        }

    def _zero_rate(self, event: Stepped) -> str:
        if event.learning_rate > 0 or event.progress.step == self.total:
            return ""
        return (
            f"the learning rate is {event.learning_rate:g} at step {event.progress.step:,}, so nothing is learned any "
            "more. The schedule has reached its end, or training.learning_rate is 0: give more training.steps, or "
            "another training.schedule"
        )

    def _clipped(self, reports: Sequence[_Report]) -> str:
        share = sum(one.clipped for one in reports) / len(reports)
        norm = median(one.norm for one in reports)
        if not self.clip or share < CLIPPED_SHARE or norm < CLIPPED_FACTOR * self.clip:
            return ""
        return (
            f"{share:.0%} of the updates since step {reports[0].step:,} were clipped: the gradient's norm is about "
            f"{norm:.3g}, and training.clip allows {self.clip:g}. The limit decides how far each update goes, not the "
            "data; try a higher training.clip, a longer training.warmup or a lower training.learning_rate"
        )

    def _many_skipped(self, now: int) -> str:
        lately = [step for step in self.skipped if step > now - SKIPPED_WITHIN]
        if len(lately) < MANY_SKIPPED:
            return ""
        return (
            f"{len(lately)} updates since step {lately[0]:,} were left out because their numbers were not finite. "
            "Training is close to diverging; try a lower training.learning_rate, a longer training.warmup or a lower "
            "training.clip"
        )

    def _overfitting(self) -> str:
        """A rising validation loss is no harm while what validation is judged by still gains."""
        losses = [(step, loss) for step, loss, _ in self.validations]
        step, best = min(losses, key=lambda one: one[1])
        since = [loss for at, loss in losses if at > step][-OVERFITTING_VALIDATIONS:]
        gained = any(gained for _, _, gained in self.validations[-OVERFITTING_VALIDATIONS:])
        if len(since) < OVERFITTING_VALIDATIONS or gained:
            return ""
        if min(since) < OVERFITTING_RISE * best or min(since) < best + OVERFITTING_NATS:
            return ""
        around = [one.likelihood for one in self.reports if one.step <= step][-WINDOW:]
        now = [one.likelihood for one in self.reports[-WINDOW:]]
        if not around or median(now) > (1 - OVERFITTING_FALL) * median(around):
            return ""
        return (
            f"the validation loss has risen from {best:.3f} at step {step:,}, its best, to {since[-1]:.3f}, while the "
            f"training loss fell from {median(around):.3f} to {median(now):.3f}. The model learns the training data by "
            "heart; the best weights are kept. Try more data, a higher model.dropout, a smaller model, or fewer steps"
        )

    def _of_samples(self) -> dict[Kind, str]:
        return {"alike": _alike(self.sampled), "repeating": _repeating(self.sampled)}


def _flat(reports: Sequence[_Report]) -> str:
    first, now = reports[0], median(one.loss for one in reports[-WINDOW:])
    lowest = min(one.loss for one in reports)
    if min(now, lowest) < (1 - FLAT_FALL) * first.loss or now > RISE * first.loss:
        return ""
    return (
        f"the loss was {first.loss:.3f} at step {first.step:,} and is {now:.3f} at step {reports[-1].step:,}: hardly "
        "anything is learned. Usually the learning rate is far too low or too high, or sources and targets do not "
        "belong together; try another training.learning_rate, and look at some pairs with `regard data check`"
    )


def _diverging(before: Sequence[_Report], recent: Sequence[_Report]) -> str:
    best = min(before, key=lambda one: one.loss)
    if min(one.loss for one in recent) < max(RISE * best.loss, best.loss + RISE_NATS):
        return ""
    return (
        f"the loss has risen from {best.loss:.3f} at step {best.step:,} to {recent[-1].loss:.3f} at step "
        f"{recent[-1].step:,}. Training diverges; the best weights so far are kept. Try a lower "
        "training.learning_rate, a longer training.warmup or a lower training.clip"
    )


def _beyond_guessing(recent: Sequence[_Report], guessing: float | None) -> str:
    """What diverged within the first report has no better past of its own."""
    if guessing is None or min(one.likelihood for one in recent) < RISE * guessing + RISE_NATS:
        return ""
    return (
        f"the loss is {recent[-1].likelihood:.3f} at step {recent[-1].step:,}, far above the {guessing:.3f} of "
        "guessing any token: training went wrong at its beginning. Start anew (--overwrite) with a "
        "training.learning_rate of a tenth or less, or a longer training.warmup"
    )


def _exploding(before: Sequence[_Report], recent: Sequence[_Report]) -> str:
    usual = median(one.norm for one in before)
    falling = median(one.loss for one in recent) < min(one.loss for one in before)
    if falling or not usual or min(one.norm for one in recent) < EXPLODING * usual:
        return ""
    return (
        f"the gradient's norm was about {usual:.3g} and is {recent[-1].norm:.3g} since step {recent[0].step:,}. "
        "Gradients explode, as they do in deep or recurrent models when steps are too long; try a lower "
        "training.learning_rate or a lower training.clip"
    )


def _vanishing(reports: Sequence[_Report]) -> str:
    first = median(one.norm for one in islice(reports, WINDOW))
    now = median(one.norm for one in reports[-WINDOW:])
    loss = median(one.loss for one in reports[-WINDOW:])
    if now > VANISHING * first or loss < STILL_HIGH * reports[0].loss:
        return ""
    return (
        f"the gradient's norm has gone from about {first:.3g} to {now:.3g}, but the loss is still {loss:.3f} (it was "
        f"{reports[0].loss:.3f}). Gradients vanish: units are saturated or nothing reaches the lower layers. Start "
        "anew with a lower training.learning_rate; for recurrent models try an lstm or gru cell, or fewer layers"
    )


def _alike(sampled: Sequence[tuple[Shown, ...]]) -> str:
    if len(sampled) < ALIKE_VALIDATIONS or not all(_all_alike(samples) for samples in sampled):
        return ""
    output, count = sampled[-1][0].output, len(sampled[-1])
    shown = f"“{_short(output)}”" if output.strip() else "nothing"
    return (
        f"the outputs for {count} different sources are all the same, now and at the validation before: {shown}. The "
        "model does not heed its source; try more steps, a lower training.learning_rate with a longer "
        "training.warmup, and look whether sources and targets belong together"
    )


def _all_alike(samples: Sequence[Shown]) -> bool:
    if len(samples) < LEAST_SAMPLES or len({one.output for one in samples}) > 1:
        return False
    return len({one.source for one in samples}) == len({one.reference for one in samples}) == len(samples)


def _repeating(sampled: Sequence[tuple[Shown, ...]]) -> str:
    if len(sampled) < ALIKE_VALIDATIONS:
        return ""
    looping = [[one for one in samples if _loops(one)] for samples in sampled]
    if not all(looping):
        return ""
    worst = looping[-1][0]
    part, count = loop_in(worst.output)
    return (
        f"an output repeats “{_short(part)}” {count} times: “{_short(worst.output)}”. The model has not learned where "
        "it is in the source or when to end; try more steps, or a longer training.warmup, and see whether the "
        "training data has such lines"
    )


def _loops(shown: Shown) -> bool:
    return loop_in(shown.output)[1] >= CYCLES > loop_in(shown.reference or "")[1]


def loop_in(text: str) -> tuple[str, int]:
    """The part of up to four words that comes most often in a row, and how often; of a single word, characters."""
    words = text.split()
    items, joint = (words, " ") if len(words) > 1 else (list(text.strip()), "")
    best: tuple[str, int] = ("", 0)
    for size in range(1, LONGEST_CYCLE + 1):
        same = 0
        for place in range(size, len(items)):
            same = same + 1 if items[place] == items[place - size] else 0
            count = same // size + 1
            if same >= size and count > best[1]:
                best = joint.join(items[place - size + 1 : place + 1]), count
    return best


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

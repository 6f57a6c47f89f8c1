"""Micro-batches that are learned from at the same time, each on threads of its own.

Threads that share every product wait for each other after each of them, which takes a small model a good part of its
time. Lanes meet once for each update. What they compute follows from their number alone: each draws from a generator of
its own, and gradients are summed in the order of the lanes, however many threads there are.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial, reduce
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from regard.kernels.draws import drawing_from
from regard.training.parallel import Learned

Made = TypeVar("Made")


class Lost(NamedTuple):
    """What a micro-batch adds up to, as numbers."""

    sum: float
    likelihood: float


class Lanes:
    """So many micro-batches at a time, where there are as many threads; else one after the other."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._others = ThreadPoolExecutor(count - 1, thread_name_prefix="lane") if count > 1 else None

    def learn(
        self,
        parameters: Sequence[nn.Parameter],
        lessons: Sequence[Callable[[], Learned]],
        chances: Sequence[torch.Generator],
        factor: float,
    ) -> list[Lost]:
        """Add `factor` times the gradients of all lessons to those of parameters; each lane has its generator."""
        if self._others is None:
            return [_backward(lesson(), factor) for lesson in lessons]
        drawn = zip(lessons, chances[: len(lessons)], strict=True)  # the last of a batch may be fewer than lanes
        works = [partial(_gradients, *one, factor, parameters) for one in drawn]
        found = self._each(works)
        add_gradients(parameters, (gradients for _, gradients in found))
        return [lost for lost, _ in found]

    def _each(self, works: Sequence[Callable[[], Made]]) -> list[Made]:
        """What all works give, in their order. All have ended when this ends, also by an error."""
        threads = torch.get_num_threads()
        if self._others is None or threads < self.count or len(works) < 2:
            return [work() for work in works]
        each = threads // self.count
        waiting: list[Future[Made]] = [
            self._others.submit(copy_context().run, _on_threads, each, work) for work in works[1:]
        ]
        try:
            made = [_on_threads(each, works[0])]
        finally:
            try:
                _let_end(waiting)
            finally:
                torch.set_num_threads(threads)
        while waiting:  # no name holds what has failed: it would keep itself, and with it all that its lane had made
            made.append(waiting.pop(0).result())
        return made


def _let_end(waiting: Sequence[Future[Made]]) -> None:
    """Wait for all, also where a signal would have us do something else: nobody must be at work behind our back."""
    try:
        wait(waiting)
    except BaseException:
        wait(waiting)
        raise


def _on_threads(count: int, work: Callable[[], Made]) -> Made:
    torch.set_num_threads(count)
    return work()


def _backward(learned: Learned, factor: float) -> Lost:
    (learned.sum * factor).backward()
    return Lost(float(learned.sum.detach()), float(learned.likelihood))


def _gradients(
    lesson: Callable[[], Learned], chance: torch.Generator, factor: float, parameters: Sequence[nn.Parameter]
) -> tuple[Lost, Sequence[Tensor | None]]:
    with drawing_from(chance):
        learned = lesson()
        found = torch.autograd.grad(learned.sum * factor, parameters, allow_unused=True)
    return Lost(float(learned.sum.detach()), float(learned.likelihood)), found


def add_gradients(parameters: Sequence[nn.Parameter], found: Iterable[Sequence[Tensor | None]]) -> None:
    """Add the gradients that each lane has found to those of the parameters, in their order."""
    by_count: dict[int, list[tuple[nn.Parameter, list[Tensor]]]] = {}
    for parameter, *gradients in zip(parameters, *found, strict=True):
        known = [one for one in gradients if one is not None]
        by_count.setdefault(len(known), []).append((parameter, known))
    for count, some in by_count.items():
        lanes = [[known[lane] for _, known in some] for lane in range(count)]
        if not lanes:
            continue
        # Not written over: what torch gives may be another parameter's gradient, too.
        totals = reduce(_sums, lanes) if count > 1 else [one.clone() for one in lanes[0]]
        for (parameter, _), total in zip(some, totals, strict=True):
            parameter.grad = total if parameter.grad is None else parameter.grad.add_(total)


def _sums(some: list[Tensor], others: list[Tensor]) -> list[Tensor]:
    """Of many tensors, in one call."""
    return list(torch._foreach_add(some, others))

"""Beam search in which sentences enter and leave while others run.

Requests wait in a queue; whenever places are free they are started together and join the running grid. Each step reads
one token in every row, keeps the K best continuations of each sentence, and lets finished sentences go. A continuation
that ends leaves the beam for the list of finished hypotheses, the others go on; so a beam of 1 is greedy search. What a
sentence gives depends on its own request only: rows never look at each other, and options belong to the request.

A sentence stops when no running hypothesis can still enter its n best. With the score log p / |y|^α a running
hypothesis can at best keep its log-probability and reach the longest length, so log p / limit^α bounds it. This takes
log p ≤ 0 for granted. Sums run in double precision: in single, the last tokens of a long output drown in the sum.

Shapes: S sentences, K beams, V vocabulary, T tokens so far.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.data.batch import Sources, join_sources
from regard.errors import ModelError
from regard.models.contracts import Scorer, State
from regard.search.hypothesis import Finished, Hypothesis
from regard.search.options import SearchOptions, normalised
from regard.special import END, PAD, START, UNKNOWN

WORST = -math.inf


@dataclass(frozen=True, slots=True)
class Request:
    """One sentence to be searched. `items` is the length of its source, which limits the output."""

    id: int
    sources: Sources
    items: int
    options: SearchOptions


@dataclass(slots=True)
class _Running:
    """A request in the grid, with what it has finished so far, best first."""

    request: Request
    limit: int
    steps: int = 0
    done: list[Hypothesis] = field(default_factory=list)

    def finish(self, hypothesis: Hypothesis) -> None:
        self.done.append(hypothesis)
        self.done.sort(key=lambda one: -one.score)
        del self.done[self.request.options.best :]

    @property
    def bar(self) -> float:
        """The score a further hypothesis must beat."""
        return self.done[-1].score if len(self.done) == self.request.options.best else WORST


@dataclass(frozen=True, slots=True)
class _Grid:
    """The rows of all running sentences. Histories are aligned at the end, like the caches of a state."""

    state: State
    scores: Tensor  # (S, K) log-probabilities; -inf where a row is not in use
    tokens: Tensor  # (S, K, T)
    steps: Tensor  # (S, K, T) log-probability of each token; anything where a row is not in use

    def select(self, sentences: Tensor | None, beams: Tensor) -> "_Grid":
        rows = (torch.arange(len(beams)) if sentences is None else sentences).unsqueeze(1)
        return _Grid(
            state=self.state.select(sentences, beams),
            scores=self.scores[rows, beams],
            tokens=self.tokens[rows, beams],
            steps=self.steps[rows, beams],
        )

    def join(self, other: "_Grid") -> "_Grid":
        length = max(self.tokens.size(2), other.tokens.size(2))
        pairs = ((self.tokens, other.tokens), (self.steps, other.steps))
        tokens, steps = (torch.cat((_front(one, length), _front(another, length))) for one, another in pairs)
        return _Grid(
            state=self.state.join(other.state),
            scores=torch.cat((self.scores, other.scores)),
            tokens=tokens,
            steps=steps,
        )

    def widen(self, beams: int) -> "_Grid":
        """The same rows in a grid of more beams; the new rows are not in use."""
        sentences, present = self.scores.shape
        if present == beams:
            return self
        wide = self.select(None, torch.arange(beams).clamp(max=present - 1).expand(sentences, -1))
        wide.scores[:, present:] = WORST
        return wide


def _front(rows: Tensor, length: int) -> Tensor:
    return torch.nn.functional.pad(rows, (length - rows.size(2), 0))


class Search:
    """`add` requests, then call `step` until it is no longer `busy`. One thread at a time."""

    def __init__(self, scorer: Scorer, *, capacity: int = 64) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.scorer = scorer
        self.capacity = capacity
        self._queue: deque[Request] = deque()
        self._running: list[_Running] = []
        self._grid: _Grid | None = None

    @property
    def busy(self) -> bool:
        return bool(self._queue or self._running)

    @property
    def waiting(self) -> int:
        """Requests that have not started."""
        return len(self._queue)

    def add(self, requests: Iterable[Request]) -> None:
        """Put requests at the end of the queue."""
        self._queue.extend(requests)

    def cancel(self, id_: int) -> None:
        """Forget a request, waiting or running; an unknown id is no error, it may have finished."""
        self._queue = deque(request for request in self._queue if request.id != id_)
        self._keep([index for index, one in enumerate(self._running) if one.request.id != id_])

    @torch.no_grad()
    def step(self) -> list[Finished]:
        """Read one token in every row; returns the requests that are done."""
        if self._queue and len(self._running) <= self.capacity * 3 // 4:
            self._admit()
        if self._grid is None:
            return []
        step = self.scorer.step(self._grid.tokens[:, :, -1], self._grid.state)
        self._advance(step.log_probabilities, step.state)
        return self._leave()

    def _admit(self) -> None:
        free = self.capacity - len(self._running)
        new = [self._queue.popleft() for _ in range(min(free, len(self._queue)))]
        shape = (len(new), 1, 1)
        grid = _Grid(
            state=self.scorer.start(join_sources([request.sources for request in new])),
            scores=torch.zeros(shape[:2], dtype=torch.float64),
            tokens=torch.full(shape, START),
            steps=torch.zeros(shape, dtype=torch.float64),
        )
        if self._grid is None:
            self._grid = grid
        else:
            beams = self._grid.scores.size(1)
            self._grid = self._grid.join(grid.widen(beams))
        self._running += [_Running(request=request, limit=request.options.limit(request.items)) for request in new]

    def _permitted(self, log_probabilities: Tensor) -> Tensor:
        """What was said (S, K, V), without what must not come out; the scorer's own tensor stays as it is."""
        forbidden = log_probabilities.new_zeros(log_probabilities.size(0), 1, log_probabilities.size(2))
        forbidden[:, :, [PAD, START]] = WORST
        forbidden[[not one.request.options.unknown for one in self._running], :, UNKNOWN] = WORST
        return log_probabilities + forbidden

    def _advance(self, log_probabilities: Tensor, state: State) -> None:
        """Keep the best continuations of each sentence; ends go to the sentence's own list."""
        assert self._grid is not None
        widths = torch.tensor([one.request.options.beam for one in self._running])
        values, rows, tokens = best_continuations(
            self._grid.scores, self._permitted(log_probabilities), int(widths.max())
        )  # (S, K) each; a sentence with a narrower beam of its own leaves the last rows unused
        if values.isnan().any():
            raise ModelError("the model says NaN instead of probabilities; its weights are damaged or diverged")
        values[torch.arange(values.size(1)) >= widths.unsqueeze(1)] = WORST
        ended = tokens == END
        self._collect_ends((ended & values.isfinite()).nonzero(), values, rows)
        values[ended] = WORST
        before = self._grid
        moved = _Grid(state=state, scores=before.scores, tokens=before.tokens, steps=before.steps).select(None, rows)
        self._grid = _Grid(
            state=moved.state,
            scores=values,
            tokens=torch.cat((moved.tokens, tokens.unsqueeze(2)), dim=2),
            steps=torch.cat((moved.steps, (values - moved.scores).nan_to_num(0.0).unsqueeze(2)), dim=2),
        )
        for one in self._running:
            one.steps += 1

    def _collect_ends(self, ends: Tensor, values: Tensor, rows: Tensor) -> None:
        assert self._grid is not None
        for sentence, candidate in ends.tolist():
            one = self._running[sentence]
            row, value = int(rows[sentence, candidate]), float(values[sentence, candidate])
            last = value - float(self._grid.scores[sentence, row])
            one.finish(self._hypothesis(one, sentence, row, value, last))

    def _hypothesis(self, one: _Running, sentence: int, row: int, value: float, last: float | None) -> Hypothesis:
        """A row as a hypothesis; `last` is the log-probability of its end, None for one that was cut off."""
        assert self._grid is not None
        length = one.steps
        history = slice(self._grid.tokens.size(2) - length, None)
        tokens = self._grid.tokens[sentence, row, history].tolist() if length else []
        steps = self._grid.steps[sentence, row, history].tolist() if length else []
        if last is not None:
            steps = [*steps, last]
        return Hypothesis(
            tokens=tuple(tokens),
            log_probability=value,
            score=normalised(value, max(1, len(steps)), one.request.options.length_penalty),
            token_log_probabilities=tuple(steps),
            complete=last is not None,
        )

    def _leave(self) -> list[Finished]:
        """Let sentences go that are done: nothing can improve them, or the limit of length is reached."""
        assert self._grid is not None
        best = self._grid.scores.amax(1).tolist()
        finished: list[Finished] = []
        stay: list[int] = []
        for sentence, (one, running) in enumerate(zip(self._running, best, strict=True)):
            bound = normalised(running, one.limit, one.request.options.length_penalty)
            if one.steps < one.limit and running > WORST and bound > one.bar:
                stay.append(sentence)
                continue
            if not one.done:
                self._cut(one, sentence)
            finished.append(Finished(id=one.request.id, hypotheses=tuple(one.done)))
        self._keep(stay)
        return finished

    def _cut(self, one: _Running, sentence: int) -> None:
        """Nothing ended within the limit: the running rows are all there is."""
        assert self._grid is not None
        for row, value in enumerate(self._grid.scores[sentence].tolist()):
            if value > WORST:
                one.finish(self._hypothesis(one, sentence, row, value, None))

    def _keep(self, stay: Sequence[int]) -> None:
        if self._grid is None or len(stay) == len(self._running):
            return
        self._running = [self._running[sentence] for sentence in stay]
        if not stay:
            self._grid = None
            return
        widest = max(one.request.options.beam for one in self._running)
        beams = torch.arange(min(widest, self._grid.scores.size(1)))
        grid = self._grid.select(torch.tensor(stay), beams.expand(len(stay), -1))
        length = max(one.steps for one in self._running) + 1
        self._grid = _Grid(
            state=grid.state, scores=grid.scores, tokens=grid.tokens[:, :, -length:], steps=grid.steps[:, :, -length:]
        )


def best_continuations(scores: Tensor, log_probabilities: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence: (S, K), (S, K, V) → values, rows and tokens, each (S, C), best first.

    The best of a sentence are among the best of each of its rows, so the choice is made in two small steps.
    """
    vocabulary = log_probabilities.size(2)
    values, tokens = log_probabilities.topk(min(count, vocabulary), dim=2)  # (S, K, C')
    per_row = values.size(2)
    values = (values + scores.unsqueeze(2)).flatten(1)
    best, places = values.topk(min(count, values.size(1)), dim=1)  # (S, C)
    return best, places // per_row, tokens.flatten(1).gather(1, places)

"""A search in which sentences enter and leave while others run.

Requests wait in a queue; whenever places are free they are started together and join the running grid. Each step reads
one token in every row, chooses the continuations of each sentence, and lets finished sentences go. How they are chosen
is the business of the request's options: the best (`beam`), drawn ones (`sampling`), or the next token of a prefix.
What a sentence gives depends on its own request only: rows never look at each other.

Sums run in double precision: in single, the last tokens of a long output drown in the sum.

Shapes: S sentences, K beams, V vocabulary, T tokens so far.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import join_sources
from regard.errors import ModelError, UsageError
from regard.models.contracts import Scorer, State
from regard.search.beam import Ranked, best_continuations
from regard.search.grid import WORST, Continuations, Grid, merge
from regard.search.hypothesis import Finished, Hypothesis, Outcome
from regard.search.options import SearchOptions
from regard.search.request import Request
from regard.search.sampling import Drawn, chances, drawn_continuations
from regard.special import END, PAD, START, UNKNOWN


@dataclass(slots=True)
class _Running:
    """A request in the grid, with what it has found so far."""

    request: Request
    outcome: Outcome
    limit: int
    steps: int = 0

    @property
    def forced(self) -> bool:
        """Whether the next token is one of the prefix."""
        return self.steps < len(self.request.prefix)


class Search:
    """`add` requests, then call `step` until it is no longer `busy`. One thread at a time."""

    def __init__(self, scorer: Scorer, *, capacity: int = 64) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.scorer = scorer
        self.capacity = capacity
        self._queue: deque[Request] = deque()
        self._running: list[_Running] = []
        self._grid: Grid | None = None

    @property
    def busy(self) -> bool:
        return bool(self._queue or self._running)

    def add(self, requests: Iterable[Request]) -> None:
        """Put requests at the end of the queue."""
        for request in requests:
            for token in request.prefix:
                if not 0 <= token < self.scorer.vocabulary:
                    raise UsageError(
                        f"the prefix of request {request.id} has the id {token}, but the model's vocabulary has "
                        f"{self.scorer.vocabulary} ids; encode it with the model's own target text"
                    )
            self._queue.append(request)

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
        state = self.scorer.start(join_sources([request.sources for request in new]))
        grid = Grid.start(state, [request.options.best if request.options.sample else 1 for request in new])
        self._grid = grid if self._grid is None else self._grid.join(grid)
        for request in new:
            limit = self._limit(request)
            self._running.append(_Running(request=request, outcome=_outcome(request, limit), limit=limit))

    def _limit(self, request: Request) -> int:
        """Each token of an output, its end included, comes after one that is read: START or the one before it."""
        longest = self.scorer.longest
        return request.limit if longest is None else min(request.limit, longest)

    def _advance(self, log_probabilities: Tensor, state: State) -> None:
        """Continue each sentence; ends go to the sentence's own outcome."""
        assert self._grid is not None
        chosen = self._continuations(log_probabilities)
        if chosen.values.isnan().any():
            raise ModelError("the model says NaN instead of probabilities; its weights are damaged or diverged")
        ended = chosen.tokens == END
        self._collect_ends((ended & chosen.values.isfinite()).nonzero(), chosen)
        going = replace(chosen, values=chosen.values.masked_fill(ended, WORST))
        self._grid = self._grid.advance(state, going.in_use_first())
        for one in self._running:
            one.steps += 1

    def _continuations(self, log_probabilities: Tensor) -> Continuations:
        """What was said (S, K, V), as a choice; sentences that choose alike do it together."""
        alike: dict[SearchOptions | None, list[int]] = {}
        for sentence, one in enumerate(self._running):
            alike.setdefault(None if one.forced else one.request.options, []).append(sentence)
        if len(alike) == 1:
            (options,) = alike
            return self._choose(options, slice(None), log_probabilities)
        parts = []
        for options, sentences in alike.items():
            places = torch.tensor(sentences)
            parts.append((places, self._choose(options, places, log_probabilities[places])))
        return merge(parts)

    def _choose(self, options: SearchOptions | None, places: slice | Tensor, said: Tensor) -> Continuations:
        """Continuations of some sentences with the same options; None where their next token is forced."""
        assert self._grid is not None
        scores = self._grid.scores[places]
        running = self._running if isinstance(places, slice) else [self._running[place] for place in places.tolist()]
        if options is None:
            forced = torch.tensor([one.request.prefix[one.steps] for one in running])
            return forced_continuations(scores, said, forced)
        forbidden = (PAD, START) if options.unknown else (PAD, START, UNKNOWN)
        if not options.sample:
            return best_continuations(scores, said, count=options.beam, forbidden=forbidden)
        ids, steps = [one.request.id for one in running], [one.steps for one in running]
        chance = chances(options.seed, ids, self._grid.samples[places], steps)
        return drawn_continuations(scores, said, chance, options=options, forbidden=forbidden)

    def _collect_ends(self, ends: Tensor, chosen: Continuations) -> None:
        assert self._grid is not None
        for sentence, candidate in ends.tolist():
            row, value = int(chosen.rows[sentence, candidate]), float(chosen.values[sentence, candidate])
            last = value - float(self._grid.scores[sentence, row])
            self._finish(sentence, row, value, last)

    def _finish(self, sentence: int, row: int, value: float, last: float | None) -> None:
        """A row becomes a hypothesis; `last` is the log-probability of its end, None for one that was cut off."""
        assert self._grid is not None
        one = self._running[sentence]
        history = slice(self._grid.tokens.size(2) - one.steps, None)
        tokens = self._grid.tokens[sentence, row, history].tolist()
        steps = self._grid.steps[sentence, row, history].tolist()
        if last is not None:
            steps.append(last)
        hypothesis = Hypothesis(
            tokens=tuple(tokens),
            log_probability=value,
            score=one.request.options.score(value, len(steps)),
            token_log_probabilities=tuple(steps),
            complete=last is not None,
        )
        one.outcome.add(hypothesis, int(self._grid.samples[sentence, row]))

    def _leave(self) -> list[Finished]:
        """Let sentences go that are done: nothing can change what they found, or the limit of length is reached."""
        assert self._grid is not None
        best = self._grid.scores.amax(1).tolist()
        finished: list[Finished] = []
        stay: list[int] = []
        for sentence, (one, running) in enumerate(zip(self._running, best, strict=True)):
            if one.steps < one.limit and running > WORST and one.outcome.is_open(running):
                stay.append(sentence)
                continue
            if one.outcome.takes_cut:
                self._cut(sentence)
            finished.append(Finished(id=one.request.id, hypotheses=one.outcome.hypotheses()))
        self._keep(stay)
        return finished

    def _cut(self, sentence: int) -> None:
        """The limit was reached: the running rows become hypotheses as they are."""
        assert self._grid is not None
        for row, value in enumerate(self._grid.scores[sentence].tolist()):
            if value > WORST:
                self._finish(sentence, row, value, None)

    def _keep(self, stay: Sequence[int]) -> None:
        if self._grid is None or len(stay) == len(self._running):
            return
        self._running = [self._running[sentence] for sentence in stay]
        longest = max((one.steps for one in self._running), default=0)
        self._grid = self._grid.keep(stay, longest + 1) if stay else None


def _outcome(request: Request, limit: int) -> Outcome:
    return Drawn() if request.options.sample else Ranked(options=request.options, limit=limit)


def forced_continuations(scores: Tensor, log_probabilities: Tensor, tokens: Tensor) -> Continuations:
    """Every row goes on with the one token of its sentence: (S, K), (S, K, V), (S,) → (S, K)."""
    wanted = tokens.unsqueeze(1).expand(scores.shape)
    said = log_probabilities.gather(2, wanted.unsqueeze(2)).squeeze(2)
    return Continuations(values=scores + said, rows=torch.arange(scores.size(1)).expand(scores.shape), tokens=wanted)

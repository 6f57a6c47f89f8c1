"""A search in which sentences enter and leave while others run.

Requests wait in a queue; whenever places are free they are started together and join the running grid. Each step reads
one token in every row, chooses the continuations of each sentence, and lets finished sentences go. How they are chosen
is the business of the request's options: the best (`beam`), drawn ones (`sampling`, `stochastic`), or the next token of
a prefix. A constraint, a minimum length and blocked n-grams take tokens away before the choice.
What a sentence gives depends on its own request only: rows never look at each other.

Sums run in double precision: in single, the last tokens of a long output drown in the sum.

Shapes: S sentences, K beams, V vocabulary, T tokens so far.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.data.batch import join_sources
from regard.errors import ModelError, UsageError
from regard.models.contracts import Scorer, Step
from regard.search.beam import best_continuations
from regard.search.choice import choose_alone, drop_contradictions, write_trace
from regard.search.grid import WORST, Continuations, Grid, merge
from regard.search.hypothesis import Finished, Hypothesis, Parts
from regard.search.options import SearchOptions
from regard.search.request import Request
from regard.search.running import Running, first_rows, hopeless, never
from regard.search.sampling import chances, drawn_continuations
from regard.special import END

Last = tuple[float, float]
"""The log-probability of an end, and what a language model adds to it."""


class Search:
    """`add` requests, then call `step` until it is no longer `busy`. One thread at a time."""

    def __init__(self, scorer: Scorer, *, capacity: int = 64) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.scorer = scorer
        self.capacity = capacity
        self._queue: deque[Request] = deque()
        self._running: list[Running] = []
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
        refused: list[Finished] = []
        if self._queue and len(self._running) <= self.capacity * 3 // 4:
            refused = self._admit()
        if self._grid is None:
            return refused
        self._advance(self.scorer.step(self._grid.tokens[:, :, -1], self._grid.state))
        return refused + self._leave()

    def _admit(self) -> list[Finished]:
        """Start requests; returns those whose constraint no output can satisfy."""
        free = self.capacity - len(self._running)
        waiting = [self._queue.popleft() for _ in range(min(free, len(self._queue)))]
        reasons = {request.id: hopeless(request, self._limit(request)) for request in waiting}
        new = [request for request in waiting if not reasons[request.id]]
        if new:
            state = self.scorer.start(join_sources([request.sources for request in new]))
            grid = Grid.start(state, [first_rows(request.options) for request in new])
            self._grid = grid if self._grid is None else self._grid.join(grid)
            self._running += [Running(request=request, limit=self._limit(request)) for request in new]
        return [Finished(id=id_, hypotheses=(), reason=reason) for id_, reason in reasons.items() if reason]

    def _limit(self, request: Request) -> int:
        """Each token of an output, its end included, comes after one that is read: START or the one before it."""
        longest = self.scorer.longest
        return request.limit if longest is None else min(request.limit, longest)

    def _advance(self, step: Step) -> None:
        """Continue each sentence; ends go to the sentence's own outcome."""
        assert self._grid is not None
        if step.coverage is None and any(one.request.options.coverage_penalty for one in self._running):
            raise UsageError("coverage_penalty needs attention to the source, and this model has none; leave it out")
        told = step.log_probabilities if step.fusion is None else step.log_probabilities + step.fusion
        said = self._permitted(told)
        chosen = drop_contradictions(self._running, self._continuations(said))
        if chosen.values.isnan().any():
            raise ModelError("the model says NaN instead of probabilities; its weights are damaged or diverged")
        coverage = None if step.coverage is None else step.coverage.tolist()
        nodes = [
            write_trace(
                one,
                place,
                self._grid,
                said,
                chosen,
                coverage=None if coverage is None else coverage[place],
                fusion=step.fusion,
            )
            for place, one in enumerate(self._running)
        ]
        ended = chosen.tokens == END
        self._collect_ends((ended & chosen.values.isfinite()).nonzero(), chosen, step.fusion, coverage, nodes)
        going = replace(chosen, values=chosen.values.masked_fill(ended, WORST)).in_use_first()
        for sentence, one in enumerate(self._running):
            if not one.plain:
                count = int((going.values[sentence] > WORST).sum())
                rows, tokens = (part[sentence, :count].tolist() for part in (going.rows, going.tokens))
                numbers = [nodes[sentence][pair] for pair in zip(rows, tokens, strict=True)] if nodes[sentence] else []
                one.move(rows, tokens, None if coverage is None else coverage[sentence], numbers)
            one.steps += 1
        self._grid = self._grid.advance(step.state, going, step.fusion)

    def _permitted(self, said: Tensor) -> Tensor:
        """What was said, without what a sentence's own rules forbid; copied only where there are such rules."""
        assert self._grid is not None
        strict = [place for place, one in enumerate(self._running) if one.masks and not one.forced]
        if not strict:
            return said
        said = said.clone()
        for sentence in strict:
            one = self._running[sentence]
            rows = slice(None) if one.plain else slice(len(one.rows))
            history = self._grid.tokens[sentence, rows, self._grid.tokens.size(2) - one.steps :]
            said[sentence, rows] = one.permitted(said[sentence, rows], history)
        return said

    def _continuations(self, log_probabilities: Tensor) -> Continuations:
        """What was said (S, K, V), as a choice; sentences that choose alike do it together."""
        assert self._grid is not None
        alike: dict[SearchOptions | None, list[int]] = {}
        parts = []
        for sentence, one in enumerate(self._running):
            if one.alone:
                chosen = choose_alone(one, self._grid, sentence, log_probabilities[sentence])
                parts.append((torch.tensor([sentence]), chosen))
            else:
                alike.setdefault(None if one.forced else one.request.options, []).append(sentence)
        if len(alike) == 1 and not parts:
            (options,) = alike
            return self._choose(options, slice(None), log_probabilities)
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
        if not options.sample:
            return best_continuations(scores, said, count=options.beam, forbidden=never(options))
        ids, steps = [one.request.id for one in running], [one.steps for one in running]
        chance = chances(options.seed, ids, self._grid.samples[places], steps)
        return drawn_continuations(scores, said, chance, options=options, forbidden=never(options))

    def _collect_ends(
        self,
        ends: Tensor,
        chosen: Continuations,
        fusion: Tensor | None,
        coverage: list[list[float]] | None,
        nodes: Sequence[dict[tuple[int, int], int]],
    ) -> None:
        assert self._grid is not None
        for sentence, candidate in ends.tolist():
            row, value = int(chosen.rows[sentence, candidate]), float(chosen.values[sentence, candidate])
            added = 0.0 if fusion is None else float(fusion[sentence, row, END])
            last = value - float(self._grid.scores[sentence, row]) - added, added
            one = self._running[sentence]
            covered = 0.0 if coverage is None else coverage[sentence][row]
            found = self._finish(sentence, row, value, last, covered, (row, END))
            if one.tracer is not None:
                one.tracer.decide(nodes[sentence][row, END], "ended", found.score)

    def _finish(
        self, sentence: int, row: int, value: float, last: Last | None, coverage: float, pair: tuple[int, int]
    ) -> Hypothesis:
        """A row becomes a hypothesis; `last` is about its end, None for one that was cut off."""
        assert self._grid is not None
        one = self._running[sentence]
        history = slice(self._grid.tokens.size(2) - one.steps, None)
        tokens = self._grid.tokens[sentence, row, history].tolist()
        steps, added = (part[sentence, row, history].tolist() for part in (self._grid.steps, self._grid.added))
        if last is not None:
            steps.append(last[0])
            added.append(last[1])
        fusion = math.fsum(added)
        options = one.request.options
        drawn = None
        if options.stochastic:
            drawn = one.drawn.get(pair) if last is not None else one.rows[row].perturbed
        parts = Parts(
            likelihood=options.score(value - fusion, len(steps)),
            coverage=options.coverage_penalty * coverage,
            fusion=options.score(fusion, len(steps)),
            perturbed=None if drawn is None else drawn.value,
        )
        hypothesis = Hypothesis(
            tokens=tuple(tokens),
            log_probability=value - fusion,
            score=options.score(value, len(steps), coverage) if drawn is None else drawn.value,
            token_log_probabilities=tuple(steps),
            complete=last is not None,
            parts=parts,
        )
        one.outcome.add(hypothesis, int(self._grid.samples[sentence, row]))
        return hypothesis

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
            if running > WORST:
                self._cut(sentence)
            finished.append(_finished(one))
        self._keep(stay)
        return finished

    def _cut(self, sentence: int) -> None:
        """The limit was reached, or nothing can improve the outcome: running rows are hypotheses as they are, or go."""
        assert self._grid is not None
        one = self._running[sentence]
        takes = one.outcome.takes_cut
        for row, value in enumerate(self._grid.scores[sentence].tolist()):
            if value == WORST:
                continue
            cut = takes and one.satisfies(row)
            if cut:
                coverage = 0.0 if one.plain else one.rows[row].coverage
                self._finish(sentence, row, value, None, coverage, (row, END))
            if one.tracer is not None and one.rows[row].node >= 0:
                one.tracer.decide(one.rows[row].node, "cut" if cut else "stopped")

    def _keep(self, stay: Sequence[int]) -> None:
        if self._grid is None or len(stay) == len(self._running):
            return
        self._running = [self._running[sentence] for sentence in stay]
        longest = max((one.steps for one in self._running), default=0)
        self._grid = self._grid.keep(stay, longest + 1) if stay else None


def _finished(one: Running) -> Finished:
    hypotheses = one.outcome.hypotheses()
    constraint = one.request.constraint
    reason = ""
    if not hypotheses:
        reason = "the model holds nothing for possible that could go on"
        if constraint is not None:
            reason = f"no hypothesis that was kept came to an end as demanded: {constraint.told}"
    trace = None if one.tracer is None else one.tracer.trace()
    return Finished(id=one.request.id, hypotheses=hypotheses, reason=reason, trace=trace)


def forced_continuations(scores: Tensor, log_probabilities: Tensor, tokens: Tensor) -> Continuations:
    """Every row goes on with the one token of its sentence: (S, K), (S, K, V), (S,) → (S, K)."""
    wanted = tokens.unsqueeze(1).expand(scores.shape)
    said = log_probabilities.gather(2, wanted.unsqueeze(2)).squeeze(2)
    return Continuations(values=scores + said, rows=torch.arange(scores.size(1)).expand(scores.shape), tokens=wanted)

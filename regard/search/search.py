"""A search in which sentences enter and leave while others run.

Requests wait in a queue; whenever places are free they are started together and join the running grid. Each step reads
one token in every row, chooses the continuations of each sentence, and lets finished sentences go. How they are chosen
is the business of the request's options: the best (`beam`), drawn ones (`sampling`, `stochastic`), or the next token of
a prefix. A constraint, a minimum length and blocked n-grams take tokens away before the choice.
What a sentence gives depends on its own request only: rows of different sentences never look at each other.

Sums run in double precision: in single, the last tokens of a long output drown in the sum.

Shapes: S sentences, K beams, V vocabulary.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import join_sources
from regard.errors import ModelError, UsageError
from regard.models.contracts import Scorer, Step
from regard.search.beam import best_alone, best_continuations
from regard.search.choice import choose_alone, drop_contradictions, write_trace
from regard.search.grid import WORST, Chosen, Continuations, Grid, Taken, merge
from regard.search.hypothesis import Finished, Hypothesis, Parts
from regard.search.options import SearchOptions
from regard.search.request import Request
from regard.search.running import Running, first_rows, hopeless, never, nothing_found
from regard.search.sampling import chances, drawn_continuations
from regard.search.trace import Fate
from regard.special import END

Last = tuple[float, float]
"""The log-probability of an end, and what a language model adds to it."""

Nodes = dict[tuple[int, int], int]
"""The numbers of nodes of a trace by (row, token)."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of the rows of one sentence at a step, beside what was said."""

    coverage: list[float] | None
    fusion: Tensor | None  # (K, V)
    nodes: Nodes


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
        self._advance(self.scorer.step(self._grid.tokens, self._grid.state))
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
        chosen = said = None
        if step.fusion is None and all(one.quick and not one.forced for one in self._running) and self._alike():
            listed = self._quickly(step)
        else:
            told = step.log_probabilities if step.fusion is None else step.log_probabilities + step.fusion
            said = self._permitted(told)
            chosen = drop_contradictions(self._running, self._continuations(said))
            listed = chosen.listed()
        if any(value != value for one in listed for value, _, _ in one):
            raise ModelError("the model says NaN instead of probabilities; its weights are damaged or diverged")
        coverage = None if step.coverage is None else step.coverage.tolist()
        taken = []
        for sentence, (one, continued) in enumerate(zip(self._running, listed, strict=True)):
            nodes: Nodes = {}
            covered = None if coverage is None else coverage[sentence]
            if one.tracer is not None and said is not None and chosen is not None:
                nodes = write_trace(one, sentence, self._grid, said, chosen, coverage=covered, fusion=step.fusion)
            told_of = Told(coverage=covered, fusion=None if step.fusion is None else step.fusion[sentence], nodes=nodes)
            going = self._sort_out(sentence, continued, told_of)
            if not one.plain:
                pairs = zip(going.rows, going.tokens, strict=True)
                one.move(going.rows, going.tokens, covered, [nodes[pair] for pair in pairs] if nodes else [])
            taken.append(going)
        for one, going in zip(self._running, taken, strict=True):
            one.take(going)
        self._grid = self._grid.advance(step.state, taken)

    def _sort_out(self, sentence: int, chosen: Sequence[Chosen], told: "Told") -> Taken:
        """Continuations that end go to the sentence's outcome, the others go on."""
        one = self._running[sentence]
        going: list[Chosen] = []
        for value, row, token in chosen:
            if value == WORST:
                continue
            if token != END:
                going.append((value, row, token))
                continue
            before = one.history[-1].values[row] if one.history else 0.0
            added = 0.0 if told.fusion is None else float(told.fusion[row, END])
            covered = 0.0 if told.coverage is None else told.coverage[row]
            found = self._finish(sentence, row, value, (value - before - added, added), covered)
            if one.tracer is not None:
                one.tracer.decide(told.nodes[row, END], "ended", found.score)
        if one.quick:
            one.drop_hopeless(going)
        added_each = None
        if told.fusion is not None:
            added_each = [float(told.fusion[row, token]) for _, row, token in going]
        return Taken(
            values=[value for value, _, _ in going],
            rows=[row for _, row, _ in going],
            tokens=[token for _, _, token in going],
            added=added_each,
        )

    def _alike(self) -> bool:
        """Whether all sentences have the same options."""
        options = self._running[0].request.options
        return all(one.request.options is options or one.request.options == options for one in self._running)

    def _quickly(self, step: Step) -> list[list[Chosen]]:
        """The best continuations, where nothing else is to be known."""
        assert self._grid is not None
        options, logits, normaliser = self._running[0].request.options, step.logits, step.normaliser
        count, forbidden = options.beam, never(options)
        plain = logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
        if len(self._running) == 1 and step.largest is None and plain:
            one, shift = self._running[0], None if normaliser is None else normaliser[0]
            return [
                best_alone(
                    self._grid.values[0], logits[0], count=count, forbidden=forbidden, normaliser=shift, early=one.early
                )
            ]
        early = torch.tensor([one.early for one in self._running]) if options.min_length > 1 else None
        return best_continuations(
            self._grid.scores,
            logits,
            count=count,
            forbidden=forbidden,
            normaliser=normaliser,
            early=early,
            largest=step.largest,
        ).listed()

    def _permitted(self, said: Tensor) -> Tensor:
        """What was said, without what a sentence's own rules forbid; copied only where there are such rules."""
        assert self._grid is not None
        strict = [place for place, one in enumerate(self._running) if one.masks and not one.forced]
        if not strict:
            return said
        said = said.clone()
        for sentence in strict:
            one = self._running[sentence]
            rows = slice(one.in_use if one.plain else len(one.rows))
            said[sentence, rows] = one.permitted(said[sentence, rows])
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

    def _finish(self, sentence: int, row: int, value: float, last: Last | None, coverage: float) -> Hypothesis:
        """A row becomes a hypothesis; `last` is about its end, None for one that was cut off."""
        assert self._grid is not None
        one = self._running[sentence]
        tokens, steps, added = one.path(row)
        if last is not None:
            steps.append(last[0])
            added.append(last[1])
        fusion = math.fsum(added)
        options = one.request.options
        drawn = None
        if options.stochastic:
            drawn = one.drawn.get((row, END)) if last is not None else one.rows[row].perturbed
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
        one.outcome.add(hypothesis, self._grid.sample(sentence, row))
        return hypothesis

    def _leave(self) -> list[Finished]:
        """Let sentences go that are done: nothing can change what they found, or the limit of length is reached."""
        assert self._grid is not None
        finished: list[Finished] = []
        stay: list[int] = []
        for sentence, one in enumerate(self._running):
            if one.steps < one.limit and one.best > WORST and one.outcome.is_open(one.best, one.steps):
                stay.append(sentence)
                continue
            if one.best > WORST:
                self._cut(sentence)
            finished.append(_finished(one))
        self._keep(stay)
        return finished

    def _cut(self, sentence: int) -> None:
        """The limit was reached, or nothing can improve the outcome: running rows are hypotheses as they are, or go."""
        assert self._grid is not None
        one = self._running[sentence]
        takes = one.outcome.takes_cut
        for row, value in enumerate(one.history[-1].values):
            found = None
            if takes and one.satisfies(row):
                coverage = 0.0 if one.plain else one.rows[row].coverage
                found = self._finish(sentence, row, value, None, coverage)
            if one.tracer is not None and one.rows[row].node >= 0:
                fate: Fate = "stopped" if found is None else "cut"
                one.tracer.decide(one.rows[row].node, fate, None if found is None else found.score)

    def _keep(self, stay: Sequence[int]) -> None:
        if self._grid is None or len(stay) == len(self._running):
            return
        self._running = [self._running[sentence] for sentence in stay]
        self._grid = self._grid.keep(stay) if stay else None


def _finished(one: Running) -> Finished:
    hypotheses = one.outcome.hypotheses()
    reason = "" if hypotheses else nothing_found(one.request)
    trace = None if one.tracer is None else one.tracer.trace()
    return Finished(id=one.request.id, hypotheses=hypotheses, reason=reason, trace=trace)


def forced_continuations(scores: Tensor, log_probabilities: Tensor, tokens: Tensor) -> Continuations:
    """Every row goes on with the one token of its sentence: (S, K), (S, K, V), (S,) → (S, K)."""
    wanted = tokens.unsqueeze(1).expand(scores.shape)
    said = log_probabilities.gather(2, wanted.unsqueeze(2)).squeeze(2)
    return Continuations(values=scores + said, rows=torch.arange(scores.size(1)).expand(scores.shape), tokens=wanted)

"""A request while it runs: what it has found, and what is known of each of its rows beside the grid."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard.search.beam import Ranked
from regard.search.grid import WORST, Chosen, Taken
from regard.search.hypothesis import Outcome
from regard.search.options import SearchOptions
from regard.search.request import Request
from regard.search.sampling import Drawn
from regard.search.stochastic import Perturbed, Unreplaced, root
from regard.search.trace import Tracer
from regard.special import END, PAD, START, UNKNOWN


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a row; only requests that need it have rows."""

    state: Hashable = None  # of the constraint
    coverage: float = 0.0
    perturbed: Perturbed | None = None
    node: int = -1  # of the trace


def first_rows(options: SearchOptions) -> int:
    """How many rows a request begins with: each sample and each group has its own."""
    return options.best if options.sample else options.groups


def _outcome(request: Request, limit: int) -> Outcome:
    if request.options.sample:
        return Drawn()
    return Unreplaced(request.options) if request.options.stochastic else Ranked(options=request.options, limit=limit)


@dataclass(slots=True)
class Running:
    """A request in the grid."""

    request: Request
    limit: int
    steps: int = 0
    outcome: Outcome = field(init=False)
    rows: list[Row] = field(init=False)
    tracer: Tracer | None = field(init=False)
    plain: bool = field(init=False)
    """Whether nothing is to be known of its rows."""
    quick: bool = field(init=False)
    """Whether its best continuations are wanted, whatever its rows have said."""
    history: list[Taken] = field(default_factory=list)
    best: float = 0.0
    """The largest log-probability of its rows."""
    drawn: dict[tuple[int, int], Perturbed] = field(default_factory=dict)
    """Of a stochastic beam, what the chosen continuations (row, token) of this step were drawn with."""

    def __post_init__(self) -> None:
        options, constraint = self.request.options, self.request.constraint
        self.outcome = _outcome(self.request, self.limit)
        self.tracer = Tracer() if options.trace else None
        one = Row(
            state=None if constraint is None else constraint.start,
            perturbed=root(options, self.request.id) if options.stochastic else None,
        )
        self.rows = [one] * first_rows(options)
        simple = not (options.trace or options.stochastic or options.coverage_penalty)
        self.plain = simple and constraint is None
        self.quick = self.plain and not (options.sample or options.block_ngrams or options.groups > 1)

    @property
    def forced(self) -> bool:
        """Whether the next token is one of the prefix."""
        return self.steps < len(self.request.prefix)

    def take(self, taken: Taken) -> None:
        """Go on with these rows."""
        self.history.append(taken)
        self.best = max(taken.values, default=WORST)
        self.steps += 1

    def drop_hopeless(self, going: list[Chosen]) -> None:
        """Take away what cannot change the outcome any more, of continuations that are wanted best first."""
        if self.request.options.stopping == "exact":
            while going and not self.outcome.is_open(going[-1][0], self.steps + 1):
                going.pop()

    def path(self, row: int) -> tuple[list[int], list[float], list[float]]:
        """The tokens of a row, the log-probability of each, and what a language model adds to it."""
        path: list[tuple[int, float, float]] = []
        for depth in range(len(self.history) - 1, -1, -1):
            taken = self.history[depth]
            parent = taken.rows[row]
            before = self.history[depth - 1].values[parent] if depth else 0.0
            added = 0.0 if taken.added is None else taken.added[row]
            path.append((taken.tokens[row], taken.values[row] - before - added, added))
            row = parent
        path.reverse()
        return [one[0] for one in path], [one[1] for one in path], [one[2] for one in path]

    @property
    def in_use(self) -> int:
        """How many rows it has."""
        return len(self.history[-1].rows) if self.history else first_rows(self.request.options)

    @property
    def masks(self) -> bool:
        """Whether what may come next depends on what a row has said."""
        return self.early or self.request.options.block_ngrams > 0 or self.request.constraint is not None

    @property
    def alone(self) -> bool:
        """Whether its continuations are chosen apart from those of other sentences."""
        options, constraint = self.request.options, self.request.constraint
        banks = constraint is not None and constraint.goal > 0 and not options.sample and options.beam > 1
        return not self.forced and (banks or options.stochastic or options.groups > 1)

    @property
    def early(self) -> bool:
        """Whether an output must not end yet."""
        return self.steps + 1 < self.request.options.min_length

    def permitted(self, said: Tensor) -> Tensor:
        """What was said in the rows in use (K, V), without what may not come next."""
        options, constraint = self.request.options, self.request.constraint
        kept = said.clone()
        if constraint is not None:
            kept = torch.full_like(said, -torch.inf)
            for place, row in enumerate(self.rows):
                ids = torch.from_numpy(constraint.allowed(row.state, self.limit - self.steps))
                kept[place, ids] = said[place, ids]
        if self.early:
            kept[:, END] = -torch.inf
        if options.block_ngrams:
            for place in range(len(kept)):
                kept[place, list(repeated(self.path(place)[0], options.block_ngrams))] = -torch.inf
        return kept

    def dies(self, row: int, token: int) -> bool:
        """Whether a token that is forced contradicts the constraint."""
        constraint = self.request.constraint
        return constraint is not None and constraint.advance(self.rows[row].state, token) is None

    def move(self, rows: list[int], tokens: list[int], coverage: list[float] | None, nodes: list[int]) -> None:
        """The rows go on: each from a row with a token."""
        constraint = self.request.constraint
        moved = []
        for place, (row, token) in enumerate(zip(rows, tokens, strict=True)):
            one = self.rows[row]
            state = None if constraint is None else constraint.advance(one.state, token)
            moved.append(
                replace(
                    one,
                    state=state,
                    coverage=0.0 if coverage is None else coverage[row],
                    perturbed=self.drawn.get((row, token), one.perturbed),
                    node=nodes[place] if nodes else -1,
                )
            )
        self.rows = moved

    def satisfies(self, row: int) -> bool:
        """Whether a row may be an output as it is."""
        constraint = self.request.constraint
        return constraint is None or constraint.may_end(self.rows[row].state)


def never(options: SearchOptions) -> tuple[int, ...]:
    """The tokens that do not come out."""
    return (PAD, START) if options.unknown else (PAD, START, UNKNOWN)


def repeated(history: list[int], length: int) -> set[int]:
    """The tokens that would make the last `length` tokens something that was said before."""
    if length > len(history):
        return set()
    last = history[len(history) - length + 1 :]
    ends = range(length - 1, len(history))
    return {history[end] for end in ends if history[end - length + 1 : end] == last}


def hopeless(request: Request, limit: int) -> str:
    """Why no output can satisfy the constraint of a request; "" where one can."""
    constraint = request.constraint
    if constraint is None:
        return ""
    state: Hashable | None = constraint.start
    for token in request.prefix[:limit]:
        state = None if state is None else constraint.advance(state, token)
    if state is None:
        return f"the prefix contradicts what is demanded: {constraint.told}"
    tokens = max(0, limit - len(request.prefix))
    if constraint.within(state, tokens):
        return ""
    how = "is" if constraint.disproves(state, tokens) else "was found that is"
    return f"no output of at most {limit} tokens {how} as demanded: {constraint.told}"


def nothing_found(request: Request) -> str:
    """Why a search that could have found something did not."""
    if request.constraint is None:
        return "the model holds nothing for possible that could go on"
    return f"no hypothesis that was kept came to an end as demanded: {request.constraint.told}"

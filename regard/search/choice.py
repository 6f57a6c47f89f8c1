"""Choosing the continuations of one sentence whose rows must know more than their scores, and writing down the choice.

Shapes: S sentences, K beams, V vocabulary, C continuations.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regard.search.beam import banked_continuations, group_continuations
from regard.search.grid import WORST, Continuations, Grid
from regard.search.options import SearchOptions
from regard.search.running import Running, never
from regard.search.stochastic import Perturbed, Unreplaced, perturb
from regard.search.trace import Node
from regard.special import END


def choose_alone(one: Running, grid: Grid, sentence: int, said: Tensor) -> Continuations:
    """Continuations of one sentence: (K, V) → (1, C)."""
    options = one.request.options
    if options.groups == 1:
        said = said[: len(one.rows)]
    scores = grid.scores[sentence, : len(said)]
    said = said.double().index_fill(1, torch.tensor(never(options)), WORST)
    if options.groups > 1:
        return group_continuations(scores, said, grid.samples[sentence], options=options)
    return _stochastic(one, scores, said) if options.stochastic else _banked(one, scores, said)


def _stochastic(one: Running, scores: Tensor, said: Tensor) -> Continuations:
    options, request = one.request.options, one.request
    assert isinstance(one.outcome, Unreplaced)
    rows = [row.perturbed for row in one.rows if row.perturbed is not None]
    own, values = perturb(rows, said, options=options, request=request.id, step=one.steps)
    best = values.flatten().topk(min(options.beam, values.numel()))
    real = best.indices[best.values > WORST]
    chosen = real[: one.outcome.room(values.flatten()[real].tolist())]
    width = said.size(1)
    one.drawn = {
        (place // width, place % width): Perturbed(float(own.flatten()[place]), float(values.flatten()[place]))
        for place in chosen.tolist()
    }
    whole = (scores.unsqueeze(1) + said).flatten()[chosen]
    return Continuations(*(part.unsqueeze(0) for part in (whole, chosen // width, chosen % width)))


def _banked(one: Running, scores: Tensor, said: Tensor) -> Continuations:
    constraint = one.request.constraint
    assert constraint is not None
    beam, states = one.request.options.beam, [row.state for row in one.rows]
    helpful = []
    for state in states:
        here, follow = constraint.progress(state), constraint.follow(state)
        good = np.array([constraint.progress(after) > here for after in follow.states], dtype=bool)
        helpful.append(torch.from_numpy(follow.tokens[good[follow.targets]] if len(good) else follow.tokens))

    def bank(row: int, token: int) -> int:
        after = None if token == END else constraint.advance(states[row], token)
        progress = constraint.goal if after is None else constraint.progress(after)
        return progress * beam // constraint.goal

    return banked_continuations(scores, said, count=beam, helpful=helpful, bank=bank)


def drop_contradictions(running: Sequence[Running], chosen: Continuations) -> Continuations:
    """Without forced tokens that contradict a constraint."""
    bad = [
        (sentence, place)
        for sentence, one in enumerate(running)
        if one.forced and one.request.constraint is not None
        for place in range(min(len(one.rows), chosen.values.size(1)))
        if one.dies(int(chosen.rows[sentence, place]), int(chosen.tokens[sentence, place]))
    ]
    if not bad:
        return chosen
    values = chosen.values.clone()
    for sentence, place in bad:
        values[sentence, place] = WORST
    return replace(chosen, values=values)


def write_trace(
    one: Running,
    sentence: int,
    grid: Grid,
    said: Tensor,
    chosen: Continuations,
    *,
    coverage: list[float] | None,
    fusion: Tensor | None,
) -> dict[tuple[int, int], int]:
    """Add the candidates of a step to the trace of a sentence; the numbers of the nodes by (row, token).

    Beside what was chosen, these are the best continuations of each row: as many as the beam has places. `coverage` is
    that of each row.
    """
    if one.tracer is None:
        return {}
    options = one.request.options
    real = chosen.values[sentence] > WORST
    pairs = zip(chosen.rows[sentence][real].tolist(), chosen.tokens[sentence][real].tolist(), strict=True)
    taken = set(pairs)
    considered = set(taken)
    scores = grid.scores[sentence].tolist()
    here = said[sentence].double().index_fill(1, torch.tensor(never(options)), WORST)
    if not options.sample and not one.forced:
        for row in range(len(one.rows)):
            best = here[row].topk(min(options.beam, here.size(1)))
            considered |= {(row, token) for token in best.indices[best.values > WORST].tolist()}
    wholes = {(row, token): scores[row] + float(said[sentence, row, token]) for row, token in considered}
    costs = _costs(options, grid.samples[sentence].tolist(), considered, taken)
    numbers: dict[tuple[int, int], int] = {}
    for rank, pair in enumerate(sorted(considered, key=lambda each: (-wholes[each], each))):
        row, token = pair
        numbers[pair] = len(one.tracer.nodes)
        ended = token == END
        added = 0.0 if fusion is None else float(fusion[sentence, row, token])
        node = Node(
            id=numbers[pair],
            parent=one.rows[row].node,
            token=token,
            log_probability=float(said[sentence, row, token]) - added,
            total=wholes[pair],
            score=options.score(wholes[pair], one.steps + 1 if ended else one.limit),
            step=one.steps,
            rank=rank,
            fate="pruned" if pair not in taken else "ended" if ended else "kept",
            coverage=0.0 if coverage is None else options.coverage_penalty * coverage[row],
            diversity=costs[pair],
            perturbed=one.drawn[pair].value if pair in one.drawn and pair in taken else None,
            fusion=added,
        )
        one.tracer.add(node)
    return numbers


def _costs(
    options: SearchOptions, groups: list[int], pairs: Iterable[tuple[int, int]], taken: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], float]:
    """What groups before it put on each pair (row, token); nothing where there is one group."""
    if options.groups == 1:
        return dict.fromkeys(pairs, 0.0)
    counts = Counter((groups[row], token) for row, token in taken)
    return {
        (row, token): options.diversity * sum(counts[group, token] for group in range(groups[row]))
        for row, token in pairs
    }

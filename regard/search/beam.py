"""Beam search: of all continuations of a sentence the K best go on.

A continuation that ends leaves the beam for the list of finished hypotheses, so a beam of 1 is greedy search. With
`stopping: exact` a sentence stops when no running hypothesis can still enter its n best (`SearchOptions.bound`, with
the proof; it takes log p ≤ 0 for granted). So do its rows, one by one: a row that cannot leaves the beam, and nothing
comes in for it, for whatever does not lie above the bound lies below everything that does. With `early` a sentence
stops when none would enter them if it ended at once.

Where phrases must come in, the best K may all have left them out. So the places of a beam are dealt to banks, by how
much of what is demanded is there (Post & Vilar 2018; their banks count tokens, ours the progress of the automaton).

Shapes: S sentences, K beams, V vocabulary, C continuations of a sentence.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.kernels import search as native
from regard.search.grid import WORST, Chosen, Continuations
from regard.search.hypothesis import Hypothesis
from regard.search.options import SearchOptions
from regard.special import END

FIRST: Final = 32
BLOCK: Final = 64
"""Of the vocabulary, at least so many ids are looked at one by one, and the others in blocks of so many."""


def best_continuations(
    scores: Tensor,
    logits: Tensor,
    *,
    count: int,
    forbidden: Collection[int],
    normaliser: Tensor | None = None,
    early: Tensor | None = None,
    largest: Tensor | None = None,
) -> Continuations:
    """The best continuations of each sentence, best first: (S, K), (S, K, V) → (S, C).

    log p = logits - `normaliser` (S, K). The sentences `early` (S,) must not end yet. The best tokens are among the
    first few ids, where those stand that must not come out, or in the blocks of others with the largest maxima: so
    all but a few tokens are looked at once, and (S, K, V) is neither copied nor sorted. Where these maxima are known
    (`largest`: see `Step`), the native kernel goes on from them.
    """
    if normaliser is not None and largest is not None:
        where = torch.zeros(len(logits), dtype=torch.bool) if early is None else early
        found = native.chosen(
            scores, logits, (normaliser, largest), count=count, forbidden=list(forbidden), early=(END, where)
        )
        return Continuations(*found)
    vocabulary = logits.size(2)
    blocks = max(0, vocabulary - FIRST) // BLOCK
    first = vocabulary - blocks * BLOCK
    assert all(token < first for token in forbidden), "what must not come out is among the first ids"
    scores = scores.unsqueeze(2)
    shift = None if normaliser is None else normaliser.unsqueeze(2)
    values = logits[:, :, :first] if shift is None else logits[:, :, :first] - shift
    values = values + scores  # (S, K, first)
    if forbidden:
        values.index_fill_(2, torch.tensor(list(forbidden)), WORST)
    if early is not None:
        values[:, :, END].masked_fill_(early.unsqueeze(1), WORST)
    values = values.flatten(1)
    if blocks:
        return _with_blocks(values, scores, logits.contiguous(), shift, count)
    best, places = values.topk(min(count, values.size(1)), dim=1)  # (S, C)
    return Continuations(values=best, rows=places // first, tokens=places % first)


def _with_blocks(values: Tensor, scores: Tensor, logits: Tensor, shift: Tensor | None, count: int) -> Continuations:
    """The best of those values that are there already, (S, K · first), and of all other tokens."""
    beams, vocabulary = logits.shape[1:]
    known = values.size(1)
    first = known // beams
    blocks = (vocabulary - first) // BLOCK
    largest = logits[:, :, first:].unflatten(2, (blocks, BLOCK)).amax(3)  # (S, K, blocks)
    largest = largest if shift is None else largest - shift
    chosen = (largest + scores).flatten(1).topk(min(count, beams * blocks), dim=1).indices  # (S, C')
    rows = chosen // blocks
    begin = first + chosen % blocks * BLOCK
    sentences = torch.arange(len(scores), device=rows.device).unsqueeze(1)
    places = ((sentences * beams + rows) * vocabulary + begin).unsqueeze(2) + torch.arange(BLOCK, device=rows.device)
    inside = logits.view(-1).take(places)  # (S, C', BLOCK)
    rows = rows.unsqueeze(2)
    if shift is not None:
        inside = inside - shift.gather(1, rows)
    inside = inside + scores.gather(1, rows)
    values = torch.cat((values, inside.flatten(1)), dim=1)
    best, places = values.topk(min(count, values.size(1)), dim=1)  # (S, C)
    block = ((places - known) // BLOCK).clamp_(min=0)
    one_by_one = places < known
    return Continuations(
        values=best,
        rows=torch.where(one_by_one, places // first, rows.squeeze(2).gather(1, block)),
        tokens=torch.where(one_by_one, places % first, begin.gather(1, block) + (places - known) % BLOCK),
    )


def best_alone(
    scores: Sequence[float],
    logits: Tensor,
    *,
    count: int,
    forbidden: Collection[int],
    normaliser: Tensor | None = None,
    early: bool = False,
) -> list[Chosen]:
    """The same for one sentence, (K,), (K, V), in numpy: for so little, its calls cost less than those of torch."""
    spoken = logits.detach().contiguous()
    said = spoken.numpy()
    blocks = max(0, said.shape[1] - FIRST) // BLOCK
    first = said.shape[1] - blocks * BLOCK
    assert all(token < first for token in forbidden), "what must not come out is among the first ids"
    own = np.array(scores).reshape(-1, 1)
    shift = np.zeros_like(said[:, :1]) if normaliser is None else normaliser.detach().numpy().reshape(-1, 1)
    with np.errstate(invalid="ignore"):  # what is no number is found by the caller
        values = said[:, :first] - shift + own  # (K, first)
        values[:, [*forbidden, END] if early else list(forbidden)] = WORST
        flat, known = values.ravel(), values.size
        if blocks:
            largest = torch.amax(spoken[:, first:].view(-1, blocks, BLOCK), 2).numpy()  # (K, blocks)
            chosen = _largest((largest - shift + own).ravel(), count)  # (C',)
            rows, begins = chosen // blocks, first + chosen % blocks * BLOCK
            inside = said[rows[:, None], begins[:, None] + _INSIDE]  # (C', BLOCK)
            flat = np.concatenate((flat, (inside - shift[rows] + own[rows]).ravel()))
    places = _largest(flat, count)
    best = flat[places]
    order = np.argsort(-best, kind="stable")
    found: list[Chosen] = []
    for value, place in zip(best[order].tolist(), places[order].tolist(), strict=True):
        row, token = divmod(place, first)
        if place >= known:
            block, token = divmod(place - known, BLOCK)
            row, token = int(rows[block]), int(begins[block]) + token
        found.append((value, row, token))
    return found


_INSIDE: Final = np.arange(BLOCK)


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Where the largest values stand, in any order."""
    return np.argpartition(values, len(values) - count)[-count:] if count < len(values) else np.arange(len(values))


def group_continuations(scores: Tensor, said: Tensor, groups: Tensor, *, options: SearchOptions) -> Continuations:
    """Diverse beam search (Vijayakumar et al. 2018) for one sentence: (K,), (K, V), (K,) → (1, C).

    Group after group takes its best continuations; a token that groups before it have taken at this step costs
    `diversity` each time (Hamming). The cost is for the choice only: log-probabilities stay the model's own.
    """
    taken = torch.zeros(said.size(1), dtype=torch.float64)
    each: list[tuple[Tensor, Tensor, Tensor]] = []
    for group in range(options.groups):
        rows = ((groups == group) & scores.isfinite()).nonzero().squeeze(1)
        each_row = scores[rows].unsqueeze(1) + said[rows]
        whole, judged = each_row.flatten(), (each_row - options.diversity * taken).flatten()
        best = judged.topk(min(options.beam // options.groups, len(judged))).indices
        best = best[whole[best].isfinite()]
        tokens = best % said.size(1)
        taken.index_add_(0, tokens, torch.ones(len(tokens), dtype=torch.float64))
        each.append((whole[best], rows[best // said.size(1)], tokens))
    return Continuations(*(torch.cat(parts).unsqueeze(0) for parts in zip(*each, strict=True)))


def banked_continuations(
    scores: Tensor, said: Tensor, *, count: int, helpful: Sequence[Tensor], bank: "Bank"
) -> Continuations:
    """The continuations of one sentence that keep a beam diverse in what is still demanded: (K,), (K, V) → (1, C).

    Candidates are the best of all, the best of each row, and the best of the `helpful` tokens of each row. The best of
    all is taken first, so that a beam of 1 would be greedy search; then the banks take turns, the fullest first.
    """
    width = said.size(1)
    whole = scores.unsqueeze(1) + said
    places = whole.flatten().topk(min(count, whole.numel())).indices.tolist()
    for row, tokens in enumerate(helpful):
        places.append(row * width + int(whole[row].argmax()))
        best = whole[row, tokens].topk(min(count, len(tokens))).indices
        places += (row * width + tokens[best]).tolist()
    flat = whole.flatten()
    real = [place for place in dict.fromkeys(places) if flat[place] > WORST]
    order = sorted(real, key=lambda place: (-float(flat[place]), place))
    banks: dict[int, list[int]] = {}
    for place in order[1:]:
        banks.setdefault(bank(place // width, place % width), []).append(place)
    chosen = order[:1]
    turns = sorted(banks, reverse=True)
    while len(chosen) < count and any(banks.values()):
        chosen += [banks[turn].pop(0) for turn in turns if banks[turn]][: count - len(chosen)]
    chosen.sort(key=lambda place: (-float(flat[place]), place))
    taken = torch.tensor(chosen, dtype=torch.long).unsqueeze(0)
    return Continuations(values=flat[taken], rows=taken // width, tokens=taken % width)


class Bank(Protocol):
    """Which bank a row with a token belongs to: the more is there of what is demanded, the higher."""

    def __call__(self, row: int, token: int) -> int: ...


@dataclass(slots=True)
class Ranked:
    """The n best hypotheses of a request so far, best first."""

    options: SearchOptions
    limit: int
    done: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis, sample: int) -> None:
        del sample  # a beam has no samples
        if self.options.groups > 1 and any(one.tokens == hypothesis.tokens for one in self.done):
            return  # two groups found the same
        self.done.append(hypothesis)
        self.done.sort(key=lambda one: -one.score)
        del self.done[self.options.best :]

    def is_open(self, log_probability: float, length: int) -> bool:
        if len(self.done) < self.options.best:
            return True
        limit = self.limit if self.options.stopping == "exact" else min(length + 1, self.limit)
        return self.options.bound(log_probability, limit) > self.done[-1].score

    @property
    def takes_cut(self) -> bool:
        return not self.done

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self.done)

"""The tree that a search went through: what was kept, what was pruned, and what came to its end."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

Fate = Literal["kept", "pruned", "ended", "cut", "stopped"]
"""kept: continued. cut: the limit of length came first. stopped: running when nothing could improve the outcome."""


@dataclass(frozen=True, slots=True)
class Node:
    """A token after what its parent stands for; the root, without a token, is the parent -1.

    `rank` counts from 0 the candidates of its step by `total`, the log-probability of all tokens up to it with what a
    language model adds; `fusion` is what it adds for this token. `score` is what it is ranked by where it is an output,
    and the bound of what it can become where it is none.

    What else it was judged by: `coverage` is a part of the score of an output (weighted, at most 0), `diversity` the
    cost that groups before its own put on its token, `perturbed` the log-probability with noise that a stochastic beam
    has kept it by.
    """

    id: int
    parent: int
    token: int
    log_probability: float
    total: float
    score: float
    step: int
    rank: int
    fate: Fate
    coverage: float = 0.0
    diversity: float = 0.0
    perturbed: float | None = None
    fusion: float = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """All nodes, in the order of their numbers. Of what was pruned, the best continuations of each row are told."""

    nodes: tuple[Node, ...]

    def children(self, parent: int) -> Iterator[Node]:
        return (node for node in self.nodes if node.parent == parent)

    def path(self, node: Node) -> tuple[int, ...]:
        """The tokens from the root to a node."""
        tokens = [node.token]
        while node.parent >= 0:
            node = self.nodes[node.parent]
            tokens.append(node.token)
        return tuple(reversed(tokens))


@dataclass(slots=True)
class Tracer:
    """Writes down the tree of one request."""

    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> None:
        assert node.id == len(self.nodes)
        self.nodes.append(node)

    def decide(self, number: int, fate: Fate, score: float | None = None) -> None:
        node = self.nodes[number]
        self.nodes[number] = replace(node, fate=fate, score=node.score if score is None else score)

    def trace(self) -> Trace:
        return Trace(tuple(self.nodes))

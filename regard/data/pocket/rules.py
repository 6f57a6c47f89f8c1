"""Weighted rewriting rules: sample, count, enumerate and sum them exactly.

A symbol is a function with its features, and calling it gives the rules that rewrite it. Depth is bounded by the
symbols themselves, so every quantity is a finite sum of products:

    count(s) = Σ_r Π_c count(c)        mass(s) = Σ_r p(r) · [r has no excluded pair] · Π_c mass(c)

with r over the rules of s and c over the symbols of r. p(r) is the rule's weight over the sum of the weights of s. What
is left without the excluded pairs is a grammar of the same symbols again, with the probabilities

    q(r) = p(r) · [r has no excluded pair] · Π_c mass(c) / mass(s)

and entropy(s) = Σ_r q(r) · (-log q(r) + Σ_c entropy(c)).
"""

import itertools
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

Symbol = tuple[Any, ...]
"""(function, feature, ...): `function(*features)` returns the rules of the symbol."""

Pair = tuple[str, str]
"""An (adjective, noun) or (verb, object noun) that a rule brings together."""


class Rule(NamedTuple):
    """One way to rewrite a symbol: `build` makes a value of the values of the symbols."""

    weight: float
    symbols: tuple[Symbol, ...]
    build: Callable[..., Any]
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampled:
    """A value with the logarithm of its derivation's probability and the pairs on the way."""

    value: Any
    log_probability: float
    pairs: tuple[Pair, ...]


class _Table(NamedTuple):
    rules: tuple[Rule, ...]
    cumulative: tuple[float, ...]
    logarithms: tuple[float, ...]


class Rules:
    """The rules of all symbols reached so far, kept once computed."""

    def __init__(self) -> None:
        self._tables: dict[Symbol, _Table] = {}
        self._counts: dict[Symbol, int] = {}

    def table(self, symbol: Symbol) -> _Table:
        """The rules of a symbol with their cumulative weights."""
        found = self._tables.get(symbol)
        if found is None:
            rules: tuple[Rule, ...] = tuple(rule for rule in symbol[0](*symbol[1:]) if rule.weight > 0)
            assert rules, f"no rule rewrites {symbol[0].__name__}{symbol[1:]}"
            total = math.fsum(rule.weight for rule in rules)
            cumulative = tuple(itertools.accumulate(rule.weight / total for rule in rules))
            found = _Table(rules, cumulative, tuple(math.log(rule.weight / total) for rule in rules))
            self._tables[symbol] = found
        return found

    def sample(self, symbol: Symbol, random: Random) -> Sampled:
        """Draw a derivation from the symbol."""
        logarithms: list[float] = []
        pairs: list[Pair] = []
        value = self._draw(symbol, random.random, logarithms, pairs)
        return Sampled(value, math.fsum(logarithms), tuple(pairs))

    def _draw(self, symbol: Symbol, uniform: Callable[[], float], logs: list[float], pairs: list[Pair]) -> Any:
        rules, cumulative, logarithms = self._tables.get(symbol) or self.table(symbol)
        index = min(bisect_right(cumulative, uniform()), len(rules) - 1) if len(rules) > 1 else 0
        _, symbols, build, brought = rules[index]
        logs.append(logarithms[index])
        if brought:
            pairs.extend(brought)
        return build(*[self._draw(child, uniform, logs, pairs) for child in symbols])

    def count(self, symbol: Symbol) -> int:
        """The exact number of derivations."""
        found = self._counts.get(symbol)
        if found is None:
            found = sum(math.prod(map(self.count, rule.symbols)) for rule in self.table(symbol).rules)
            self._counts[symbol] = found
        return found

    def mass(self, symbol: Symbol, excluded: frozenset[Pair]) -> float:
        """The probability that a derivation brings no excluded pair together."""
        return self._masses(excluded)(symbol)

    def mass_by(
        self, symbol: Symbol, excluded: frozenset[Pair], label: Callable[[Symbol], str | None]
    ) -> dict[str, float]:
        """The mass without the excluded pairs, by the label of a derivation.

        A derivation has the label of the first symbol that has one, going from `symbol` to the first symbol of its
        rule and so on. Masses of zero are left out.
        """
        mass = self._masses(excluded)

        def descend(at: Symbol) -> dict[str, float]:
            found = label(at)
            if found is not None:
                return {found: mass(at)}
            shares: dict[str, list[float]] = defaultdict(list)
            rules, _, logarithms = self.table(at)
            for rule, logarithm in zip(rules, logarithms, strict=True):
                if excluded.isdisjoint(rule.pairs):
                    share = math.exp(logarithm) * math.prod(map(mass, rule.symbols[1:]))
                    for name, part in descend(rule.symbols[0]).items():
                        shares[name].append(share * part)
            return {name: math.fsum(parts) for name, parts in shares.items()}

        return {name: part for name, part in descend(symbol).items() if part > 0}

    def entropy(self, symbol: Symbol, excluded: frozenset[Pair]) -> float:
        """The entropy in nats of the derivations that bring no excluded pair together."""
        mass = self._masses(excluded)
        known: dict[Symbol, float] = {}

        def visit(at: Symbol) -> float:
            found = known.get(at)
            if found is None:
                terms = []
                rules, _, logarithms = self.table(at)
                for rule, logarithm in zip(rules, logarithms, strict=True):
                    left = math.exp(logarithm) * math.prod(map(mass, rule.symbols)) / mass(at)
                    if left > 0 and excluded.isdisjoint(rule.pairs):
                        terms.append(left * (math.fsum(map(visit, rule.symbols)) - math.log(left)))
                found = known[at] = math.fsum(terms)
            return found

        return visit(symbol)

    def _masses(self, excluded: frozenset[Pair]) -> Callable[[Symbol], float]:
        """`mass` of any symbol, each computed once."""
        known: dict[Symbol, float] = {}

        def visit(at: Symbol) -> float:
            found = known.get(at)
            if found is None:
                rules, _, logarithms = self.table(at)
                found = math.fsum(
                    math.exp(logarithm) * math.prod(map(visit, rule.symbols))
                    for rule, logarithm in zip(rules, logarithms, strict=True)
                    if excluded.isdisjoint(rule.pairs)
                )
                known[at] = found
            return found

        return visit

    def pairs(self, symbol: Symbol) -> frozenset[Pair]:
        """Every pair that some derivation can bring together."""
        seen: set[Symbol] = set()
        pairs: set[Pair] = set()
        waiting = [symbol]
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                for rule in self.table(at).rules:
                    pairs.update(rule.pairs)
                    waiting.extend(rule.symbols)
        return frozenset(pairs)

    def enumerate(self, symbol: Symbol) -> Iterator[Sampled]:
        """Every derivation with its log-probability; only for symbols with a small count."""
        rules, _, logarithms = self.table(symbol)
        for rule, logarithm in zip(rules, logarithms, strict=True):
            for children in itertools.product(*(tuple(self.enumerate(child)) for child in rule.symbols)):
                yield Sampled(
                    rule.build(*(child.value for child in children)),
                    logarithm + math.fsum(child.log_probability for child in children),
                    rule.pairs + tuple(pair for child in children for pair in child.pairs),
                )

"""Constraints on outputs, for every model: automata over the text, lifted to the tokens of a vocabulary."""

from regard.search.constraints.automaton import Automaton
from regard.search.constraints.constraint import Constrainer, Constraint
from regard.search.constraints.lifted import Lifted, lift_all
from regard.search.constraints.literals import bracketing, one_of, tagging
from regard.search.constraints.pattern import matching
from regard.search.constraints.phrases import forbidding, forcing, number_table
from regard.search.constraints.surfaces import Surfaces, surfaces_of

__all__ = [
    "Automaton",
    "Constrainer",
    "Constraint",
    "Lifted",
    "Surfaces",
    "bracketing",
    "forbidding",
    "forcing",
    "lift_all",
    "matching",
    "number_table",
    "one_of",
    "surfaces_of",
    "tagging",
]

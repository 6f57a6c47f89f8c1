"""The meaning of a sentence: what a derivation builds and every language renders.

Nothing here knows a word form or a word order. Later tasks read these values too: names are entities, predicates carry
sentiment, optional parts (adjectives, places, times, relatives) are what a shortened sentence leaves out.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """A person's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Pronoun:
    """`he`, `she` or `they`."""

    name: str


@dataclass(frozen=True, slots=True)
class Relative:
    """A relative clause; `role` is what its head is in it, and that place of the clause is empty."""

    role: str
    clause: "Clause"


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with what belongs to it.

    `determiner` is an English determiner, `bare` (apples) or `generic` (apples in general). A `possessor` that is a
    Name stands before (`Anna 's dog`), any other follows with `of`. `attire` is what is worn (`with the red hat`).
    """

    noun: str
    determiner: str
    plural: bool
    adjectives: tuple[str, ...] = ()
    possessor: "NounPhrase | Name | None" = None
    attire: "NounPhrase | None" = None
    relative: Relative | None = None


@dataclass(frozen=True, slots=True)
class Coordination:
    """Two phrases joined by `and`."""

    first: NounPhrase | Name
    second: NounPhrase | Name


Participant = NounPhrase | Name | Pronoun | Coordination


@dataclass(frozen=True, slots=True)
class Place:
    """Where it happens."""

    preposition: str
    phrase: NounPhrase


@dataclass(frozen=True, slots=True)
class Clause:
    """Who does what to whom, where and when.

    `manner` is `plain`, `not`, or one of `never`, `often`, `sometimes`, `always`. The verb `be` has a `predicate`.
    Only the empty place of a relative clause may make `subject` None.
    """

    verb: str
    tense: str
    manner: str
    subject: Participant | None
    object: Participant | None = None
    recipient: Participant | None = None
    predicate: str | None = None
    place: Place | None = None
    time: str | None = None
    time_first: bool = False
    complement: "Clause | None" = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """One or two clauses. `link` joins the second to the first; `second_first` puts the linked clause in front."""

    main: Clause
    question: bool = False
    link: str | None = None
    second: Clause | None = None
    second_first: bool = False


def is_plural(participant: Participant | None) -> bool:
    """Whether a finite verb agreeing with the participant is plural."""
    match participant:
        case NounPhrase():
            return participant.plural
        case Pronoun():
            return participant.name == "they"
        case Coordination():
            return True
        case _:
            return False

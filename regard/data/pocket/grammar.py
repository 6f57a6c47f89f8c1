"""The grammar of the pocket world: rules for clauses and sentences over any inventory of concepts.

Every sentence is three to twenty-five words in every language because of how the rules are made, not by rejection, so
the product of the rule probabilities is the exact probability of a derivation, and no two derivations have the same
English. At most one participant of a clause is large; a clause joined to another has only small ones.

A clause has a setting: `simple` (a sentence of its own), `question`, `light` (joined to another), and `once` (joined by
when, while or if: light, and without `often` or `never`).
"""

from functools import partial
from typing import Final

from regard.data.pocket.concepts import Adjective, Concepts, Verb
from regard.data.pocket.nominal import PREPOSITIONAL, Nominal, nothing
from regard.data.pocket.phrases import Clause, Participant, Place, Sentence
from regard.data.pocket.rules import Rule, Symbol

TENSES: Final = (("present", 0.42), ("past", 0.32), ("future", 0.13), ("perfect", 0.13))
ALL_KINDS: Final = ("event", "process", "state", "affect", "copula")
STEADY_TIMES: Final = ("today", "now", "yesterday", "tomorrow", "last_year")
"""When something may be so, rather than happen."""
SMALL: Final = ("light", "once")
OFTEN: Final = ("never", "often", "sometimes", "always")

# link, weight, linked clause in front, tense of the main clause, kinds of its verb, both of the linked clause
_Joined = tuple[str, float, bool, str, tuple[str, ...], str, tuple[str, ...]]
_LINKED: Final[tuple[_Joined, ...]] = (
    *(("because", 0.11 * weight, False, tense, ALL_KINDS, tense, ALL_KINDS) for tense, weight in TENSES),
    *(("and", 0.06 * weight, False, tense, ALL_KINDS, tense, ALL_KINDS) for tense, weight in TENSES),
    *(("but", 0.04 * weight, False, tense, ALL_KINDS, tense, ALL_KINDS) for tense, weight in TENSES),
    ("when", 0.03, False, "present", ("event", "process", "copula"), "present", ("event", "process", "copula")),
    ("when", 0.03, True, "present", ("event", "process", "copula"), "present", ("event", "process", "copula")),
    ("when", 0.03, False, "past", ("event", "copula"), "past", ("event",)),
    ("when", 0.03, True, "past", ("event", "copula"), "past", ("event",)),
    ("while", 0.03, False, "present", ("event", "process"), "present", ("process",)),
    ("if", 0.02, False, "future", ("event", "process"), "present", ("event", "process", "copula")),
    ("if", 0.04, True, "future", ("event", "process"), "present", ("event", "process", "copula")),
)


class Grammar(Nominal):
    """The rules of sentences; `start` is the symbol of all of them."""

    def __init__(self, concepts: Concepts) -> None:
        super().__init__(concepts)
        self.start: Symbol = (self.sentence,)
        self.verbs = [verb for verb in concepts.verbs if self._usable(verb)]

    def _usable(self, verb: Verb) -> bool:
        """Whether the inventory has a subject, an object and a place for the verb, where it needs them."""
        if not self.nouns(verb.subjects, "light"):
            return False
        if verb.frame in ("object", "recipient", "to", "from") and not self.nouns(verb.objects, "light"):
            return verb.frame == "object" and bool(self.nouns(verb.objects, "plain"))
        return not verb.place_required or bool(self._places(verb, "light"))

    def sentence(self) -> list[Rule]:
        rules = []
        for tense, weight in TENSES:
            if self.kinds(tense, ALL_KINDS, "simple"):
                rules.append(Rule(0.48 * weight, ((self.clause, tense, "simple", ALL_KINDS),), Sentence))
                rules.append(Rule(0.08 * weight, ((self.clause, tense, "question", ALL_KINDS),), _question))
        for link, weight, front, tense, kinds, second_tense, second_kinds in _LINKED:
            setting = "light" if link in ("because", "and", "but") else "once"
            if self.kinds(tense, kinds, setting) and self.kinds(second_tense, second_kinds, setting):
                clauses = ((self.clause, tense, setting, kinds), (self.clause, second_tense, setting, second_kinds))
                rules.append(Rule(weight, clauses, partial(_linked, link, front)))
        if any(verb.frame == "that" for verb in self.verbs):
            rules.append(Rule(0.12, ((self.that,),), Sentence))
        return rules

    def that(self) -> list[Rule]:
        """Somebody thinks, knows, says that something is so."""
        return [
            Rule(
                verb.weight * weight,
                (
                    (self.argument, verb.name, "subject", "subject", "light"),
                    (self.clause, tense, "light", ALL_KINDS),
                ),
                partial(_that, verb.name),
            )
            for verb in self.verbs
            if verb.frame == "that"
            for tense, weight in TENSES
            if self.kinds(tense, ALL_KINDS, "light")
        ]

    def kinds(self, tense: str, kinds: tuple[str, ...], setting: str) -> list[Verb]:
        """The verbs of some kinds that can stand in a tense and a setting."""
        return [
            verb
            for verb in self.verbs
            if verb.aspect in kinds
            and verb.frame != "that"
            and (verb.frame != "recipient" or setting not in SMALL)
            and (tense != "perfect" or verb.aspect in ("event", "process"))
            and (setting not in SMALL or not verb.objects or self.nouns(verb.objects, "light"))
        ]

    def clause(self, tense: str, setting: str, kinds: tuple[str, ...]) -> list[Rule]:
        verbs = self.kinds(tense, kinds, setting)
        rules = [Rule(verb.weight, ((self.verbal, verb.name, tense, setting),), _same) for verb in verbs]
        if "copula" in kinds and tense != "perfect" and self.described(setting):
            weight = 0.14 * sum(verb.weight for verb in self.kinds(tense, ALL_KINDS, setting))
            rules.append(Rule(weight, ((self.copular, tense, setting),), _same))
        return rules

    def verbal(self, verb: str, tense: str, setting: str) -> list[Rule]:
        """Choose the manner and which participant is large."""
        concept = self.verb_named[verb]
        rules = []
        for manner, weight in self._manners(concept.aspect, setting):
            for load, share in self._loads(concept, setting):
                rules.append(Rule(weight * share, ((self.filled, verb, tense, setting, manner, load),), _same))
        return rules

    def _manners(self, aspect: str, setting: str) -> list[tuple[str, float]]:
        if setting == "question":
            return [("plain", 1.0)]
        manners = [("plain", 0.72), ("not", 0.16)]
        return (
            manners
            if aspect in ("state", "affect") or setting == "once"
            else manners + [(manner, 0.03) for manner in OFTEN]
        )

    def _loads(self, verb: Verb, setting: str) -> list[tuple[str, float]]:
        """Which participant is large: none, one, or one with a relative clause."""
        has_object = verb.frame in ("object", "recipient")
        if setting in SMALL:
            return [("none", 1.0)]
        loads = [("none", 0.6)]
        if self.can_be_heavy(verb, "subject"):
            loads.append(("subject", 0.18))
        if has_object and self.can_be_heavy(verb, "object"):
            loads.append(("object", 0.2))
        if setting == "simple" and not verb.place_required and self.nouns(verb.subjects, "relative"):
            loads.append(("subject relative", 0.1))
        if setting == "simple" and verb.frame == "object" and self.nouns(verb.objects, "relative"):
            loads.append(("object relative", 0.13))
        return loads

    def filled(self, verb: str, tense: str, setting: str, manner: str, load: str) -> list[Rule]:
        """A clause of a verb with all that goes with it."""
        concept = self.verb_named[verb]
        negated = manner in ("not", "never")
        has_object = concept.frame in ("object", "recipient")
        place: Symbol = (self.places, verb, setting, bool(load.split()[-1] == "relative" or (negated and has_object)))
        time: Symbol = (nothing,)
        if manner in ("plain", "not") and setting not in SMALL:
            steady = concept.aspect in ("state", "affect")
            time = (self.times, tense, steady, setting == "simple", load != "object relative")
        symbols = (
            (
                self.argument,
                verb,
                "subject",
                self._subject_policy(concept, tense, negated),
                _size("subject", load, setting),
            ),
            self._object(concept, negated, load, setting),
            (self.argument, verb, "recipient", "recipient", "light") if concept.frame == "recipient" else (nothing,),
            place,
            time,
        )
        return [Rule(1.0, symbols, partial(_filled, verb, tense, manner))]

    def _subject_policy(self, verb: Verb, tense: str, negated: bool) -> str:
        if verb.aspect == "affect":
            return "generic" if tense == "present" else "definite"
        return "definite" if negated else "subject"

    def _object(self, verb: Verb, negated: bool, load: str, setting: str) -> Symbol:
        if verb.frame in ("to", "from"):
            return (self.argument, verb.name, "goal", "the", "bare")
        if verb.frame == "alone":
            return (nothing,)
        policy = "negated" if negated else "object"
        if verb.aspect == "affect":
            policy = "generic"
        elif verb.aspect == "state" or (negated and verb.name in PREPOSITIONAL):
            policy = "definite"
        size = _size("object", load, setting)
        if verb.frame == "recipient":
            return (self.thing, verb.name, policy, size)
        return (self.argument, verb.name, "object", policy, size)

    def thing(self, verb: str, policy: str, size: str) -> list[Rule]:
        """What is given; never a person."""
        return [
            Rule(noun.weight, ((self.noun_phrase, noun.name, policy, size),), _same, ((verb, noun.name),))
            for noun in self.nouns(self.verb_named[verb].objects, size)
        ]

    def _places(self, verb: Verb, setting: str) -> list[str]:
        return [
            place
            for place in verb.places
            if self.place_nouns(place, "light" if setting in SMALL else "full")
            and not (setting in SMALL and place == "near")
        ]

    def places(self, verb: str, setting: str, without: bool) -> list[Rule]:
        """Where it happens, or nothing; joined clauses with an object have no room for it."""
        concept = self.verb_named[verb]
        size = "light" if setting in SMALL else "full"
        choices = self._places(concept, setting)
        if without or (size == "light" and concept.frame == "object"):
            choices = []
        rules = [Rule(1.0 / len(choices), ((self.place, place, size),), _same) for place in choices]
        if not concept.place_required:
            rules.append(Rule(1.3, (), lambda: None))
        return rules

    def times(self, tense: str, steady: bool, first: bool, last: bool) -> list[Rule]:
        """When it happens: not said, said first, or said last."""
        names = [name for name, tenses in self.concepts.times.items() if tense in tenses]
        if steady:
            names = [name for name in names if name in STEADY_TIMES]
        rules = [Rule(0.6, (), lambda: None)]
        if first:
            rules += [Rule(0.24 / len(names), (), partial(_time, name, True)) for name in names]
        if last:
            rules += [Rule(0.16 / len(names), (), partial(_time, name, False)) for name in names]
        return rules

    def described(self, setting: str) -> list[tuple[str, list[Adjective]]]:
        """Nouns with the adjectives that can be their predicate."""
        size = "light" if setting in SMALL else "plain"
        everything = frozenset(noun.name for noun in self.concepts.nouns)
        found = []
        for noun in self.nouns(everything, size):
            predicates = [adjective for adjective in self.adjectives_of(noun) if adjective.predicative]
            if predicates:
                found.append((noun.name, predicates))
        return found

    def copular(self, tense: str, setting: str) -> list[Rule]:
        """Something is somehow."""
        rules = []
        for manner, weight in self._manners("state", setting):
            time: Symbol = (nothing,)
            if manner in ("plain", "not") and setting not in SMALL:
                time = (self.times, tense, True, setting == "simple", True)
            policy = "generic" if tense == "present" else "definite"
            rules.append(Rule(weight, ((self.description, policy, setting), time), partial(_copular, tense, manner)))
        return rules

    def description(self, policy: str, setting: str) -> list[Rule]:
        """A subject together with its predicate."""
        rules = []
        total = 0.0
        for noun, predicates in self.described(setting):
            weight = self.noun_named[noun].weight
            total += weight
            phrase: Symbol = (self.noun_phrase, noun, policy, "bare")
            whole = sum(adjective.weight for adjective in predicates)
            rules += [
                Rule(
                    weight * adjective.weight / whole,
                    (phrase,),
                    partial(_described, adjective.name),
                    ((adjective.name, noun),),
                )
                for adjective in predicates
            ]
        said_of_all = [adjective.name for adjective in self.concepts.adjectives if "person" in adjective.fits]
        for adjective_name in said_of_all:
            for symbol in ((self.name,), (self.pronoun,)):
                if symbol != (self.name,) or self.concepts.names:
                    rules.append(Rule(0.1 * total / len(said_of_all), (symbol,), partial(_described, adjective_name)))
        return rules


def _size(role: str, load: str, setting: str) -> str:
    if load == role:
        return "heavy"
    if load == role + " relative":
        return "relative"
    return "light" if setting in SMALL else "plain"


def _same(value: object) -> object:
    return value


def _question(main: Clause) -> Sentence:
    return Sentence(main, question=True)


def _linked(link: str, front: bool, main: Clause, second: Clause) -> Sentence:
    return Sentence(main, link=link, second=second, second_first=front)


def _that(verb: str, subject: Participant, complement: Clause) -> Clause:
    return Clause(verb, "present", "plain", subject, complement=complement)


def _time(name: str, first: bool) -> tuple[str, bool]:
    return name, first


def _filled(
    verb: str,
    tense: str,
    manner: str,
    subject: Participant,
    target: Participant | None,
    recipient: Participant | None,
    place: Place | None,
    time: tuple[str, bool] | None,
) -> Clause:
    when, first = time or (None, False)
    return Clause(verb, tense, manner, subject, target, recipient, place=place, time=when, time_first=first)


def _described(predicate: str, subject: Participant) -> tuple[Participant, str]:
    return subject, predicate


def _copular(tense: str, manner: str, described: tuple[Participant, str], time: tuple[str, bool] | None) -> Clause:
    when, first = time or (None, False)
    return Clause("be", tense, manner, described[0], predicate=described[1], time=when, time_first=first)

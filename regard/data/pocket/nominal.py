"""Rules for noun phrases: determiners, adjectives, possessors, attire, relatives, coordination.

Sizes keep sentences within 25 words: `bare` has no adjective, `light` at most one, `plain` is light or a part with its
owner. `heavy` has two adjectives, a possessor or attire, or is a coordination; `relative` has a relative clause. What
is light is never heavy, so that a phrase has one derivation.
"""

from functools import partial
from typing import Final

from regard.data.pocket.concepts import PRONOUNS, Adjective, Concepts, Noun, Verb
from regard.data.pocket.determiners import POLICIES
from regard.data.pocket.phrases import Clause, Coordination, Name, NounPhrase, Place, Pronoun, Relative
from regard.data.pocket.rules import Rule, Symbol

OWNER: Final = {"bank_river": "water", "letter_sign": "sign_bearer"}
"""Nouns that always name what they belong to (`the bank of the river`), with the tag of the owner."""

ATTIRE: Final = ("hat", "coat", "bag")
PREPOSITIONAL: Final = frozenset({"wait_for", "look_for", "look_at"})
"""Verbs whose object comes with a preposition in English."""

RELATIVISED: Final = frozenset({"see", "find", "buy", "love", "like", "know", "help", "catch", "wash"})
"""Verbs that stand in relative clauses about their object; few, so that each French participle form is met often."""

RELATIVE_TENSES: Final = (("present", 5.0), ("past", 4.0), ("perfect", 1.5))


def nothing() -> list[Rule]:
    """The symbol of an absent part."""
    return [Rule(1.0, (), lambda: None)]


class Nominal:
    """Rules of everything that names participants, over an inventory of concepts."""

    def __init__(self, concepts: Concepts) -> None:
        self.concepts = concepts
        self.noun_named = {noun.name: noun for noun in concepts.nouns}
        self.verb_named = {verb.name: verb for verb in concepts.verbs}
        self._fitting: dict[tuple[frozenset[str], str], list[Noun]] = {}
        self._adjectives = {noun.name: self._adjectives_of(noun) for noun in concepts.nouns}
        self.relative_verbs = {noun.name: self._relative_verbs(noun) for noun in concepts.nouns}

    def nouns(self, tags: frozenset[str], size: str) -> list[Noun]:
        """The nouns that fit the tags and may have the size."""
        if (tags, size) not in self._fitting:
            self._fitting[tags, size] = self._nouns(tags, size)
        return self._fitting[tags, size]

    def _nouns(self, tags: frozenset[str], size: str) -> list[Noun]:
        fitting = [noun for noun in self.concepts.nouns if not tags.isdisjoint(noun.tags)]
        match size:
            case "relative":
                return [noun for noun in fitting if "_" not in noun.name and self.relative_verbs[noun.name]]
            case "heavy":
                return [noun for noun in fitting if noun.name not in OWNER and self._enlarged(noun, "definite")]
            case "plain":
                return [noun for noun in fitting if noun.name not in OWNER or self.owners(noun)]
            case _:
                return [noun for noun in fitting if noun.name not in OWNER]

    def can_be_heavy(self, verb: Verb, role: str) -> bool:
        """Whether a participant of the verb has any heavy form."""
        tags = self._role_tags(verb, role)
        several = verb.frame != "recipient" or role != "object"
        return bool(self.nouns(tags, "heavy")) or (several and len(self.nouns(tags, "light")) > 1)

    def owners(self, noun: Noun) -> list[Noun]:
        """What a noun that never stands alone belongs to."""
        return [owner for owner in self.concepts.nouns if OWNER[noun.name] in owner.tags]

    def adjectives_of(self, noun: Noun) -> list[Adjective]:
        """The adjectives that can be said of a noun."""
        return self._adjectives[noun.name]

    def _adjectives_of(self, noun: Noun) -> list[Adjective]:
        return [adjective for adjective in self.concepts.adjectives if not adjective.fits.isdisjoint(noun.tags)]

    def argument(self, verb: str, role: str, policy: str, size: str) -> list[Rule]:
        """Subject, object or recipient of a verb."""
        tags = self._role_tags(self.verb_named[verb], role)
        nouns = self.nouns(tags, size)
        rules = [
            Rule(noun.weight, ((self.noun_phrase, noun.name, policy, size),), _same, self._pairs(verb, role, noun))
            for noun in nouns
        ]
        if size == "heavy":
            light = self.nouns(tags, "light")
            weight = 0.5 * sum(noun.weight for noun in light) if len(light) > 1 else 0.0
            rules.append(Rule(weight, ((self.coordination, verb, role),), _same))
        elif size != "relative" and "person" in tags:
            total = sum(noun.weight for noun in nouns)
            rules.append(Rule(0.14 * total if self.concepts.names else 0.0, ((self.name,),), _same))
            rules.append(Rule(0.14 * total, ((self.pronoun,),), _same))
        return rules

    def _role_tags(self, verb: Verb, role: str) -> frozenset[str]:
        if role == "subject":
            return verb.subjects
        return frozenset({"person"}) if role == "recipient" else verb.objects

    def _pairs(self, verb: str, role: str, noun: Noun) -> tuple[tuple[str, str], ...]:
        return ((verb, noun.name),) if role == "object" else ()

    def name(self) -> list[Rule]:
        return [Rule(1.0, (), partial(Name, name)) for name in self.concepts.names]

    def pronoun(self) -> list[Rule]:
        return [Rule(1.0, (), partial(Pronoun, name)) for name in PRONOUNS]

    def coordination(self, verb: str, role: str) -> list[Rule]:
        """Two different nouns, or two different names."""
        tags = self._role_tags(self.verb_named[verb], role)
        nouns = self.nouns(tags, "light")
        rules = [
            Rule(
                first.weight,
                (
                    (self.noun_phrase, first.name, "definite", "light"),
                    (self.second_conjunct, verb, role, first.name),
                ),
                Coordination,
                self._pairs(verb, role, first),
            )
            for first in nouns
        ]
        if "person" in tags and len(self.concepts.names) > 1:
            rules.append(Rule(0.12 * sum(noun.weight for noun in nouns), ((self.two_names,),), _same))
        return rules

    def second_conjunct(self, verb: str, role: str, first: str) -> list[Rule]:
        """The second of two coordinated nouns, never the first again."""
        tags = self._role_tags(self.verb_named[verb], role)
        return [
            Rule(
                noun.weight,
                ((self.noun_phrase, noun.name, "definite", "light"),),
                _same,
                self._pairs(verb, role, noun),
            )
            for noun in self.nouns(tags, "light")
            if noun.name != first
        ]

    def two_names(self) -> list[Rule]:
        names = self.concepts.names
        return [
            Rule(1.0, (), partial(Coordination, Name(first), Name(second)))
            for first in names
            for second in names
            if first != second
        ]

    def noun_phrase(self, noun: str, policy: str, size: str) -> list[Rule]:
        """A phrase headed by the noun, as large as the size permits."""
        concept = self.noun_named[noun]
        if noun in OWNER:
            return self._owned_part(concept)
        determiners: Symbol = (self.determiner, policy, size == "light", "parent" in concept.tags)
        if size == "relative":
            return [
                Rule(
                    1.0,
                    (
                        (self.determiner, "relative " + policy, False, False),
                        (self.adjectives, noun, 1),
                        (self.relative, noun),
                    ),
                    partial(_with_relative, noun),
                )
            ]
        if size == "heavy":
            return self._enlarged(concept, policy)
        limit = 0 if size == "bare" else 1
        return [Rule(1.0, (determiners, (self.adjectives, noun, limit)), partial(_plain, noun))]

    def _owned_part(self, noun: Noun) -> list[Rule]:
        owners: tuple[Symbol, ...] = ((self.owner, noun.name),)
        adjectives: tuple[Symbol, ...] = ((self.adjectives, noun.name, 1),)
        return [
            Rule(7.0, owners + adjectives, partial(_part, noun.name, "the", False)),
            Rule(1.5, owners, partial(_part, noun.name, "a", False)),
            Rule(2.0, owners, partial(_part, noun.name, "the", True)),
        ]

    def owner(self, noun: str) -> list[Rule]:
        return [
            Rule(owner.weight, ((self.determiner, "the", True, False),), partial(_owner, owner.name))
            for owner in self.owners(self.noun_named[noun])
        ]

    def _enlarged(self, noun: Noun, policy: str) -> list[Rule]:
        """Two adjectives, a possessor, or attire, as far as the noun can have them."""
        core: Symbol = (self.determiner, "core", False, False)
        rules: list[Rule] = []
        if self._doubles(noun):
            every: Symbol = (self.determiner, policy, False, "parent" in noun.tags)
            rules.append(Rule(1.2, (every, (self.two_adjectives, noun.name)), partial(_plain, noun.name)))
        persons = self.nouns(frozenset({"person"}), "light")
        adjectives: Symbol = (self.adjectives, noun.name, 1)
        if noun.tags & {"owned", "kin"} and any(person.name != noun.name for person in persons):
            rules.append(Rule(1.5, (core, adjectives, (self.possessor, noun.name)), partial(_of, noun.name)))
        if noun.tags & {"owned", "kin"} and self.concepts.names:
            number: Symbol = (self.determiner, "number", False, False)
            rules.append(Rule(0.8, (number, (self.name,)), partial(_names, noun.name)))
        if "person" in noun.tags and self.attire_choices():
            one: Symbol = (self.determiner, "one", False, False)
            rules.append(Rule(1.3, (one, adjectives, (self.attire,)), partial(_with, noun.name)))
        return rules

    def possessor(self, noun: str) -> list[Rule]:
        return [
            Rule(person.weight, ((self.noun_phrase, person.name, "definite", "light"),), _same)
            for person in self.nouns(frozenset({"person"}), "light")
            if person.name != noun
        ]

    def attire_choices(self) -> list[tuple[Noun, Adjective]]:
        """What may be worn, always with a colour: `with the red hat`."""
        colours = {"black", "white", "red", "green", "blue"}
        return [
            (noun, adjective)
            for noun in self.nouns(frozenset(ATTIRE), "light")
            for adjective in self.adjectives_of(noun)
            if adjective.name in colours
        ]

    def attire(self) -> list[Rule]:
        return [
            Rule(
                noun.weight * adjective.weight,
                (),
                partial(NounPhrase, noun.name, "the", False, (adjective.name,)),
                ((adjective.name, noun.name),),
            )
            for noun, adjective in self.attire_choices()
        ]

    def determiner(self, policy: str, short: bool, parent: bool) -> list[Rule]:
        """A determiner with its number; `short` leaves out the two-word `beaucoup de`, nobody has several mothers."""
        choices = POLICIES[policy.removeprefix("relative ")]
        if policy.startswith("relative "):
            allowed = {"the", "a", "this", "every", "two", "three", "some"}
            choices = tuple(choice for choice in choices if choice[0] in allowed)
        return [
            Rule(weight, (), partial(_pair, name, plural))
            for name, plural, weight in choices
            if not (short and name == "many") and not (parent and plural and name in ("my", "his", "her"))
        ]

    def adjectives(self, noun: str, limit: int) -> list[Rule]:
        """At most one adjective that fits the noun."""
        fitting = self.adjectives_of(self.noun_named[noun]) if limit else []
        total = sum(adjective.weight for adjective in fitting)
        return [Rule(0.2 if noun in OWNER else 0.55, (), tuple)] + [
            Rule(0.45 * adjective.weight / total, (), partial(tuple, [adjective.name]), ((adjective.name, noun),))
            for adjective in fitting
        ]

    def _doubles(self, noun: Noun) -> list[tuple[Adjective, Adjective]]:
        fitting = self.adjectives_of(noun)
        return [(one, two) for one in fitting for two in fitting if one.slot < two.slot]

    def two_adjectives(self, noun: str) -> list[Rule]:
        """One adjective of each place."""
        return [
            Rule(
                one.weight * two.weight,
                (),
                partial(tuple, [one.name, two.name]),
                ((one.name, noun), (two.name, noun)),
            )
            for one, two in self._doubles(self.noun_named[noun])
        ]

    def place_nouns(self, preposition: str, size: str) -> list[Noun]:
        """The nouns that name a place after the preposition; none if the inventory lacks them."""
        names = frozenset(self.concepts.places.get(preposition, ()))
        return self.nouns(names, "light" if size == "light" else "plain")

    def place(self, preposition: str, size: str) -> list[Rule]:
        """A place; `light` places are three words."""
        nouns = self.place_nouns(preposition, size)
        policy = "the" if size == "light" else "place"
        inner = "bare" if size == "light" else "light"
        word = preposition.split()[0]
        return [
            Rule(noun.weight, ((self.noun_phrase, noun.name, policy, inner),), partial(Place, word)) for noun in nouns
        ]

    def _relative_verbs(self, noun: Noun) -> list[tuple[Verb, str]]:
        """Verbs of which the noun can be the subject or the direct object."""
        found = [
            (verb, "subject")
            for verb in self.concepts.verbs
            if not verb.subjects.isdisjoint(noun.tags)
            and (verb.frame == "alone" or (verb.frame == "object" and self.nouns(verb.objects, "light")))
            and (not verb.place_required or any(self.place_nouns(place, "light") for place in verb.places))
        ]
        found += [
            (verb, "object")
            for verb in self.concepts.verbs
            if verb.name in RELATIVISED
            and not verb.objects.isdisjoint(noun.tags)
            and self.nouns(verb.subjects, "light")
        ]
        return found

    def relative(self, noun: str) -> list[Rule]:
        """A relative clause about the noun, in the present, past or perfect, never negated."""
        rules = []
        for verb, role in self.relative_verbs[noun]:
            pairs = self._pairs(verb.name, role, self.noun_named[noun])
            for tense, weight in RELATIVE_TENSES:
                if tense != "perfect" or verb.aspect in ("event", "process"):
                    rules.append(
                        Rule(
                            verb.weight * weight,
                            ((self.relative_clause, verb.name, role, tense),),
                            partial(Relative, role),
                            pairs,
                        )
                    )
        return rules

    def relative_clause(self, verb: str, role: str, tense: str) -> list[Rule]:
        concept = self.verb_named[verb]
        if role == "object":
            subject: Symbol = (self.argument, verb, "subject", "definite", "light")
            return [Rule(1.0, (subject,), partial(_gap_object, verb, tense))]
        if concept.frame == "object":
            target: Symbol = (self.argument, verb, "object", "definite", "light")
            return [Rule(1.0, (target,), partial(_gap_subject, verb, tense))]
        places = [place for place in concept.places if place != "near" and self.place_nouns(place, "light")]
        rules = [Rule(1.0, ((self.place, place, "light"),), partial(_gap_alone, verb, tense)) for place in places]
        if not concept.place_required:
            rules.append(Rule(1.0, (), partial(_gap_alone, verb, tense, None)))
        return rules


def _same(value: object) -> object:
    return value


def _pair(name: str, plural: bool) -> tuple[str, bool]:
    return name, plural


def _plain(noun: str, determiner: tuple[str, bool], adjectives: tuple[str, ...]) -> NounPhrase:
    return NounPhrase(noun, *determiner, adjectives)


def _with_relative(
    noun: str, determiner: tuple[str, bool], adjectives: tuple[str, ...], relative: Relative
) -> NounPhrase:
    return NounPhrase(noun, *determiner, adjectives, relative=relative)


def _of(noun: str, determiner: tuple[str, bool], adjectives: tuple[str, ...], possessor: NounPhrase) -> NounPhrase:
    return NounPhrase(noun, *determiner, adjectives, possessor=possessor)


def _names(noun: str, determiner: tuple[str, bool], possessor: Name) -> NounPhrase:
    return NounPhrase(noun, *determiner, possessor=possessor)


def _with(noun: str, determiner: tuple[str, bool], adjectives: tuple[str, ...], attire: NounPhrase) -> NounPhrase:
    return NounPhrase(noun, *determiner, adjectives, attire=attire)


def _owner(noun: str, determiner: tuple[str, bool]) -> NounPhrase:
    return NounPhrase(noun, *determiner)


def _part(
    noun: str, determiner: str, plural: bool, possessor: NounPhrase, adjectives: tuple[str, ...] = ()
) -> NounPhrase:
    return NounPhrase(noun, determiner, plural, adjectives, possessor=possessor)


def _gap_object(verb: str, tense: str, subject: NounPhrase) -> Clause:
    return Clause(verb, tense, "plain", subject)


def _gap_subject(verb: str, tense: str, target: NounPhrase) -> Clause:
    return Clause(verb, tense, "plain", None, target)


def _gap_alone(verb: str, tense: str, place: Place | None) -> Clause:
    return Clause(verb, tense, "plain", None, place=place)

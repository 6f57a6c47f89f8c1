"""English: do-support, agreement of the verb, `a` and `an`, `who` and `that`."""

from functools import cache

from regard.data.pocket.concepts import CONCEPTS
from regard.data.pocket.lexicon_english import NOUNS, PRONOUNS, TIMES, VERBS
from regard.data.pocket.phrases import (
    Clause,
    Coordination,
    Name,
    NounPhrase,
    Participant,
    Place,
    Pronoun,
    Relative,
    Sentence,
    is_plural,
)
from regard.data.pocket.rendering import Form, Leaf, Node, Phrase, Rendering, finish

_PERSONS = frozenset(noun.name for noun in CONCEPTS.nouns if "person" in noun.tags)
_DETERMINER_TAGS = {"two": "NUM", "three": "NUM", "many": "ADJ", "my": "PRON", "his": "PRON", "her": "PRON"}
_FULL_STOP = Form(".", "PUNCT", ".")
_QUESTION_MARK = Form("?", "PUNCT", "?")
_COMMA = Form(",", "PUNCT", ",")
_NOT = Form("not", "PART", "not", "Polarity=Neg")
_OF = Form("of", "ADP", "of")
_TO = Form("to", "ADP", "to")
_FROM = Form("from", "ADP", "from")
_WITH = Form("with", "ADP", "with")
_POSSESSIVE = Form("'s", "PART", "'s")
_THAT = Form("that", "SCONJ", "that")
_AND = Form("and", "CCONJ", "and")
_WILL = Form("will", "AUX", "will", "VerbForm=Fin")
_RELATIVES = {
    True: Form("who", "PRON", "who", "PronType=Rel"),
    False: Form("that", "PRON", "that", "PronType=Rel"),
}


def render(sentence: Sentence) -> Rendering:
    """A sentence in English."""
    if sentence.question:
        children = [*_question(sentence.main, ""), Leaf(_QUESTION_MARK, ".")]
        return finish(Phrase("SQ", children))
    main = Phrase("S", _clause(sentence.main, ""))
    if sentence.second is None or sentence.link is None:
        return finish(Phrase("S", [*main.children, Leaf(_FULL_STOP, ".")]))
    second = Phrase("S", _clause(sentence.second, "2"))
    stop = Leaf(_FULL_STOP, ".")
    if sentence.link in ("and", "but"):
        conjunction = Leaf(Form(sentence.link, "CCONJ", sentence.link), "k")
        comma = [Leaf(_COMMA, "m")] if sentence.link == "but" else []
        return finish(Phrase("S", [main, *comma, conjunction, second, stop]))
    linked = Phrase("SBAR", [Leaf(Form(sentence.link, "SCONJ", sentence.link), "k"), second])
    if sentence.second_first:
        return finish(Phrase("S", [linked, Leaf(_COMMA, "m"), *main.children, stop]))
    verb_phrase = main.children[-1]
    assert isinstance(verb_phrase, Phrase)
    verb_phrase.children.append(linked)
    return finish(Phrase("S", [*main.children, stop]))


def _clause(clause: Clause, path: str) -> list[Node]:
    children: list[Node] = []
    if clause.time is not None and clause.time_first:
        children.append(_time(clause.time, path))
    children.append(_participant(clause.subject, path + "s", 0))
    verbs = _verb_group(clause, path, is_plural(clause.subject))
    children.append(Phrase("VP", [*verbs, *_complements(clause, path)]))
    return children


def _question(clause: Clause, path: str) -> list[Node]:
    plural = is_plural(clause.subject)
    subject = _participant(clause.subject, path + "s", 0)
    if clause.verb == "be" and clause.tense in ("present", "past"):
        verb = Leaf(_finite("be", clause.tense, plural), path + "v", path + "x", path + "q")
        return [verb, subject, *_complements(clause, path)]
    match clause.tense:
        case "future":
            auxiliary = Leaf(_WILL, path + "x", path + "q")
        case "perfect":
            auxiliary = Leaf(_have(plural), path + "x", path + "q")
        case _:
            auxiliary = Leaf(_do(clause.tense, plural), path + "q")
    form = _participle(clause.verb) if clause.tense == "perfect" else _base(clause.verb)
    anchors = (path + "v",) if clause.tense in ("future", "perfect") else (path + "v", path + "x")
    return [auxiliary, subject, Phrase("VP", [Leaf(form, *anchors), *_complements(clause, path)])]


def _verb_group(clause: Clause, path: str, plural: bool) -> list[Node]:
    """Auxiliary, `not` or adverb, and verb, as in `does not like`, `has often seen`."""
    middle: list[Node] = []
    if clause.manner == "not":
        middle = [Leaf(_NOT, path + "n")]
    elif clause.manner != "plain":
        middle = [Phrase("ADVP", [Leaf(Form(clause.manner, "ADV", clause.manner), path + "n")])]
    verb, both = path + "v", (path + "v", path + "x")
    if clause.tense == "future":
        return [Leaf(_WILL, path + "x"), *middle, Leaf(_base(clause.verb), verb)]
    if clause.tense == "perfect":
        return [Leaf(_have(plural), path + "x"), *middle, Leaf(_participle(clause.verb), verb)]
    if clause.verb == "be":
        return [Leaf(_finite("be", clause.tense, plural), *both), *middle]
    if clause.manner == "not":
        return [Leaf(_do(clause.tense, plural), path + "n"), *middle, Leaf(_base(clause.verb), *both)]
    return [*middle, Leaf(_finite(clause.verb, clause.tense, plural), *both)]


def _complements(clause: Clause, path: str) -> list[Node]:
    children: list[Node] = []
    preposition = VERBS[clause.verb].preposition
    if clause.predicate is not None:
        children.append(Phrase("ADJP", [Leaf(_adjective(clause.predicate), path + "p")]))
    if clause.object is not None:
        target = _participant(clause.object, path + "o", 1)
        if clause.verb in ("go", "come"):
            target = Phrase("PP", [Leaf(_TO if clause.verb == "go" else _FROM, path + "ot"), target])
        elif preposition:
            target = Phrase("PP", [Leaf(Form(preposition, "ADP", preposition), path + "vp"), target])
        children.append(target)
    if clause.recipient is not None:
        recipient = _participant(clause.recipient, path + "r", 1)
        children.append(Phrase("PP", [Leaf(_TO, path + "rt"), recipient]))
    if clause.place is not None:
        children.append(_place(clause.place, path + "l"))
    if clause.time is not None and not clause.time_first:
        children.append(_time(clause.time, path))
    if clause.complement is not None:
        inner = Phrase("S", _clause(clause.complement, path + "c"))
        children.append(Phrase("SBAR", [Leaf(_THAT, path + "k"), inner]))
    return children


def _participant(participant: Participant | None, path: str, case: int) -> Node:
    match participant:
        case NounPhrase():
            return _noun_phrase(participant, path)
        case Name(name):
            return Phrase("NP", [Leaf(_name(name), path)])
        case Pronoun(name):
            return Phrase("NP", [Leaf(_pronoun(name, case), path)])
        case Coordination(first, second):
            one, two = _participant(first, path + "1", case), _participant(second, path + "2", case)
            return Phrase("NP", [one, Leaf(_AND, path + "&"), two])
        case None:
            raise AssertionError("only a relative clause has an empty place")


def _noun_phrase(phrase: NounPhrase, path: str) -> Phrase:
    children: list[Node] = []
    possessor = phrase.possessor
    noun = _noun(phrase.noun, phrase.plural)
    adjectives = [_adjective(name) for name in phrase.adjectives]
    if isinstance(possessor, Name):
        owner = [Leaf(_name(possessor.name), path + "g"), Leaf(_POSSESSIVE, path + "go")]
        children.append(Phrase("NP", list(owner)))
    elif phrase.determiner not in ("bare", "generic"):
        following = (adjectives[0] if adjectives else noun).text
        children.append(Leaf(_determiner(phrase.determiner, phrase.plural, following[0] in "aeiou"), path + "d"))
    children += [Leaf(form, f"{path}a{index}") for index, form in enumerate(adjectives)]
    children.append(Leaf(noun, path))
    if isinstance(possessor, NounPhrase):
        children.append(Phrase("PP", [Leaf(_OF, path + "go"), _noun_phrase(possessor, path + "g")]))
    if phrase.attire is not None:
        children.append(Phrase("PP", [Leaf(_WITH, path + "wo"), _noun_phrase(phrase.attire, path + "w")]))
    if phrase.relative is not None:
        core = Phrase("NP", children)
        return Phrase("NP", [core, _relative(phrase.relative, phrase, path + "c")])
    return Phrase("NP", children)


def _relative(relative: Relative, head: NounPhrase, path: str) -> Phrase:
    clause = relative.clause
    if relative.role == "subject":
        pronoun = _RELATIVES[head.noun in _PERSONS]
        verbs = _verb_group(clause, path, head.plural)
        inner = Phrase("S", [Phrase("VP", [*verbs, *_complements(clause, path)])])
    else:
        pronoun = _RELATIVES[False]
        inner = Phrase("S", _clause(clause, path))
    return Phrase("SBAR", [Leaf(pronoun, path + "k"), inner])


def _place(place: Place, path: str) -> Phrase:
    preposition = Leaf(Form(place.preposition, "ADP", place.preposition), path + "t")
    return Phrase("PP", [preposition, _noun_phrase(place.phrase, path)])


def _time(name: str, path: str) -> Phrase:
    words = TIMES[name]
    tags = {1: ("ADV",), 2: ("DET", "NOUN"), 3: ("ADP", "DET", "NOUN")}[len(words)]
    if name == "at_night":
        tags = ("ADP", "NOUN")
    elif name in ("last_year", "next_week"):
        tags = ("ADJ", "NOUN")
    anchors = [path + "td"] * (len(words) - 1) + [path + "tn"]
    label = {"ADV": "ADVP", "ADP": "PP"}.get(tags[0], "NP")
    items = zip(words, tags, anchors, strict=True)
    return Phrase(label, [Leaf(Form(word, tag, word), anchor) for word, tag, anchor in items])


@cache
def _noun(concept: str, plural: bool) -> Form:
    singular, many = NOUNS[concept]
    return Form(many if plural else singular, "NOUN", singular, "Number=Plur" if plural else "Number=Sing")


@cache
def _name(name: str) -> Form:
    return Form(name, "PROPN", name, "Number=Sing")


@cache
def _pronoun(name: str, case: int) -> Form:
    number = "Plur" if name == "they" else "Sing"
    features = f"Case={('Nom', 'Acc')[case]}|Number={number}|Person=3|PronType=Prs"
    return Form(PRONOUNS[name][case], "PRON", name, features)


@cache
def _adjective(concept: str) -> Form:
    word = concept.partition("_")[0]
    return Form(word, "ADJ", word, "Degree=Pos")


@cache
def _determiner(name: str, plural: bool, vowel: bool) -> Form:
    tag = _DETERMINER_TAGS.get(name, "DET")
    match name:
        case "the":
            return Form("the", tag, "the", "Definite=Def|PronType=Art")
        case "a":
            return Form("an" if vowel else "a", tag, "a", "Definite=Ind|PronType=Art")
        case "this":
            number = "Plur" if plural else "Sing"
            return Form("these" if plural else "this", tag, "this", f"Number={number}|PronType=Dem")
        case "my" | "his" | "her":
            return Form(name, tag, name, "Poss=Yes|PronType=Prs")
        case _:
            return Form(name, tag, name)


@cache
def _finite(verb: str, tense: str, plural: bool) -> Form:
    number = "Plur" if plural else "Sing"
    features = f"Mood=Ind|Number={number}|Person=3|Tense={'Pres' if tense == 'present' else 'Past'}|VerbForm=Fin"
    forms = VERBS[verb]
    if verb == "be":
        text = {"present": ("is", "are"), "past": ("was", "were")}[tense][plural]
        return Form(text, "AUX", "be", features)
    text = forms.past if tense == "past" else (forms.base if plural else forms.third)
    return Form(text, "VERB", forms.base, features)


@cache
def _base(verb: str) -> Form:
    return Form(VERBS[verb].base, "AUX" if verb == "be" else "VERB", VERBS[verb].base, "VerbForm=Inf")


@cache
def _participle(verb: str) -> Form:
    return Form(VERBS[verb].participle, "VERB", VERBS[verb].base, "Tense=Past|VerbForm=Part")


@cache
def _have(plural: bool) -> Form:
    number = "Plur" if plural else "Sing"
    return Form(
        "have" if plural else "has", "AUX", "have", f"Mood=Ind|Number={number}|Person=3|Tense=Pres|VerbForm=Fin"
    )


@cache
def _do(tense: str, plural: bool) -> Form:
    if tense == "past":
        return Form("did", "AUX", "do", "Mood=Ind|Tense=Past|VerbForm=Fin")
    number = "Plur" if plural else "Sing"
    return Form("do" if plural else "does", "AUX", "do", f"Mood=Ind|Number={number}|Person=3|Tense=Pres|VerbForm=Fin")

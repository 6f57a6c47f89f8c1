"""French inflection: articles, adjectives and participles by gender and number, verbs, elision."""

from functools import cache
from itertools import pairwise

from regard.data.pocket.lexicon_french import ADJECTIVES, NOUNS, PRONOUNS, VERBS
from regard.data.pocket.rendering import Form, Leaf

_VOWELS = frozenset("aeiouyàâéèêëîïôùûœæh")
_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "que": "qu'", "ne": "n'"}
_ARTICLES = {("the", "m"): "le", ("the", "f"): "la", ("a", "m"): "un", ("a", "f"): "une"}
_PLURALS = {"the": "les", "generic": "les", "this": "ces", "my": "mes", "his": "ses", "her": "ses", "bare": "des"}
_POSSESSIVES = {"my": "m", "his": "s", "her": "s"}
_INVARIANT = {"every": "chaque", "two": "deux", "three": "trois", "some": "quelques"}
_GENDERS = {"m": "Masc", "f": "Fem"}


def starts_with_vowel(text: str) -> bool:
    """Whether a word makes the word before it elide; every h of the lexicon is mute."""
    return text[0].lower() in _VOWELS


def elide(words: list[Leaf]) -> None:
    """Write l', d', qu', n' before a vowel and s' before il."""
    for word, following in pairwise(words):
        if word.text in _ELIDED and starts_with_vowel(following.text):
            word.text = _ELIDED[word.text]
        elif word.text == "si" and following.text in ("il", "ils"):
            word.text = "s'"


def agreement(gender: str, plural: bool) -> str:
    return f"Gender={_GENDERS[gender]}|Number={'Plur' if plural else 'Sing'}"


@cache
def noun(concept: str, plural: bool) -> Form:
    entry = NOUNS[concept]
    return Form(entry.plural if plural else entry.singular, "NOUN", entry.singular, agreement(entry.gender, plural))


@cache
def determiner(name: str, gender: str, plural: bool, vowel: bool) -> Form:
    """The determiner before a word; `vowel` says how that word begins."""
    features = agreement(gender, plural)
    if name in _INVARIANT:
        return Form(_INVARIANT[name], "NUM" if name in ("two", "three") else "DET", _INVARIANT[name])
    if plural:
        lemma = {"the": "le", "generic": "le", "this": "ce", "my": "mon", "bare": "un"}.get(name, "son")
        return Form(_PLURALS[name], "DET", lemma, features)
    if name == "this":
        return Form("cette" if gender == "f" else ("cet" if vowel else "ce"), "DET", "ce", features)
    if name in _POSSESSIVES:
        letter = _POSSESSIVES[name]
        ending = "a" if gender == "f" and not vowel else "on"
        return Form(letter + ending, "DET", letter + "on", features + "|Poss=Yes")
    return Form(_ARTICLES[name, gender], "DET", "le" if name == "the" else "un", features)


@cache
def adjective(concept: str, gender: str, plural: bool, vowel: bool) -> Form:
    """`vowel`: a masculine singular stands before a vowel (bel, vieil, nouvel)."""
    entry = ADJECTIVES[concept]
    masculine = entry.masculine_vowel if vowel and not plural else entry.masculine
    text = entry.feminine if gender == "f" else masculine
    return Form(pluralised(text) if plural else text, "ADJ", entry.masculine, agreement(gender, plural))


def pluralised(text: str) -> str:
    """The plural of an adjective or participle."""
    if text[-1] in "sx":
        return text
    return text + ("x" if text.endswith("eau") else "s")


@cache
def participle(verb: str, gender: str, plural: bool) -> Form:
    entry = VERBS[verb]
    text = entry.participle + ("e" if gender == "f" else "")
    features = agreement(gender, plural) + "|Tense=Past|VerbForm=Part"
    return Form(pluralised(text) if plural else text, "VERB", entry.infinitive, features)


@cache
def finite(verb: str, tense: str, plural: bool) -> Form:
    """Present, imperfect (of lasting states) or future."""
    entry = VERBS[verb]
    if tense == "future":
        text = entry.future[:-1] + "ont" if plural else entry.future
    elif tense == "past":
        text = entry.imperfect + ("aient" if plural else "ait")
    else:
        text = entry.third_plural if plural else entry.third
    name = {"future": "Fut", "past": "Imp", "present": "Pres"}[tense]
    features = f"Mood=Ind|Number={'Plur' if plural else 'Sing'}|Person=3|Tense={name}|VerbForm=Fin"
    return Form(text, "AUX" if verb == "be" else "VERB", entry.infinitive, features)


@cache
def auxiliary(verb: str, plural: bool) -> Form:
    """The auxiliary of the passé composé."""
    features = f"Mood=Ind|Number={'Plur' if plural else 'Sing'}|Person=3|Tense=Pres|VerbForm=Fin"
    if VERBS[verb].auxiliary == "être":
        return Form("sont" if plural else "est", "AUX", "être", features)
    return Form("ont" if plural else "a", "AUX", "avoir", features)


@cache
def pronoun(name: str, role: str) -> Form:
    features = f"Number={'Plur' if name == 'they' else 'Sing'}|Person=3|PronType=Prs"
    return Form(PRONOUNS[name][role], "PRON", "il" if role == "subject" else "le", features)


@cache
def name(text: str) -> Form:
    return Form(text, "PROPN", text, "Number=Sing")

"""German inflection: articles, adjective endings, nouns in four cases, finite and infinite verbs."""

from functools import cache

from regard.data.pocket.lexicon_german import ADJECTIVES, NOUNS, PRONOUNS, VERBS
from regard.data.pocket.rendering import Form

_CASES = {"nominative": "Nom", "accusative": "Acc", "dative": "Dat", "genitive": "Gen"}
_GENDERS = {"m": "Masc", "f": "Fem", "n": "Neut"}

# case: endings of masculine, feminine, neuter, plural
_STRONG = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("es", "er", "es", "er"),
}
_EIN = _STRONG | {"nominative": ("", "e", "", "e"), "accusative": ("en", "e", "", "e")}
_DER = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
    "genitive": ("des", "der", "des", "der"),
}
_RELATIVE = _DER | {"dative": ("dem", "der", "dem", "denen")}
_MIXED_NOMINATIVE = ("er", "e", "es", "en")
_WEAK_NOMINATIVE = ("e", "e", "e", "en")

_STEMS = {"a": "ein", "no": "kein", "my": "mein", "his": "sein", "her": "ihr"}
_STRONG_STEMS = {"this": "dies", "every": "jed", "some": "einig", "many": "viel"}
_NUMERALS = {"two": "zwei", "three": "drei"}


def _column(gender: str, plural: bool) -> int:
    return 3 if plural else "mfn".index(gender)


def _agreement(gender: str, plural: bool, case: str) -> str:
    number = "Plur" if plural else "Sing"
    return f"Case={_CASES[case]}|Gender={_GENDERS[gender]}|Number={number}"


@cache
def noun(concept: str, plural: bool, case: str) -> Form:
    """A noun in its case: dative plural adds -n, weak nouns add -(e)n outside the nominative."""
    entry = NOUNS[concept]
    if plural:
        text = entry.plural
        if case == "dative" and text[-1] not in "ns":
            text += "n"
    elif case == "genitive":
        text = entry.genitive
    elif entry.weak and case != "nominative":
        text = entry.genitive.removesuffix("s")
    else:
        text = entry.nominative
    return Form(text, "NOUN", entry.nominative, _agreement(entry.gender, plural, case))


@cache
def determiner(name: str, concept: str, plural: bool, case: str) -> Form:
    """The determiner before a noun; `no` is kein."""
    gender = NOUNS[concept].gender
    column = _column(gender, plural)
    agreement = _agreement(gender, plural, case)
    if name == "the":
        return Form(_DER[case][column], "DET", "der", agreement + "|Definite=Def|PronType=Art")
    if name in _NUMERALS:
        return Form(_NUMERALS[name], "NUM", _NUMERALS[name], "NumType=Card")
    if name in _STRONG_STEMS:
        stem = _STRONG_STEMS[name]
        return Form(stem + _STRONG[case][column], "DET", stem + ("e" if plural and name != "this" else "er"), agreement)
    stem = _STEMS[name]
    kind = {"a": "|Definite=Ind|PronType=Art", "no": "|PronType=Neg"}.get(name, "|Poss=Yes|PronType=Prs")
    return Form(stem + _EIN[case][column], "DET", stem, agreement + kind)


@cache
def adjective(concept: str, name: str, noun_concept: str, plural: bool, case: str) -> Form:
    """An attributive adjective: weak after der-words, mixed after ein-words, strong after none or a number."""
    gender = NOUNS[noun_concept].gender
    column = _column(gender, plural)
    if name in ("two", "three", "some", "many", "bare", "generic"):
        ending = _STRONG[case][column]
    elif case in ("dative", "genitive") or plural or (case == "accusative" and gender == "m"):
        ending = "en"
    else:
        ending = (_MIXED_NOMINATIVE if name in _STEMS else _WEAK_NOMINATIVE)[column]
    base, stem = ADJECTIVES[concept]
    return Form(stem + ending, "ADJ", base, _agreement(gender, plural, case) + "|Degree=Pos")


@cache
def predicative(concept: str) -> Form:
    """An adjective after sein has no ending."""
    base = ADJECTIVES[concept][0]
    return Form(base, "ADJ", base, "Degree=Pos")


@cache
def relative_pronoun(concept: str, plural: bool, case: str) -> Form:
    gender = NOUNS[concept].gender
    text = _RELATIVE[case][_column(gender, plural)]
    return Form(text, "PRON", "der", _agreement(gender, plural, case) + "|PronType=Rel")


@cache
def pronoun(name: str, case: str) -> Form:
    number = "Plur" if name == "they" else "Sing"
    features = f"Case={_CASES[case]}|Number={number}|Person=3|PronType=Prs"
    return Form(PRONOUNS[name][case], "PRON", PRONOUNS[name]["nominative"], features)


@cache
def name(text: str, genitive: bool) -> Form:
    if genitive:
        return Form(text + "s", "PROPN", text, "Case=Gen|Number=Sing")
    return Form(text, "PROPN", text, "Number=Sing")


@cache
def finite(verb: str, tense: str, plural: bool, joined: bool) -> Form:
    """A finite verb in present or past; `joined` writes the separable particle in front (verb at the end)."""
    entry = VERBS[verb]
    number = "Plur" if plural else "Sing"
    features = f"Mood=Ind|Number={number}|Person=3|Tense={'Pres' if tense == 'present' else 'Past'}|VerbForm=Fin"
    if verb == "be":
        text = {"present": ("ist", "sind"), "past": ("war", "waren")}[tense][plural]
        return Form(text, "AUX", "sein", features)
    if tense == "past":
        text = entry.past_plural if plural else entry.past
    else:
        text = entry.infinitive if plural else entry.third
    return Form(entry.particle + text if joined else text, "VERB", entry.particle + entry.infinitive, features)


@cache
def auxiliary(verb: str, tense: str, plural: bool) -> Form:
    """`wird` of the future, `hat` or `ist` of the perfect."""
    number = "Plur" if plural else "Sing"
    features = f"Mood=Ind|Number={number}|Person=3|Tense=Pres|VerbForm=Fin"
    if tense == "future":
        return Form("werden" if plural else "wird", "AUX", "werden", features)
    if VERBS[verb].auxiliary == "sein":
        return Form("sind" if plural else "ist", "AUX", "sein", features)
    return Form("haben" if plural else "hat", "AUX", "haben", features)


@cache
def infinite(verb: str, tense: str) -> Form:
    """Infinitive of the future or participle of the perfect, particle in front."""
    entry = VERBS[verb]
    lemma = entry.particle + entry.infinitive
    tag = "AUX" if verb == "be" else "VERB"
    if tense == "future":
        return Form(lemma, tag, lemma, "VerbForm=Inf")
    return Form(entry.particle + entry.participle, tag, lemma, "VerbForm=Part")

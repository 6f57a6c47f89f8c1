"""Agreement, word order and orthography of sampled sentences, by rules written apart from the generator."""

import re
from itertools import pairwise
from random import Random

import pytest

from regard.data.pocket import Derivation, Rendering, World

# Nouns whose singular differs from every plural form, with their gender.
GERMAN_GENDER = {
    "m": "Mann Arzt König Freund Hund Vogel Wolf Fuchs Frosch Apfel Brief Ball Hut Mantel Tisch Stuhl Baum Wald Fluss",
    "f": "Frau Königin Schwester Mutter Katze Ente Maus Zeitung Tasse Lampe Tür Schule Kirche Küche Stadt Frage Blume",
    "n": "Kind Pferd Ei Buch Gedicht Fahrrad Bild Kleid Bett Dach Haus Schloss Dorf Wort Spiel Streichholz",
}
GERMAN_STEMS = ("ein", "kein", "mein", "sein", "ihr")
GERMAN_ARTICLES = {
    "m": {"der", "den", "dem", "des", "im", "am", "zum", "beim"}
    | {stem + ending for stem in GERMAN_STEMS for ending in ("", "en", "em", "es")}
    | {stem + ending for stem in ("dies", "jed") for ending in ("er", "en", "em", "es")},
    "f": {"die", "der", "zur"} | {stem + ending for stem in (*GERMAN_STEMS, "dies", "jed") for ending in ("e", "er")},
    "n": {"das", "dem", "des", "im", "am", "zum", "beim"}
    | {stem + ending for stem in GERMAN_STEMS for ending in ("", "em", "es")}
    | {stem + ending for stem in ("dies", "jed") for ending in ("es", "em")},
}
GERMAN_ADJECTIVE = {
    ("m", "der"): "e",
    ("m", "den"): "en",
    ("m", "dem"): "en",
    ("m", "des"): "en",
    ("m", "ein"): "er",
    ("m", "mein"): "er",
    ("m", "einen"): "en",
    ("m", "dieser"): "e",
    ("f", "die"): "e",
    ("f", "der"): "en",
    ("f", "eine"): "e",
    ("f", "keine"): "e",
    ("f", "zur"): "en",
    ("n", "das"): "e",
    ("n", "ein"): "es",
    ("n", "sein"): "es",
    ("n", "dem"): "en",
    ("n", "im"): "en",
}
FRENCH_GENDER = {
    "m": "homme enfant garçon médecin roi chat chien cheval oiseau loup livre journal ballon chapeau arbre jardin mot",
    "f": "femme fille reine sœur mère grenouille pomme histoire lettre clé tasse porte école église maison ville fleur",
}
VOWELS = "aeiouyàâéèêëîïôùûœh"


@pytest.fixture(scope="module")
def derivations() -> list[Derivation]:
    world, random = World(), Random(7)
    return [world.sample(random) for _ in range(6000)]


@pytest.fixture(scope="module")
def german(derivations: list[Derivation]) -> list[Rendering]:
    return [derivation.render("de") for derivation in derivations]


@pytest.fixture(scope="module")
def french(derivations: list[Derivation]) -> list[Rendering]:
    return [derivation.render("fr") for derivation in derivations]


def _genders(table: dict[str, str]) -> dict[str, str]:
    return {noun: gender for gender, nouns in table.items() for noun in nouns.split()}


def test_german_articles_and_endings_agree(german: list[Rendering]) -> None:
    genders = _genders(GERMAN_GENDER)
    every_article = set().union(*GERMAN_ARTICLES.values())
    articles = endings = 0
    for rendering in german:
        words, tags = rendering.words, rendering.tags
        for index, word in enumerate(words):
            gender = genders.get(word)
            if gender is None or index == 0:
                continue
            before = words[index - 1]
            if before in every_article and tags[index - 1] in ("DET", "ADP"):
                assert before in GERMAN_ARTICLES[gender], rendering.text
                articles += 1
            if tags[index - 1] == "ADJ" and index > 1 and (gender, words[index - 2]) in GERMAN_ADJECTIVE:
                ending = GERMAN_ADJECTIVE[gender, words[index - 2]]
                assert re.fullmatch(rf"\w+?{ending}", before), rendering.text
                if ending == "e":
                    assert not before.endswith(("en", "er", "es")), rendering.text
                endings += 1
    assert articles > 1000
    assert endings > 500


def test_german_subject_is_nominative(german: list[Rendering]) -> None:
    """A sentence that begins with an article begins with its subject."""
    genders = _genders(GERMAN_GENDER)
    nominative = {"m": {"der", "ein", "dieser", "jeder"}, "f": {"die", "eine", "diese", "jede"}, "n": {"das", "ein"}}
    checked = 0
    for rendering in german:
        first, second = rendering.words[:2]
        if rendering.tags[0] == "DET" and second in genders and first in set().union(*nominative.values()):
            assert first in nominative[genders[second]], rendering.text
            checked += 1
    assert checked > 300


def test_german_verb_is_second_or_last(german: list[Rendering]) -> None:
    finite = re.compile(r"VerbForm=Fin")
    second = last = 0
    for rendering in german:
        children = rendering.tree
        if rendering.words[-1] == "." and children.startswith(("(S (NP", "(S (ADVP", "(S (PP")):
            assert _first_leaf_after_first_child(children) in ("VERB", "AUX"), rendering.text
            second += 1
        for index, word in enumerate(rendering.words):
            if rendering.tags[index] == "SCONJ":
                end = next(at for at in range(index, len(rendering.words)) if rendering.tags[at] == "PUNCT")
                assert finite.search(rendering.features[end - 1]), f"{word}: {rendering.text}"
                last += 1
    assert second > 2000
    assert last > 1000


def _first_leaf_after_first_child(tree: str) -> str:
    depth = 0
    for index, character in enumerate(tree):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 1 and character == ")":
            rest = tree[index + 1 :].lstrip()
            # A closing comma may stand between a subject with a relative clause and the verb.
            rest = rest.removeprefix("(PUNCT ,)").lstrip()
            return rest[1:].split()[0]
    raise AssertionError(tree)


def test_german_nouns_and_only_nouns_are_capitalised(german: list[Rendering]) -> None:
    for rendering in german:
        for word, tag in zip(rendering.words, rendering.tags, strict=True):
            assert word[0].isupper() == (tag in ("NOUN", "PROPN")), rendering.text


def test_french_elision_and_contraction(french: list[Rendering]) -> None:
    for rendering in french:
        text = rendering.text
        assert not re.search(rf"(?i)\b(le|la|de|ne|que) [{VOWELS}]", text), text
        assert not re.search(rf"(?i)\b(l|d|n|qu)' [^{VOWELS}]", text), text
        assert not re.search(rf"\b(ce|ma|sa|vieux|beau|nouveau) (?=[{VOWELS}])", _singular(rendering)), text
        assert not re.search(r"\b(de|à) les?\b", text), text
        assert not re.search(r"\bsi ils?\b", text), text


def _singular(rendering: Rendering) -> str:
    """The sentence with determiners and adjectives of plural or predicate use blotted out."""
    words = list(rendering.words)
    for index, (tag, features) in enumerate(zip(rendering.tags, rendering.features, strict=True)):
        predicate = tag == "ADJ" and rendering.tags[index + 1] not in ("NOUN", "ADJ")
        if "Plur" in features or predicate:
            words[index] = "-"
    return " ".join(words)


def test_french_determiners_and_adjectives_agree(french: list[Rendering]) -> None:
    genders = _genders(FRENCH_GENDER)
    masculine = {"le", "un", "ce", "cet", "du", "au"}
    feminine = {"la", "une", "cette", "ma", "sa"}
    adjectives = {"petit": "petite", "grand": "grande", "vieux": "vieille", "bon": "bonne", "beau": "belle"}
    after = {"noir": "noire", "blanc": "blanche", "vert": "verte", "intelligent": "intelligente"}
    checked = 0
    for rendering in french:
        words = rendering.words
        for index, word in enumerate(words):
            gender = genders.get(word)
            if gender is None:
                continue
            wrong = feminine if gender == "m" else masculine
            assert words[index - 1] not in wrong, rendering.text
            here = set(adjectives.values() if gender == "m" else adjectives)
            assert words[index - 1] not in here, rendering.text
            behind = set(after.values() if gender == "m" else after)
            assert words[index + 1] not in behind, rendering.text
            checked += 1
    assert checked > 2000


def test_french_negation_has_two_parts(french: list[Rendering]) -> None:
    checked = 0
    for rendering in french:
        words = rendering.words
        for index, word in enumerate(words):
            if word in ("ne", "n'"):
                assert {"pas", "jamais"} & set(words[index + 2 : index + 4]), rendering.text
                checked += 1
        assert sum(word in ("pas", "jamais") for word in words) == sum(word in ("ne", "n'") for word in words)
    assert checked > 500


def test_english_articles_and_verbs(derivations: list[Derivation]) -> None:
    third = {"sleeps", "sees", "has", "is", "does", "was", "goes", "buys", "likes", "loves"}
    other = {"sleep", "see", "have", "are", "do", "were", "go", "buy", "like", "love"}
    checked = 0
    for derivation in derivations:
        words = derivation.render("en").words
        for word, following in pairwise(words):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou"), words
            elif derivation.sentence.question:
                continue
            elif word in ("he", "she"):
                assert following not in other, words
                checked += following in third
            elif word == "they":
                assert following not in third, words
                checked += following in other
    assert checked > 100

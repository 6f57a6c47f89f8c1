"""Hand-written sentences in three languages: the second source for the three renderers."""

import pytest

from regard.data.pocket import Derivation
from regard.data.pocket.alignment import pharaoh
from regard.data.pocket.phrases import Clause, Coordination, Name, NounPhrase, Place, Pronoun, Relative, Sentence

CAT = NounPhrase("cat", "the", False)
DOG = NounPhrase("dog", "the", False)
OLD_DOG = NounPhrase("dog", "the", False, ("old",))
MAN = NounPhrase("man", "the", False)
GARDEN = NounPhrase("garden", "the", False)
RIVER = NounPhrase("river", "the", False)
WORD = NounPhrase("word", "the", False)

CASES = [
    (
        Sentence(Clause("like", "present", "not", CAT, OLD_DOG)),
        "the cat does not like the old dog .",
        "die Katze mag den alten Hund nicht .",
        "le chat n' aime pas le vieux chien .",
    ),
    (
        Sentence(
            Clause("like", "present", "not", NounPhrase("cat", "generic", True), NounPhrase("dog", "generic", True))
        ),
        "cats do not like dogs .",
        "Katzen mögen keine Hunde .",
        "les chats n' aiment pas les chiens .",
    ),
    (
        Sentence(Clause("see", "past", "plain", CAT, NounPhrase("mouse", "a", False, ("white",)), time="yesterday")),
        "the cat saw a white mouse yesterday .",
        "die Katze sah gestern eine weiße Maus .",
        "le chat a vu une souris blanche hier .",
    ),
    (
        Sentence(Clause("see", "past", "plain", CAT, DOG, time="yesterday", time_first=True)),
        "yesterday the cat saw the dog .",
        "gestern sah die Katze den Hund .",
        "hier le chat a vu le chien .",
    ),
    (
        Sentence(
            Clause("laugh", "present", "plain", MAN), link="because", second=Clause("sleep", "present", "plain", CAT)
        ),
        "the man laughs because the cat sleeps .",
        "der Mann lacht , weil die Katze schläft .",
        "l' homme rit parce que le chat dort .",
    ),
    (
        Sentence(
            Clause("laugh", "past", "plain", MAN),
            link="when",
            second=Clause("arrive", "past", "plain", Pronoun("she")),
            second_first=True,
        ),
        "when she arrived , the man laughed .",
        "als sie ankam , lachte der Mann .",
        "quand elle est arrivée , l' homme a ri .",
    ),
    (
        Sentence(
            Clause("run", "future", "plain", CAT),
            link="if",
            second=Clause("open", "present", "plain", Pronoun("he"), NounPhrase("door", "the", False)),
        ),
        "the cat will run if he opens the door .",
        "die Katze wird laufen , wenn er die Tür aufmacht .",
        "le chat courra s' il ouvre la porte .",
    ),
    (
        Sentence(
            Clause(
                "know_that",
                "present",
                "plain",
                NounPhrase("boy", "every", False),
                complement=Clause("open", "perfect", "plain", Name("Anna"), NounPhrase("window", "the", True)),
            )
        ),
        "every boy knows that Anna has opened the windows .",
        "jeder Junge weiß , dass Anna die Fenster aufgemacht hat .",
        "chaque garçon sait qu' Anna a ouvert les fenêtres .",
    ),
    (
        Sentence(
            Clause(
                "see",
                "perfect",
                "plain",
                MAN,
                NounPhrase(
                    "mouse",
                    "the",
                    False,
                    relative=Relative("object", Clause("catch", "past", "plain", NounPhrase("cat", "this", False))),
                ),
            )
        ),
        "the man has seen the mouse that this cat caught .",
        "der Mann hat die Maus gesehen , die diese Katze fing .",
        "l' homme a vu la souris que ce chat a attrapée .",
    ),
    (
        Sentence(
            Clause(
                "buy",
                "past",
                "plain",
                NounPhrase(
                    "woman",
                    "the",
                    False,
                    relative=Relative("subject", Clause("work", "present", "plain", None, place=Place("in", GARDEN))),
                ),
                NounPhrase("apple", "bare", True, ("good", "red")),
            )
        ),
        "the woman who works in the garden bought good red apples .",
        "die Frau , die im Garten arbeitet , kaufte gute rote Äpfel .",
        "la femme qui travaille dans le jardin a acheté de bonnes pommes rouges .",
    ),
    (
        Sentence(
            Clause("give", "past", "plain", MAN, NounPhrase("book", "his", False, ("old",)), recipient=Pronoun("she"))
        ),
        "the man gave his old book to her .",
        "der Mann gab ihr sein altes Buch .",
        "l' homme lui a donné son vieux livre .",
    ),
    (
        Sentence(
            Clause(
                "show",
                "present",
                "not",
                MAN,
                NounPhrase("letter_mail", "the", False),
                recipient=NounPhrase("farmer", "the", False),
            )
        ),
        "the man does not show the letter to the farmer .",
        "der Mann zeigt dem Bauern den Brief nicht .",
        "l' homme ne montre pas la lettre au fermier .",
    ),
    (
        Sentence(
            Clause(
                "write",
                "future",
                "plain",
                Name("Tom"),
                NounPhrase("letter_sign", "the", False, ("first",), possessor=WORD),
            )
        ),
        "Tom will write the first letter of the word .",
        "Tom wird den ersten Buchstaben des Wortes schreiben .",
        "Tom écrira la première lettre du mot .",
    ),
    (
        Sentence(
            Clause(
                "sleep",
                "present",
                "never",
                NounPhrase("neighbour", "her", False),
                place=Place("on", NounPhrase("bank_river", "the", False, possessor=RIVER)),
            )
        ),
        "her neighbour never sleeps on the bank of the river .",
        "ihr Nachbar schläft nie am Ufer des Flusses .",
        "son voisin ne dort jamais sur la rive de la rivière .",
    ),
    (
        Sentence(
            Clause(
                "go",
                "past",
                "plain",
                Coordination(Name("Anna"), Name("Clara")),
                NounPhrase("bank_money", "the", False),
                time="in_the_morning",
                time_first=True,
            )
        ),
        "in the morning Anna and Clara went to the bank .",
        "am Morgen gingen Anna und Clara zur Bank .",
        "le matin Anna et Clara sont allées à la banque .",
    ),
    (
        Sentence(Clause("invite", "past", "not", NounPhrase("king", "the", False), Pronoun("they"))),
        "the king did not invite them .",
        "der König lud sie nicht ein .",
        "le roi ne les a pas invités .",
    ),
    (
        Sentence(Clause("help", "present", "plain", NounPhrase("child", "two", True), Pronoun("he")), question=True),
        "do two children help him ?",
        "helfen zwei Kinder ihm ?",
        "est-ce que deux enfants l' aident ?",
    ),
    (
        Sentence(Clause("be", "past", "not", NounPhrase("house", "the", True), predicate="light_bright")),
        "the houses were not light .",
        "die Häuser waren nicht hell .",
        "les maisons n' étaient pas claires .",
    ),
    (
        Sentence(
            Clause(
                "wait_for",
                "perfect",
                "not",
                NounPhrase("student", "the", False, ("old",), attire=NounPhrase("hat", "the", False, ("red",))),
                NounPhrase("bus", "the", False),
            )
        ),
        "the old student with the red hat has not waited for the bus .",
        "der alte Student mit dem roten Hut hat nicht auf den Bus gewartet .",
        "le vieil étudiant au chapeau rouge n' a pas attendu le bus .",
    ),
    (
        Sentence(
            Clause("find", "present", "not", NounPhrase("dog", "the", False, possessor=Name("Anna")), OLD_DOG),
            link="but",
            second=Clause("see", "present", "often", MAN, NounPhrase("bird", "many", True, ("blue",))),
        ),
        "Anna 's dog does not find the old dog , but the man often sees many blue birds .",
        "Annas Hund findet den alten Hund nicht , aber der Mann sieht oft viele blaue Vögel .",
        "le chien d' Anna ne trouve pas le vieux chien , mais l' homme voit souvent beaucoup d' oiseaux bleus .",
    ),
]


@pytest.mark.parametrize(("sentence", "english", "german", "french"), CASES, ids=[case[1] for case in CASES])
def test_renderings(sentence: Sentence, english: str, german: str, french: str) -> None:
    derivation = Derivation(sentence, 0.0, ())
    assert derivation.render("en").text == english
    assert derivation.render("de").text == german
    assert derivation.render("fr").text == french


ALIGNMENTS = [
    # the cat does not like the old dog . / die Katze mag den alten Hund nicht .
    (0, "de", "0-0 1-1 2-6 3-6 4-2 5-3 6-4 7-5 8-7"),
    # the cat does not like the old dog . / le chat n' aime pas le vieux chien .
    (0, "fr", "0-0 1-1 2-2 2-4 3-2 3-4 4-3 5-5 6-6 7-7 8-8"),
    # cats do not like dogs . / Katzen mögen keine Hunde .
    (1, "de", "0-0 1-2 2-2 3-1 4-3 5-4"),
    # the cat saw a white mouse yesterday . / die Katze sah gestern eine weiße Maus .
    (2, "de", "0-0 1-1 2-2 3-4 4-5 5-6 6-3 7-7"),
    # the cat saw a white mouse yesterday . / le chat a vu une souris blanche hier .
    (2, "fr", "0-0 1-1 2-2 2-3 3-4 4-6 5-5 6-7 7-8"),
    # the man has seen the mouse that this cat caught . / der Mann hat die Maus gesehen , die diese Katze fing .
    (8, "de", "0-0 1-1 2-2 3-5 4-3 5-4 6-6 6-7 7-8 8-9 9-10 10-11"),
    # in the morning Anna and Clara went to the bank . / am Morgen gingen Anna und Clara zur Bank .
    (14, "de", "0-0 1-0 2-1 3-3 4-4 5-5 6-2 7-6 8-6 9-7 10-8"),
]


@pytest.mark.parametrize(("case", "language", "links"), ALIGNMENTS)
def test_alignments(case: int, language: str, links: str) -> None:
    derivation = Derivation(CASES[case][0], 0.0, ())
    assert pharaoh(derivation.alignment("en", language)) == links
    turned = sorted((target, source) for source, target in derivation.alignment("en", language))
    assert list(derivation.alignment(language, "en")) == turned


def test_tags_lemmas_features_and_tree() -> None:
    derivation = Derivation(CASES[0][0], 0.0, ())
    english, german, french = (derivation.render(language) for language in ("en", "de", "fr"))
    assert english.tree == (
        "(S (NP (DET the) (NOUN cat)) (VP (AUX does) (PART not) (VERB like) "
        "(NP (DET the) (ADJ old) (NOUN dog))) (PUNCT .))"
    )
    assert english.lemmas == ("the", "cat", "do", "not", "like", "the", "old", "dog", ".")
    assert german.tags == ("DET", "NOUN", "VERB", "DET", "ADJ", "NOUN", "PART", "PUNCT")
    assert german.lemmas == ("der", "Katze", "mögen", "der", "alt", "Hund", "nicht", ".")
    assert german.features[5] == "Case=Acc|Gender=Masc|Number=Sing"
    assert french.lemmas == ("le", "chat", "ne", "aimer", "pas", "le", "vieux", "chien", ".")
    assert french.tags == ("DET", "NOUN", "ADV", "VERB", "ADV", "DET", "ADJ", "NOUN", "PUNCT")

"""METEOR against its formula by hand, NLTK, and an alignment by trying everything."""

import gzip
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from nltk.stem.porter import PorterStemmer
from nltk.translate.meteor_score import meteor_score

from regard.errors import DataError, UsageError
from regard.metrics import MeteorSources, evaluate, metric
from regard.metrics.meteor import PARAMETERS, Meteor
from regard.metrics.paraphrases import Paraphrases
from regard.metrics.stemming import stem
from regard.metrics.word_alignment import Match, align, count_chunks
from regard.metrics.wordnet import WordNet

REAL = Path(os.environ.get("REGARD_WORDNET", "/usr/share/wordnet"))
needs_wordnet = pytest.mark.skipif(not (REAL / "index.noun").is_file(), reason="WordNet's files are not installed")
WEIGHTS = (1.0, 0.6, 0.8, 0.6)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A WordNet of seven lemmas. cat and feline share a noun, run and flow a verb."""
    (tmp_path / "index.noun").write_text(
        "  1 This is WordNet 9.1 and its licence  \n"
        "cat n 2 1 @ 2 1 00000100 00000200  \n"
        "dog n 1 0 1 0 00000300  \n"
        "feline n 1 2 @ ~ 1 0 00000100  \n"
        "mouse n 1 0 1 0 00000400  \n"
    )
    (tmp_path / "index.verb").write_text("flow v 1 0 1 0 00000900  \nrun v 2 0 2 0 00000100 00000900  \n")
    (tmp_path / "index.adj").write_text("  1 nothing here  \n")
    (tmp_path / "index.adv").write_text("")
    (tmp_path / "noun.exc").write_text("mice mouse\n")
    return tmp_path


def score(own: Meteor, hypothesis: str, *references: str) -> float:
    return evaluate(own, [hypothesis], [references], resamples=0).value / 100


# the formula


def test_the_formula_of_2005_by_hand() -> None:
    """Six words of seven match in two chunks: P = 6/7, R = 6/6, F = 10PR / (R + 9P), penalty 0.5 · (2/6)³."""
    own = Meteor(version="2005", tokenize="none")
    found = score(own, "the cat sat upon on the mat", "the cat sat on the mat")
    precision, recall = 6 / 7, 1.0
    assert found == pytest.approx(10 * precision * recall / (recall + 9 * precision) * (1 - 0.5 * (2 / 6) ** 3))


def test_content_and_function_words_weigh_differently_in_1_5() -> None:
    """Of `the cat` only `the` (function, 1 - δ) or only `cat` (content, δ) is found."""
    own = Meteor(tokenize="none")
    by_function, by_content = score(own, "the dog", "the cat"), score(own, "a cat", "the cat")
    assert by_function == pytest.approx(0.25 * (1 - 0.6))
    assert by_content == pytest.approx(0.75 * (1 - 0.6))


def test_modules_weigh_differently(tiny: Path) -> None:
    own = Meteor(tokenize="none", wordnet=WordNet(tiny), paraphrases=Paraphrases([(("quick", "one"), ("racer",))]))
    penalty = 1 - 0.6 * 1.0  # a single chunk of a single match
    for hypothesis, reference, weight in (("cats", "cat", 0.6), ("feline", "cat", 0.8)):
        # with one word on both sides and all matched there is no penalty
        assert score(own, hypothesis, reference) == pytest.approx(weight)
        assert score(own, f"{hypothesis} xyz", f"{reference} uvw") == pytest.approx(weight / 2 * penalty)
    assert score(own, "racer", "quick one") == pytest.approx(0.6)
    parts = evaluate(own, ["racer cats feline dog"], [["quick one cat cat dog"]], resamples=0).parts
    assert [parts[name] for name in ("exact", "stem", "synonym", "paraphrase")] == [1.0, 1.0, 1.0, 1.5]


def test_equal_texts_have_no_penalty_but_in_2005() -> None:
    texts = ["a cat sat .", "dogs run", "."]
    assert evaluate(Meteor(), texts, [[text] for text in texts], resamples=0).value == pytest.approx(100)
    assert score(Meteor(version="2005"), "a b", "a b") == pytest.approx(1 - 0.5 * 0.5**3)
    assert score(Meteor(), "", "") == score(Meteor(), "", "a") == score(Meteor(), "a", "") == 0


def test_sets_add_up_their_statistics_and_take_the_best_reference() -> None:
    own = Meteor(version="2005", tokenize="none")
    both = evaluate(own, ["a b", "c d e f"], [["a x"], ["c d e g", "q"]], resamples=0)
    precision = recall = 4 / 6
    assert both.value / 100 == pytest.approx(precision * (1 - 0.5 * (2 / 4) ** 3))
    assert both.parts["recall"] == pytest.approx(100 * recall)
    assert score(own, "c d e f", "q", "c d e f") == score(own, "c d e f", "c d e f")


@pytest.mark.parametrize(
    ("version", "alpha", "beta", "gamma"),
    [("1.0", 0.8, 2.5, 0.4), ("1.0-ranking", 0.95, 0.5, 0.5), ("1.0-hter", 0.65, 1.8, 0.45)],
)
def test_the_formula_of_1_0_by_hand(version: str, alpha: float, beta: float, gamma: float) -> None:
    """Six words of seven match in two chunks, and function words weigh as much as others."""
    found = score(Meteor(version=version, tokenize="none"), "the cat sat upon on the mat", "the cat sat on the mat")
    precision, recall = 6 / 7, 1.0
    mean = precision * recall / (alpha * precision + (1 - alpha) * recall)
    assert found == pytest.approx(mean * (1 - gamma * (2 / 6) ** beta))


@pytest.mark.parametrize("version", PARAMETERS)
def test_every_version_puts_better_texts_first(version: str) -> None:
    own = Meteor(version=version)
    reference = "the old cats sat on the mat and slept"
    texts = [reference, "the old cats sat on a mat and slept", "on the mat old cats sat", "slept", "dogs bark"]
    values = [score(own, text, reference) for text in texts]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0


def test_signatures_tell_modules_and_versions(tiny: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.gz"
    table.write_bytes(gzip.compress(b"0.5\nBig one\ngiant\n"))
    own = metric("METEOR", meteor=MeteorSources(version="1.3", wordnet=str(tiny), paraphrases=str(table)))
    assert own.signature.startswith("case:lc|tok:13a|param:1.3|mod:exact+stem-porter+wordnet-9.1+paraphrase-")
    assert own.signature.endswith("|func:regard-en|version:regard-1")
    assert metric("METEOR", tokenize="none").signature.startswith("case:lc|tok:none|param:1.5|mod:exact+stem-porter|")
    assert "|mod:exact|func:none|" in Meteor(version="1.5-other").signature
    assert evaluate(own, ["a giant"], [["a big one"]], resamples=0).parts["paraphrase"] == 1.5


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"METEOR has no version '2': must be one of 2005, 1.0, .*1.5-other"):
        Meteor(version="2")
    with pytest.raises(UsageError, match="tokenize = 'spacy': words can cut text by 13a"):
        Meteor(tokenize="spacy")
    with pytest.raises(DataError, match=r"index.noun: cannot be read \(No such file or directory\).*wordnet-base"):
        WordNet(tmp_path)
    for content, message in (
        (b"0.5\na\n", "2 lines are no table of paraphrases: each has three"),
        (b"a\nb\nc\n", "table:1: 'a' is no probability"),
        (b"\xff\n\n\n", "the table of paraphrases cannot be read"),
    ):
        (tmp_path / "table").write_bytes(content)
        with pytest.raises(DataError, match=message):
            Paraphrases.read(tmp_path / "table")


# the second source


STEMS = ("cats", "walking", "houses", "mat", "sat", "trees", "greenly", "big", "doggedness", "slow", "happily", "run")


def test_it_is_nltks_where_no_word_is_repeated() -> None:
    """NLTK takes matches as they come, so that both agree where there is no choice."""

    class NoSynonyms:
        def synsets(self, _word: str) -> list[str]:
            return []

    chance = random.Random(3)
    own = Meteor(version="2005", tokenize="none")
    stemmer = PorterStemmer(mode="MARTIN_EXTENSIONS")
    for _ in range(150):
        left, right = (chance.sample(STEMS, chance.randint(1, 9)) for _ in range(2))
        left = [stem(word) if chance.random() < 0.3 else word for word in left]
        theirs = meteor_score([right], left, stemmer=stemmer, wordnet=NoSynonyms())  # type: ignore[arg-type]
        assert score(own, " ".join(left), " ".join(right)) == pytest.approx(theirs, abs=1e-12)


WORDS = """caresses ponies ties caress cats feed agreed plastered bled motoring sing conflated troubled sized hopping
tanned falling hissing fizzed failing filing happy sky relational conditional rational valenci hesitanci digitizer
conformabli radicalli differentli vileli analogousli vietnamization predication operator feudalism decisiveness
hopefulness callousness formaliti sensitiviti sensibiliti triplicate formative formalize electriciti electrical hopeful
goodness revival allowance inference airliner gyroscopic adjustable defensible irritant replacement adjustment dependent
adoption homologou communism activate angulariti homologous effective bowdlerize probate rate cease controll roll by is
yes y ay syzygy biology analogy naïve 3.5 x"""


def test_stems_are_nltks() -> None:
    stemmer = PorterStemmer(mode="MARTIN_EXTENSIONS")
    words = WORDS.split()
    if (REAL / "verb.exc").is_file():
        words += (REAL / "verb.exc").read_text().split()[:4000]
    assert [stem(word) for word in words] == [stemmer.stem(word) for word in words]


# the alignment


def judged(chosen: Sequence[Match]) -> tuple[int, int, int, int]:
    """What an alignment is chosen by, the best first."""
    covered = [match.reference_length + match.hypothesis_length for match in chosen]
    weight = sum(round(1000 * WEIGHTS[match.module] * words) for match, words in zip(chosen, covered, strict=True))
    distance = sum(abs(match.reference - match.hypothesis) for match in chosen)
    return -sum(covered), count_chunks(chosen), distance, -weight


def meet(left: Match, right: Match) -> bool:
    apart = (
        left.reference + left.reference_length <= right.reference
        or right.reference + right.reference_length <= left.reference
    )
    return not apart or bool(left.bits & right.bits)


def exhaustive(matches: Sequence[Match]) -> tuple[int, int, int, int]:
    """The best of all subsets whose matches do not meet."""
    subsets: list[list[Match]] = [[]]
    for match in matches:
        subsets += [[*subset, match] for subset in subsets if not any(meet(match, other) for other in subset)]
    return min(judged(sorted(subset, key=lambda match: match.reference)) for subset in subsets)


@pytest.mark.parametrize("seed", range(20))
def test_alignments_are_the_best_of_all(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        rows, columns = chance.randint(0, 6), chance.randint(0, 6)
        matches = [
            Match(row, column, chance.randrange(3))
            for row in range(rows)
            for column in range(columns)
            if chance.random() < 0.35
        ][:11]
        for _ in range(2 if min(rows, columns) > 1 else 0):
            place = chance.randrange(rows - 1), chance.randrange(columns - 1)
            matches.append(Match(*place, 3, chance.randint(1, 2), chance.randint(1, 2)))
        chosen = align(matches, rows, weights=WEIGHTS)
        assert not any(meet(left, right) for left in chosen for right in chosen if left is not right)
        assert judged(chosen) == exhaustive(matches)


def test_a_narrow_beam_still_covers() -> None:
    words = ["the", "cat", "and", "the", "dog", "and", "the", "mouse"] * 4
    matches = [
        Match(place, other) for place, word in enumerate(words) for other, text in enumerate(words) if word == text
    ]
    assert judged(align(matches, len(words)))[:3] == (-64, 1, 0)
    assert judged(align(matches, len(words), beam=1))[0] == -64


# WordNet


def test_synonyms_of_a_tiny_wordnet(tiny: Path) -> None:
    wordnet = WordNet(tiny)
    assert wordnet.version == "9.1"
    pairs = [("cat", "feline"), ("cats", "felines"), ("Cat", "feline"), ("running", "flows"), ("mice", "mouse")]
    assert all(wordnet.synonymous(*pair) for pair in pairs[:3])
    assert not wordnet.synonymous("running", "flows")  # run-n-ing: WordNet doubles no consonants
    assert wordnet.synonymous("runs", "flowing")
    assert wordnet.synonymous("mice", "mouse")
    for pair in (("cat", "dog"), ("cat", "run"), ("xyz", "xyz"), ("", "cat"), ("nothing", "cat")):
        assert not wordnet.synonymous(*pair)
    assert wordnet.synsets("cat") == {("noun", 100), ("noun", 200)}


@pytest.mark.parametrize("line", ["cat n x", "cat n 3 0 1 0 1", "cat"])
def test_a_damaged_index_is_told(tiny: Path, line: str) -> None:
    (tiny / "index.noun").write_text(f"{line}\n")
    with pytest.raises(DataError, match=r"index.noun: the line of 'cat' is not one of a WordNet index: 'cat"):
        WordNet(tiny).synsets("cat")


@needs_wordnet
def test_the_real_wordnet_against_its_data_files() -> None:
    """Every lemma of a sample is found, and its synsets in `data.*` hold it."""
    wordnet = WordNet(REAL)
    checked = 0
    for part, step in (("noun", 997), ("verb", 101), ("adj", 211), ("adv", 53)):
        data = (REAL / f"data.{part}").read_bytes()
        lines = (REAL / f"index.{part}").read_bytes().split(b"\n")
        for line in lines[29::step]:
            lemma = line.split(b" ", 1)[0].decode()
            found = [offset for kind, offset in wordnet.synsets(lemma) if kind == part]
            assert found
            own = [offset for offset in found if b"%08d" % offset in line.split()]
            assert own
            for offset in own:
                fields = data[offset : data.index(b"\n", offset)].decode().split(" | ")[0].split()
                members = [word.partition("(")[0].lower() for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
                assert lemma in members
                checked += 1
    assert checked > 300


@needs_wordnet
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("car", "automobile", True),
        ("cars", "automobiles", True),
        ("bought", "purchases", True),
        ("large", "big", True),
        ("mice", "mouse", True),
        ("cat", "dog", False),
        ("the", "a", False),
        ("zzyzx", "car", False),
    ],
)
def test_the_real_wordnet_knows_synonyms(left: str, right: str, expected: bool) -> None:
    wordnet = WordNet(REAL)
    assert wordnet.synonymous(left, right) is wordnet.synonymous(right, left) is expected
    assert wordnet.version == "3.0"

"""A small corpus, and a tokenizer of every unit trained on it once."""

from pathlib import Path

import pytest

from regard.text import Tokenizer, train_tokenizer

NOUNS = ("cat", "cats", "mat", "letter", "letters", "bank", "river", "Straße", "café", "naïveté", "日本", "lantern")
VERBS = ("likes", "sees", "wrote", "finds", "crossed", "follows", "überquert", "wrote", "unlikely")
CODES = "#version: 0.2\nt h\nth e</w>\na t\nc at\ncat s</w>\ne r\nl e\nle t\nlet t\nlett er\n"


def make_corpus() -> list[str]:
    """Sentences in which frequent and rare words, letters of several scripts and marks occur."""
    return [
        f"the {noun} {verb} the {NOUNS[(3 * place + 5) % len(NOUNS)]}, {place % 7} times."
        for place, (noun, verb) in enumerate((noun, verb) for noun in NOUNS for verb in VERBS)
    ]


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    return make_corpus()


@pytest.fixture(scope="session")
def codes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("codes") / "codes"
    path.write_text(CODES, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizers(corpus: list[str], codes_file: Path) -> dict[str, Tokenizer]:
    """One of each unit, and those with normalisation."""
    return make_tokenizers(corpus, codes_file)


def make_tokenizers(corpus: list[str], codes_file: Path) -> dict[str, Tokenizer]:
    requests = [f"{noun}\tV;PST;{place % 3 + 1};SG" for place, noun in enumerate(NOUNS)]
    return {
        "word": train_tokenizer(corpus, unit="word", size=1000),
        "character": train_tokenizer(corpus, unit="character", size=1000),
        "byte": train_tokenizer(corpus, unit="byte", size=260),
        "bpe": train_tokenizer(corpus, unit="bpe", size=330),
        "unigram": train_tokenizer(corpus, unit="unigram", size=330),
        "codes": train_tokenizer(corpus, unit="codes", size=1000, codes=codes_file),
        "inflection": train_tokenizer(requests, unit="inflection", size=1000),
        "bpe nfkc lower": train_tokenizer(corpus, unit="bpe", size=330, normal="nfkc", lowercase=True),
        "word nfc": train_tokenizer(corpus, unit="word", size=1000, normal="nfc"),
    }

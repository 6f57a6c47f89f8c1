"""Twenty thousand drawn inputs: tokenizers, the reader of lines, recipes."""

import gzip
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.lines import read_raw_lines, split_lines
from regard.recipe import dump_recipe, parse_recipe, recipe_from
from regard.recipe.schema import DataSection
from regard.special import END, PAD, START, UNKNOWN
from regard.text import Tokenizer
from regard.text.beginning import LONGEST_TEXT
from regard.text.normal import Normaliser
from tests.data.test_lines import CONTENT, blocks, oracle
from tests.reliability.conftest import Tally
from tests.text.conftest import CODES, make_corpus, make_tokenizers
from tests.text.test_every_unit import NAMES, TEXT

SIGN = "⁇"
UNITS = {name: name.split(" ")[0] for name in NAMES}
NORMAL = {"bpe nfkc lower": Normaliser("nfkc", lowercase=True), "word nfc": Normaliser("nfc")}


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    codes = tmp_path_factory.mktemp("codes") / "codes"
    codes.write_text(CODES, encoding="utf-8")
    return make_tokenizers(make_corpus(), codes)


def counted(examples: int, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], int]:
    """Run a check on so many drawn examples; tells how many there were."""

    def run(check: Callable[..., None]) -> int:
        seen = 0

        def count(*arguments: Any) -> None:
            nonlocal seen
            seen += 1
            check(*arguments)

        drawn = st.tuples(*strategies)
        settings(max_examples=examples, deadline=None, database=None)(given(drawn)(lambda one: count(*one)))()
        assert seen >= examples
        return seen

    return run


def expected(name: str, text: str, tokenizer: Tokenizer) -> str | None:
    """The text that comes back, by the plain meaning of the unit; None where it follows from the merges of a file."""
    normal = NORMAL.get(name)
    text = normal.normalise(text).text if normal else text
    known = tokenizer.encode
    match UNITS[name]:
        case "byte" | "bpe" | "unigram":
            return text
        case "character":
            return "".join(SIGN if UNKNOWN in known(letter).ids else letter for letter in text)
        case "word":
            return " ".join(SIGN if UNKNOWN in known(word).ids else word for word in text.split(" ") if word)
        case "codes":
            words = " ".join(word for word in text.split(" ") if word)
            return words if UNKNOWN not in known(text).ids else None
    return None


@pytest.mark.parametrize("name", NAMES)
def test_texts_become_ids_and_come_back(name: str, tokenizers: dict[str, Tokenizer], tally: Tally) -> None:
    tokenizer = tokenizers[name]

    def check(text: str) -> None:
        encoding = tokenizer.encode(text)
        assert all(0 <= id_ < tokenizer.size for id_ in encoding.ids)
        assert not {PAD, START, END} & set(encoding.ids)
        assert len(encoding.ids) == len(encoding.spans)
        back = tokenizer.decode(encoding.ids)
        wanted = expected(name, text, tokenizer)
        assert wanted is None or back == wanted
        assert encoding == tokenizer.encode(text)

    tally("D2", examples=counted(1000, TEXT)(check))


@pytest.mark.parametrize("name", NAMES)
def test_any_ids_are_some_text(name: str, tokenizers: dict[str, Tokenizer], tally: Tally) -> None:
    tokenizer = tokenizers[name]

    def check(ids: list[int]) -> None:
        text = tokenizer.decode(ids)
        assert text.encode("utf-8").decode("utf-8") == text
        again = tokenizer.encode(text)
        assert all(0 <= id_ < tokenizer.size for id_ in again.ids)

    ids = st.lists(st.integers(0, tokenizer.size - 1), max_size=20)
    tally("D2", examples=counted(300, ids)(check))


def test_blocks_of_any_size_give_the_same_lines(tally: Tally) -> None:
    def check(content: bytes, cuts: list[int]) -> None:
        lines = list(split_lines(blocks(content, cuts)))
        assert [line.content for line in lines] == oracle(content)
        assert [line.number for line in lines] == list(range(1, len(lines) + 1))

    tally("D2", examples=counted(6000, CONTENT, st.lists(st.integers(0, 1000), max_size=8))(check))


def test_files_plain_or_packed_give_the_same_lines(tmp_path: Path, tally: Tally) -> None:
    def check(content: bytes, members: int) -> None:
        content = b"x" + content  # no byte order mark, and no other kind of file
        (tmp_path / "plain").write_bytes(content)
        cut = members % (len(content) + 1)
        (tmp_path / "packed").write_bytes(gzip.compress(content[:cut], 1) + gzip.compress(content[cut:], 1))
        for name in ("plain", "packed"):
            assert [line.content for line in read_raw_lines(tmp_path / name)] == oracle(content)

    tally("D2", examples=counted(1800, CONTENT, st.integers(0, 99))(check))


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
NUMBERS = st.floats(1e-9, 0.49)
RECIPE = {
    "seed": st.integers(0, 2**31),
    "data.train": WORDS.map(lambda name: f"/{name}"),
    "data.split": NUMBERS,
    "data.max_length": st.integers(1, 65536),
    "data.bad_lines": st.sampled_from(["refuse", "skip"]),
    "text.unit": st.sampled_from(["word", "character", "byte", "bpe", "unigram"]),
    "model.width": st.integers(1, 64).map(lambda heads: 8 * heads),
    "model.dropout": NUMBERS,
    "training.learning_rate": NUMBERS,
    "training.steps": st.integers(1, 10**9),
    "search.beam": st.integers(1, 64),
    "evaluation.resamples": st.integers(1, 5000),
}


def test_recipes_are_written_and_read_back(tally: Tally) -> None:
    def check(drawn: dict[str, Any]) -> None:
        tree: dict[str, Any] = {"run": "/run", "data": {"train": "/train.tsv"}}
        for path, value in drawn.items():
            section, _, key = path.rpartition(".")
            (tree.setdefault(section, {}) if section else tree)[key] = value
        recipe = recipe_from(tree)
        text = dump_recipe(recipe)
        again = parse_recipe(text, "again")
        assert again == recipe
        assert dump_recipe(again) == text
        assert math.isclose(
            again.training.learning_rate, drawn.get("training.learning_rate", recipe.training.learning_rate)
        )

    tally("D2", examples=counted(500, st.fixed_dictionaries({}, optional=RECIPE))(check))


def test_no_model_may_read_more_than_is_made_into_tokens() -> None:
    limits = [item.le for item in DataSection.model_fields["max_length"].metadata if hasattr(item, "le")]
    assert limits == [LONGEST_TEXT]

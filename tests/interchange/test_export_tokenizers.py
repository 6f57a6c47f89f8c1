"""AutoTokenizer over an exported folder gives our ids, and our texts back."""

import random
import re

import pytest

from regard.interchange.export_tokenizer import token_names, write_tokenizer
from regard.interchange.exporting import export
from regard.recipe.texts import Texts
from regard.special import END
from regard.text import Codes, CodesTokenizer, Tokenizer, train_tokenizer
from tests.interchange.models import pocket_pairs, pocket_texts, random_model

transformers = pytest.importorskip("transformers")
from transformers import AutoTokenizer  # noqa: E402

UNITS = ("word", "character", "byte", "bpe", "unigram")
STRANGE = (
    "",
    " ",
    "  two  spaces  ",
    "<s> the </s> <pad> <unk>",
    "< s > the </ s >",
    "<0x41> a<0x0A>b",
    "a\u2581typed ▁ mark",
    "tab\tand\nline",
    "\u2585pad \u2585",
    "naïve cafe\u0301 日本語 🙂🙂",
    ">>de<< the cat",
    "the cat's, don't . ...",
)


def texts_to_try() -> list[str]:
    draw = random.Random(5)
    letters = "theca st.ñ▁<>"
    drawn = ["".join(draw.choices(letters, k=draw.randint(1, 30))) for _ in range(300)]
    return [*(side for pair in pocket_pairs() for side in pair), *STRANGE, *drawn]


@pytest.mark.parametrize("unit", UNITS)
def test_ids_are_ours(unit, tmp_path):
    texts = pocket_texts(unit, size=3000 if unit == "word" else 400)
    assert export(random_model(texts=texts), tmp_path / "out", to="huggingface").notes[:1] in ((), COPIED)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    tried = texts_to_try()
    ours = [[*texts.source.encode(text).ids, END] for text in tried]
    assert theirs(tried)["input_ids"] == ours
    for text, ids in zip(tried[:200], ours, strict=False):
        assert theirs.decode(ids, skip_special_tokens=True) == text


COPIED = ("the output is a copy of the target embeddings: Pegasus ties all tables or none",)


@pytest.mark.parametrize("normal", ["nfc", "nfkc"])
def test_normalisation_goes_along(normal, tmp_path):
    train = [side for pair in pocket_pairs() for side in pair]
    tokenizer = train_tokenizer(train, unit="bpe", size=400, normal=normal)
    export(random_model(texts=Texts(tokenizer, tokenizer)), tmp_path / "out", to="huggingface")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("cafe\u0301", "ﬁne ™ ２", "Ma\u0308use", *STRANGE[1:]):
        assert theirs(text)["input_ids"] == [*tokenizer.encode(text).ids, END]


def test_each_side_has_its_own(tmp_path):
    texts = Texts(source=pocket_texts("word", shared=False).source, target=pocket_texts("bpe", shared=False).target)
    export(random_model(texts=texts), tmp_path / "out", to="huggingface")
    for folder, tokenizer in ((tmp_path / "out", texts.source), (tmp_path / "out" / "target", texts.target)):
        theirs = AutoTokenizer.from_pretrained(folder)
        for source, target in pocket_pairs()[:50]:
            for text in (source, target):
                assert theirs(text)["input_ids"] == [*tokenizer.encode(text).ids, END]


def test_pieces_that_overlap_in_one_way_are_merged_from_the_left(tmp_path):
    """`aba` can be `ab·a` or `a·ba`, and `ab·a·ba` holds both: the left one comes first in both programs."""
    tokenizer = train_tokenizer(["ab ba aba ababa abaaba"] * 9, unit="bpe", size=400)
    export(random_model(texts=Texts(tokenizer, tokenizer)), tmp_path / "out", to="huggingface")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    draw = random.Random(3)
    for _ in range(500):
        text = "".join(draw.choices("ab ", k=draw.randint(1, 20)))
        assert theirs(text)["input_ids"] == [*tokenizer.encode(text).ids, END], text


def refused() -> dict[str, tuple[Tokenizer, str]]:
    train = ["the cat sleeps ."] * 3
    codes = CodesTokenizer.train(train, codes=Codes("0.2", (("t", "h"),)), size=100)
    return {
        "lowercase": (
            train_tokenizer(train, unit="word", size=50, lowercase=True),
            "`text.lowercase` follows Python's",
        ),
        "codes": (codes, "unit 'codes' splits text in a way that `tokenizers` does not have"),
        "runs": (
            train_tokenizer(["... .. . .... x"] * 9, unit="bpe", size=400),
            r"the piece '\.\.\.+' can come from overlapping merges",
        ),
    }


@pytest.mark.parametrize("case", ["lowercase", "codes", "runs"])
def test_what_cannot_be_said_is_not_written(case, tmp_path):
    tokenizer, reason = refused()[case]
    exported = export(random_model(texts=Texts(tokenizer, tokenizer), tie="all"), tmp_path / "out", to="huggingface")
    (note,) = exported.notes
    assert re.match(f"no tokenizer for Hugging Face was written, only regard's own: {reason}", note)
    assert note in (tmp_path / "out" / "README.md").read_text()
    assert not (tmp_path / "out" / "tokenizer.json").exists()
    assert (tmp_path / "out" / "text.json").exists()


def test_names_of_tokens_are_distinct():
    words = train_tokenizer(["<s> <s> </s> <unk> a"], unit="word", size=50)
    names = token_names(words)
    assert names[:4] == ["<pad>", "<unk> ", "<s> ", "</s> "]
    assert names[4:] == ["<s>", "</s>", "<unk>", "a"]
    for unit in (*UNITS, "codes"):
        tokenizer = refused()["codes"][0] if unit == "codes" else pocket_texts(unit).source
        names = token_names(tokenizer)
        assert len(set(names)) == len(names) == tokenizer.size


def test_a_word_that_is_called_like_a_reserved_one_is_a_word(tmp_path):
    words = train_tokenizer(["<s> <s> </s> <unk> a"], unit="word", size=50)
    for name, content in write_tokenizer(words, longest=100).files.items():
        (tmp_path / name).write_bytes(content)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs("<s> </s> b <unk>")["input_ids"] == [4, 5, 1, 6, END]

"""What holds for every tokenizer, whatever its unit."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import special
from regard.errors import DataError, UsageError
from regard.text import Draw, Tokenizer, train_tokenizer

NAMES = ("word", "character", "byte", "bpe", "unigram", "codes", "inflection", "bpe nfkc lower", "word nfc")
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40) | st.text(
    "the cat s▁▅<0x41>/\t\n\0é", max_size=40
)


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_spans_of_any_text(name: str, tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers[name]

    @settings(max_examples=300, deadline=None)
    @given(TEXT, st.sampled_from([None, Draw(0.3, (1, 2))]))
    def check(text: str, draw: Draw | None) -> None:
        encoding = tokenizer.encode(text, draw)
        assert len(encoding.ids) == len(encoding.spans) == len(encoding)
        assert all(0 <= id_ < tokenizer.size for id_ in encoding.ids)
        assert not {special.PAD, special.START, special.END} & set(encoding.ids)
        flat = [place for span in encoding.spans for place in span]
        assert all(0 <= place <= len(text) for place in flat)
        starts, ends = [start for start, _ in encoding.spans], [end for _, end in encoding.spans]
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        assert all(start <= end for start, end in encoding.spans)
        assert isinstance(tokenizer.decode(encoding.ids), str)

    check()


@pytest.mark.parametrize("name", NAMES)
def test_any_ids_decode_to_their_surfaces(name: str, tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers[name]

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, tokenizer.size - 1), max_size=30))
    def check(ids: list[int]) -> None:
        text = tokenizer.decode(ids)
        before, after = tokenizer.margin
        joined = b"".join(tokenizer.surface(id_) for id_ in ids)
        if tokenizer.unit != "inflection":
            assert text == joined.removeprefix(before).removesuffix(after).decode("utf-8", errors="replace")
        assert all(tokenizer.piece(id_) and tokenizer.piece(id_).isprintable() for id_ in ids)

    check()


@pytest.mark.parametrize("name", NAMES)
def test_reserved_ids_are_shown_but_give_no_text(name: str, tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers[name]
    assert [tokenizer.piece(id_) for id_ in range(4)] == list(special.NAMES)
    assert [tokenizer.surface(id_) for id_ in (special.PAD, special.START, special.END)] == [b"", b"", b""]
    assert tokenizer.decode([special.START, special.UNKNOWN, special.END, special.PAD]) == "⁇"
    assert tokenizer.decode([]) == ""
    assert tokenizer.encode("").ids == ()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["<s>", "</s>", "<unk>", "<pad>", "<0x41>", "⁇", "▅pad", "▅unk", "@@", "</w>"])
def test_typed_names_are_text(name: str, text: str, corpus: list[str], codes_file, tokenizers) -> None:
    """Even where such names are frequent in the training text, they are text."""
    unit = tokenizers[name].unit
    codes = codes_file if unit == "codes" else None
    tokenizer = train_tokenizer([f"{text} the {text}"] * 20 + corpus, unit=unit, size=400, codes=codes)
    ids = tokenizer.encode(f"{text} the {text}").ids
    assert not set(ids) & set(range(special.FIRST_FREE))
    assert tokenizer.decode(ids) == f"{text} the {text}"


@pytest.mark.parametrize("name", NAMES)
def test_lone_surrogates_are_refused(name: str, tokenizers: dict[str, Tokenizer]) -> None:
    with pytest.raises(DataError, match=r"character 3 of the text is the lone surrogate U\+D801"):
        tokenizers[name].encode("ab\ud801c")


@pytest.mark.parametrize("unit", ["word", "character", "bpe", "unigram", "codes", "inflection"])
@pytest.mark.parametrize("normal", ["none", "nfc"])
def test_lone_surrogates_are_refused_in_training(unit: str, normal: str, codes_file) -> None:
    with pytest.raises(DataError, match=r"character 1 of the text is the lone surrogate U\+DFFF"):
        train_tokenizer(
            ["fine", "\udfff"], unit=unit, size=400, normal=normal, codes=codes_file if unit == "codes" else None
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_ids_outside_the_vocabulary_are_refused(name: str, wrong: int, tokenizers: dict[str, Tokenizer]) -> None:
    with pytest.raises(UsageError, match=rf"id {wrong} is not in this vocabulary of {tokenizers[name].size} ids"):
        tokenizers[name].decode([5, wrong])


@pytest.mark.parametrize("name", ["word", "character", "byte", "inflection"])
def test_units_with_one_segmentation_ignore_a_draw(name: str, tokenizers: dict[str, Tokenizer]) -> None:
    text = "the cats cat\tSG"
    assert tokenizers[name].encode(text, Draw(0.9, (3,))) == tokenizers[name].encode(text)


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_rates_outside_their_range_are_refused(rate: float) -> None:
    with pytest.raises(UsageError, match=f"rate of a drawn segmentation is {rate}; it must lie between 0 and 1"):
        Draw(rate, (1,))


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"unit": "sentence"}, "no unit 'sentence'; choose one of word, character, byte, bpe"),
        ({"unit": "word", "normal": "nfd"}, "no normal form 'nfd'; choose one of none, nfc, nfkc"),
        ({"unit": "codes"}, "unit codes needs a codes file"),
        ({"unit": "word", "codes": "somewhere"}, "no other unit uses one"),
    ],
)
def test_settings_that_make_no_sense(settings_: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train_tokenizer(["a"], size=400, **settings_)


def test_text_needs_no_torch() -> None:
    code = "import sys, regard.text; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

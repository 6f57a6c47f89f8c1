"""Training of BPE and unigram models by sentencepiece, in memory.

sentencepiece gets only what it keeps as it is: characters that it reserves or changes (`APART`), and rare ones, are cut
out of the training text; tokens for them are their bytes. So its alphabet always fits into the size that is asked for,
and where the texts hold less than that size, it makes as many pieces as it finds.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Final

import sentencepiece

from regard.errors import RecipeError
from regard.special import FIRST_FREE
from regard.text.utf8 import to_bytes

APART: Final = "\u0000-\u001f\u007f\u2581\u2585"
"""Characters that sentencepiece never sees (a regular expression's range): controls, its mark for a space, its mark for
unknowns. The names of its control pieces hold one of them, so that no text can be one."""

SMALLEST: Final = FIRST_FREE + 256 + 2
"""Reserved ids, bytes, the space, and one piece."""

WHOLE_SCORE: Final = 1.0
"""The score of pieces that are never cut; those that are learned have scores of at most 0."""

_USER_DEFINED: Final = b"\x04"
_COVERAGE: Final = 0.9995
"""Share of the text whose characters get an id each; the rest keeps the ids of bytes in use."""

_SHORT: Final = re.compile(".{1,400}(?= |$)|.{1,400}")
_WORD: Final = re.compile(" [^ ]*|[^ ]+")

_MOST_COPIES: Final = 16
"""How often one line may count for a unigram model."""


def train_model(texts: Iterable[str], *, unit: str, size: int, minimum_count: int, whole: Sequence[str] = ()) -> bytes:
    """The serialised sentencepiece model of some texts; words of `whole` are a piece each, whatever the texts are.

    sentencepiece makes no piece of letters and other signs together, so `<BT>` would be three however frequent it is.
    """
    smallest = SMALLEST + len(whole)
    if size < smallest:
        raise RecipeError(
            f"text.size is {size}, but unit {unit} needs {smallest} or more: all 256 bytes have an id, so that every "
            "text can be written; choose a larger size, or unit character"
        )
    size -= len(whole)
    counted = _counted(texts, whole_lines=unit != "bpe")
    alphabet = _alphabet(counted, room=(size - FIRST_FREE - 256) // 2, minimum_count=minimum_count)
    stretches = _stretches(counted, alphabet) or Counter([" "])
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_counted_words(stretches) if unit == "bpe" else _lines(stretches),
        input_format="tsv" if unit == "bpe" else "text",
        model_writer=model,
        model_type=unit,
        vocab_size=size,
        hard_vocab_limit=False,
        byte_fallback=True,
        character_coverage=1.0,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        max_sentence_length=1 << 30,
        num_threads=1,
        minloglevel=2,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        pad_piece="\u2585pad",
        unk_piece="\u2585unk",
        bos_piece="\u2585bos",
        eos_piece="\u2585eos",
    )
    return model.getvalue() + b"".join(map(_whole_piece, whole))


def _whole_piece(word: str) -> bytes:
    """A piece behind those of a model: where messages of Protocol Buffers are joined, repeated fields go on.

    Asked for it, sentencepiece itself would put such pieces before the bytes, whose ids are fixed here.
    """
    text = f"\u2581{word}".encode()
    piece = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", WHOLE_SCORE) + b"\x18" + _USER_DEFINED
    return b"\x0a" + bytes([len(piece)]) + piece


def _counted(texts: Iterable[str], *, whole_lines: bool) -> Counter[str]:
    """How often there is each line, or each word with the space before it, which is all that BPE looks at.

    A text begins with a space, as it does when encoded. There are far fewer different words than texts.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        to_bytes(text)
        if text:
            counts.update([f" {text}"] if whole_lines else _WORD.findall(f" {text}"))
    return counts


def _alphabet(counted: Mapping[str, int], *, room: int, minimum_count: int) -> list[str]:
    """The characters that may be part of pieces: the space, and the most frequent others."""
    counts: Counter[str] = Counter()
    for text, count in counted.items():
        for character in text:
            counts[character] += count
    for character in re.findall(f"[{APART} ]", "".join(counts)):
        del counts[character]
    alphabet = [" "]
    needed = _COVERAGE * counts.total()
    for negative, character in sorted((-count, character) for character, count in counts.items()):
        if len(alphabet) >= room or needed <= 0 or -negative < minimum_count:
            break
        alphabet.append(character)
        needed += negative
    return alphabet


def _stretches(counted: Mapping[str, int], alphabet: Sequence[str]) -> Counter[str]:
    """The stretches that consist of the alphabet, with their counts.

    Long ones are cut before a space, where no piece is lost.
    """
    outside = re.compile(f"[^{re.escape(''.join(alphabet))}]+")
    found: Counter[str] = Counter()
    for text, count in counted.items():
        for stretch in outside.split(text):
            for short in _SHORT.findall(stretch):
                found[short] += count
    return found


def _counted_words(stretches: Mapping[str, int]) -> Iterator[str]:
    """Words with their counts, which are all that the BPE trainer looks at."""
    words: Counter[str] = Counter()
    for stretch, count in stretches.items():
        for word in _WORD.findall(stretch):
            words[word] += count
    return (f"{word}\t{count}" for word, count in sorted(words.items()))


def _lines(stretches: Mapping[str, int]) -> Iterator[str]:
    """Whole lines, from which the unigram trainer takes its candidates by a suffix tree.

    The time for the tree grows with the square of what repeats without a break (a list of a hundred names with a
    thousand copies of each takes minutes), so copies beyond 16 are left out and the others stand apart.
    """
    for copy in range(_MOST_COPIES):
        yield from (stretch for stretch, count in stretches.items() if count > copy)
    yield from _other_contexts(stretches)


def _other_contexts(stretches: Mapping[str, int]) -> Iterator[str]:
    """Words that only ever have a space after them, or only ever end a line, once more in the other position.

    Only what is followed by different characters has a node in a suffix tree: in tidy text `cat` would not be a
    candidate, since nothing but a space ever follows it.
    """
    inside: Counter[str] = Counter()
    last: Counter[str] = Counter()
    for stretch, count in stretches.items():
        _, *words = stretch.split(" ")
        for word in words[:-1]:
            inside[word] += count
        for word in words[-1:]:
            last[word] += count
    for word in sorted(inside.keys() | last.keys()):
        if word and inside[word] + last[word] > 1 and not (inside[word] and last[word]):
            yield f" {word} " if last[word] else f" {word}"

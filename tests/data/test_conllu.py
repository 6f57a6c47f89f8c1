"""CoNLL-U as sentences, against a plain reading of whole files."""

import random
import re
from pathlib import Path

import pytest

from regard.data import Ledger, detect_format, read_examples
from regard.errors import DataError, UsageError

SENTENCE = """\
# sent_id = 1
# text = Vámonos al mar 1 000
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\tMood=Imp|Number=Plur\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\tDefinite=Def\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\tSpaceAfter=No
5.1\tnada\tnada\tNOUN\t_\t_\t_\t_\t1:obl\t_
6\t1 000\t1 000\tNUM\t_\t_\t5\tnummod\t_\t_
"""
OTHER = "1\tSí\tsí\tINTJ\t_\t_\t0\troot\t_\t_\n"


def write(folder: Path, text: str, name: str = "a.conllu") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


@pytest.mark.parametrize("end", ["\n", "\n\n\n", ""])
def test_words_and_tags_of_each_sentence(tmp_path: Path, end: str) -> None:
    path = write(tmp_path, f"\n{SENTENCE}\n{OTHER}".rstrip("\n") + end)
    first, second = read_examples(path, format="conllu")
    assert (first.source, first.target) == ("Vamos nos a el mar 1\u00a0000", "VERB PRON ADP DET NOUN NUM")
    assert (str(first.place), str(second.place)) == (f"{path}:5", f"{path}:14")
    assert (second.source, second.target) == ("Sí", "INTJ")


def test_any_column_can_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, SENTENCE)
    (lemmas,) = read_examples(path, format="conllu", source="lemma", target="HEAD", further=["FEATS", "DEPREL"])
    text, features, relations = lemmas.source.split("\t")
    assert text == "ir nosotros a el mar 1\u00a0000"
    assert features == "Mood=Imp|Number=Plur Case=Acc _ Definite=Def _ _"
    assert (relations, lemmas.target) == ("root obj case det obl nummod", "0 1 5 5 1 5")
    (alone,) = read_examples(path, source=None, target=0)
    assert (alone.source, alone.target) == ("", "Vamos nos a el mar 1\u00a0000")
    with pytest.raises(UsageError, match="CoNLL-U has no column 'WORD'; its columns are ID, FORM, LEMMA, UPOS"):
        list(read_examples(path, format="conllu", source="WORD", target="UPOS"))
    with pytest.raises(UsageError, match="CoNLL-U has no column 3;"):
        list(read_examples(path, format="conllu", source=3, target=1))


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.conllu", SENTENCE), ("a.txt", SENTENCE), ("a", OTHER), ("a.conllu6", "1\tSí\tsí\tINTJ\t_\t_\n")],
)
def test_it_is_recognised(tmp_path: Path, name: str, text: str) -> None:
    found = detect_format(write(tmp_path, text, name))
    assert (found.format, found.source, found.target) == ("conllu", "FORM", "UPOS")
    assert found.reason == "a word a line, as in CoNLL-U; forms and their parts of speech"


def test_files_without_trees_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    path = write(tmp_path, "1\tSí\tsí\tINTJ\t_\t_\n")
    assert [example.target for example in read_examples(path)] == ["INTJ"]
    with pytest.raises(DataError, match=r"a\.conllu:1: 6 columns separated by tabs, expected 10"):
        list(read_examples(path, format="conllu", source="FORM", target="DEPREL"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\tSí\tsí", r":3: 3 columns separated by tabs, expected 10, as in line 1\. Found: 1"),
        ("plain words", r":3: 1 column separated by tabs, expected 10, as in line 1"),
        (OTHER.strip().replace("1", "2", 1), r":3: the word should have the number 1\. Found: 2"),
        (OTHER.strip().replace("INTJ", ""), r":3: a column is empty, where _ stands for nothing"),
    ],
)
def test_a_bad_line_is_refused_or_its_sentence_left_out(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, f"{OTHER}\n{line}\n2\tno\tno\tINTJ\t_\t_\t1\tx\t_\t_\n\n{OTHER}")
    with pytest.raises(DataError, match=message):
        list(read_examples(path, format="conllu"))
    ledger = Ledger()
    kept = list(read_examples(path, format="conllu", bad_lines="skip", ledger=ledger))
    assert [example.place.line for example in kept] == [1, 6]
    assert ledger.counts == {"columns": 1}


def test_bytes_that_are_no_text_spoil_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_bytes(
        OTHER.encode() + b"\n" + OTHER.replace("Sí", "S").encode().replace(b"S", b"\xff") + b"\n" + OTHER.encode()
    )
    ledger = Ledger()
    assert len(list(read_examples(path, format="conllu", bad_lines="skip", ledger=ledger))) == 2
    assert ledger.counts == {"utf8": 1}


def test_many_sentences_as_a_plain_reading_has_them(tmp_path: Path) -> None:
    draw = random.Random(1)
    parts = []
    for number in range(200):
        lines = [f"# sent_id = {number}"]
        for word in range(1, draw.randint(1, 9)):
            if draw.random() < 0.2:
                lines.append("\t".join([f"{word}-{word + 1}", *"_" * 9]))
            lines.append("\t".join([str(word), *(draw.choice("abcdef") for _ in range(9))]))
            if draw.random() < 0.2:
                lines.append("\t".join([f"{word}.1", *"_" * 9]))
        parts.append("\n".join(lines))
    path = write(tmp_path, "\n\n".join(parts) + "\n\n")
    expected = []
    for part in parts:
        rows = [line.split("\t") for line in part.split("\n") if re.match(r"\d+\t", line)]
        if rows:
            expected.append((" ".join(row[1] for row in rows), " ".join(row[3] for row in rows)))
    found = [(one.source, one.target) for one in read_examples(path, format="conllu")]
    assert found == expected
    assert len(found) > 150


def test_words_are_not_taken_for_examples(tmp_path: Path) -> None:
    """A recipe for taggers has the format tsv until it is told otherwise."""
    with pytest.raises(DataError, match=r"a\.conllu:1: is CoNLL-U by its name, .* set `data\.format: conllu`$"):
        list(read_examples(write(tmp_path, OTHER), format="tsv"))
    with pytest.raises(DataError, match=r"b\.txt:1: 1 column .* set `data\.format: conllu`$"):
        list(read_examples(write(tmp_path, SENTENCE, "b.txt"), format="tsv"))

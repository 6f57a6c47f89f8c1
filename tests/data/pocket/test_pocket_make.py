"""The files of the pocket world: splits without leaks, the same bytes for the same seed, refusals."""

import hashlib
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from regard.data.pocket import LANGUAGES, Splits, World, choose_held_out, examples, make
from regard.errors import RegardError, UsageError


@pytest.fixture(scope="module")
def splits() -> Splits:
    return examples(size=5000, seed=3)


def test_sizes(splits: Splits) -> None:
    assert {name: len(pairs) for name, pairs in splits.named().items()} == {
        "train": 5000,
        "valid": 250,
        "test": 250,
        "combinations": 250,
    }


def test_no_sentence_occurs_twice(splits: Splits) -> None:
    sources = [pair.source for pairs in splits.named().values() for pair in pairs]
    assert len(sources) == len(set(sources))


def test_every_word_form_is_known_from_training(splits: Splits) -> None:
    for side in ("source", "target"):
        known = {word for pair in splits.train for word in getattr(pair, side).split()}
        for name in ("valid", "test", "combinations"):
            for pair in splits.named()[name]:
                assert known.issuperset(getattr(pair, side).split())


def test_held_out_pairs_occur_only_in_combinations(splits: Splits) -> None:
    """Looked for in the English words themselves: adjective directly before its noun."""
    adjacent = {(first, second) for first, second in splits.held_out if first in {"old", "small", "black", "tired"}}
    assert len(adjacent) >= 5

    def together(source_lemmas: str) -> bool:
        words = source_lemmas.split()
        return any(pair in adjacent for pair in pairwise(words))

    for name in ("train", "valid", "test"):
        assert not any(together(pair.source_lemmas) for pair in splits.named()[name])
    assert sum(together(pair.source_lemmas) for pair in splits.combinations) >= 10


def test_held_out_pairs_leave_most_of_every_word() -> None:
    world = World()
    every, held_out = world.combinations(), choose_held_out(world, 1)
    assert held_out < every
    assert 60 <= len(held_out) <= 0.1 * len(every)
    assert held_out == choose_held_out(World(), 1)
    assert held_out != choose_held_out(world, 2)
    for word in {word for pair in held_out for word in pair}:
        assert sum(word in pair for pair in held_out) <= 0.25 * sum(word in pair for pair in every)
    assert -0.5 < world.log_mass(held_out) < -0.02


def test_files(tmp_path: Path) -> None:
    made = make(tmp_path / "deep" / "pocket", size=200, seed=5, target="fr")
    assert made.lines == {"train": 200, "valid": 50, "test": 50, "combinations": 50}
    assert sorted(path.name for path in made.folder.iterdir()) == sorted(path.name for path in made.files)
    for name, lines in made.lines.items():
        pairs = (made.folder / f"{name}.tsv").read_bytes().decode().split("\n")
        rows = [json.loads(line) for line in (made.folder / f"{name}.jsonl").read_text().splitlines()]
        assert pairs.pop() == ""
        assert len(pairs) == len(rows) == lines
        for pair, row in zip(pairs, rows, strict=True):
            assert pair == f"{row['source']}\t{row['target']}"
            assert len(row["source_tags"].split()) == len(row["source_lemmas"].split()) == len(row["source"].split())
            assert len(row["target_tags"].split()) == len(row["target_lemmas"].split()) == len(row["target"].split())
            assert row["source_tree"].count("(") == row["source_tree"].count(")")
            assert row["log_probability"] < 0
            for link in row["alignment"].split():
                source, target = map(int, link.split("-"))
                assert source < len(row["source"].split())
                assert target < len(row["target"].split())
    about = json.loads((made.folder / "pocket.json").read_text())
    assert (about["format"], about["seed"], about["target"]) == (1, 5, "fr")
    assert {tuple(pair) for pair in about["held_out"]} == made.held_out
    assert about["log_mass"] == made.log_mass
    assert about["log_mass_by_topic"] == made.log_mass_by_topic


def test_same_seed_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from regard.data.pocket import make; make(Path(sys.argv[1]), size=80)"
    )
    for name in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": name}
        subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], check=True, env=environment)
    files = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert len(files) == 9
    for name in files:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    make(tmp_path / "3", size=80, seed=2)
    assert (tmp_path / "1" / "train.tsv").read_bytes() != (tmp_path / "3" / "train.tsv").read_bytes()


def test_what_is_drawn_stays_the_same() -> None:
    """Sets that people have made must come out again; new annotations are added behind the old ones."""
    splits = examples(size=200, seed=1)
    rows = [json.dumps(list(pair.record().values())[:9]) for pairs in splits.named().values() for pair in pairs]
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    assert digest == "0ddfa451eb1dd8dbaca2fba4bc733e6d59b783fb105433366b13a2b52240dcb4"


def test_a_larger_training_set_begins_with_the_smaller() -> None:
    assert examples(size=150, seed=9).train[:100] == examples(size=100, seed=9).train


@pytest.mark.parametrize(("source", "target"), [("de", "fr"), ("fr", "en"), ("de", "en")])
def test_any_two_languages(source: str, target: str) -> None:
    splits = examples(size=300, seed=1, source=source, target=target)
    sources = [pair.source for pairs in splits.named().values() for pair in pairs]
    assert len(sources) == len(set(sources)) == 450


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no task 'chess'; choose one of translation"):
        make(tmp_path / "x", task="chess")
    with pytest.raises(UsageError, match="does not speak 'es'; choose one of en, de, fr"):
        make(tmp_path / "x", target="es")
    with pytest.raises(UsageError, match="does not speak 'xx'"):
        examples(size=10, source="xx")
    with pytest.raises(UsageError, match="both 'de'; choose two different languages of en, de, fr"):
        examples(size=10, source="de", target="de")
    with pytest.raises(UsageError, match="size is 0; ask for at least 1 training sentence"):
        examples(size=0)
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is a file; name a folder"):
        make(tmp_path / "file", size=10)
    assert set(LANGUAGES) == {"en", "de", "fr"}

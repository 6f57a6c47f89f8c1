"""Real corpora from the folder that REGARD_DATA names; skipped where it is unset."""

import os
from pathlib import Path

import numpy as np
import pytest

from regard.data import Ledger, Store, check_files, detect_format, plan_epoch, prepare, read_examples, store_key

PLACE = os.environ.get("REGARD_DATA")  # read before tests set an environment of their own

pytestmark = pytest.mark.skipif(PLACE is None, reason="REGARD_DATA names no folder of corpora")


@pytest.fixture
def corpora() -> Path:
    assert PLACE is not None
    return Path(PLACE)


def test_all_inflection_files_are_told_apart(corpora: Path) -> None:
    for year in (2016, 2017):
        files = sorted(corpora.glob(f"inflection/sigmorphon{year}*/*.tsv*"))
        assert files
        assert {detect_format(path).format for path in files} == {f"sigmorphon{year}"}


def test_inflection_reads_as_lemma_features_and_form(corpora: Path) -> None:
    path = corpora / "inflection/sigmorphon2017/german.train-high.tsv.gz"
    examples = list(read_examples(path))
    assert len(examples) == 10_000
    assert all(example.source.count("\t") == 1 and ";" in example.source for example in examples)
    old = next(iter(read_examples(corpora / "inflection/sigmorphon2016_task1/german.dev.tsv")))
    assert old.source.split("\t")[1].startswith("pos=")
    assert "," not in old.source


def test_multi30k_prepared_with_little_padding(corpora: Path, tmp_path: Path) -> None:
    paths = [corpora / "mt/multi30k/train.en.gz", corpora / "mt/multi30k/train.de.gz"]
    ledger = Ledger()

    def words(text: str) -> list[int]:
        return [hash(word) % 1000 for word in text.split()]

    store: Store = prepare(
        read_examples(paths, ledger=ledger),
        streams=("source", "target"),
        encode=lambda source, target: {"source": words(source), "target": words(target)},
        bad_lines="refuse",
        folder=tmp_path,
        key=store_key(paths, {"unit": "word"}),
        empty_lines="refuse",
        long_lines="skip",
        max_length=256,
        ledger=ledger,
    )
    assert len(store) == 29_000
    assert ledger.total == 0
    lengths = np.stack([store.lengths("source"), store.lengths("target")], axis=1)
    plan = plan_epoch(lengths, tokens=4096, seed=1, epoch=0)
    slots = sum(len(batch) * int((lengths[batch].max(axis=0) + 1).sum()) for batch in plan)
    assert (lengths + 1).sum() / slots > 0.96


def test_multi30k_checked(corpora: Path) -> None:
    folder = corpora / "mt/multi30k"
    report = check_files([f"{folder}/train.en.gz,{folder}/train.de.gz", f"{folder}/val.en,{folder}/val.de"])
    assert report.ok
    counts = {issue.kind: issue.count for issue in report.files[0].issues}
    assert counts == {"entity": 17, "ratio": 2, "duplicate": 3, "several": 6, "spaces": 85}
    assert (report.overlaps[0].pairs, report.overlaps[0].sources) == (0, 1)

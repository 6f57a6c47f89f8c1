"""The file of a campaign: read as written, never overwritten, refused where it does not fit together."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import DataError, UsageError
from regard.human import answers_path, read_campaign, write_campaign
from regard.human.kinds import KINDS, Kind
from tests.human.making import campaign


@pytest.mark.parametrize("kind", KINDS)
def test_read_as_written(tmp_path: Path, kind: Kind) -> None:
    made = campaign(kind)
    write_campaign(tmp_path / "c.json", made)
    assert read_campaign(tmp_path / "c.json") == made
    assert (tmp_path / "c.json").stat().st_mode & 0o077 == 0


def test_answers_stand_beside_it() -> None:
    assert answers_path(Path("a/news.json")) == Path("a/news.answers.jsonl")
    assert answers_path(Path("a/news")) == Path("a/news.answers.jsonl")


@pytest.mark.parametrize("taken", ["c.json", "c.answers.jsonl"])
def test_nothing_is_overwritten(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(UsageError, match=rf"{re.escape(taken)}: is there already; choose another name"):
        write_campaign(tmp_path / "c.json", campaign())
    assert (tmp_path / taken).read_text() == "mine"


def test_names_and_keys_of_people_may_change_the_rest_not() -> None:
    made = campaign()
    first = made.annotators[0].model_copy(update={"name": "Ada", "key": "k" * 16})
    assert made.model_copy(update={"annotators": (first, *made.annotators[1:])}).digest == made.digest
    item = made.items[0].model_copy(update={"source": "another"})
    assert made.model_copy(update={"items": (item, *made.items[1:])}).digest != made.digest


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format=2), "is not a campaign: format: Input should be 1"),
        (lambda c: c.update(more=1), "is not a campaign: more: Extra inputs are not permitted"),
        (lambda c: c["items"][0].update(line="1"), "is not a campaign: items.0.line: Input should be a valid integer"),
        (lambda c: c["annotators"][0].update(key="short"), "annotators.0.key: String should have at least 16"),
        (lambda c: c.update(systems=["A", "A"]), "does not fit together: two systems have one name"),
        (lambda c: c["items"][1]["outputs"].pop("system-A"), "has outputs of system-B, system-C, not of system-A"),
        (lambda c: c["annotators"][1].update(name="annotator-1"), "two annotators have one name"),
        (lambda c: c["annotators"][1].update(key=c["annotators"][0]["key"]), "two annotators have one key"),
        (lambda c: c["annotators"][1]["tasks"][0].update(id="1-00001"), "two tasks have one id"),
        (lambda c: c["annotators"][0]["tasks"][0].update(item=12), "task 1-00001 is about item 12 of 12"),
        (lambda c: c["annotators"][0]["tasks"][0].update(shown=[["X"]]), "task 1-00001 shows (('X',),), with systems"),
        (lambda c: c["annotators"][0]["tasks"][0].update(shown=[[]]), "unknown or shown twice"),
        (
            lambda c: c["annotators"][0]["tasks"][0].update(shown=[["system-A", "system-B"]]),
            "task 1-00001 shows different outputs in one place",
        ),
        (
            lambda c: c["annotators"][0]["tasks"][0].update(shown=[["system-A"], ["system-B"]]),
            "task 1-00001 shows 2 outputs; a judgement of kind direct is about 1",
        ),
        (lambda c: c["annotators"][0]["tasks"][0].update(repeats="2-00001"), "task 1-00001 repeats 2-00001, which is"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, change: Change, message: str) -> None:
    record = campaign().model_dump(mode="json")
    change(record)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    with pytest.raises(DataError, match=re.escape(message)):
        read_campaign(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"null"])
def test_what_is_no_campaign_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(DataError, match="is not a campaign"):
        read_campaign(tmp_path / "c.json")


def test_what_is_not_there_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"cannot be read \(No such file or directory\); `regard human new c.json`"):
        read_campaign(tmp_path / "c.json")
    monkeypatch.setattr("regard.human.campaign.LARGEST", 1000)
    write_campaign(tmp_path / "c.json", campaign())
    with pytest.raises(DataError, match=r"has [\d,]+ bytes; a campaign has at most 1,000"):
        read_campaign(tmp_path / "c.json")

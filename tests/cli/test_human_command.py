"""`regard human new`, `serve`, `results`: from files to a table."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from regard.human import Answers, answers_path, read_campaign
from tests.cli.conftest import Command
from tests.human.making import judgement


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("src", "ref", "a", "b"):
        (tmp_path / name).write_text("".join(f"{name} {line}\n" for line in range(20)))
    return tmp_path


NEW = ("human", "new", "c.json", "--source", "src", "--output", "one=a", "--output", "two=b")


def test_from_files_to_a_table(regard: Command, files: Path) -> None:
    result = regard(*NEW, "--reference", "ref", "--kind", "pairwise", "--items", "10", "--annotators", "2")
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [
        "annotator-1: 11 tasks, 1 of them repeats",
        "annotator-2: 11 tasks, 1 of them repeats",
        "next: regard human serve c.json",
    ]
    made = read_campaign(files / "c.json")
    assert made.items[0].reference == f"ref {made.items[0].line - 1}"
    empty = regard("human", "results", "c.json")
    assert (empty.code, empty.out) == (4, "")
    assert "there are no answers yet" in empty.err
    with Answers(answers_path(files / "c.json"), made) as answers:
        for annotator in made.annotators:
            for task in annotator.tasks[:-1]:
                answers.add(judgement(task.id, {"choice": "first" if task.shown[0] == ("two",) else "second"}))
    table = regard("human", "results", "c.json")
    assert table.code == 0
    lines = table.out.splitlines()
    assert lines[0] == "pairwise: 20 answers, 10 items, 2 systems, 2 annotators"
    assert [line.split()[:5] for line in lines[3:5]] == [
        ["1", "two", "1.00", "[1.00,", "1.00]"],
        ["2", "one", "0.00", "[0.00,", "0.00]"],
    ]
    assert "regard: annotator-2 has answered 10 of 11 tasks\n" in table.err
    record = json.loads(regard("human", "results", "c.json", "--json").out)
    assert (record["format"], record["systems"][0]["name"]) == (1, "two")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([*NEW, "--kind", "scores"], 2, "--kind scores: must be one of adequacy-fluency, direct, pairwise, ranking"),
        ([*NEW, "--items", "21"], 2, "items = 21: there are 20 lines with a source"),
        ([*NEW, "--output", "three"], 2, "--output three: must be NAME=FILE, such as baseline=baseline.de"),
        ([*NEW, "--output", "one=b"], 2, "--output one=b: there are two systems of the name one"),
        ([*NEW, "--output", "three=missing"], 4, "missing: there is no such file"),
        (["human", "serve", "none.json"], 4, "none.json: cannot be read"),
        (["human", "serve", "none.json", "--host", "0.0.0.0"], 2, "host = 0.0.0.0: others could reach it"),
    ],
)
def test_what_makes_no_sense(regard: Command, files: Path, arguments: list[str], code: int, message: str) -> None:
    result = regard(*arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert not (files / "c.json").exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_serving_until_told_to_stop(regard: Command, files: Path, end: signal.Signals) -> None:
    regard(*NEW, "--items", "5")
    made = read_campaign(files / "c.json")
    answers_path(files / "c.json").write_bytes(b'{"form')
    command = [sys.executable, "-m", "regard.cli.main", "human", "serve", "c.json", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        command, cwd=files, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        name, link, *counts = child.stdout.readline().split()
        assert (name, counts) == ("annotator-1", ["0", "of", "11", "answered"])
        address, key = link.removeprefix("http://").split("/#")
        assert key == made.annotators[0].key
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request("GET", "/api/campaign", headers={"Authorization": f"Bearer {key}"})
        assert len(json.loads(connection.getresponse().read())["tasks"]) == 11
        connection.close()
        host, port = address.split(":")
        for _ in range(20):
            with socket.create_connection((host, int(port))) as gone:
                gone.sendall(b"GET /page.js HTTP/1.0\r\nHost: localhost\r\n\r\n")
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        child.send_signal(end)
        _, told = child.communicate(timeout=20)
    assert child.returncode == 0
    assert told.splitlines() == [
        "regard: 6 bytes of an answer that was never acknowledged were cut off",
        "answers go to c.answers.jsonl; Ctrl-C stops",
        "0 answers in c.answers.jsonl",
    ]

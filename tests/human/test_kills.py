"""`kill -9` while people answer: what was acknowledged is there, and nothing counts twice."""

import http.client
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

from regard.human import Answers, read_answers
from regard.human.campaign import Annotator, Campaign
from regard.human.server import Address, Server
from tests.human.making import campaign
from tests.reliability.children import fork, kill

KILLS = 50
PATIENCE = 10


def started(path: Path, made: Campaign) -> tuple[int, int]:
    """A server in a child, and its port."""
    reading, writing = os.pipe()

    def serve() -> None:
        os.close(reading)
        server = Server(made, Answers(path, made), Address(port=0))
        os.write(writing, str(server.server_address[1]).encode())
        os.close(writing)
        server.serve_forever()

    child = fork(serve)
    os.close(writing)
    port = int(os.read(reading, 16) or b"0")
    os.close(reading)
    assert port, "the server did not start"
    return child, port


def post(port: int, annotator: Annotator, record: dict[str, object]) -> bool:
    """Whether the answer was acknowledged."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {annotator.key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/api/answers", json.dumps(record), headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return bool(json.loads(response.read())["saved"])
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


def test_fifty_kills_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    made = campaign(systems=8, lines=120, annotators=1)
    annotator = made.annotators[0]
    path = tmp_path / "a.jsonl"
    chance = random.Random(5)
    acknowledged: dict[str, dict[str, int]] = {}
    tasks = iter(annotator.tasks)
    waiting: dict[str, object] | None = None
    for _ in range(KILLS):
        child, port = started(path, made)
        end = threading.Timer(chance.uniform(0.0, 0.03), os.kill, (child, signal.SIGKILL))
        before = chance.randint(1, 3)
        while True:
            if before == 0:
                end.start()
            before -= 1
            if waiting is None:
                task = next(tasks)
                answer = {"score": chance.randrange(101)}
                waiting = {"id": f"id-{task.id}", "task": task.id, "answer": answer, "seconds": 3.2}
            if not post(port, annotator, waiting):
                break
            acknowledged[str(waiting["task"])] = waiting["answer"]  # type: ignore[assignment]
            waiting = None
        end.join()
        os.waitpid(child, 0)
        found = {task: one.answer for task, one in read_answers(path, made).items()}
        assert found.items() >= acknowledged.items()
        assert len(found) <= len(acknowledged) + 1
    child, port = started(path, made)
    assert waiting is not None
    assert post(port, annotator, waiting)
    kill(child)
    lines = path.read_bytes().splitlines()[1:]
    ids = [json.loads(line)["id"] for line in lines]
    assert len(ids) == len(set(ids)) == len(acknowledged) + 1
    assert len(ids) > KILLS


def test_a_process_that_dies_in_the_middle_of_a_line(tmp_path: Path) -> None:
    made = campaign()
    tasks = made.annotators[0].tasks
    path = tmp_path / "a.jsonl"
    write = os.write
    for number, cut in enumerate((1, 20, 60, 10_000)):

        def half(handle: int, data: bytes, cut: int = cut) -> int:
            write(handle, bytes(data)[:cut])
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(PATIENCE)
            return 0

        def die(number: int = number, dying: object = half) -> None:
            answers = Answers(path, made)
            record = {"id": f"i{number}", "task": tasks[number].id, "answer": {"score": 1}, "seconds": 1, "at": "now"}
            os.write = dying  # type: ignore[assignment]
            answers.add(answers.check(record))

        child = fork(die)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        with Answers(path, made) as answers:
            assert len(answers.latest()) == (number == 3)
            assert (answers.mended > 0) is (number < 3)

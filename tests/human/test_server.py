"""The page over HTTP: what it tells, what it saves, and whom it refuses."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from regard.errors import BusyError, ResourceError, UsageError
from regard.human import Answers, Campaign, read_answers
from regard.human.server import FILES, LARGEST_BODY, POLICY, Address, Server
from tests.human.making import campaign

KEY = "correct horse battery"


@dataclass(frozen=True)
class Reply:
    status: int
    record: Any
    headers: dict[str, str]
    body: bytes


class Page:
    """A server in a thread, and a browser that says what it is told to."""

    def __init__(self, path: Path, made: Campaign, address: Address) -> None:
        self.made = made
        self.answers = Answers(path, made)
        self.server = Server(made, self.answers, address)
        self.port = int(self.server.server_address[1])
        self.thread = threading.Thread(target=lambda: self.server.serve_forever(poll_interval=0.01))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.answers.close()

    def ask(self, method: str, path: str, body: object = None, **headers: str | None) -> Reply:
        key = self.made.annotators[0].key
        sent: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {key}"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if content is not None:
            sent.setdefault("Content-Length", str(len(content)))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(content)
        response = connection.getresponse()
        got = response.read()
        connection.close()
        record = json.loads(got) if "json" in response.getheader("Content-Type", "") else None
        return Reply(response.status, record, {name.lower(): value for name, value in response.getheaders()}, got)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    made = campaign("ranking", lines=6)
    page = Page(tmp_path_factory.mktemp("page") / "a.jsonl", made, Address(port=0))
    yield page
    page.close()


def answer(page: Page, place: int, **changes: object) -> dict[str, object]:
    task = page.made.annotators[0].tasks[place]
    return {"id": f"id-{place}", "task": task.id, "answer": {"ranks": [1, 2, 2]}, "seconds": 2.5, **changes}


def test_the_page_is_told_the_texts_and_nothing_of_the_systems(page: Page) -> None:
    reply = page.ask("GET", "/api/campaign")
    assert reply.status == 200
    assert reply.record["kind"] == "ranking"
    tasks = page.made.annotators[0].tasks
    assert [one["id"] for one in reply.record["tasks"]] == [task.id for task in tasks]
    for told, task in zip(reply.record["tasks"], tasks, strict=True):
        item = page.made.items[task.item]
        assert told == {
            "id": task.id, "source": item.source, "reference": None,
            "outputs": [item.outputs[group[0]] for group in task.shown],
        }  # fmt: skip
    for secret in ("system-", "repeats", page.made.annotators[1].key, page.made.annotators[0].key):
        assert secret.encode() not in reply.body


def test_an_answer_is_on_the_disk_when_it_is_acknowledged(page: Page) -> None:
    sent = answer(page, 0)
    assert page.ask("POST", "/api/answers", sent).record == {"saved": True, "new": True}
    on_disk = read_answers(page.answers.path, page.made)[str(sent["task"])]
    assert (on_disk.answer, on_disk.seconds) == ({"ranks": [1, 2, 2]}, 2.5)
    assert page.ask("POST", "/api/answers", sent).record == {"saved": True, "new": False}
    assert page.ask("POST", "/api/answers", {**sent, "answer": {"ranks": [3, 2, 1]}}).status == 409
    assert page.ask("POST", "/api/answers", {**sent, "id": "b", "answer": {"ranks": [3, 2, 1]}}).status == 200
    assert page.ask("GET", "/api/campaign").record["answers"][sent["task"]] == {"ranks": [3, 2, 1]}
    other = {"Authorization": f"Bearer {page.made.annotators[1].key}"}
    assert page.ask("GET", "/api/campaign", **other).record["answers"] == {}


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"answer": {"ranks": [1, 2]}}, 422, "3 whole numbers from 1 (best) to 3"),
        ({"task": "2-00001"}, 422, "there is no such task for you"),
        ({"task": ["1-00001"]}, 422, "an answer has id, task, answer and seconds"),
        ({"more": 1}, 422, "an answer has id, task, answer and seconds"),
        ({"id": ""}, 422, "id: must be a text of 1 to 64 characters"),
        ({"id": "x" * 65}, 422, "id: must be a text"),
        ({"id": "\ud800"}, 422, "characters of ASCII"),
        ({"seconds": "fast"}, 422, "seconds: must be a number from 0 to 86400"),
    ],
)
def test_answers_that_are_refused(page: Page, change: dict[str, object], status: int, message: str) -> None:
    before = page.answers.path.read_bytes()
    reply = page.ask("POST", "/api/answers", answer(page, 3, **change))
    assert (reply.status, message in reply.record["error"]) == (status, True), reply.record
    assert page.answers.path.read_bytes() == before


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[" * 10_000, {}, 400),
        (b"\xff", {}, 400),
        (b"[]", {}, 422),
        (b"{}", {"Content_Type": "text/plain"}, 415),
        (b"{}", {"Transfer_Encoding": "chunked"}, 415),
        (b"{}", {"Content_Length": None}, 411),
        (b"{}", {"Content_Length": "-1"}, 411),
        (b"{}", {"Content_Length": "²"}, 411),
        (b"", {"Content_Length": str(LARGEST_BODY + 1)}, 413),
        (b"", {"Content_Length": "9" * 30}, 413),
    ],
)
def test_bodies_that_are_refused(page: Page, body: bytes, headers: dict[str, str | None], status: int) -> None:
    assert page.ask("POST", "/api/answers", body, **headers).status == status


def test_who_is_refused_hears_it_however_much_they_send(page: Page) -> None:
    for _ in range(20):
        assert page.ask("POST", "/api/answers", b" " * 60_000, Authorization="Bearer wrong").status == 401
        assert page.ask("POST", "/missing", b" " * 60_000).status == 404


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic x", "Bearer \xe4"])
def test_links_that_are_not_known(page: Page, given: str) -> None:
    for method, path, body in (("GET", "/api/campaign", None), ("POST", "/api/answers", answer(page, 4))):
        reply = page.ask(method, path, body, Authorization=given)
        assert reply.status == 401
        assert reply.record == {"error": "This link is not known. Open the whole link that you were given."}


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.test",
        "evil.test:{port}",
        "127.0.0.1.evil.test",
        "8.8.8.8:{port}",
        "localhost.evil.test",
        "[::2]",
    ],
)
def test_names_that_are_not_ours(page: Page, host: str | None) -> None:
    told = None if host is None else host.format(port=page.port)
    for path in ("/", "/api/campaign"):
        assert page.ask("GET", path, Host=told).status == 421
    assert page.ask("POST", "/api/answers", answer(page, 4), Host=told).status == 421


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "127.0.0.1", "[::1]:{port}", "[::1]"]
)
def test_names_that_are_ours(page: Page, host: str) -> None:
    assert page.ask("GET", "/api/campaign", Host=host.format(port=page.port)).status == 200


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Origin": "http://evil.test"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://127.0.0.1:{port}"}, True),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "same-origin"}, True),
    ],
)
def test_requests_from_other_pages(page: Page, headers: dict[str, str], allowed: bool) -> None:
    told = {name: value.format(port=page.port) for name, value in headers.items()}
    sent = answer(page, 5, id=f"origin {headers}"[:64])
    assert page.ask("POST", "/api/answers", sent, **told).status == (200 if allowed else 403)
    assert page.ask("GET", "/api/campaign", **told).status == (200 if allowed else 403)


@pytest.mark.parametrize("path", [*FILES, "/api/campaign", "/missing"])
def test_every_reply_has_the_policy(page: Page, path: str) -> None:
    headers = page.ask("GET", path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/../campaign.py",
        "/%2e%2e/campaign.py",
        "//etc/passwd",
        "/page/index.html",
        "/style.css/",
        "/\\style.css",
        "/x" * 900,
    ],
)
def test_there_are_no_other_files(page: Page, path: str) -> None:
    assert page.ask("GET", path).status == 404


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/"), ("DELETE", "/api/answers"), ("OPTIONS", "/"), ("HEAD", "/")]
)
def test_other_methods_do_nothing(page: Page, method: str, path: str) -> None:
    assert page.ask(method, path).status == 501


def test_an_answer_that_is_posted_elsewhere(page: Page) -> None:
    assert page.ask("POST", "/api/campaign", answer(page, 4)).status == 404


def test_a_client_that_goes_away_harms_nobody(page: Page, capfd: pytest.CaptureFixture[str]) -> None:
    for beginning in (b"", b"GET / HT", b"POST /api/answers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", page.port)) as connection:
            connection.sendall(beginning)
    assert page.ask("GET", "/").status == 200
    assert capfd.readouterr() == ("", "")


def test_a_disk_that_is_full_is_told_and_the_page_tries_again(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> bool:
        raise ResourceError("a.jsonl: there is no room")

    with monkeypatch.context() as patch:
        patch.setattr(page.answers, "add", full)
        reply = page.ask("POST", "/api/answers", answer(page, 6))
    assert (reply.status, reply.record) == (507, {"error": "the server cannot write the answer; call who runs it"})
    assert page.ask("POST", "/api/answers", answer(page, 6)).status == 200


def test_a_key_is_asked_for_before_anything_is_told(tmp_path: Path) -> None:
    page = Page(tmp_path / "a.jsonl", campaign(), Address(host="0.0.0.0", port=0, key=KEY, names=("study.example",)))
    try:
        for given in (None, "", "wrong", KEY + "x"):
            assert page.ask("GET", "/api/campaign", X_Key=given).status == 403
        assert page.ask("GET", "/api/campaign", X_Key=KEY).status == 200
        assert page.ask("GET", "/api/campaign", X_Key=KEY, Authorization="Bearer wrong").status == 401
        assert page.ask("GET", "/api/campaign", X_Key=KEY, Host="study.example").status == 200
        assert page.ask("GET", "/api/campaign", X_Key=KEY, Host="192.168.1.5:80").status == 200
        assert page.ask("GET", "/api/campaign", X_Key=KEY, Host="evil.test").status == 421
        link = page.server.link(page.made.annotators[0])
        assert link == f"http://study.example:{page.port}/#{page.made.annotators[0].key}"
        assert KEY not in link
    finally:
        page.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"host": ""}, "host = : others could reach it"),
        ({"host": "0.0.0.0"}, "host = 0.0.0.0: others could reach it; give a key"),
        ({"host": "example.org"}, "host = example.org: others could reach it"),
        ({"host": "::"}, "host = ::: others could reach it"),
        ({"host": "0.0.0.0", "key": "short"}, "the key has 5 characters; give at least 12"),
        ({"key": "schlüsselbund!"}, "the key must be made of letters, digits and signs of ASCII"),
        ({"port": 70_000}, "port = 70000: must be 0 (any that is free) to 65535"),
    ],
)
def test_addresses_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Address(**settings)


def test_links_name_the_machine_where_it_listens_everywhere() -> None:
    everywhere = Address(host="0.0.0.0", key=KEY)
    assert everywhere.shown == socket.gethostname()
    assert everywhere.known(f"{socket.gethostname()}:8765")
    assert Address().shown == "127.0.0.1"


def test_a_port_that_is_taken(page: Page, tmp_path: Path) -> None:
    with Answers(tmp_path / "a.jsonl", page.made) as answers, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BusyError, match=rf"127.0.0.1:{port}: cannot be listened on .*choose another with --port"):
            Server(page.made, answers, Address(port=port))


class Markup(HTMLParser):
    """What a page loads, and what in it would be a script or a style of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loaded += [str(given[name]) for name in ("src", "href") if name in given]
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        self.inline += [tag] if tag == "style" or (tag == "script" and "src" not in given) else []


def test_the_page_loads_its_own_files_only_and_makes_no_markup_of_texts() -> None:
    folder = resources.files("regard.human").joinpath("page")
    names = {name for name, _ in FILES.values()}
    assert {each.name for each in folder.iterdir()} == names
    markup = Markup()
    markup.feed(folder.joinpath("index.html").read_text(encoding="utf-8"))
    assert set(markup.loaded) <= names
    assert markup.inline == []
    for name in names:
        text = folder.joinpath(name).read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|https?://(?!www\.w3\.org/2000/svg)", text
        )
        assert not re.search(r"url\(|@import|setAttribute\(.on", text)

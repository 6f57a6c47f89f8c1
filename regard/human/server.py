"""The page of the annotators, served by the standard library: five fixed files and two calls.

What is promised: it listens on this machine only, unless another host and a key are given. A request is answered only
if it names a host we know (no page from elsewhere can reach us by a name of its own), carries the key of an
annotator's link in a header (never a cookie, never an address, so it stands in no log), and is small. The names of the
systems never leave the campaign file. Nothing of a text becomes markup: the page sets text, and the policy forbids
scripts from anywhere else. An answer is acknowledged when it is on the disk.

Limits: no encryption. Beyond a network that is trusted it belongs behind a proxy that speaks TLS.
"""

import hmac
import ipaddress
import json
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any, Final

from regard.errors import BusyError, DataError, RegardError, UsageError
from regard.human.answers import Answers, Conflict
from regard.human.campaign import Annotator, Campaign

LARGEST_BODY: Final = 16 * 2**10
MOST_AT_ONCE: Final = 64
PATIENCE: Final = 10.0
"""Seconds that a client may be silent."""

LINGERING: Final = 1.0
SHORTEST_KEY: Final = 12
FILES: Final = {
    "/": ("index.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/judgements.js": ("judgements.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the page is: the host and port to listen on, the key if it is not this machine, and further names of it."""

    host: str = "127.0.0.1"
    port: int = 8765
    key: str | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise UsageError(f"port = {self.port}: must be 0 (any that is free) to 65535")
        if self.key is not None and len(self.key) < SHORTEST_KEY:
            raise UsageError(f"the key has {len(self.key)} characters; give at least {SHORTEST_KEY}")
        if self.key is not None and not (
            self.key.isascii() and self.key.isprintable() and self.key.strip() == self.key
        ):
            raise UsageError("the key must be made of letters, digits and signs of ASCII, with no space at its ends")
        if not self.local and self.key is None:
            raise UsageError(
                f"host = {self.host}: others could reach it; give a key that annotators are told apart from their "
                "links (--key, or REGARD_KEY in the environment), or stay on 127.0.0.1"
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        """The host in links: the first of the names; the name of the machine if it listens everywhere."""
        if self.names:
            return self.names[0]
        return socket.gethostname() if self.host in ("", "0.0.0.0", "::") else self.host  # noqa: S104

    def known(self, named: str) -> bool:
        """Whether a Host header names this page. An address of ours is no name that another site could have taken."""
        host = named.rsplit(":", 1)[0] if not named.endswith("]") and ":" in named else named
        host = host.strip("[]").lower()
        if host in ("localhost", *(name.lower() for name in (self.host, self.shown, *self.names))):
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback if self.local else True


class Refused(Exception):
    """A request that is not answered as it hoped."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server(ThreadingHTTPServer):
    """Listens; `serve_forever` answers until `shutdown`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, campaign: Campaign, answers: Answers, address: Address) -> None:
        self.address = address
        self.campaign = campaign
        self.answers = answers
        self.files = {
            path: (resources.files("regard.human").joinpath("page", name).read_bytes(), kind)
            for path, (name, kind) in FILES.items()
        }
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address.host, address.port), Handler)
        except OSError as error:
            raise BusyError(
                f"{address.host}:{address.port}: cannot be listened on ({error.strerror or error}); choose another "
                "with --port, or 0 for any that is free"
            ) from error

    def link(self, annotator: Annotator) -> str:
        """The link of an annotator. What follows # stays in the browser: it is in no request and no log."""
        host = f"[{self.address.shown}]" if ":" in self.address.shown else self.address.shown
        return f"http://{host}:{self.server_address[1]}/#{annotator.key}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each request, up to a number; then others wait in the queue of the system."""
        if not self._room.acquire(timeout=PATIENCE):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no matter of ours; a fault is told on standard error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    timeout = PATIENCE
    server_version = "regard"
    sys_version = ""

    def do_GET(self) -> None:
        """A file of the page, or the tasks of an annotator."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """An answer to a task."""
        self._answer(self._post)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: texts and keys belong in no log."""

    def _answer(self, action: Any) -> None:
        try:
            self._check_origin()
            status, content, kind = action()
        except Refused as refused:
            self._send(refused.status, _json({"error": str(refused)}), "application/json")
            self._drain()
            return
        except Exception:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, _json({"error": "a fault of the server"}), "application/json")
            raise
        self._send(status, content, kind)

    def _drain(self) -> None:
        """Take what is still coming: closing before would tear the connection down, and the reply with it."""
        self.wfile.flush()
        self.connection.settimeout(LINGERING)
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.rfile.read(4 * LARGEST_BODY)

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def _check_origin(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self.server.address.known(hosts[0]):
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, "this page is not known under that name; see --name")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other pages are refused")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and self.path != "/":
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other pages are refused")

    def _annotator(self) -> Annotator:
        """Whose link this is. The key of the server comes first: 403 makes the page ask for it."""
        wanted = self.server.address.key
        if wanted is not None and not _same(self.headers.get("X-Key", ""), wanted):
            raise Refused(HTTPStatus.FORBIDDEN, "the key is missing or wrong")
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        found = [each for each in self.server.campaign.annotators if _same(given, each.key)]
        if not found:
            raise Refused(HTTPStatus.UNAUTHORIZED, "This link is not known. Open the whole link that you were given.")
        return found[0]

    def _get(self) -> tuple[HTTPStatus, bytes, str]:
        path = self.path.split("?", 1)[0]
        if path in self.server.files:
            return HTTPStatus.OK, *self.server.files[path]
        if path != "/api/campaign":
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        record = tasks_of(self.server.campaign, self._annotator(), self.server.answers)
        return HTTPStatus.OK, _json(record), "application/json"

    def _post(self) -> tuple[HTTPStatus, bytes, str]:
        if self.path != "/api/answers":
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        annotator = self._annotator()
        record = self._body()
        if set(record) != {"id", "task", "answer", "seconds"}:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "an answer has id, task, answer and seconds")
        if record["task"] not in {task.id for task in annotator.tasks}:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "there is no such task for you")
        try:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            new = self.server.answers.add(self.server.answers.check({**record, "at": now}))
        except Conflict as error:
            raise Refused(HTTPStatus.CONFLICT, str(error)) from error
        except DataError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        except RegardError as error:
            raise Refused(
                HTTPStatus.INSUFFICIENT_STORAGE, "the server cannot write the answer; call who runs it"
            ) from error
        return HTTPStatus.OK, _json({"saved": True, "new": new}), "application/json"

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json" or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "an answer is application/json, in one piece")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "an answer says how long it is")
        if len(length) > 9 or int(length) > LARGEST_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"an answer has at most {LARGEST_BODY:,} bytes")
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            raise Refused(HTTPStatus.BAD_REQUEST, "the answer was cut off")
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "the answer is not JSON") from None
        if not isinstance(record, dict) or not isinstance(record.get("task"), str):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "an answer has id, task, answer and seconds")
        return record


def tasks_of(campaign: Campaign, annotator: Annotator, answers: Answers) -> dict[str, object]:
    """All that a page needs, and nothing that tells systems apart or repeats from first questions."""
    latest = answers.latest()
    tasks = []
    for task in annotator.tasks:
        item = campaign.items[task.item]
        shown = [item.outputs[group[0]] for group in task.shown]
        tasks.append({"id": task.id, "source": item.source, "reference": item.reference, "outputs": shown})
    own = {task.id: latest[task.id].answer for task in annotator.tasks if task.id in latest}
    return {"kind": campaign.kind, "tasks": tasks, "answers": own}


def answered(campaign: Campaign, answers: Answers) -> Mapping[str, tuple[int, int]]:
    """For each annotator how many tasks have an answer, and how many there are."""
    latest = answers.latest()
    return {each.name: (sum(task.id in latest for task in each.tasks), len(each.tasks)) for each in campaign.annotators}


def _json(record: object) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())

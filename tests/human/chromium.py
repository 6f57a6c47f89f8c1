"""A real browser without a window, driven over two pipes by its own protocol: no driver and no package is needed."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 90.0
CODES = {"Enter": 13, "End": 35, "PageDown": 34, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip
START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""The browser reads commands at descriptor 3 and writes replies at 4."""


class Browser:
    """One page at a time."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        pipes = [_high(end) for _ in range(2) for end in os.pipe()]
        heard, self._commands, self._replies, said = pipes
        command = [sys.executable, "-c", START, str(heard), str(said), CHROMIUM, *OPTIONS, f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            [*command, "about:blank"],
            pass_fds=(heard, said),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder)},
        )
        os.close(heard)
        os.close(said)
        self._count = 0
        self._rest = b""
        self._session: str | None = None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._replies)

    def open(self, address: str) -> None:
        self._session = None
        page = self._ask("Target.createTarget", url=address)["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]

    def value(self, expression: str) -> Any:
        return self._ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until it is true."""
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < end, (
                f"{expression}: not within {PATIENCE} s; {self.value('document.body.innerText')}"
            )
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        for key in keys:
            code = CODES.get(key, ord(key.upper()) if len(key) == 1 else 0)
            for kind in ("rawKeyDown", "keyUp"):
                self._ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def _ask(self, method: str, **parameters: object) -> Any:
        self._count += 1
        record: dict[str, object] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            record["sessionId"] = self._session
        os.write(self._commands, json.dumps(record).encode() + b"\0")
        while True:
            reply = self._hear()
            if reply.get("id") == self._count:
                assert "error" not in reply, (method, reply)
                return reply["result"]

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            block = os.read(self._replies, 1 << 16)
            assert block, "the browser has ended"
            self._rest += block
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


def _high(descriptor: int) -> int:
    """The same, out of the way of 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return moved

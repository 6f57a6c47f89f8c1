"""The page in a real browser, by keys alone: every kind is answered from the first task to the last."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.human import Answers, Campaign, read_answers
from regard.human.kinds import Kind
from regard.human.server import Address, Server
from tests.human.chromium import CHROMIUM, Browser
from tests.human.making import campaign

PLACE = "document.getElementById('place').textContent"
DONE = "!document.getElementById('done').hidden"
KEYS: dict[Kind, tuple[list[tuple[list[str], dict[str, object]]], int]] = {
    "adequacy-fluency": (
        [
            (["4", "2"], {"adequacy": 4, "fluency": 2}),
            (["ArrowDown", "ArrowDown", "5", "ArrowUp", "1"], {"adequacy": 1, "fluency": 5}),
        ],
        1,
    ),
    "direct": ([(["7"], {"score": 7}), (["End", "PageDown", "ArrowLeft"], {"score": 89})], 1),
    "pairwise": (
        [(["1"], {"choice": "first"}), (["ArrowRight"], {"choice": "second"}), (["0"], {"choice": "equal"})],
        2,
    ),
    "ranking": ([(["2", "1", "2"], {"ranks": [2, 1, 2]}), (["3", "3", "1"], {"ranks": [3, 3, 1]})], 3),
}
"""Keys for each task and the answer they give, and how many systems there are."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no browser on this machine")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@contextmanager
def served(path: Path, made: Campaign) -> Iterator[str]:
    """The link of the only annotator."""
    with Answers(path, made) as answers:
        server = Server(made, answers, Address(port=0))
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield server.link(made.annotators[0])
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.mark.parametrize("kind", KEYS)
def test_all_tasks_are_answered_by_keys(kind: Kind, browser: Browser, tmp_path: Path) -> None:
    answered, systems = KEYS[kind]
    made = campaign(kind, systems=systems, lines=len(answered), annotators=1, repeats=0.0)
    tasks = made.annotators[0].tasks
    assert len(tasks) == len(answered)
    with served(tmp_path / "a.jsonl", made) as link:
        browser.open(link)
        for place, (keys, _) in enumerate(answered, start=1):
            browser.wait(f"{PLACE} === '{place} of {len(tasks)}' && document.activeElement.id === 'question'")
            assert "system-" not in browser.value("document.documentElement.outerHTML")
            browser.press("Enter")
            browser.wait(
                "/first\\.|first:/.test(document.getElementById('status').textContent)"
            )  # nothing is chosen yet
            browser.press(*keys, "Enter")
        browser.wait(DONE)
    given = read_answers(tmp_path / "a.jsonl", made)
    assert [given[task.id].answer for task in tasks] == [answer for _, answer in answered]


def test_a_key_leads_back_and_the_last_answer_counts(browser: Browser, tmp_path: Path) -> None:
    made = campaign("pairwise", systems=2, lines=2, annotators=1, repeats=0.0)
    with served(tmp_path / "a.jsonl", made) as link:
        browser.open(link)
        browser.wait(f"{PLACE} === '1 of 2'")
        browser.press("1", "Enter")
        browser.wait(f"{PLACE} === '2 of 2'")
        browser.press("u")
        browser.wait(f"{PLACE} === '1 of 2'")
        browser.press("2", "Enter")
        browser.wait(f"{PLACE} === '2 of 2'")
    given = read_answers(tmp_path / "a.jsonl", made)
    assert [one.answer for one in given.values()] == [{"choice": "second"}]

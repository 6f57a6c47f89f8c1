"""The page of a training that runs, or was broken off."""

import re

import pytest

from regard.report import Caution, Early, ReportData, Status, TrainingPoint, render_report
from regard.report.markup import content_hash
from regard.report.style import SILENCE_SCRIPT


def status(**changes: object) -> Status:
    known: dict[str, object] = {
        "state": "training",
        "step": 250,
        "total": 1000,
        "seconds": 3725.0,
        "left": 95.0,
        "written": 1_700_000_000.0,
    }
    return Status(**(known | changes))  # type: ignore[arg-type]


def page(state: Status | None, **more: object) -> str:
    return render_report(ReportData(title="translation: <run>", run="runs/x", recipe="a: 1", status=state, **more))  # type: ignore[arg-type]


def test_a_running_training_tells_where_it_stands_and_loads_again() -> None:
    made = page(status())
    assert '<meta http-equiv="refresh" content="20">' in made
    assert "<title>25% training · translation: &lt;run&gt;</title>" in made
    assert '<p class="what">Training, step 250 of 1,000</p>' in made
    assert "1 h 2 min so far · about 1 min 35 s left · written 2023-11-14 22:13:20 UTC" in made
    assert 'aria-label="25% of the steps are done"' in made
    assert 'width="25.00"' in made
    assert "has not been evaluated" not in made
    assert f"script-src {content_hash(SILENCE_SCRIPT)}" in made.replace("&#x27;", "'")
    assert made.count("<script>") == 1


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (status(total=None, left=None), "Training, step 250"),
        (status(state="evaluating", reason="1,000 steps done"), "Evaluating, after 250 steps"),
        (status(state="interrupted", reason="<b> & co"), "Interrupted at step 250 of 1,000"),
    ],
)
def test_other_states(state: Status, what: str) -> None:
    made = page(state)
    assert f'<p class="what">{what}</p>' in made
    running = state.state != "interrupted"
    assert ("refresh" in made) == running
    assert ("<script>" in made) == running
    assert ("the same command goes on from the last checkpoint</p>" in made) != running
    assert "<b> & co" not in made


def test_a_finished_run_does_not_load_again() -> None:
    made = page(None)
    assert "refresh" not in made
    assert 'class="card status' not in made
    assert "The model has not been evaluated yet." in made


def test_warnings_and_early_outputs_are_shown_as_text() -> None:
    early = Early(source="<i>cats", reference="katzen schlafen", outputs=[(100, ""), (1200, "katzen laufen")])
    drawn = Early(source="", reference=None, outputs=[(5, "a <text>")])
    made = page(status(), cautions=[Caution(step=1200, kind="flat", text="a <loss>")], early=[early, drawn])
    assert "<b>Step 1,200:</b> a &lt;loss&gt;.</li>" in made
    assert "<b>&lt;i&gt;cats</b>" in made
    assert "katzen <mark>laufen</mark>" in made
    assert '<span class="empty">(nothing)</span>' in made
    assert "a text that it draws" in made
    assert "a &lt;text&gt;" in made
    order = re.findall(r'<h2 id="(\w+)">', made)
    assert order[:2] == ["learning", "early"]


def test_norms_are_drawn_where_they_are_known() -> None:
    known = TrainingPoint(step=1, loss=1.0, learning_rate=0.1, tokens_per_second=1.0, seconds=1.0, gradient_norm=2.0)
    older = TrainingPoint(step=1, loss=1.0, learning_rate=0.1, tokens_per_second=1.0, seconds=1.0)
    assert "Norm of the gradient" in page(None, training=[known])
    assert "Norm of the gradient" not in page(None, training=[older])

"""The head of the page of a training that has no result yet: where it stands, and whether the page reloads itself."""

from datetime import UTC, datetime

from regard.report.contents import Status
from regard.report.markup import escape


def reload(status: Status | None) -> str:
    """What lets a browser load the page again: only while something is going on."""
    if status is None or status.state == "interrupted":
        return ""
    return f'<meta http-equiv="refresh" content="{status.again}">\n'


def title(status: Status | None, text: str) -> str:
    """The title of the page, with the share that is done in front, so that a tab shows it."""
    if status is None:
        return text
    share = f"{_share(status):.0%} " if status.state == "training" and status.total else ""
    return f"{share}{status.state} · {text}"


def banner(status: Status | None) -> str:
    """One card with a bar: what is going on, how far it is, when this was written."""
    if status is None:
        return ""
    of = f" of {status.total:,}" if status.total else ""
    what = {
        "training": f"Training, step {status.step:,}{of}",
        "evaluating": f"Evaluating, after {status.step:,} steps",
        "interrupted": f"Interrupted at step {status.step:,}{of}",
    }[status.state]
    clock = datetime.fromtimestamp(status.written, tz=UTC)
    notes = [f"{_duration(status.seconds)} so far"]
    if status.state == "training" and status.left is not None:
        notes.append(f"about {_duration(status.left)} left")
    if status.reason:
        notes.append(status.reason)
    notes.append(f"written {clock:%Y-%m-%d %H:%M:%S} UTC")
    if status.state == "interrupted":
        notes.append("the same command goes on from the last checkpoint")
    else:
        notes.append("this page loads itself again")
    bar = ""
    if status.total:
        share = _share(status)
        bar = (
            f'<svg class="done" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" '
            f'aria-label="{share:.0%} of the steps are done"><rect class="track" width="100" height="1"/>'
            f'<rect class="full" width="{100 * share:.2f}" height="1"/></svg>'
        )
    return (
        f'<div class="card status {status.state}" data-written="{status.written:.0f}" data-again="{status.again}">'
        f'<p class="what">{escape(what)}</p>{bar}<p class="notes">{escape(" · ".join(notes))}</p>'
        '<p class="silence" hidden></p></div>\n'
    )


def _share(status: Status) -> float:
    return min(1.0, status.step / status.total) if status.total else 0.0


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

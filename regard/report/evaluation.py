"""The page of an evaluation: scores, where they come from, the worst and the best outputs; one file, opens offline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.metrics.breakdown import Bucket
from regard.report import sections
from regard.report.contents import SetScore
from regard.report.curves import nice_ticks, short_number
from regard.report.document import document, heading, titled_parts
from regard.report.markup import escape
from regard.report.sections import figure, interval_text, marked
from regard.report.style import COLOURS, DRAWING, PAGE
from regard.report.width import display_width, shorten

WIDTH, ROW, TOP, BOTTOM, RIGHT = 440, 34, 44, 44, 16
LONGEST_LABEL = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTable:
    """Parts of a set side by side; `what` the parts are told apart by, and what is `counted` in them."""

    title: str
    caption: str
    what: str
    counted: str
    buckets: Sequence[Bucket]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSample:
    """One segment and its value; `number` counts from 1."""

    number: int
    source: str
    reference: str
    output: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPage:
    """Everything on the page of an evaluation; `judge` is the metric that single segments are ordered by."""

    title: str
    run: str
    scores: Sequence[SetScore]
    tables: Sequence[BucketTable] = ()
    judge: str = ""
    worst: Sequence[JudgedSample] = ()
    best: Sequence[JudgedSample] = ()
    notes: Sequence[str] = ()


def render_evaluation(page: EvaluationPage) -> str:
    """The whole page; all text of users is escaped, and the policy lets nothing in from outside."""
    style = COLOURS + DRAWING + PAGE
    parts = [
        ("scores", "How good it is", sections.score_table(page.scores)),
        ("parts", "Where it is good", bucket_tables(page.tables)),
        ("worst", "The worst outputs", judged_samples(page.worst, page.judge)),
        ("best", "The best outputs", judged_samples(page.best, page.judge)),
    ]
    if page.notes:
        parts.append(("notes", "Notes", sections.findings(page.notes)))
    links, body = titled_parts(parts)
    header = f"{heading(page.title, page.run)}\n{sections.tiles(page.scores)}\n{links}"
    return document(title=page.title, header=header, main=body, style=style)


def bucket_tables(tables: Sequence[BucketTable]) -> str:
    """A picture and a table of each."""
    if not tables:
        return sections.empty("There is nothing that this set could be taken apart by.")
    blocks = []
    for table in tables:
        rows = "".join(_row(bucket) for bucket in table.buckets)
        blocks.append(
            f'<h3>{escape(table.title)}</h3><div class="charts"><figure class="card">{bucket_chart(table)}</figure>'
            f'<div class="card scroll"><table><caption>{escape(table.caption)}</caption><thead><tr>'
            f'<th scope="col">{escape(table.what)}</th><th scope="col" class="number">{escape(table.counted)}</th>'
            '<th scope="col" class="number">value</th><th scope="col" class="number">interval</th>'
            f"</tr></thead><tbody>{rows}</tbody></table></div></div>"
        )
    return "".join(blocks)


def bucket_chart(table: BucketTable) -> str:
    """Dots with intervals, a row for each part."""
    title = shown_name(table)
    shown = [bucket for bucket in table.buckets if math.isfinite(bucket.score.value)]
    height = TOP + ROW * len(shown) + BOTTOM
    told = "; ".join(f"{bucket.label}: {figure(bucket.score.value)}" for bucket in shown) or "nothing to show"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing" role="img" '
        f'aria-label="{escape(table.title)}: {escape(told)}" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}"><text class="rg-title" x="4" y="20">{escape(title)}</text>'
    )
    return f"{head}{_drawn(shown, height) if shown else ''}</svg>"


def shown_name(table: BucketTable) -> str:
    """What is measured in the parts."""
    return table.buckets[0].score.name if table.buckets else table.title


def judged_samples(entries: Sequence[JudgedSample], judge: str) -> str:
    """Segments with their values; words that differ from the reference are marked."""
    if not entries:
        return sections.empty("There are no outputs to show.")
    items = []
    for entry in entries:
        reference, output = marked(entry.reference, entry.output)
        items.append(
            f'<li><div class="card"><dl><dt>source</dt><dd>{escape(entry.source)}</dd>'
            f"<dt>reference</dt><dd>{reference}</dd>"
            f'<dt>output</dt><dd class="output">{output or "<span>(empty)</span>"}</dd></dl>'
            f'<span class="tag">{escape(judge)} {figure(entry.value)}</span> '
            f'<span class="tag">segment {entry.number:,}</span></div></li>'
        )
    return f'<ul class="samples">{"".join(items)}</ul>'


def _row(bucket: Bucket) -> str:
    return (
        f'<tr><th scope="row">{escape(bucket.label)}</th><td class="number">{bucket.count:,}</td>'
        f'<td class="number value">{figure(bucket.score.value)}</td>'
        f'<td class="number">{interval_text(bucket.score) or "–"}</td></tr>'
    )


def _drawn(buckets: Sequence[Bucket], height: int) -> str:
    ends = [
        value
        for bucket in buckets
        for value in (bucket.score.value, bucket.score.low, bucket.score.high)
        if value is not None and math.isfinite(value)
    ]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room
    labels = [shorten(bucket.label, LONGEST_LABEL) for bucket in buckets]
    left = 16 + 7.6 * max(map(display_width, labels))

    def place(value: float) -> str:
        return f"{left + (value - low) / (high - low) * (WIDTH - RIGHT - left):.1f}"

    parts = []
    for value in nice_ticks(low, high):
        parts.append(
            f'<line class="rg-grid" x1="{place(value)}" y1="{TOP - 8}" x2="{place(value)}" y2="{height - BOTTOM}"/>'
            f'<text class="rg-soft" x="{place(value)}" y="{height - BOTTOM + 19}" text-anchor="middle">'
            f"{short_number(value)}</text>"
        )
    for number, (bucket, label) in enumerate(zip(buckets, labels, strict=True)):
        y = TOP + ROW * number + ROW / 2
        score = bucket.score
        parts.append(f'<text class="rg-soft" x="4" y="{y + 4:.1f}">{escape(label)}</text>')
        if score.low is not None and score.high is not None and math.isfinite(score.high):
            ends_ = f'x1="{place(score.low)}" x2="{place(score.high)}" y1="{y:.1f}" y2="{y:.1f}"'
            parts.append(f'<line class="rg-line rg-s0" {ends_}/>')
        note = f"{bucket.label}: {figure(score.value)}, {bucket.count:,} ({100 * bucket.share:.0f} %)"
        parts.append(
            f'<circle class="rg-dot rg-f0" cx="{place(score.value)}" cy="{y:.1f}" r="5">'
            f"<title>{escape(note)}</title></circle>"
        )
    return "".join(parts)

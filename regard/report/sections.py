"""The parts of a run's page, each a function from values to HTML."""

import difflib
import math
from collections.abc import Sequence

from regard.metrics.score import Score
from regard.report.alignment import AlignmentPicture, drawing, legend
from regard.report.contents import Caution, Early, Facts, ReportData, Sample, SetScore, TrainingPoint
from regard.report.curves import Chart, Series, line_chart
from regard.report.markup import escape
from regard.report.width import shorten

PERCENT = frozenset(
    {"BLEU", "chrF", "TER", "METEOR", "exact", "accuracy", "alignment error", "AER", "WER", "CER", "slot_error"}
    | {"span_F1", "bracket_F1", "MRR", "P@1", "P@3", "P@5", "P@10"}
)
"""Scores that can be drawn on a bar from 0 to 100; rates of errors may lie beyond."""

EARLY_COLUMNS = 240
"""More is not shown of an output while it is learned: one that never ends would fill the page."""


def tiles(scores: Sequence[SetScore]) -> str:
    """The first score of each set in large figures; of a single set the first four."""
    first: dict[str, SetScore] = {}
    for entry in scores:
        first.setdefault(entry.set_name, entry)
    shown = list(first.values()) if len(first) > 1 else scores[:4]
    boxes = [
        f'<div class="card tile"><div class="name">{escape(entry.score.name)} on {escape(entry.set_name)}</div>'
        f'<div class="value">{figure(entry.score.value)}</div>'
        f'<div class="interval">{interval_text(entry.score) or "no interval"}</div></div>'
        for entry in shown
    ]
    return f'<div class="tiles">{"".join(boxes)}</div>' if boxes else ""


def score_table(scores: Sequence[SetScore]) -> str:
    """Every score with its interval and its signature, a group for each set."""
    if not scores:
        return empty("The model has not been evaluated yet.")
    groups = []
    for name in dict.fromkeys(entry.set_name for entry in scores):
        rows = "".join(_score_row(entry.score) for entry in scores if entry.set_name == name)
        groups.append(f'<tbody><tr class="set"><th scope="rowgroup" colspan="5">{escape(name)}</th></tr>{rows}</tbody>')
    return (
        '<div class="card"><table class="stack"><caption>↑ higher is better, ↓ lower is better; 95 % bootstrap '
        "intervals; the signature says how a score was computed.</caption><thead><tr>"
        '<th scope="col">Metric</th><th scope="col" class="number">Value</th><th scope="col" class="number">Interval'
        '</th><th scope="col">0 to 100</th><th scope="col">Signature</th>'
        f"</tr></thead>{''.join(groups)}</table></div>"
    )


def charts(data: ReportData) -> str:
    """Loss, metrics, learning rate and speed over steps."""
    if not data.training and not data.validation:
        return empty("Training has not logged a step yet.")
    mark = (float(data.best_step), "best") if data.best_step is not None else None
    loss = [Series(name="training", points=[(point.step, point.loss) for point in data.training])]
    loss.append(Series(name="validation", points=[(point.step, point.loss) for point in data.validation], dots=True))
    drawn = [Chart(title="Loss per token", series=[series for series in loss if series.points], mark=mark)]
    names = list(dict.fromkeys(name for point in data.validation for name in point.metrics))
    for name in names:
        points = [(point.step, point.metrics[name]) for point in data.validation if name in point.metrics]
        series = Series(name=name, points=points, dots=True)
        drawn.append(Chart(title=f"{name} on validation data", series=[series], mark=mark))
    drawn += _training_charts(data.training)
    note = "" if data.validation else empty("Training has not validated yet.")
    figures = "".join(f'<figure class="card">{line_chart(chart)}</figure>' for chart in drawn)
    return f'<div class="charts">{figures}</div>{note}'


def samples(entries: Sequence[Sample]) -> str:
    """What the model made of some sources; words that differ from the reference are marked."""
    if not entries:
        return empty("No samples were kept.")
    return f'<ul class="samples">{"".join(f"<li>{_sample(entry)}</li>" for entry in entries)}</ul>'


def cautions(entries: Sequence[Caution]) -> str:
    """What training warned of."""
    if not entries:
        return ""
    items = "".join(f"<li><b>Step {entry.step:,}:</b> {escape(entry.text)}.</li>" for entry in entries)
    return f'<ul class="cautions" aria-label="Warnings">{items}</ul>\n'


def early(entries: Sequence[Early]) -> str:
    """Outputs for the same sources, step by step."""
    cards = []
    for entry in entries:
        rows = "".join(
            f'<tr><td class="step">step {step:,}</td><td>{_early_output(entry.reference, output)}</td></tr>'
            for step, output in entry.outputs
        )
        if entry.reference is not None:
            rows += f'<tr><td class="step">reference</td><td>{escape(entry.reference)}</td></tr>'
        source = f"<b>{escape(entry.source)}</b>" if entry.source.strip() else "a text that it draws"
        cards.append(f'<figure class="card"><figcaption>{source}</figcaption><table>{rows}</table></figure>')
    return f'<div class="early">{"".join(cards)}</div>'


def _early_output(reference: str | None, output: str) -> str:
    text = shorten(output, EARLY_COLUMNS)
    marks = escape(text) if reference is None else marked(reference, text)[1]
    return marks or '<span class="empty">(nothing)</span>'


def alignments(pictures: Sequence[AlignmentPicture]) -> str:
    """Heat maps of attention."""
    if not pictures:
        return empty("No alignments were drawn.")
    figures = "".join(
        f'<figure class="map card"><figcaption>{escape(picture.title or "Alignment")}</figcaption>'
        f'<div class="scroll">{drawing(picture, interactive=True)}</div></figure>'
        for picture in pictures
    )
    longest = max(pictures, key=lambda picture: picture.gold is not None)
    return f'<p>{escape(legend(longest))}</p><div class="maps">{figures}</div>'


def fact_list(facts: Facts, *, otherwise: str) -> str:
    """Names and values."""
    if not facts:
        return empty(otherwise)
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="card facts">{items}</dl>'


def findings(lines: Sequence[str]) -> str:
    """What was found in the data, a line each."""
    if not lines:
        return empty("Nothing was skipped, cut or found suspicious.")
    return f'<ul class="findings">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'


def empty(text: str) -> str:
    """A part that has nothing to show says so."""
    return f'<p class="empty">{escape(text)}</p>'


def figure(value: float) -> str:
    """A score as it is printed: two digits after the point are more than intervals support, one is enough from 10."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def interval_text(score: Score) -> str:
    """`96.2 to 97.9`, or nothing."""
    return "" if score.low is None or score.high is None else f"{figure(score.low)} to {figure(score.high)}"


def _score_row(score: Score) -> str:
    arrow = "↑" if score.higher_is_better else "↓"
    return (
        f'<tr><th scope="row">{escape(score.name)}&nbsp;<span aria-hidden="true">{arrow}</span></th>'
        f'<td class="number value">{figure(score.value)}</td>'
        f'<td class="number">{interval_text(score) or "–"}</td>'
        f'<td class="bars">{_bar(score)}</td>'
        f'<td class="wide"><code>{_breakable(score.signature)}</code></td></tr>'
    )


def _training_charts(points: Sequence[TrainingPoint]) -> list[Chart]:
    if not points:
        return []
    rate = Series(name="learning rate", points=[(point.step, point.learning_rate) for point in points])
    speed = Series(name="tokens per second", points=[(point.step, point.tokens_per_second) for point in points])
    norms = [(point.step, point.gradient_norm) for point in points if point.gradient_norm is not None]
    norm = [Chart(title="Norm of the gradient", series=[Series(name="norm", points=norms)], from_zero=True)]
    return [
        Chart(title="Learning rate", series=[rate], from_zero=True),
        *(norm if norms else []),
        Chart(title="Target tokens per second", series=[speed], from_zero=True),
    ]


def _sample(entry: Sample) -> str:
    rows = [f"<dt>source</dt><dd>{escape(entry.source)}</dd>"]
    output = f"{escape(entry.output)}"
    tag = ""
    if entry.reference is not None:
        reference, output = marked(entry.reference, entry.output)
        rows.append(f"<dt>reference</dt><dd>{reference}</dd>")
        tag = '<span class="tag right">as the reference</span> ' if entry.reference == entry.output else ""
    rows.append(f'<dt>output</dt><dd class="output">{output or "<span>(empty)</span>"}</dd>')
    if entry.log_probability is not None:
        tag += f'<span class="tag">log p = {_minus(entry.log_probability)}</span>'
    return f'<div class="card"><dl>{"".join(rows)}</dl>{tag}</div>'


def marked(reference: str, output: str) -> tuple[str, str]:
    """Both texts as HTML, with `<mark>` around what the other does not have: words, or characters of single words."""
    words = " " in reference.strip() or " " in output.strip()
    left, right = (text.split(" ") if words else list(text) for text in (reference, output))
    joint = " " if words else ""
    pieces: tuple[list[str], list[str]] = ([], [])
    for kind, a, b, c, d in difflib.SequenceMatcher(a=left, b=right, autojunk=False).get_opcodes():
        for side, part in ((0, left[a:b]), (1, right[c:d])):
            text = escape(joint.join(part))
            if part:
                pieces[side].append(text if kind == "equal" or not text else f"<mark>{text}</mark>")
    return joint.join(pieces[0]), joint.join(pieces[1])


def _minus(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _breakable(signature: str) -> str:
    return escape(signature).replace("|", "|<wbr>")


def _bar(score: Score) -> str:
    if score.name not in PERCENT or not math.isfinite(score.value):
        return ""

    def place(value: float) -> str:
        return f"{6 + 118 * min(100.0, max(0.0, value)) / 100:.1f}"

    if score.value > 100:  # rates of errors have no end, and an arrow tells that it lies beyond
        return (
            '<svg class="bar" viewBox="0 0 130 18" aria-hidden="true"><line class="track" x1="6" x2="120" y1="9" '
            'y2="9"/><path class="point" d="M118 4L128 9L118 14Z"/></svg>'
        )
    span = ""
    if score.low is not None and score.high is not None:
        span = f'<line class="span" x1="{place(score.low)}" x2="{place(score.high)}" y1="9" y2="9"/>'
    return (
        '<svg class="bar" viewBox="0 0 130 18" aria-hidden="true"><line class="track" x1="6" x2="124" y1="9" y2="9"/>'
        f'{span}<circle class="point" cx="{place(score.value)}" cy="9" r="4.5"/></svg>'
    )

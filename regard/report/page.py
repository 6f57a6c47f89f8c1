"""The page of a run: one file that opens offline, in light and dark, on a telephone and on paper."""

from regard.report import sections, status
from regard.report.contents import ReportData
from regard.report.document import document, heading, titled_parts
from regard.report.markup import escape
from regard.report.style import COLOURS, DRAWING, HOVER_SCRIPT, PAGE, SILENCE_SCRIPT


def render_report(data: ReportData) -> str:
    """The whole page; all text of users is escaped, and the policy lets nothing in from outside."""
    style = COLOURS + DRAWING + PAGE
    running = data.status is not None and data.status.state != "interrupted"
    script = SILENCE_SCRIPT if running else HOVER_SCRIPT if data.alignments else None
    result = [
        ("scores", "How good it is", sections.score_table(data.scores)),
        ("samples", "What it writes", sections.samples(data.samples)),
        ("alignments", "Where it looks", sections.alignments(data.alignments)),
    ]
    early = [("early", "What it wrote while it learned", sections.early(data.early))] if data.early else []
    learning = [("learning", "How it learned", sections.charts(data))]
    parts = [
        *([*learning, *early] if data.status is not None else [*result, *learning, *early]),
        ("facts", "What it is", sections.fact_list(data.facts, otherwise="Nothing is known about the model yet.")),
        ("data", "What it learned from", _data(data)),
        ("recipe", "How to repeat it", _recipe(data)),
    ]
    links, body = titled_parts(parts)
    above = status.banner(data.status) + sections.cautions(data.cautions) + sections.tiles(data.scores)
    return document(
        title=status.title(data.status, data.title),
        header=f"{heading(data.title, data.run)}\n{above}\n{links}",
        main=body,
        style=style,
        script=script,
        head=status.reload(data.status),
    )


def _data(data: ReportData) -> str:
    summary = sections.fact_list(data.data, otherwise="Nothing is known about the data yet.")
    found = f"<h3>Findings</h3>{sections.findings(data.findings)}" if data.data or data.findings else ""
    notes = f"<h3>Notes</h3>{sections.findings(data.notes)}" if data.notes else ""
    return summary + found + notes


def _recipe(data: ReportData) -> str:
    if not data.recipe.strip():
        return sections.empty("The run has no recipe.")
    return (
        '<details class="card"><summary>The recipe of this run</summary>'
        f"<pre><code>{escape(data.recipe)}</code></pre></details>"
    )

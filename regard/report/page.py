"""The page of a run: one file that opens offline, in light and dark, on a telephone and on paper."""

from regard.report import sections, status
from regard.report.alignment import policy
from regard.report.contents import ReportData
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
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in parts)
    body = "\n".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>\n{content}</section>'
        for name, title, content in parts
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="regard">
<link rel="icon" href="data:,">
{status.reload(data.status)}<title>{escape(status.title(data.status, data.title))}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(data.title)}</h1>
<p class="run">{escape(data.run)}</p>
{status.banner(data.status)}{sections.cautions(data.cautions)}{sections.tiles(data.scores)}
<nav aria-label="Parts of this page">{links}</nav>
</header>
<main>
{body}
</main>
<footer>Written by regard. This page is one file; it loads nothing from anywhere.</footer>
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


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

"""The frame of every page: one file that loads nothing from anywhere."""

from collections.abc import Sequence

from regard.report.alignment import policy
from regard.report.markup import escape


def document(*, title: str, header: str, main: str, style: str, script: str | None = None, head: str = "") -> str:
    """A whole page. `header`, `main` and `head` are markup, whose texts of users are escaped already."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="regard">
<link rel="icon" href="data:,">
{head}<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{main}
</main>
<footer>Written by regard. This page is one file; it loads nothing from anywhere.</footer>
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


def heading(title: str, run: str) -> str:
    """What a page is about, and of which run."""
    return f'<h1>{escape(title)}</h1>\n<p class="run">{escape(run)}</p>'


def titled_parts(parts: Sequence[tuple[str, str, str]]) -> tuple[str, str]:
    """Links to the parts of a page (name, title, content), and the parts."""
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in parts)
    body = "\n".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>\n{content}</section>'
        for name, title, content in parts
    )
    return f'<nav aria-label="Parts of this page">{links}</nav>', body

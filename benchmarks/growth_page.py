"""Writes docs/growth.md and its picture from what benchmarks/growth.py has measured, and computes what is on paper.

python benchmarks/growth_page.py
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import complexity_page
from complexity_page import (
    LEGEND,
    PANEL,
    PLOT,
    STYLE,
    TOP,
    Line,
    Panel,
    bytes_label,
    drawn,
    fitted,
    seconds_label,
)

from regard.report.style import COLOURS, DRAWING

HERE = Path(__file__).resolve().parent
LOOKS = {
    "Transformer": (3, False),
    "RNN, Luong": (2, False),
    "preparing pairs": (0, False),
    "planning an epoch": (1, False),
}
complexity_page.LOOKS.update(LOOKS)

TITLES = {
    "corpus": "Pairs of a corpus",
    "length": "Items of a sequence",
    "vocabulary": "Entries of the vocabulary",
    "beam": "Width of the beam",
    "width": "Width of the model",
}

PAIRS, TOKENS_OF_A_BATCH, STEPS = 4_500_000, 25_000, 100_000
"""WMT 2014 English-German, and how Transformer base was trained on it (Vaswani et al. 2017, 5.1 and 5.2)."""

HOURS, GPUS, SUSTAINED = 12, 8, 9.5e12
"""What it took there (5.2), and what the authors reckon a P100 with (footnote 5), in operations a second."""

PEAKS = {"P100, single precision": (8, 9.5e12), "V100, tensor cores": (8, 125e12), "A100, bf16": (8, 312e12)}
"""Machines of eight, with operations a second of each: by Vaswani et al., then by NVIDIA's data sheets."""

SHARES = (0.2, 0.4)
"""Of the peak that training may reach."""


def panel_of(measures: Sequence[Mapping[str, Any]], what: str, quantity: str) -> Panel:
    lines = [
        Line(
            name=entry["name"],
            points=list(zip(entry["sizes"], entry[quantity], strict=True)),
            fit=fitted(entry["sizes"], entry[quantity]),
        )
        for entry in measures
        if entry["what"] == what
    ]
    told = "time" if quantity == "seconds" else "memory"
    return Panel(title=f"{TITLES[what]}: {told}", lines=lines, label=seconds_label if told == "time" else bytes_label)


def picture(measures: Sequence[Mapping[str, Any]]) -> str:
    """A row for each thing that grows: time on the left, memory on the right."""
    parts: list[str] = []
    top = 16
    for what in TITLES:
        row = [panel_of(measures, what, quantity) for quantity in ("seconds", "bytes")]
        for column, panel in enumerate(row):
            parts += [f'<g transform="translate({16 + column * (PANEL + 24)} {top})">', *drawn(panel), "</g>"]
        top += TOP + PLOT + 44 + LEGEND * max(len(panel.lines) for panel in row) + 24
    width = 2 * PANEL + 56
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing" role="img" width="{width}" height="{top}" '
        f'viewBox="0 0 {width} {top}" aria-label="Time and memory against sizes, with fitted exponents">'
    )
    paper = f'<rect class="rg-paper" width="{width}" height="{top}" rx="12"/>'
    return "\n".join([head, f"<style>{COLOURS}{DRAWING}{STYLE}</style>", paper, *parts, "</svg>\n"])


def tables(record: Mapping[str, Any]) -> str:
    """What was measured."""
    lines = [
        f"Measured by `python benchmarks/growth.py` in {record['minutes']} minutes on {record['machine']}: CPU time of "
        f"one thread. Training: loss and gradients of {record['tokens']:,} target tokens, two layers of width 128 and "
        "a vocabulary of 1,024 where nothing else is said. Search: 8 sentences of 16 tokens.",
        "",
        "|  |  | from | to | time there | exponent of time | memory there | exponent of memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry in record["measures"]:
        sizes, seconds, peaks = entry["sizes"], entry["seconds"], entry["bytes"]
        cells = [TITLES[entry["what"]], entry["name"], f"{sizes[0]:,}", f"{sizes[-1]:,}", seconds_label(seconds[-1])]
        cells += [str(fitted(sizes, seconds)), bytes_label(peaks[-1]), str(fitted(sizes, peaks))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def operations(width: int, layers: int, vocabulary: int) -> float:
    """Operations for a source token and a target token: six for each weight that they are multiplied with.

    Two in the forward pass and four in the backward pass. An encoder layer has 4 D² + 2 D · 4 D weights, a decoder
    layer 8 D² + 2 D · 4 D, the output D · V; embeddings are looked up, and products of attention are left out.
    """
    encoder, decoder = 12 * width**2, 16 * width**2
    return 6.0 * (layers * (encoder + decoder) + width * vocabulary)


def days(seconds: float) -> str:
    if seconds < 7200:
        return f"{seconds / 60:,.0f} minutes"
    return f"{seconds / 3600:,.0f} hours" if seconds < 3 * 86400 else f"{seconds / 86400:,.0f} days"


def on_paper(record: Mapping[str, Any]) -> str:
    """Transformer base at the size of WMT 2014: computed from one measured pass, and from published figures."""
    base = record["base"]
    each = operations(base["width"], base["layers"], base["vocabulary"])
    tokens = STEPS * TOKENS_OF_A_BATCH
    pace = base["tokens"] / base["seconds"]
    parameters = base["parameters"]
    reached = each * tokens / (HOURS * 3600 * GPUS * SUSTAINED)
    rows = [
        ("measured", f"one pass of {base['tokens']:,} target tokens on one thread", seconds_label(base["seconds"])),
        ("measured", "of that: target tokens a second", f"{pace:,.0f}"),
        ("measured", "peak of that pass, gradients included, weights aside", bytes_label(base["bytes"])),
        ("measured", "weights", f"{parameters / 1e6:,.1f} M"),
        ("computed", "operations for a target token and a source token", f"{each / 1e6:,.0f} M"),
        ("computed", "operations a second that the pass reaches", f"{each * pace / 1e9:,.0f} G"),
        ("published", "training of Vaswani et al.: steps × target tokens", f"{STEPS:,} × {TOKENS_OF_A_BATCH:,}"),
        ("computed", "operations of it", f"{each * tokens:.2g}"),
        ("computed", "the same on one thread of this machine", days(tokens / pace)),
        ("published", f"the same on {GPUS} P100", f"{HOURS} hours"),
        ("computed", "share of the P100s' peak that this was", f"{reached:.0%}"),
        ("computed", "weights, gradients and Adam's moments, 16 bytes a weight", bytes_label(16 * parameters)),
    ]
    lines = ["|  |  |  |", "|---|---|---|", *(f"| {kind} | {what} | {value} |" for kind, what, value in rows), ""]
    low, high = SHARES
    lines += [f"| eight of | peak of each | at {low:.0%} of it | at {high:.0%} of it |", "|---|---|---|---|"]
    for name, (count, peak) in PEAKS.items():
        times = [days(each * tokens / (count * peak * share)) for share in SHARES]
        lines.append(f"| {name} | {peak / 1e12:g} T | {times[0]} | {times[1]} |")
    return "\n".join(lines)


def between(text: str, name: str, content: str) -> str:
    """A text with what stands between two marks exchanged."""
    before, _, rest = text.partition(f"<!-- {name} -->")
    _, _, after = rest.partition(f"<!-- /{name} -->")
    return f"{before}<!-- {name} -->\n{content}\n<!-- /{name} -->{after}"


def write_page(record: Mapping[str, Any], folder: Path) -> None:
    """The picture, and both tables of the page."""
    (folder / "growth.svg").write_text(picture(record["measures"]), encoding="utf-8")
    page = folder / "growth.md"
    text = between(page.read_text(encoding="utf-8"), "figures", tables(record))
    page.write_text(between(text, "paper", on_paper(record)), encoding="utf-8")


if __name__ == "__main__":
    write_page(json.loads((HERE / "growth.json").read_text(encoding="utf-8")), HERE.parent / "docs")

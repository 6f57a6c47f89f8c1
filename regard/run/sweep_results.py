"""What a sweep came to, for people and for programs: `sweep.json`, `sweep.md`, `sweep.html`, a table in a terminal."""

import json
import math
from collections.abc import Sequence

from regard.files import replace_file
from regard.metrics.spread import Spread
from regard.report.markup import markdown, visible
from regard.report.spreads import SpreadRow, SpreadTable, render_spreads
from regard.report.width import display_width, pad
from regard.run.sweep import Sweep


def write_sweep(result: Sweep) -> None:
    """Write the three files into the sweep's folder."""
    record = json.dumps(sweep_record(result), indent=2, ensure_ascii=False) + "\n"
    replace_file(result.folder / "sweep.json", record.encode())
    table = sweep_table(result)
    replace_file(result.folder / "sweep.md", sweep_page(table).encode())
    replace_file(result.folder / "sweep.html", render_spreads(table).encode())


def sweep_record(result: Sweep) -> dict[str, object]:
    """Every value of every run, with means and intervals."""
    return {
        "format": 1,
        "criterion": result.criterion,
        "lower_is_better": result.lower_is_better,
        "level": 0.95,
        "seeds": list(result.seeds),
        "rows": [
            {
                "settings": list(row.combination.settings),
                "folder": row.folder.name,
                "chosen": row is result.chosen,
                "validation": None if row.validation is None else row.validation.to_json(),
                "scores": {
                    group: {name: value.to_json() for name, value in scores.items()}
                    for group, scores in row.scores.items()
                },
                "failures": {str(seed): failed.message for seed, failed in row.failures.items()},
                "minutes": round(row.minutes, 2),
            }
            for row in result.rows
        ],
        "notes": list(result.notes),
    }


def sweep_table(result: Sweep) -> SpreadTable:
    """Rows and columns: what validation says, then the scores of the test set and of further ones."""
    columns = {(group, name): None for row in result.rows for group, scores in row.scores.items() for name in scores}
    rows = [
        SpreadRow(
            name=visible(row.combination.name),
            cells=[row.validation, *(row.scores.get(group, {}).get(name) for group, name in columns)],
            chosen=row is result.chosen,
        )
        for row in result.rows
    ]
    return SpreadTable(
        title=f"Sweep: {result.folder.name}",
        place=str(result.folder),
        columns=[f"validation {result.criterion}", *(f"{group} {name}" for group, name in columns)],
        rows=rows,
        notes=[*result.notes, *(f"failed: {each}" for each in result.failures)],
    )


def sweep_page(table: SpreadTable) -> str:
    """The table as Markdown."""
    heads = ["Settings", "n", *table.columns]
    lines = [
        f"# {markdown(table.title)}",
        "",
        "Means with 95 % intervals (Student's t) over n seeds. The choice is made by the validation column alone.",
        "",
        f"| {' | '.join(map(markdown, heads))} |",
        f"|---|{'---:|' * (len(heads) - 1)}",
    ]
    for row in table.rows:
        name = f"**{markdown(row.name)}** (chosen)" if row.chosen else markdown(row.name)
        lines.append(f"| {' | '.join([name, str(_count(row)), *map(_cell, row.cells)])} |")
    lines += ["", *(f"- {markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def sweep_lines(table: SpreadTable, width: int) -> list[str]:
    """The table for a terminal: in columns where they fit, else a block for each row."""
    marked = [f"{'→' if row.chosen else ' '} {row.name}" for row in table.rows]
    cells = [[str(_count(row)), *map(_cell, row.cells)] for row in table.rows]
    heads = ["n", *table.columns]
    widths = [max(map(display_width, column)) for column in zip(heads, *cells, strict=True)]
    first = max(map(display_width, marked))
    if first + sum(each + 2 for each in widths) <= width:
        lines = [pad("", first) + "".join("  " + pad(head, each, right=True) for head, each in _zip(heads, widths))]
        lines += [
            pad(name, first) + "".join("  " + pad(cell, each, right=True) for cell, each in _zip(row, widths))
            for name, row in zip(marked, cells, strict=True)
        ]
    else:
        lines = []
        longest = max(map(len, heads))
        for name, row in zip(marked, cells, strict=True):
            lines += [name, *(f"    {head:<{longest}}  {cell}" for head, cell in zip(heads, row, strict=True))]
    if any(row.chosen for row in table.rows):
        lines.append(f"→ chosen by {table.columns[0]}; ± is the 95 % interval of the mean over n seeds (Student's t)")
    elif any(_count(row) > 1 for row in table.rows):
        lines.append("± is the 95 % interval of the mean over n seeds (Student's t)")
    return lines


def _zip(cells: Sequence[str], widths: Sequence[int]) -> list[tuple[str, int]]:
    return list(zip(cells, widths, strict=True))


def _count(row: SpreadRow) -> int:
    return next((cell.count for cell in row.cells if cell is not None), 0)


def _cell(spread: Spread | None) -> str:
    if spread is None:
        return "–"
    return str(spread) if math.isfinite(spread.mean) else "not finite"

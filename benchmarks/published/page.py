"""docs/results.md, written from the entries alone."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from published.entries import Bucket, Entries, Entry
from published.lengths import COMPARED, DRAWING, ENOUGH, LONG, WITH, WITHOUT
from published.picture import Line, draw
from published.tasks import TASKS, Published

PICTURE: Final = "bleu_by_length.svg"
CORES: Final = 2
NAMES: Final = {row.recipe: row.paper for published in TASKS.values() for row in published}

HEAD: Final = """\
# Results

Every recipe in [recipes](../recipes), trained and judged on the pocket world (`regard data make pocket pocket`: 20,000
sentences to learn from, 1,000 to be tested on). Written by `make recipes`; no figure is typed by hand. Values are those
of the test set, with bootstrap intervals of 95 %; *combinations* are sentences with word combinations that never occur
in training. Signatures of all metrics stand in [benchmarks/recipes.json](../benchmarks/recipes.json). The exact
perplexity that language models are held against is that of the grammar, which makes texts from left to right; for words
that are hidden in the middle of a text (BERT) it gives none, and theirs is reported.
"""


def page(entries: Entries, recipes: Collection[str]) -> str:
    """The page about all recipes that exist or were measured."""
    parts = [HEAD, summary(entries, recipes)]
    for task, published in TASKS.items():
        shown = [row for row in published if row.recipe in recipes or row.recipe in entries]
        if shown:
            parts.append(f"## {task}\n\n{table(shown, entries)}")
    if compared(entries):
        parts.append(bottleneck(entries))
    return "\n".join(parts)


def summary(entries: Entries, recipes: Collection[str]) -> str:
    """How many are measured and keep their bound, and what all took."""
    rows = [row for published in TASKS.values() for row in published if row.recipe in entries]
    verdicts = [row.judge(entries[row.recipe]) for row in rows]
    asked = [verdict for verdict in verdicts if verdict.met is not None]
    missing = len([name for name in recipes if name not in entries])
    lines = [f"Measured: {len(rows)} of {len(rows) + missing} recipes."]
    if rows:
        minutes = together(entries[row.recipe] for row in rows)
        met = sum(bool(verdict.met) for verdict in asked)
        lines.append(f"Bounds that are met: {met} of {len(asked)}.")
        lines.append(f"All together take {minutes:.0f} minutes on two cores ({machines(entries)}).")
    return " ".join(lines) + "\n"


def together(entries: Iterable[Entry]) -> float:
    """Minutes on two cores: each training keeps one of them busy, two run at a time."""
    return sum(entry.minutes * entry.threads for entry in entries) / CORES


def machines(entries: Entries) -> str:
    """What the runs were computed with; several where they were not all run on one machine."""
    told = {
        f"{entry.threads} thread{'s' * (entry.threads != 1)}, torch {entry.versions['torch']}, "
        f"Python {entry.versions['python']}, regard {entry.versions['regard']}"
        for entry in entries.values()
    }
    return "; ".join(sorted(told))


def table(rows: Sequence[Published], entries: Entries) -> str:
    further = any("combinations" in entries[row.recipe].sets for row in rows if row.recipe in entries)
    heads = ["recipe", "paper", "what it is", "parameters", "minutes", "reaches"]
    heads += ["combinations"] * further + ["asked for", "met"]
    lines = [_row(heads), _row("---:" if head in ("parameters", "minutes") else "---" for head in heads)]
    for row in rows:
        link = f"[{row.recipe}](../recipes/{row.recipe}.yaml)"
        entry = entries.get(row.recipe)
        if entry is None:
            cells = [link, row.paper, row.what, "", "", "not measured yet", *[""] * further, "", ""]
        else:
            cells = [link, row.paper, row.what, *_measured(row, entry, further)]
        lines.append(_row(cells))
    return "\n".join(lines) + "\n"


def _measured(row: Published, entry: Entry, further: bool) -> list[str]:
    verdict = row.judge(entry)
    score = entry.score(verdict.shown.split(" ", 1)[0], "combinations")
    return [
        f"{entry.parameters:,}",
        f"{entry.minutes:.1f}",
        verdict.shown,
        *["" if score is None else str(score)] * further,
        verdict.bound,
        {True: "yes", False: "**no**", None: ""}[verdict.met],
    ]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def compared(entries: Entries) -> list[str]:
    """The models of the picture that were measured in the same buckets as the first of them."""
    found = [name for name in COMPARED if name in entries and entries[name].by_length]
    return [name for name in found if _sizes(entries[name].by_length) == _sizes(entries[found[0]].by_length)]


def _sizes(buckets: Sequence[Bucket]) -> list[tuple[int, int]]:
    return [(bucket.first, bucket.sentences) for bucket in buckets]


def picture(entries: Entries) -> str:
    """The lines of the models without attention in one colour, the others in one each."""
    names = compared(entries)
    colours = dict.fromkeys(WITHOUT, 1) | dict(zip(WITH, (0, 2, 3), strict=True))
    return draw(
        [
            Line(
                name=NAMES[name],
                buckets=entries[name].by_length,
                colour=colours[name],
                dashed=name == WITHOUT[-1],
            )
            for name in names
        ]
    )


def bottleneck(entries: Entries) -> str:
    """The picture, and its figures."""
    names = compared(entries)
    buckets = entries[names[0]].by_length
    lines = [
        "## The bottleneck: BLEU by length of the source\n",
        "Without attention, all that the decoder knows of the source went through states of a fixed size, however long",
        "the source is; with attention it can look at the states of every word.\n",
        f"![BLEU by length of the source, with attention and without]({PICTURE})\n",
        f"Sentences of the test sets by their words; buckets from {LONG} words on are filled up to {ENOUGH} with",
        f"sentences of another drawing (`regard {' '.join(DRAWING)}`) that are in none of the sets.\n",
        _row(["source words", "sentences", *(NAMES[name] for name in names)]),
        _row(["---", "---:", *["---"] * len(names)]),
    ]
    for index, bucket in enumerate(buckets):
        cells = []
        for name in names:
            own = entries[name].by_length[index]
            interval = "" if own.low is None or own.high is None else f" [{own.low:.1f}, {own.high:.1f}]"
            cells.append(f"{own.value:.1f}{interval}")
        lines.append(_row([bucket.label, f"{bucket.sentences:,}", *cells]))
    return "\n".join([*lines, gap(entries, names)]) + "\n"


def gap(entries: Entries, names: Sequence[str]) -> str:
    """By how much attention is better on the longest sentences: the worst with it against the best without."""
    with_, without = [name for name in names if name in WITH], [name for name in names if name in WITHOUT]
    if not with_ or not without:
        return ""
    longest = {name: entries[name].by_length[-1] for name in names}
    worst, best = min(with_, key=lambda n: longest[n].value), max(without, key=lambda n: longest[n].value)
    difference = longest[worst].value - longest[best].value
    return (
        f"\nOn sources of {longest[worst].label} words the worst model with attention ({NAMES[worst]}) is "
        f"{abs(difference):.1f} BLEU {'above' if difference >= 0 else 'below'} the best without ({NAMES[best]})."
    )

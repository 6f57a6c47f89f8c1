"""What a back-translation came to, for people and for programs: `backtranslation.md` and `backtranslation.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from regard.files import replace_file
from regard.metrics.comparison import Difference
from regard.run.backtranslation import TAG, Backtranslated, Round
from regard.run.series import Finished


def write_backtranslation(result: Backtranslated) -> None:
    """Write both files into the folder."""
    record = json.dumps(backtranslation_record(result), indent=2, ensure_ascii=False) + "\n"
    replace_file(result.folder / "backtranslation.json", record.encode())
    replace_file(result.folder / "backtranslation.md", backtranslation_page(result).encode())


def backtranslation_record(result: Backtranslated) -> dict[str, object]:
    """Everything that was counted and measured."""
    plan = result.plan
    return {
        "format": 1,
        "draw": plan.draw,
        "tagged": plan.tagged,
        "tag_tokens": result.tag_tokens,
        "share": plan.share,
        "baseline": _run(result.baseline),
        "reverse": _run(result.reverse),
        "rounds": [
            {
                "translated": asdict(one.made),
                "mixture": {**asdict(one.mixed), "share": one.mixed.share},
                "final": _run(one.final),
                "gains": {gain.name: gain.to_json() for gain in one.gains},
            }
            for one in result.rounds
        ],
    }


def gain_lines(result: Backtranslated) -> list[str]:
    """A table for a terminal: scores of the baseline and of each round, and the gain with its interval."""
    lines = []
    for number, one in enumerate(result.rounds, start=1):
        title = f"gain of back-translation, round {number}" if len(result.rounds) > 1 else "gain of back-translation"
        lines.append(f"{title} ({one.gains[0].count:,} pairs)")
        width = max(len(gain.name) for gain in one.gains)
        lines.append(f"  {'':<{width}}  baseline    final     gain")
        for gain in one.gains:
            interval = f"[{gain.low:+.2f}, {gain.high:+.2f}]"
            lines.append(
                f"  {gain.name:<{width}}  {gain.first:8.2f} {gain.other:8.2f} {gain.value:+8.2f}  {interval}  "
                f"p {gain.p_value:.3f}"
            )
    return lines


def told_lines(one: Round) -> list[str]:
    """What was translated and mixed, in sentences."""
    made, mixed = one.made, one.mixed
    lines = [f"{made.kept:,} of {made.lines:,} lines became synthetic pairs"]
    lines += [f"left out: {count:,} {reason}" for reason, count in sorted(made.dropped.items())]
    lines.append(
        f"each of {mixed.real_pairs:,} real pairs is {mixed.copies:.2f} times in the mixture, which makes "
        f"{100 * mixed.share:.1f} % of its target tokens real"
    )
    return lines


def backtranslation_page(result: Backtranslated) -> str:
    """The same as Markdown."""
    plan = result.plan
    how = "drawn from the reverse model" if plan.draw == "sample" else "the best that a beam finds"
    tag = f"begin with the tag {TAG}" if plan.tagged else "have no tag"
    reverse = ", ".join(f"{name} {value:.2f}" for name, value in result.reverse.scores["test"].items())
    lines = [
        "# Back-translation",
        "",
        f"Translations are {how}; synthetic sources {tag}. The reverse model has {reverse} on the test set.",
    ]
    for number, one in enumerate(result.rounds, start=1):
        lines += ["", f"## Round {number}", "", *(f"- {line}" for line in told_lines(one)), "", *gain_table(one.gains)]
        minutes = [f"{run.seconds / 60:.1f}" for run in (result.baseline, result.reverse, one.final)]
        lines += [
            "",
            f"Training took {minutes[0]} (baseline), {minutes[1]} (reverse) and {minutes[2]} minutes (final).",
        ]
    lines += ["", f"Signature: {result.rounds[-1].gains[0].signature}"]
    return "\n".join(lines) + "\n"


def gain_table(gains: Sequence[Difference]) -> list[str]:
    """The rows of a Markdown table."""
    rows = [
        f"| {gain.name} | {gain.first:.2f} | {gain.other:.2f} | {gain.value:+.2f} | "
        f"{gain.low:+.2f} to {gain.high:+.2f} | {gain.p_value:.3f} |"
        for gain in gains
    ]
    return ["| | Baseline | Final | Gain | 95 % interval of the gain | p |", "|---|---:|---:|---:|---|---:|", *rows]


def _run(run: Finished) -> dict[str, object]:
    return {"scores": run.scores, "steps": run.steps, "minutes": round(run.seconds / 60, 2)}

"""The model card: README.md of a run folder, in Markdown with a YAML head that model hubs read."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from regard.report.contents import Caution, Facts, SetScore
from regard.report.markup import fenced, markdown
from regard.report.sections import figure, interval_text

HUB_NAMES = {"exact": "exact_match", "perplexity (teacher-forced)": "perplexity"}
"""Names under which hubs know our metrics, where they differ by more than capitals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardData:
    """What a model card says; `pipeline_tag` is the hub's name of the task, `run` the folder as commands spell it."""

    name: str
    task: str
    run: str
    summary: str = ""
    pipeline_tag: str = "translation"
    data: Facts = ()
    model: Facts = ()
    text: Facts = ()
    scores: Sequence[SetScore] = ()
    minutes: float | None = None
    hardware: str = ""
    example: str = ""
    limits: Sequence[str] = ()
    skipped: Sequence[str] = ()
    recipe: str = ""
    cautions: Sequence[Caution] = ()


def render_card(card: CardData) -> str:
    """The card as text; all that users wrote is escaped."""
    parts = [
        f"---\n{_head(card)}---",
        f"# {markdown(card.name)}",
        markdown(card.summary),
        f"A model for {markdown(card.task)}, trained with regard.",
        "## How good it is",
        _scores(card.scores),
        "## How to use it",
        _usage(card),
        "## What it learned from",
        _facts(card.data),
        _skipped(card),
        "## What it is",
        _facts(card.model),
        "## How text becomes tokens",
        _facts(card.text),
        "## What it cost",
        _cost(card),
        *_cautions(card.cautions),
        "## Limits",
        _items(card.limits) or "Not examined beyond the scores above.",
    ]
    if card.recipe.strip():
        parts += ["## Recipe", fenced(card.recipe, "yaml")]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(card: CardData) -> str:
    known = [entry for entry in card.scores if math.isfinite(entry.score.value)]
    head: dict[str, object] = {"library_name": "regard", "pipeline_tag": card.pipeline_tag, "tags": ["regard"]}
    if known:
        head["metrics"] = list(dict.fromkeys(_hub_name(entry.score.name) for entry in known))
        head["model-index"] = [{"name": card.name, "results": _results(card, known)}]
    text: str = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000)
    return text


def _results(card: CardData, scores: Sequence[SetScore]) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for set_name in dict.fromkeys(entry.set_name for entry in scores):
        metrics = []
        for entry in scores:
            if entry.set_name == set_name:
                score = entry.score
                arguments: dict[str, object] = {"signature": score.signature}
                if score.low is not None and score.high is not None:
                    arguments |= {"low": round(score.low, 4), "high": round(score.high, 4)}
                metrics.append(
                    {
                        "type": _hub_name(score.name),
                        "name": score.name,
                        "value": round(score.value, 4),
                        "args": arguments,
                        "verified": False,
                    }
                )
        results.append(
            {
                "task": {"type": card.pipeline_tag, "name": card.task},
                "dataset": {"type": _slug(set_name), "name": set_name},
                "metrics": metrics,
            }
        )
    return results


def _scores(scores: Sequence[SetScore]) -> str:
    if not scores:
        return "The model has not been evaluated yet."
    rows = ["| Set | Metric | Value | 95 % interval | Better | Signature |", "|---|---|---:|---|---|---|"]
    for entry in scores:
        score = entry.score
        rows.append(
            f"| {markdown(entry.set_name)} | {markdown(score.name)} | {figure(score.value)} "
            f"| {interval_text(score) or '–'} | {'higher' if score.higher_is_better else 'lower'} "
            f"| {markdown(score.signature)} |"
        )
    return "\n".join(rows)


def _usage(card: CardData) -> str:
    example = " ".join(card.example.split()) or "a line of source text"
    command = f"printf '%s\\n' {_quoted(example)} | regard predict {_quoted(card.run)}"
    python = f"import regard\n\nmodel = regard.load({card.run!r})\nprint(model.predict({example!r}).text)"
    return f"{fenced(command, 'sh')}\n\n{fenced(python, 'python')}"


def _cost(card: CardData) -> str:
    if card.minutes is None:
        return "Not measured."
    time = f"{card.minutes:.1f} minutes" if card.minutes >= 1 else f"{card.minutes * 60:.0f} seconds"
    return f"{time} of training on {markdown(card.hardware) or 'unknown hardware'}."


def _cautions(entries: Sequence[Caution]) -> list[str]:
    if not entries:
        return []
    return ["## What training warned of", _items([f"Step {entry.step:,}: {entry.text}." for entry in entries])]


def _skipped(card: CardData) -> str:
    if card.skipped:
        return f"Left out, cut or found suspicious:\n\n{_items(card.skipped)}"
    return "Nothing was skipped or cut." if card.data else ""


def _facts(facts: Facts) -> str:
    return "\n".join(f"- {markdown(name)}: {markdown(value)}" for name, value in facts) or "Not recorded."


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {markdown(line)}" for line in lines)


def _hub_name(name: str) -> str:
    return HUB_NAMES.get(name) or _slug(name)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "set"


def _quoted(text: str) -> str:
    """Text for a POSIX shell; quoted only where it must be."""
    if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII) and not text.startswith("-"):
        return text
    return "'" + text.replace("'", "'\\''") + "'"

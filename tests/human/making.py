"""Small campaigns."""

import itertools

from regard.human import Campaign, Judgement, Plan, make_campaign
from regard.human.kinds import Answer, Kind

COUNT = itertools.count()


def campaign(kind: Kind = "direct", *, systems: int = 3, lines: int = 12, **plan: object) -> Campaign:
    """Every system has an output of its own for every line."""
    sources = [f"source {line}" for line in range(lines)]
    outputs = {f"system-{name}": [f"{name} says {line}" for line in range(lines)] for name in "ABCDEFGH"[:systems]}
    settings = {"items": lines, "annotators": 2, "repeats": 0.25, **plan}
    return make_campaign(Plan(kind=kind, **settings), sources=sources, outputs=outputs)  # type: ignore[arg-type]


def judgement(task: str, answer: Answer, *, seconds: float = 5.0, id: str = "") -> Judgement:
    return Judgement(
        id=id or f"id-{next(COUNT)}", task=task, answer=answer, seconds=seconds, at="2026-01-02T03:04:05.678+00:00"
    )

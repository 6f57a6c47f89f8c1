"""`regard score`: how probable given targets are."""

import json
import math
from itertools import tee
from typing import TYPE_CHECKING

import typer

from regard.cli.joint import AVERAGE, COMBINE, WEIGHT, WITH, open_runs

if TYPE_CHECKING:
    from regard.run.model import Model
    from regard.run.scoring import PairScore


def score(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    files: list[str] = typer.Argument(
        ...,
        metavar="FILE",
        help="Pairs, or texts of a model without a source, read as its data was; or two files.",
    ),
    others: list[str] = WITH,
    combine: str | None = COMBINE,
    weight: list[float] = WEIGHT,
    average: int | None = AVERAGE,
    jsonl: bool = typer.Option(False, "--jsonl", help="Write a JSON object a line, with every token."),
) -> None:
    """Write log p(target | source) of each pair, a line each, in nats; the perplexity goes to standard error.

    A language model tells log p(text) of each text; a model that answers with numbers has the log-density of a normal
    distribution of variance 1 around its answer, and the squared error goes to standard error. A pair that does not fit
    the model gives a blank line and is counted.
    """
    from regard.cli.console import standard_output
    from regard.data import Ledger
    from regard.run.sets import set_layout, stream_set

    model = open_runs(run, others, combine=combine, weights=weight, average=average)
    if assumed := set_layout(model.recipe, files).assumed:
        typer.echo(f"regard: {' + '.join(files)} is {assumed}", err=True)
    ledger = Ledger()
    examples, beside = tee(stream_set(model.recipe, files, ledger))
    scores = model.score_many((example.source, example.target) for example in examples)
    total, tokens, pairs, faults, first = 0.0, 0, 0, 0, ""
    with standard_output() as output:
        for scored, example in zip(scores, beside, strict=True):
            total -= scored.log_probability
            tokens += len(scored.log_probabilities)
            pairs += 1
            if scored.fault:
                faults += 1
                first = first or f"{example.place}: {scored.fault}"
            output.write(_line(scored, jsonl=jsonl) + "\n")
    for warning in ledger.summary().splitlines():
        typer.echo(f"regard: {warning}", err=True)
    if faults:
        typer.echo(
            f"regard: {faults:,} pair{'s do' if faults > 1 else ' does'} not fit the model and "
            f"{'have' if faults > 1 else 'has'} a blank line for a score; the first: {first}",
            err=True,
        )
    typer.echo(_summary(model, pairs - faults, total, tokens), err=True)


def _line(scored: "PairScore", *, jsonl: bool) -> str:
    if not jsonl:
        return "" if scored.fault else f"{scored.log_probability:.6f}"
    record: dict[str, object] = {
        "source": scored.source,
        "target": scored.target,
        "log_probability": None if scored.fault else scored.log_probability,
        "tokens": [
            {"piece": piece, "log_probability": value}
            for piece, value in zip(scored.pieces, scored.log_probabilities, strict=True)
        ],
    }
    if scored.fault:
        record["fault"] = scored.fault
    return json.dumps(record, ensure_ascii=False)


def _summary(model: "Model", examples: int, total: float, tokens: int) -> str:
    """What was scored, in the words of the model's shape; `total` is in nats."""
    shape, mean = model.recipe.model.shape, total / max(tokens, 1)
    what = f"{examples:,} {'text' if shape == 'language-model' else 'pair'}{'' if examples == 1 else 's'}"
    if not tokens:
        return f"{what}, nothing was scored"
    if model.numbers:
        error = max(0.0, 2 * mean - math.log(2 * math.pi))
        return f"{what}, mean squared error {error:.4f}, its root {math.sqrt(error):.4f}"
    perplexity = f"{math.exp(min(mean, 700)):.4f}"
    if shape in ("acceptor", "transducer"):
        answers = f"{'label' if shape == 'acceptor' else 'tag'}{'' if tokens == 1 else 's'}"
        return f"{what}, {tokens:,} {answers}, perplexity {perplexity}"
    return f"{what}, {tokens:,} tokens (ends included), perplexity (teacher-forced) {perplexity}"

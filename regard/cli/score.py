"""`regard score`: how probable given targets are."""

import json
import math
import sys

import typer


def score(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    files: list[str] = typer.Argument(
        ..., metavar="FILE", help="Pairs (TSV, JSONL, SIGMORPHON), or two parallel files."
    ),
    jsonl: bool = typer.Option(False, "--jsonl", help="Write a JSON object a line, with every token."),
) -> None:
    """Write log p(target | source) of each pair, a line each, in nats; the perplexity goes to standard error."""
    from regard.data import Ledger
    from regard.run.model import Model
    from regard.run.sets import read_set

    model = Model.load(run)
    ledger = Ledger()
    examples = read_set(model.recipe, files, ledger)
    total, tokens = 0.0, 0
    for scored in model.score_many((example.source, example.target) for example in examples):
        total -= scored.log_probability
        tokens += len(scored.log_probabilities)
        if jsonl:
            record = {
                "source": scored.source,
                "target": scored.target,
                "log_probability": scored.log_probability,
                "tokens": [
                    {"piece": piece, "log_probability": value}
                    for piece, value in zip(scored.pieces, scored.log_probabilities, strict=True)
                ],
            }
            sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(f"{scored.log_probability:.6f}\n")
    sys.stdout.flush()
    for warning in ledger.summary().splitlines():
        typer.echo(f"regard: {warning}", err=True)
    typer.echo(
        f"{len(examples):,} pairs, {tokens:,} tokens (ends included), perplexity (teacher-forced) "
        f"{math.exp(min(total / max(tokens, 1), 700)):.4f}",
        err=True,
    )

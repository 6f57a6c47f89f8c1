"""`regard score`: how probable given targets are."""

import json
import math
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from regard.run.model import Model


def score(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    files: list[str] = typer.Argument(
        ...,
        metavar="FILE",
        help="Pairs, or texts of a model without a source, read as its data was; or two files.",
    ),
    jsonl: bool = typer.Option(False, "--jsonl", help="Write a JSON object a line, with every token."),
) -> None:
    """Write log p(target | source) of each pair, a line each, in nats; the perplexity goes to standard error.

    A language model tells log p(text) of each text.
    """
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
    typer.echo(_summary(model, len(examples), total, tokens), err=True)


def _summary(model: "Model", examples: int, total: float, tokens: int) -> str:
    """What was scored, in the words of the model's shape; `total` is in nats."""
    shape, mean = model.recipe.model.shape, total / max(tokens, 1)
    what = f"{examples:,} {'texts' if shape == 'language-model' else 'pairs'}"
    if model.numbers:
        return f"{what}, mean log-density {-mean:.4f} (normal around the answer, variance 1)"
    perplexity = f"{math.exp(min(mean, 700)):.4f}"
    if shape in ("acceptor", "transducer"):
        return f"{what}, {tokens:,} {'labels' if shape == 'acceptor' else 'tags'}, perplexity {perplexity}"
    return f"{what}, {tokens:,} tokens (ends included), perplexity (teacher-forced) {perplexity}"

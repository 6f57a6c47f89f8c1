"""`regard predict`: a line in, a line out."""

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data import Ledger
    from regard.run.prediction import Prediction


def predict(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    file: str = typer.Argument("-", metavar="FILE", help="A text file, plain or .gz; - is standard input."),
    beam: int | None = typer.Option(None, "--beam", min=1, max=1024, help="Hypotheses kept; 1 is greedy."),
    nbest: int = typer.Option(
        1, "--nbest", min=1, max=1024, help="Write so many outputs: line, score, text. The beam is at least as wide."
    ),
    align: bool = typer.Option(False, "--align", help="Add a column with word links, source-target, from 0."),
    jsonl: bool = typer.Option(False, "--jsonl", help="Write a JSON object a line, with scores."),
    at_once: bool = typer.Option(False, "--at-once", help="Answer each line before the next is read; for pipes."),
) -> None:
    """Predict an output for each line of a file.

    One line in is one line out, in order; a blank line stays blank. A line that cannot be read gives a blank line and
    is counted.
    """
    if align and nbest > 1 and not jsonl:
        raise UsageError("--align tells the links of the best output only: leave out --nbest, or write --jsonl as well")

    from regard.data import Ledger, read_lines
    from regard.data.lines import STDIN
    from regard.run.model import Model

    model = Model.load(run)
    ledger = Ledger()
    lines = read_lines(file, bad_lines="blank", ledger=ledger)
    cut_sources = cut_outputs = 0
    typed = at_once or (file == STDIN and sys.stdin.isatty())
    predictions = model.predict_many(lines, beam=beam, best=nbest, capture=align, ahead=1 if typed else None)
    for number, prediction in enumerate(predictions, start=1):
        cut_sources += bool(prediction.cut_source)
        cut_outputs += prediction.cut_output
        for line in _lines(prediction, number, nbest=nbest, align=align, jsonl=jsonl):
            sys.stdout.write(line + "\n")
        if typed:
            sys.stdout.flush()
    sys.stdout.flush()
    for warning in (*_findings(ledger), *_cuts(cut_sources, cut_outputs, model.recipe.data.max_length)):
        typer.echo(f"regard: {warning}", err=True)


def _lines(prediction: "Prediction", number: int, *, nbest: int, align: bool, jsonl: bool) -> Iterator[str]:
    links = _links(prediction) if align else None
    if jsonl:
        record: dict[str, object] = {
            "line": number,
            "source": prediction.source,
            "text": prediction.text,
            "score": prediction.score if prediction.outputs else None,
            "log_probability": prediction.log_probability if prediction.outputs else None,
            "complete": not prediction.cut_output,
        }
        if nbest > 1:
            record["nbest"] = [
                {"text": one.text, "score": one.score, "log_probability": one.log_probability, "complete": one.complete}
                for one in prediction.outputs
            ]
        if links is not None:
            record["alignment"] = links
        yield json.dumps(record, ensure_ascii=False)
    elif nbest > 1:
        for one in prediction.outputs:
            yield f"{number}\t{one.score:.6f}\t{_cell(one.text)}"
        if not prediction.outputs:
            yield f"{number}\t\t"
    else:
        yield prediction.text if links is None else f"{_cell(prediction.text)}\t{links}"


def _cell(text: str) -> str:
    """A text as one column: a tab in it would make two."""
    return text.replace("\t", " ")


def _links(prediction: "Prediction") -> str:
    from regard.insight import links
    from regard.metrics import format_pharaoh

    return "" if prediction.alignment is None else format_pharaoh(links(prediction.alignment.weights))


def _findings(ledger: "Ledger") -> Iterator[str]:
    """What was wrong with lines. One that cannot be read is skipped in training; here it is answered with a blank."""
    for line in ledger.summary().splitlines():
        yield line.replace(", skipped:", ", answered with a blank line:")


def _cuts(sources: int, outputs: int, limit: int) -> Iterator[str]:
    if sources:
        yield f"{sources:,} lines were longer than {limit} tokens (data.max_length) and only their beginning was read"
    if outputs:
        yield f"{outputs:,} outputs reached the limit of length (search.max_length, search.max_ratio) before their end"

"""`regard predict`: a line in, a line out."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import typer

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data import Ledger
    from regard.run.prediction import Prediction
    from regard.search import Sampling


def predict(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    file: str = typer.Argument("-", metavar="FILE", help="A text file, plain or .gz; - is standard input."),
    beam: int | None = typer.Option(None, "--beam", min=1, max=1024, help="Hypotheses kept; 1 is greedy."),
    nbest: int = typer.Option(
        1, "--nbest", min=1, max=1024, help="Write so many outputs: line, score, text. The beam is at least as wide."
    ),
    prefix: str = typer.Option(
        "",
        "--prefix",
        metavar="TEXT",
        help="Make every output begin so. A text that stops inside a word is split into other tokens than the word.",
    ),
    sample: bool = typer.Option(False, "--sample", help="Draw outputs, --nbest of them; score: log-probability."),
    temperature: float | None = typer.Option(None, "--temperature", help="Of samples: below 1 sharper, above flatter."),
    top_k: int | None = typer.Option(None, "--top-k", help="Draw from so many most probable tokens."),
    top_p: float | None = typer.Option(None, "--top-p", help="Draw from the most probable tokens of this mass."),
    min_p: float | None = typer.Option(None, "--min-p", help="Draw from tokens this fraction as probable as the best."),
    typical: float | None = typer.Option(None, "--typical", help="Draw from the most typical tokens of this mass."),
    seed: int | None = typer.Option(None, "--seed", help="Of samples: the same gives the same."),
    align: bool = typer.Option(False, "--align", help="Add a column with word links, source-target, from 0."),
    jsonl: bool = typer.Option(False, "--jsonl", help="Write a JSON object a line, with scores."),
    at_once: bool = typer.Option(False, "--at-once", help="Answer each line before the next is read; for pipes."),
) -> None:
    """Predict an output for each line of a file.

    One line in is one line out, in order; a blank line stays blank, except that a language model begins a text there.
    A line that cannot be read gives a blank line and is counted.
    """
    if align and nbest > 1 and not jsonl:
        raise UsageError("--align tells the links of the best output only: leave out --nbest, or write --jsonl as well")

    from regard.data import Ledger, read_lines
    from regard.data.lines import STDIN
    from regard.run.model import Model

    model = Model.load(run)
    given = {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    given |= {"typical": typical, "seed": seed}
    sampling = cast("Sampling", {name: value for name, value in given.items() if value is not None})
    options = model.options(beam=beam, best=nbest, **sampling)
    ledger = Ledger()
    lines = read_lines(file, bad_lines="blank", ledger=ledger)
    typed = at_once or (file == STDIN and sys.stdin is not None and sys.stdin.isatty())
    ahead = 1 if typed else None
    predictions = model.predict_many(lines, options=options, prefix=prefix, capture=align, ahead=ahead)
    format_ = _Format(nbest=nbest, align=align, jsonl=jsonl, probable=not model.numbers)
    tally = _write(predictions, format_, typed=typed)
    for warning in (*_findings(ledger), *_told(tally, model.recipe.data.max_length)):
        typer.echo(f"regard: {warning}", err=True)


@dataclass(frozen=True, slots=True)
class _Format:
    """How predictions are written. `probable`: outputs have probabilities, which numbers have not."""

    nbest: int
    align: bool
    jsonl: bool
    probable: bool


@dataclass(slots=True)
class _Tally:
    """Lines that were read in part or not at all, and outputs that were cut."""

    sources: int = 0
    outputs: int = 0
    faults: int = 0
    first_fault: str = ""
    unseen: int = 0
    first_unseen: str = ""
    remarks: int = 0
    first_remark: str = ""

    def add(self, number: int, prediction: "Prediction") -> None:
        self.sources += bool(prediction.cut_source)
        self.outputs += prediction.cut_output
        self.faults += bool(prediction.fault)
        self.unseen += bool(prediction.unseen)
        self.remarks += bool(prediction.remark)
        if prediction.remark and not self.first_remark:
            self.first_remark = f"line {number}: {prediction.remark}"
        if prediction.unseen and not self.first_unseen:
            self.first_unseen = f"line {number}: {prediction.unseen[0]!r}"
        if prediction.fault and not self.first_fault:
            self.first_fault = f"line {number}: {prediction.fault}"


def _write(predictions: "Iterator[Prediction]", format_: _Format, *, typed: bool) -> _Tally:
    """Write outputs as they come, and count what was cut or could not be read."""
    from regard.cli.console import standard_output

    tally = _Tally()
    with standard_output() as output:
        for number, prediction in enumerate(predictions, start=1):
            tally.add(number, prediction)
            for line in _lines(prediction, number, format_):
                output.write(line + "\n")
            if typed:
                output.flush()
    return tally


def _lines(prediction: "Prediction", number: int, format_: _Format) -> Iterator[str]:
    links = _links(prediction) if format_.align else None
    if format_.jsonl:
        yield json.dumps(_record(prediction, number, format_, links), ensure_ascii=False)
    elif format_.nbest > 1:
        for one in prediction.outputs:
            yield f"{number}\t{one.score:.6f}\t{_cell(one.text)}"
        if not prediction.outputs:
            yield f"{number}\t\t"
    else:
        yield prediction.text if links is None else f"{_cell(prediction.text)}\t{links}"


def _record(prediction: "Prediction", number: int, format_: _Format, links: str | None) -> dict[str, object]:
    record: dict[str, object] = {
        "line": number,
        "source": prediction.source,
        "text": prediction.text,
        "score": prediction.score if prediction.outputs else None,
    }
    if format_.probable:
        record["log_probability"] = prediction.log_probability if prediction.outputs else None
    record["complete"] = not prediction.cut_output
    if format_.nbest > 1:
        record["nbest"] = [
            {"text": one.text, "score": one.score, "log_probability": one.log_probability, "complete": one.complete}
            for one in prediction.outputs
        ]
    if links is not None:
        record["alignment"] = links
    if prediction.fault:
        record["fault"] = prediction.fault
    if prediction.remark:
        record["remark"] = prediction.remark
    return record


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


def _told(tally: _Tally, limit: int) -> Iterator[str]:
    if tally.unseen:
        yield (
            f"{tally.unseen:,} line{'' if tally.unseen == 1 else 's'} with an attribute that training did not have: it "
            f"was left out; the first: {tally.first_unseen}"
        )
    if tally.faults:
        one = tally.faults == 1
        yield (
            f"{tally.faults:,} line{'' if one else 's'} could not be read and {'was' if one else 'were'} answered with "
            f"a blank line; the first: {tally.first_fault}"
        )
    if tally.remarks:
        yield (
            f"{tally.remarks:,} line{'' if tally.remarks == 1 else 's'} with something to tell (--jsonl tells all of "
            f"them); the first: {tally.first_remark}"
        )
    if tally.sources:
        one = tally.sources == 1
        yield (
            f"{tally.sources:,} line{' was' if one else 's were'} longer than {limit} tokens (data.max_length) and "
            f"only {'its' if one else 'their'} beginning was read"
        )
    if tally.outputs:
        one = tally.outputs == 1
        yield (
            f"{tally.outputs:,} output{'' if one else 's'} reached the limit of length (search.max_length, "
            f"search.max_ratio) before {'its' if one else 'their'} end"
        )

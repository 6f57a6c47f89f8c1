"""`regard rerank`: what one run finds, ordered by what others say of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.data.lines import STDIN
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.run.reranking import Reranker
    from regard.search.reranking import Weights


def rerank(
    run: str = typer.Argument(..., metavar="RUN", help="The run that searches."),
    files: list[str] = typer.Argument(
        None, metavar="[FILE]...", help="Texts, a line each; - is standard input. With --tune: pairs, or two files."
    ),
    right_to_left: str | None = typer.Option(
        None, "--right-to-left", metavar="RUN", help="Add log p(y | x) of a run with text.reverse_target=true."
    ),
    reverse: str | None = typer.Option(None, "--reverse", metavar="RUN", help="Add log p(x | y) of a run back."),
    language_model: str | None = typer.Option(
        None, "--language-model", metavar="RUN", help="Add log p(y) of a language model."
    ),
    weights: str | None = typer.Option(
        None, "--weights", metavar="W|FILE", help="right_to_left=0.5,reverse=1,..., or a file of --tune; 1 each."
    ),
    beam: int | None = typer.Option(None, "--beam", min=2, max=1024, help="Outputs that are found and reranked."),
    nbest: int = typer.Option(1, "--nbest", min=1, max=1024, help="Write so many outputs: line, score, text."),
    jsonl: bool = typer.Option(False, "--jsonl", help="Write a JSON object a line, with the parts of each score."),
    tune: Path | None = typer.Option(
        None, "--tune", metavar="FILE", help="Find the weights by validation pairs, and write them to a file."
    ),
    metric: str | None = typer.Option(None, "--metric", "-m", help="Of --tune: what is made as good as can be; BLEU."),
) -> None:
    """Search with one run, and order what it finds by the weighted log-probabilities of several.

    The score is Σ weight · part. Parts are model (the run itself), those of the runs that are given, and length, in
    tokens.
    """
    if tune is None and metric is not None:
        raise UsageError("--metric is what --tune FILE tunes the weights by; leave it out")
    if tune is not None and (weights is not None or nbest > 1 or jsonl):
        raise UsageError("--tune finds weights and writes no outputs: leave out --weights, --nbest and --jsonl")
    if tune is None and len(files or []) > 1:
        raise UsageError(f"{len(files)} files: texts are read from one; two are for --tune")
    if tune is not None and not files:
        raise UsageError("--tune needs pairs: name a file of them, or two files, after the run")

    from regard.run.model import Model
    from regard.run.reranking import Reranker

    used = _read_weights(weights)
    judges = {"right_to_left": right_to_left, "reverse": reverse, "language_model": language_model}
    loaded = {name: Model.load(path) for name, path in judges.items() if path is not None}
    reranker = Reranker(Model.load(run), **loaded)
    if tune is not None:
        _tune(reranker, files, tune, metric or "BLEU", beam)
        return
    _stream(reranker, files[0] if files else STDIN, used, beam=beam, nbest=nbest, jsonl=jsonl)


def _read_weights(given: str | None) -> "Weights | None":
    from regard.search.reranking import parse_weights, read_weights

    if given is None:
        return None
    return read_weights(Path(given)) if given.endswith(".json") or Path(given).is_file() else parse_weights(given)


def _tune(reranker: "Reranker", files: list[str], path: Path, metric: str, beam: int | None) -> None:
    from regard.data import Ledger
    from regard.run.sets import read_set
    from regard.run.written import Tally
    from regard.search.reranking import write_weights

    ledger, tally = Ledger(), Tally()
    examples = read_set(reranker.model.recipe, files, ledger)
    tuned = reranker.tune(examples, metric=metric, beam=beam, tally=tally)
    write_weights(path, tuned, metric=metric)
    told = (
        line.replace("answered with a blank line", "left out").replace(" (--jsonl tells all of them)", "")
        for line in tally.told(reranker.model.longest_source)
    )
    for warning in (*ledger.summary().splitlines(), *told):
        typer.echo(f"regard: {warning}", err=True)
    of = "" if tuned.examples == len(examples) else f" of {len(examples):,}"
    typer.echo(f"{metric} of {tuned.examples:,}{of} pairs: {tuned.before:.2f} before, {tuned.value:.2f} after")
    for name, value in tuned.weights.items():
        typer.echo(f"  {name:<16}{value:g}")
    typer.echo(f"written to {path}")


def _stream(
    reranker: "Reranker", file: str, weights: "Weights | None", *, beam: int | None, nbest: int, jsonl: bool
) -> None:
    from regard.cli.console import standard_output
    from regard.data import Ledger
    from regard.run.reading import answer_lines, read_texts
    from regard.run.written import Form, Tally

    ledger, tally, form, faults = Ledger(), Tally(), Form(best=nbest, jsonl=jsonl), dict[int, str]()
    lines = read_texts(file, ledger=ledger, faults=faults)
    with standard_output() as output:
        for number, prediction in enumerate(reranker.run(lines, weights=weights, beam=beam, best=nbest), start=1):
            fault, place = faults.pop(number, None), f"line {number}"
            for line in answer_lines(prediction, number, form=form, fault=fault, tally=tally, place=place):
                output.write(line + "\n")
    for warning in (*ledger.summary(answered=True).splitlines(), *tally.told(reranker.model.longest_source)):
        typer.echo(f"regard: {warning}", err=True)

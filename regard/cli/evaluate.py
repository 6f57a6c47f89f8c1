"""`regard evaluate`: metrics with intervals."""

import json
from pathlib import Path

import typer

from regard.cli.engines import CHOICES, HELP, OTHERS, check_engine, in_8_bits, searched_by
from regard.cli.joint import AVERAGE, COMBINE, FUSION, LANGUAGE_MODEL, WEIGHT, WITH, open_runs
from regard.errors import DataError, UsageError


def evaluate(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    files: list[str] = typer.Argument(
        ...,
        metavar="FILE",
        help="Pairs, or texts of a model without a source, read as its data was; or two files.",
    ),
    beam: int | None = typer.Option(None, "--beam", min=1, max=1024, help="Hypotheses kept; 1 is greedy."),
    engine: str = typer.Option("auto", "--engine", metavar=CHOICES, help=HELP),
    others: list[str] = WITH,
    combine: str | None = COMBINE,
    weight: list[float] = WEIGHT,
    average: int | None = AVERAGE,
    language_model: str | None = LANGUAGE_MODEL,
    fusion: float | None = FUSION,
    metric: list[str] = typer.Option(
        [], "--metric", "-m", help="What is measured instead of the recipe's metrics; again for further ones."
    ),
    tokenize: str | None = typer.Option(None, "--tokenize", help="How BLEU and METEOR split words: 13a, none, ..."),
    meteor: str | None = typer.Option(None, "--meteor", help="The version of METEOR: 1.5, 1.3, 1.0, 2005, ..."),
    wordnet: str | None = typer.Option(None, "--wordnet", help="A folder of WordNet's files, for METEOR."),
    paraphrases: str | None = typer.Option(None, "--paraphrases", help="A table of paraphrases, for METEOR."),
    as_json: bool = typer.Option(False, "--json", help="Write the scores as JSON."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write the outputs to a file, a line each."),
    report: Path | None = typer.Option(
        None, "--report", help="Write a page: scores by length and frequency of words, worst and best outputs."
    ),
    tags: str | None = typer.Option(
        None, "--tags", help="A label for each word of each reference, a line each, for the page."
    ),
) -> None:
    """Predict the sources of pairs and measure how well the outputs fit the targets.

    Every score has a 95 % interval (bootstrap) and a signature. Pairs in JSONL with a key `alignment` (0-0 1-2) give
    the alignment error too. Language models are judged by their perplexity, masked ones at words that are hidden.
    """
    from regard.cli.console import score_lines, write_text
    from regard.data import Ledger
    from regard.run.measuring import measured_by
    from regard.run.sets import read_set, set_layout

    if tags is not None and report is None:
        raise UsageError("--tags have an effect on the page only: give --report FILE, too")
    check_engine(engine)
    model = measured_by(
        open_runs(
            run,
            others,
            combine=combine,
            weights=weight,
            average=average,
            language_model=language_model,
            fusion=fusion,
        ),
        metrics=metric,
        tokenize=tokenize,
        meteor={"version": meteor, "wordnet": wordnet, "paraphrases": paraphrases},
    )
    searching = {"--beam": beam, "--language-model": language_model, "--engine": engine if engine in OTHERS else None}
    if not model.recipe.evaluation.metrics and (idle := [name for name, value in searching.items() if value]):
        raise UsageError(
            f"{' and '.join(idle)}: this model is judged by its perplexity, without a search; leave out what is about "
            "searching"
        )
    model = searched_by(model, engine, files=files if model.recipe.evaluation.metrics else ())
    if in_8_bits(model):
        typer.echo("regard: searched in 8 bits; --engine torch measures the weights as they are", err=True)
    if assumed := set_layout(model.recipe, files).assumed:
        typer.echo(f"regard: {' + '.join(files)} is {assumed}", err=True)
    ledger = Ledger()
    result = model.evaluate(read_set(model.recipe, files, ledger), beam=beam)
    for warning in (*ledger.summary().splitlines(), *result.notes):
        typer.echo(f"regard: {warning}", err=True)
    if not result.scores:
        raise DataError(f"{' + '.join(files)}: not one of {len(result.examples):,} examples can be judged. Mend them")
    if output is not None and not result.predictions:
        raise UsageError(f"{output}: nothing was written, for this model is judged by its perplexity, without outputs")
    if output is not None:
        write_text(output, "".join(f"{one.text}\n" for one in result.predictions))
    if report is not None:
        from regard.report.evaluation import render_evaluation
        from regard.run.breakdown import evaluation_page

        page = evaluation_page(model, result, set_name=" + ".join(Path(file).name for file in files), tags=tags)
        write_text(report, render_evaluation(page))
    if as_json:
        record = {"format": 1, "metrics": {score.name: score.to_json() for score in result.scores}}
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    for line in score_lines(" + ".join(files), result.scores):
        typer.echo(line)
    for score in result.scores:
        typer.echo(f"  {score.name}: {score.signature}")

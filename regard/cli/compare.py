"""`regard compare`: is one system better than another?"""

import json
from typing import TYPE_CHECKING

import typer

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.metrics.significance import Comparison


def compare(
    systems: list[str] = typer.Argument(
        ...,
        metavar="SYSTEM...",
        help="Run folders, ensembles of them (a+b), or files with an output in each line; then pairs for the runs.",
    ),
    reference: list[str] = typer.Option(
        [], "--reference", "-r", help="References of files of outputs, a line each; again for further ones."
    ),
    pairs: list[str] = typer.Option([], "--pairs", help="Pairs that runs are tested on; again for a second file."),
    metric: list[str] = typer.Option([], "--metric", "-m", help="What is compared; again for further ones."),
    tokenize: str | None = typer.Option(None, "--tokenize", help="How BLEU and METEOR split words: 13a, none, ..."),
    meteor: str | None = typer.Option(None, "--meteor", help="The version of METEOR: 1.5, 1.3, 1.0, 2005, ..."),
    wordnet: str | None = typer.Option(None, "--wordnet", help="A folder of WordNet's files, for METEOR."),
    paraphrases: str | None = typer.Option(None, "--paraphrases", help="A table of paraphrases, for METEOR."),
    beam: int | None = typer.Option(None, "--beam", min=1, max=1024, help="Hypotheses kept by runs; 1 is greedy."),
    resamples: int = typer.Option(1000, "--resamples", min=1, help="Draws of the paired bootstrap."),
    trials: int = typer.Option(1000, "--trials", min=1, help="Trials of approximate randomisation."),
    seed: int = typer.Option(12345, "--seed", min=0, help="What both draw by."),
    as_json: bool = typer.Option(False, "--json", help="Write the comparisons as JSON."),
) -> None:
    """Compare systems with the first one, on the same segments.

    For every metric: both scores, their difference with its 95 % interval and p-value (paired bootstrap), and the
    p-value of approximate randomisation. Runs are tested on --pairs, else on the first run's own test set.

    \b
    regard compare runs/a runs/b held.tsv
    regard compare a.txt b.txt c.txt --reference gold.txt --metric BLEU --metric METEOR
    """
    from regard.data import Ledger
    from regard.run.comparing import Measures, compare_runs, runs_of

    runs = [bool(runs_of(name)) for name in systems]
    if not (reference or pairs) and len(systems) > 2 and all(runs[:-1]) and not runs[-1]:
        pairs = [systems.pop()]
    ledger = Ledger()
    given = {"version": meteor, "wordnet": wordnet, "paraphrases": paraphrases}
    measures = Measures(
        metrics=tuple(metric),
        tokenize=tokenize,
        meteor={name: value for name, value in given.items() if value is not None},
        resamples=resamples,
        trials=trials,
        seed=seed,
    )
    notes: list[str] = []
    test, found = compare_runs(
        systems, references=reference, pairs=pairs, measures=measures, beam=beam, ledger=ledger, tell=notes.append
    )
    for warning in (*ledger.summary().splitlines(), *notes):
        typer.echo(f"regard: {warning}", err=True)
    if as_json:
        entries = [{"metric": one.difference.name, "system": one.system, **one.to_json()} for one in found]
        record = {"format": 1, "first": systems[0], "set": test.name, "comparisons": entries}
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    for line in comparison_lines(systems[0], test.name, found):
        typer.echo(line)


def comparison_lines(first: str, test: str, found: "list[Comparison]") -> list[str]:
    """A block for each system: scores, difference, interval and p-values."""
    if not found:
        raise UsageError("there is no metric to compare by: name one with --metric")
    lines = [f"{test} ({found[0].difference.count:,} segments), against {first}"]
    width = max(len(one.difference.name) for one in found)
    for system in dict.fromkeys(one.system for one in found):
        lines += ["", system, f"  {'':<{width}}    first    this  difference                   p (bs)  p (ar)"]
        for one in found:
            if one.system == system:
                own = one.difference
                interval = f"[{own.low:+.2f}, {own.high:+.2f}]"
                verdict = "" if one.verdict == "open" else f"  {one.verdict}"
                lines.append(
                    f"  {own.name:<{width}}  {own.first:7.2f} {own.other:7.2f}  {own.value:+9.2f}  {interval:<18} "
                    f"{own.p_value:7.3f} {one.randomised:7.3f}{verdict}"
                )
    signatures = {one.difference.name: one.signature for one in found}
    return [*lines, "", *(f"  {name}: {signature}" for name, signature in signatures.items())]

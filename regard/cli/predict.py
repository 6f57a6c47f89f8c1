"""`regard predict`: a line in, a line out."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import typer

from regard.cli.engines import CHOICES, HELP, OTHERS, check_engine, searched_by
from regard.cli.joint import AVERAGE, COMBINE, FUSION, LANGUAGE_MODEL, WEIGHT, WITH, open_runs
from regard.data.lines import STDIN
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data import Ledger
    from regard.run.model import Model
    from regard.run.shards import Asked
    from regard.run.written import Tally
    from regard.search import Sampling

NARROW: Final = 128
"""A model no wider gains next to nothing from a second thread on one sentence; docs/bulk.md has the measurement."""


def predict(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    files: list[str] = typer.Argument(
        None, metavar="[FILE]...", help="Text files, plain or .gz; - is standard input. Several go to an --output."
    ),
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
    stochastic: bool = typer.Option(
        False, "--stochastic", help="Draw --nbest outputs that differ, by a beam of draws."
    ),
    length_penalty: float | None = typer.Option(None, "--length-penalty", help="Exponent of the length; 0 is none."),
    length_formula: str | None = typer.Option(None, "--length-formula", help="plain: |y|; gnmt: (5 + |y|) / 6."),
    coverage_penalty: float | None = typer.Option(None, "--coverage-penalty", help="Weight of GNMT's coverage."),
    min_length: int | None = typer.Option(None, "--min-length", help="Tokens an output must have, the end included."),
    max_length: int | None = typer.Option(None, "--max-length", help="Tokens an output may have, the end included."),
    max_ratio: float | None = typer.Option(
        None, "--max-ratio", help="Tokens an output may have for each token of the source, and 10 more."
    ),
    block_ngrams: int | None = typer.Option(None, "--block-ngrams", help="Never say so many tokens in a row twice."),
    groups: int | None = typer.Option(None, "--groups", help="Groups of a diverse beam; it becomes a multiple."),
    diversity: float | None = typer.Option(None, "--diversity", help="Of --groups: cost of what others have taken."),
    stopping: str | None = typer.Option(
        None, "--stopping", help="early: as others do it; exact: nothing is missed, slower."
    ),
    mbr: str | None = typer.Option(
        None, "--mbr", metavar="METRIC", help="Choose the output most like the others by chrF, BLEU, ...; of --samples."
    ),
    samples: int | None = typer.Option(
        None, "--samples", min=2, max=65536, help="Of --mbr: 64 as it is. With --beam its outputs are judged by them."
    ),
    forbid: str | None = typer.Option(None, "--forbid", metavar="WORDS|FILE", help="Words that must not come out."),
    force: str | None = typer.Option(None, "--force", metavar="WORDS|FILE", help="Words that must come out."),
    glossary: str | None = typer.Option(
        None, "--glossary", metavar="FILE", help="Lines SOURCE TAB TARGET: forced where the source has it."
    ),
    only: str | None = typer.Option(None, "--only", metavar="FILE", help="The only outputs there may be, a line each."),
    matching: str | None = typer.Option(None, "--matching", metavar="REGEX", help="What whole outputs must match."),
    brackets: str | None = typer.Option(
        None, "--brackets", metavar="LABELS|FILE", help="Make a tree over the words of the source: (S (NP a b) c)."
    ),
    bio: str | None = typer.Option(
        None, "--bio", metavar="LABELS|FILE", help="Make tags O, B-X and I-X, one for each word of the source."
    ),
    numbers: str | None = typer.Option(
        None, "--numbers", metavar="all|only|same", help="Have all numbers of the source, no others, or both."
    ),
    others: list[str] = WITH,
    combine: str | None = COMBINE,
    weight: list[float] = WEIGHT,
    average: int | None = AVERAGE,
    language_model: str | None = LANGUAGE_MODEL,
    fusion: float | None = FUSION,
    align: bool = typer.Option(False, "--align", help="Add a column with word links, source-target, from 0."),
    jsonl: bool = typer.Option(False, "--jsonl", help="Write a JSON object a line, with scores."),
    at_once: bool = typer.Option(False, "--at-once", help="Answer each line before the next is read; for pipes."),
    engine: str = typer.Option("auto", "--engine", metavar=CHOICES, help=HELP),
    output: str | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="PATH",
        help="Write a folder of outputs (one file: a file, or FOLDER/). The same command goes on after a crash. "
        "With --on: RUN-predictions/ if left out.",
    ),
    on: str | None = typer.Option(
        None, "--on", metavar="PLACE", help="Of --output: here (as it is), ray, or ray=ADDRESS of a cluster."
    ),
    workers: int | None = typer.Option(
        None,
        "--workers",
        min=1,
        max=65536,
        help="So many processes of one thread. As it is: one for each core for a named file (Linux), else one in all.",
    ),
    shard_lines: int | None = typer.Option(
        None, "--shard-lines", min=1, help="Of --output: lines that are predicted and saved as one; 1024 as it is."
    ),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Of --output: begin anew where other inputs, options or models were begun."
    ),
) -> None:
    """Predict an output for each line of a file.

    One line in is one line out, in order; a blank line stays blank, except that a language model begins a text there.
    A line that cannot be read gives a blank line and is counted. With --output whole files are cut into shards that
    several processes, or a Ray cluster, can predict.
    """
    if align and nbest > 1 and not jsonl:
        raise UsageError("--align tells the links of the best output only: leave out --nbest, or write --jsonl as well")
    if on is not None and output is None and files:
        output = f"{Path(run)}-predictions/"
    bulk = {"--on": on, "--shard-lines": shard_lines, "--overwrite": overwrite or None}
    _refuse_idle(files or [], output, at_once, [name for name, value in bulk.items() if value is not None])
    if workers is not None and (engine in OTHERS or (output is None and at_once)):
        raise UsageError("--workers: lines that are answered at once, or by an engine, have one process; leave it out")
    if engine in OTHERS and on not in (None, "here"):
        raise UsageError(f"--on {on}: an engine searches in this process; leave it out, or search with --engine torch")
    if engine == "auto" and (workers is not None or on not in (None, "here")):
        engine = "torch"  # which has processes to share the work between

    from regard.cli.bulk import check_place, hire, predict_into
    from regard.cli.demands import read_constraint
    from regard.cli.risk import search_for

    check_place(on or "here")
    check_engine(engine)
    given: dict[str, object] = {
        "sample": sample,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "typical": typical,
        "seed": seed,
        "stochastic": stochastic,
        "length_penalty": length_penalty,
        "length_formula": length_formula,
        "coverage_penalty": coverage_penalty,
        "min_length": min_length,
        "max_length": max_length,
        "max_ratio": max_ratio,
        "block_ngrams": block_ngrams,
        "groups": groups,
        "diversity": diversity,
        "stopping": stopping,
    }
    settings = cast("Sampling", {name: value for name, value in given.items() if value is not None})

    from regard.run.native import step_by_step
    from regard.run.shards import Asked
    from regard.run.written import Form

    demands = {"forbid": forbid, "force": force, "glossary": glossary, "only": only, "matching": matching}
    constraint = read_constraint({**demands, "brackets": brackets, "bio": bio, "numbers": numbers})
    file = files[0] if files else STDIN
    typed = at_once or (file == STDIN and sys.stdin is not None and sys.stdin.isatty())
    processes = 1 if output is not None or at_once or engine in OTHERS else _processes(workers, file)
    model = open_runs(
        run,
        others,
        combine=combine,
        weights=weight,
        average=average,
        language_model=language_model,
        fusion=fusion,
    )
    options, risk = search_for(model, settings, beam=beam, best=nbest, mbr=mbr, samples=samples)
    whole = risk is None and not step_by_step(options)
    model = searched_by(model, engine, files=files or () if whole and not at_once else ())
    processes = 1 if model.engine is not None else processes
    form = Form(best=nbest, align=align, jsonl=jsonl, probable=model.probable)
    asked = Asked(options=options, prefix=prefix, form=form, constraint=constraint, risk=risk)
    limit = model.longest_source
    if output is None:
        with _threads_for(model, alone=typed):
            ledger, tally = _stream(model, asked, file, typed=typed, processes=processes)
    else:
        crew, checksums = hire(on or "here", workers, model=model, asked=asked)
        del model  # the crew has it, or workers that have their own
        counts = predict_into(
            files, output, crew=crew, asked=asked, model=checksums, shard_lines=shard_lines, overwrite=overwrite
        )
        ledger, tally = counts.ledger, counts.tally
    for warning in (*ledger.summary(answered=True).splitlines(), *tally.told(limit)):
        typer.echo(f"regard: {warning}", err=True)


def _processes(workers: int | None, file: str) -> int:
    """How many processes predict a stream: several for a named file, which is complete, since they read far ahead.

    That a pipe or a device is named is refused by what reads it.
    """
    from regard.run.forks import can_fork, usual_processes

    if workers is None:
        return 1 if file == STDIN else usual_processes()
    if workers > 1 and file == STDIN:
        raise UsageError(
            f"--workers {workers}: standard input is answered by one process, as its lines come; name a regular file, "
            "or leave --workers out"
        )
    if workers > 1 and not can_fork():
        raise UsageError(
            f"--workers {workers}: only on Linux do several processes predict without --output; give --output, or "
            "leave --workers out"
        )
    return workers


def _refuse_idle(files: list[str], output: str | None, at_once: bool, bulk: list[str]) -> None:
    """Refuse options that would have no effect."""
    if output is None:
        if bulk:
            raise UsageError(f"{', '.join(bulk)}: only for whole files; say where they go with --output FOLDER")
        if len(files) > 1:
            raise UsageError(f"{len(files)} files: say where their outputs go with --output FOLDER")
    elif not files:
        raise UsageError("--output is for whole files: name them after the run")
    elif at_once:
        raise UsageError("--at-once is for pipes; leave it out, or leave out --output")


@contextmanager
def _threads_for(model: "Model", *, alone: bool) -> Iterator[None]:
    """One thread where a narrow model answers sentences one at a time, unless the user has said how many."""
    import torch

    before = torch.get_num_threads()
    if alone and model.recipe.model.width <= NARROW and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _stream(model: "Model", asked: "Asked", file: str, *, typed: bool, processes: int) -> "tuple[Ledger, Tally]":
    """Write outputs as they come, and count what was cut or could not be read."""
    from regard.cli.console import standard_output
    from regard.data import Ledger
    from regard.run.forks import answers
    from regard.run.reading import answer_lines, read_texts
    from regard.run.shards import ShardPredictor
    from regard.run.written import Tally

    ledger, tally, faults = Ledger(), Tally(), dict[int, str]()
    lines = read_texts(file, ledger=ledger, faults=faults)
    with standard_output() as output:
        if processes > 1:
            with closing(answers(lines, ShardPredictor(model, asked).answer, processes, faults)) as found:
                for answer in found:
                    output.write(answer.content.decode())
                    tally.include(answer.tally)
            return ledger, tally
        predictions = model.predict_many(
            lines,
            options=asked.options,
            prefix=asked.prefix,
            constraint=asked.constraint,
            risk=asked.risk,
            capture=asked.form.align,
            ahead=1 if typed else None,
        )
        for number, prediction in enumerate(predictions, start=1):
            fault = faults.pop(number, None)
            for line in answer_lines(
                prediction, number, form=asked.form, fault=fault, tally=tally, place=f"line {number}"
            ):
                output.write(line + "\n")
            if typed:
                output.flush()
    return ledger, tally

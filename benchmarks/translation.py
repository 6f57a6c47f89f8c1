"""Trains the recipes of recipes/multi30k and writes what they reach: about a day on two cores, run by run.

    REGARD_DATA=FOLDER python benchmarks/translation.py ende_tiny_short --seed 2   one training, or the rest of it
    python benchmarks/translation.py ende_tiny_short --minutes 45                  the same in less (or more) time
    python benchmarks/translation.py ende_tiny_short --experiment "less dropout" model.dropout=0.2
                                                    chosen on validation data: the test set is not read
    python benchmarks/translation.py ende_tiny_short --experiment "three together" --decode 1,2,3
                                                    the same with finished runs: ensembles, search, --average, --mbr
    python benchmarks/translation.py --all          what of the plan is not done: `make results-translation`
    python benchmarks/translation.py --page         no training: write the pages again
    python benchmarks/translation.py --all --quick  tiny models on 300 pairs, in a folder of their own: does it work?

Each training appends a row to benchmarks/translation.json. From there come the section about Multi30k in
docs/results.md, docs/translation_curve.svg, docs/translation_by_length.svg, docs/experiments.md, and the line
`# Result:` of each recipe.
"""

import argparse
import os
import signal
import subprocess
from pathlib import Path

from multi30k import page, pictures
from multi30k.corpus import place_corpus
from multi30k.decoding import Decoding, check, decode
from multi30k.plan import PLAN, planned
from multi30k.rows import Row, add_row, read_rows
from multi30k.running import ROOT, Asked, recipe_path, run, stop
from published.heads import settings_hash, with_result
from published.sections import with_section

from regard.files import replace_file

RESULTS = "benchmarks/translation.json"
UNMEASURED = "# Result:   not measured yet"


def write_pages(rows: tuple[Row, ...], root: Path) -> None:
    """The section, the pictures and the experiments into docs of a folder."""
    docs = root / "docs"
    docs.mkdir(parents=True, exist_ok=True)
    results = docs / "results.md"
    before = results.read_text(encoding="utf-8") if results.exists() else "# Results\n"
    replace_file(results, with_section(before, page.section(rows)).encode())
    replace_file(docs / "experiments.md", page.experiments(rows).encode())
    for name, drawn in (
        (page.CURVE, pictures.curve_picture(rows)),
        (page.LENGTHS, pictures.ladder_picture(rows)),
    ):
        if drawn is not None:
            replace_file(docs / name, drawn.encode())


def write_heads(rows: tuple[Row, ...]) -> None:
    """The results into the heads of the recipes: those of their settings as they are now."""
    for planned_row in PLAN:
        path = recipe_path(planned_row.recipe)
        text = path.read_text(encoding="utf-8")
        own = tuple(row for row in rows if row.recipe_hash == settings_hash(text))
        line = page.result_line(own, planned_row.recipe) or UNMEASURED
        replace_file(path, with_result(text, line).encode())


def train(asked: Asked, folder: Path, root: Path, *, again: bool) -> None:
    """One training, unless there is a row of it, and the pages with it."""
    results = root / RESULTS
    done = next((row for row in read_rows(results) if row.identity == asked.identity), None)
    if done is not None and not again:
        print(f"{asked.name}: done before, {told(done)}", flush=True)
        return
    print(f"{asked.name}: training in {folder}", flush=True)
    row = run(asked, folder, again=again)
    rows = add_row(results, row)
    print(f"{asked.name}: {told(row)}", flush=True)
    write_pages(rows, root)
    if not asked.small:
        write_heads(rows)


def decoding(options: argparse.Namespace) -> Decoding:
    """What `--decode` asks for."""
    if not options.recipe or not options.experiment:
        raise SystemExit('--decode is an experiment: name the recipe, and say what is tried with --experiment "..."')
    asked = Decoding(
        row=planned(options.recipe),
        seeds=tuple(int(seed) for seed in options.decode.split(",")),
        threads=options.threads,
        experiment=options.experiment,
        search=tuple(options.settings),
        average=options.average,
        mbr=options.mbr,
    )
    check(asked)
    return asked


def told(row: Row) -> str:
    """A result in a line."""
    scores, where = (row.validation, "validation") if row.experiment else (row.test, "test")
    return f"{where} BLEU {scores['BLEU']}, {row.cost.steps:,} steps in {row.cost.minutes:.1f} minutes"


def wanted(options: argparse.Namespace) -> list[Asked]:
    """What the command line asks for."""

    def one(recipe: str, seed: int) -> Asked:
        return Asked(
            row=planned(recipe),
            seed=seed,
            threads=options.threads,
            minutes=options.minutes,
            experiment=options.experiment,
            settings=tuple(options.settings),
            small=options.quick,
        )

    if options.average is not None or options.mbr is not None:
        raise SystemExit("--average and --mbr are for finished runs: give their seeds with --decode")
    if options.all:
        if options.recipe or options.experiment:
            raise SystemExit("--all trains every recipe as it is: leave out the name and --experiment")
        return [one(row.recipe, seed) for row in PLAN for seed in range(1, 1 + (1 if options.quick else row.seeds))]
    if not options.recipe:
        raise SystemExit(f"name a recipe ({', '.join(row.recipe for row in PLAN)}), or give --all or --page")
    if options.settings and not options.experiment:
        raise SystemExit(f'{options.settings[0]} changes the recipe: say what is tried with --experiment "..."')
    return [one(options.recipe, options.seed)]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train recipes on Multi30k and write what they reach.")
    parser.add_argument("recipe", nargs="?", help="a name such as ende_tiny_short")
    parser.add_argument("settings", nargs="*", help="key=value: what an experiment changes in the recipe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="train for so long instead of as long as the recipe says")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--experiment", default="", metavar="WHAT", help="what is tried; the test set is not read")
    parser.add_argument("--decode", metavar="SEED,...", help="no training: let finished runs write validation data")
    parser.add_argument("--average", type=int, help="with --decode: the mean of so many checkpoints of each run")
    parser.add_argument(
        "--mbr", metavar="METRIC", help="with --decode: the least risky of 64 samples, or of search.beam"
    )
    parser.add_argument("--all", action="store_true", help="everything of the plan that is not done")
    parser.add_argument("--page", action="store_true", help="train nothing; write the pages again")
    parser.add_argument("--quick", action="store_true", help="tiny models on 300 pairs, apart from all else")
    parser.add_argument("--again", action="store_true", help="train anew what is done")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/translation", help="where runs are kept")
    return parser.parse_intermixed_args()


def exit_by(number: int) -> None:
    """End, after a training under way was told to save its state."""
    stop()
    raise SystemExit(128 + number)


def main() -> None:
    options = parse()
    signal.signal(signal.SIGTERM, lambda number, _: exit_by(number))
    folder = (options.folder / "quick" if options.quick else options.folder).resolve()
    root = folder if options.quick else ROOT
    if options.page:
        rows = read_rows(root / RESULTS)
        write_pages(rows, root)
        if not options.quick:
            write_heads(rows)
        return
    if options.decode:
        row = decode(decoding(options), folder)
        print(f"{row.recipe}: {told(row)}", flush=True)
        write_pages(add_row(root / RESULTS, row), root)
        return
    asked = wanted(options)
    place_corpus(folder, small=options.quick)
    failed: list[str] = []
    for one in asked:
        try:
            train(one, folder, root, again=options.again)
        except subprocess.CalledProcessError as error:
            if error.returncode < 0 or error.returncode > 128:  # stopped by a signal
                raise SystemExit(128 + abs(error.returncode) % 128) from None
            print(f"{one.name}: failed with exit code {error.returncode}", flush=True)
            failed.append(one.name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

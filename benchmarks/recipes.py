"""Trains every recipe on the pocket world and writes what it reaches: `make recipes`, over an hour on two cores.

    python benchmarks/recipes.py                        all recipes; those that are done are not trained again
    python benchmarks/recipes.py bahdanau2015 --again   some of them, anew
    python benchmarks/recipes.py --page                 no training: write the pages again from benchmarks/recipes.json

Each is trained by the real command in a process of its own with one thread, as many at once as --workers says (2): two
small models beside each other learn faster than one after the other on both cores. A training that was stopped goes on.
Figures go to benchmarks/recipes.json after each recipe, from there to docs/results.md, docs/bleu_by_length.svg and the
line `# Result:` in the head of the recipe.
"""

import argparse
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock

from published import lengths, page, training
from published.entries import Entries, entries_json, read_entries
from published.heads import settings_hash, taken, write_result
from published.sections import section_of, with_section
from published.tasks import Published, rows

from regard.files import replace_file

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 90
"""Minutes that all recipes together may take."""


def recipe_path(name: str, root: Path = ROOT) -> Path:
    return root / "recipes" / f"{name}.yaml"


def write_pages(entries: Entries, root: Path = ROOT) -> None:
    """The entries, the page, the picture and the heads of the recipes."""
    replace_file(root / "benchmarks/recipes.json", entries_json(entries).encode())
    recipes = [row.recipe for row in rows() if recipe_path(row.recipe, root).exists()]
    (root / "docs").mkdir(exist_ok=True)
    results = root / "docs/results.md"
    kept = section_of(results.read_text(encoding="utf-8")) if results.exists() else ""
    replace_file(results, with_section(page.page(entries, recipes), kept).encode())
    if page.compared(entries):
        replace_file(root / "docs" / page.PICTURE, page.picture(entries).encode())
    for row in rows():
        if row.recipe in entries and row.recipe in recipes:
            write_result(recipe_path(row.recipe, root), row, entries[row.recipe])


def train_all(chosen: list[Published], folder: Path, *, again: bool, workers: int) -> list[str]:
    """Train what is not done, and write the pages after each; returns the names of those that failed."""
    done = read_entries(ROOT / "benchmarks/recipes.json")
    waiting: list[tuple[str, Published, str]] = []
    made: set[tuple[str, ...]] = set()
    for number, row in enumerate(chosen, start=1):
        recipe = recipe_path(row.recipe).read_text(encoding="utf-8")
        place = f"[{number}/{len(chosen)}] {row.recipe}"
        if not again and row.recipe in done and done[row.recipe].recipe == settings_hash(recipe):
            print(f"{place}: done before, {row.judge(done[row.recipe]).shown}", flush=True)
            continue
        training.make_data(recipe, folder, made, again=again)
        waiting.append((place, row, recipe))
    writing = Lock()

    def train_one(place: str, row: Published, recipe: str) -> str | None:
        """The name of the recipe if it failed."""
        print(f"{place}: training", flush=True)
        try:
            entry = training.train(row, recipe, folder, again=again)
        except subprocess.CalledProcessError as error:
            if error.returncode < 0 or error.returncode > 128:  # stopped by a signal
                raise
            print(f"{place}: failed with exit code {error.returncode}", flush=True)
            return row.recipe
        print(f"{place}: {row.judge(entry).shown}; {taken(entry)}", flush=True)
        with writing:
            write_pages(read_entries(ROOT / "benchmarks/recipes.json") | {row.recipe: entry})
        return None

    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(train_one, *zip(*waiting, strict=True)) if waiting else []
        return [name for name in results if name is not None]


def measure_lengths(chosen: list[Published], folder: Path, *, again: bool) -> None:
    """BLEU by length of the models in the picture, as far as their runs are in the folder."""
    wanted = [name for name in lengths.COMPARED if name in {row.recipe for row in chosen}]
    entries = read_entries(ROOT / "benchmarks/recipes.json")
    wanted = [
        name
        for name in wanted
        if name in entries
        and (again or not entries[name].by_length)
        and (folder / "runs" / name / "metrics.json").exists()
    ]
    if not wanted:
        return
    pairs = lengths.judged_pairs(folder)
    for name in wanted:
        print(f"BLEU by length: {name}", flush=True)
        outputs = lengths.predict(name, folder, pairs)
        entries[name] = replace(entries[name], by_length=lengths.by_length(pairs, outputs))
    write_pages(entries)


def choose(names: list[str]) -> list[Published]:
    """The rows of these recipes, or of all that there are."""
    there = {row.recipe: row for row in rows() if recipe_path(row.recipe).exists()}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise SystemExit(f"no such recipe: {', '.join(unknown)}; there are {', '.join(there)}")
    return [there[name] for name in names or there]


def exit_by(number: int) -> None:
    """End, after trainings under way were told to save their state."""
    training.stop()
    raise SystemExit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train every recipe on the pocket world and write what it reaches.")
    parser.add_argument("recipes", nargs="*", help="names such as bahdanau2015; all if left out")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/recipes", help="where data and runs are kept")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time, one thread each")
    parser.add_argument("--again", action="store_true", help="make data and train anew what is done")
    parser.add_argument("--page", action="store_true", help="train nothing; write the pages again")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: exit_by(number))
    if options.page:
        write_pages(read_entries(ROOT / "benchmarks/recipes.json"))
        return
    chosen = choose(options.recipes)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    failed = train_all(chosen, folder, again=options.again, workers=options.workers)
    measure_lengths(chosen, folder, again=options.again)
    entries = read_entries(ROOT / "benchmarks/recipes.json")
    total = page.together(entries.values())
    print(f"this call took {(time.perf_counter() - began) / 60:.0f} minutes")
    print(f"all {len(entries)} recipes together take {total:.0f} minutes on two cores, of at most {LIMIT}")
    missed = [row.recipe for row in chosen if row.recipe in entries and row.judge(entries[row.recipe]).met is False]
    if missed:
        print(f"bounds that are not met: {', '.join(missed)}")
    if failed or missed or total > LIMIT:
        raise SystemExit(f"failed: {', '.join(failed)}" if failed else 1)


if __name__ == "__main__":
    main()

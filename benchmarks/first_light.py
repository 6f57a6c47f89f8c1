"""Runs what the README quotes and writes the figures to benchmarks/first_light.md and into the README.

    python benchmarks/first_light.py             all parts
    python benchmarks/first_light.py demo start  some of them

Parts: start (time to --help), demo, bahdanau, inflection (needs REGARD_DATA), predict. Every part uses the real command
in a process of its own, in a temporary folder; times are wall-clock seconds. The file keeps the figures of parts that
are not run again.
"""

import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import regard

HERE = Path(__file__).resolve().parent
REGARD = [sys.executable, "-m", "regard.cli.main"]
FIGURES = HERE / "first_light.json"
TABLE = HERE / "first_light.md"
README = HERE.parent / "README.md"
COMMANDS = {
    "demo": "regard demo",
    "bahdanau": "regard train recipes/bahdanau2015.yaml",
    "inflection": "regard train pairs.tsv (3,000 German inflections)",
}
SHOWN = (
    "BLEU",
    "BLEU, combinations",
    "alignment error",
    "alignment error, combinations",
    "exact",
    "exact, official test set",
)


def run(*arguments: str, folder: Path, text: str | None = None) -> tuple[str, float]:
    """Standard output and seconds of one command."""
    began = time.perf_counter()
    done = subprocess.run([*REGARD, *arguments], cwd=folder, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout, time.perf_counter() - began


def metrics(run_folder: Path) -> dict[str, float]:
    """The values of metrics.json, further sets by name."""
    record = json.loads((run_folder / "metrics.json").read_text(encoding="utf-8"))
    values = {name: entry["value"] for name, entry in record["metrics"].items()}
    for set_name, scores in record["further"].items():
        values |= {f"{name}, {set_name}": entry["value"] for name, entry in scores.items()}
    return values


def start(folder: Path) -> dict[str, float]:
    return {"seconds to --help, best of 5": min(run("--help", folder=folder)[1] for _ in range(5))}


def demo(folder: Path) -> dict[str, float]:
    out, seconds = run("demo", folder=folder)
    quote("demo", "```\n" + "\n\n".join(out.split("\n\n")[:2]) + "\n```")
    return {"seconds": seconds, **metrics(folder / "runs/demo")}


def bahdanau(folder: Path) -> dict[str, float]:
    run("data", "make", "pocket", "pocket", folder=folder)
    recipes = folder / "recipes"
    recipes.mkdir(exist_ok=True)
    recipe = recipes / "bahdanau2015.yaml"
    recipe.write_text((HERE.parent / "recipes/bahdanau2015.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    _, seconds = run("train", str(recipe), folder=folder)
    return {"seconds": seconds, **metrics(folder / "runs/bahdanau2015")}


def inflection(folder: Path) -> dict[str, float]:
    corpus = Path(os.environ["REGARD_DATA"]) / "inflection/sigmorphon2017"
    with gzip.open(corpus / "german.train-high.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [next(file) for _ in range(3000)]
    (folder / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    _, seconds = run("train", "pairs.tsv", folder=folder)
    official = json.loads(run("evaluate", "runs/pairs", str(corpus / "german.test.tsv"), "--json", folder=folder)[0])
    return {
        "seconds": seconds,
        **metrics(folder / "runs/pairs"),
        "exact, official test set": official["metrics"]["exact"]["value"],
    }


def predict(folder: Path) -> dict[str, float]:
    """10,000 lines with blanks, and 64 sentences alone against together; needs the demo of the same call."""
    sources = [line.split("\t")[0] for line in (folder / "runs/demo/pocket/train.tsv").read_text("utf-8").splitlines()]
    lines = ["" if number % 7 == 3 else sources[number] for number in range(10_000)]
    out, seconds = run("predict", "runs/demo", folder=folder, text="\n".join(lines) + "\n")
    answers = out.split("\n")[:-1]
    blanks = all((not line) == (not answer) for line, answer in zip(lines, answers, strict=True))
    model = regard.load(folder / "runs/demo")
    together = [one.text for one in model.predict_many(sources[:64])]
    alone = [model.predict(source).text for source in sources[:64]]
    same = sum(one == other for one, other in zip(together, alone, strict=True))
    return {
        "lines in": len(lines),
        "lines out": len(answers),
        "blank where the line is blank, and only there": blanks,
        "seconds for 10,000 lines": seconds,
        "of 64 sentences, the same alone and together": same,
    }


PARTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "start": start,
    "demo": demo,
    "predict": predict,
    "bahdanau": bahdanau,
    "inflection": inflection,
}


def quote(mark: str, text: str) -> None:
    """Put text between `<!-- mark -->` and `<!-- /mark -->` of the README."""
    readme = README.read_text(encoding="utf-8")
    before, _, rest = readme.partition(f"<!-- {mark} -->")
    _, _, after = rest.partition(f"<!-- /{mark} -->")
    README.write_text(f"{before}<!-- {mark} -->\n{text}\n<!-- /{mark} -->{after}", encoding="utf-8")


def summary(figures: dict[str, dict[str, float]]) -> str:
    """The few rows that the README shows."""
    rows = ["| command | reaches | in |", "|---|---|---|"]
    for part, command in COMMANDS.items():
        if part in figures:
            values = figures[part]
            told = ", ".join(f"{name} {values[name]:.1f}" for name in SHOWN if name in values)
            rows.append(f"| `{command}` | {told} | {values['seconds']:.0f} s |")
    return "\n".join(rows)


def table(figures: dict[str, dict[str, float]]) -> str:
    """The figures in Markdown."""
    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    )
    lines = ["# First light, measured", "", f"`python benchmarks/first_light.py` on {machine}.", ""]
    for part, values in figures.items():
        lines += [f"## {part}", "", "| figure | value |", "|---|---|"]
        lines += [f"| {name} | {value:,.2f} |" for name, value in values.items()]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    chosen = sys.argv[1:] or [part for part in PARTS if part != "inflection" or "REGARD_DATA" in os.environ]
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for part in chosen:
            figures[part] = PARTS[part](Path(folder))
            print(part, json.dumps(figures[part], indent=1))
    ordered = {part: figures[part] for part in PARTS if part in figures}
    FIGURES.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(table(ordered), encoding="utf-8")
    quote("figures", summary(ordered))


if __name__ == "__main__":
    main()

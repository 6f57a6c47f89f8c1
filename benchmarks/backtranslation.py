"""What 20,000 German sentences add to 5,000 pairs of Multi30k (English to German), by `regard backtranslate`.

    REGARD_DATA=FOLDER python benchmarks/backtranslation.py          goes on where it stopped
    python benchmarks/backtranslation.py --page                      no training: write the page again

The first 5,000 pairs of the training part are the pairs; the German side of the next 20,000 is the monolingual text.
Three models are trained, two of them beside each other: under an hour on two idle cores.
Figures go to benchmarks/backtranslation.json, from there to docs/backtranslation.md.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from regard.files import replace_file

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/backtranslation.json"
PAIRS, MONO = 5_000, 20_000
LEAST = 1.5
"""BLEU that must be gained, with an interval above 0."""

RECIPE = """\
# A small Transformer for 5,000 pairs: much dropout, tied embeddings, the checkpoint that translates best.
task: translation
run: multi30k
data:
  train: [train.en, train.de]
  valid: [val.en, val.de]
  test: [test.en, test.de]
  empty_lines: skip
text: {unit: bpe, size: 4000, shared: true}
model:
  width: 128
  layers: 3
  dropout: 0.3
  tie: all
  encoder: {kind: transformer, heads: 4, feedforward: 512}
  decoder: {kind: transformer, heads: 4, feedforward: 512}
training:
  steps: 3000
  batch_tokens: 2000
  learning_rate: 0.002
  warmup: 400
  label_smoothing: 0.1
  validate_every: 150
  patience: 6
  select: BLEU
search: {beam: 4, max_length: 80}
evaluation: {tokenize: none}
"""
SETTINGS = ("--draw", "beam", "final.training.steps=4500")
"""The reverse model of 5,000 pairs is weak: its best translations teach more than samples (Edunov et al. 2018)."""


def make_data(folder: Path) -> None:
    """Write pairs and monolingual text; the same files each time."""
    place = os.environ.get("REGARD_DATA")
    if not place:
        raise SystemExit("set REGARD_DATA to the folder of corpora that has mt/multi30k")
    corpus = Path(place) / "mt/multi30k"
    folder.mkdir(parents=True, exist_ok=True)
    for language in ("en", "de"):
        with gzip.open(corpus / f"train.lc.norm.tok.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
            lines = list(islice(file, PAIRS + MONO))
        replace_file(folder / f"train.{language}", "".join(lines[:PAIRS]).encode())
        if language == "de":
            replace_file(folder / "mono.de", "".join(lines[PAIRS:]).encode())
        for name, there in (("val", "val"), ("test", "test_2016_flickr")):
            replace_file(folder / f"{name}.{language}", (corpus / f"{there}.lc.norm.tok.{language}").read_bytes())
    replace_file(folder / "recipe.yaml", RECIPE.encode())


def run(folder: Path, workers: int) -> dict[str, Any]:
    """Call the real command; what it wrote is the result."""
    command = [sys.executable, "-m", "regard.cli.main", "backtranslate", "recipe.yaml", "mono.de", *SETTINGS]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([*command, "--workers", str(workers)], cwd=folder, env=environment, check=True)
    record: dict[str, Any] = json.loads((folder / "multi30k-backtranslation/backtranslation.json").read_bytes())
    return record


def page(record: dict[str, Any]) -> str:
    """docs/backtranslation.md."""
    one = record["rounds"][0]
    made, mixture = one["translated"], one["mixture"]
    rows = [
        f"| {name} | {gain['first']:.2f} | {gain['other']:.2f} | {gain['difference']:+.2f} | "
        f"{gain['low']:+.2f} to {gain['high']:+.2f} | {gain['p_value']:.3f} |"
        for name, gain in one["gains"].items()
    ]
    runs = (("baseline", record["baseline"]), ("reverse", record["reverse"]), ("final", one["final"]))
    taken = "; ".join(f"{name} {entry['steps']:,} steps, {entry['minutes']:.0f} minutes" for name, entry in runs)
    gain = one["gains"]["BLEU"]
    met = "met" if gain["difference"] >= LEAST and gain["low"] > 0 else "not met"
    dropped = "; ".join(f"{count:,} {reason}" for reason, count in sorted(made["dropped"].items())) or "nothing"
    return "\n".join(
        [
            "# Back-translation, measured",
            "",
            "Written by `benchmarks/backtranslation.py`; the recipe and the command stand there.",
            "",
            f"{PAIRS:,} pairs of Multi30k, English to German, and {MONO:,} German sentences of the rest of its "
            "training part. All models have the same recipe (a Transformer of 3 + 3 layers, width 128) and the same "
            "vocabulary, and are chosen by BLEU on the validation part; judged on test_2016_flickr, lower-cased, "
            "normalised and tokenised, as the corpus has it.",
            "",
            "| | Baseline | With back-translation | Gain | 95 % interval of the gain | p |",
            "|---|---:|---:|---:|---|---:|",
            *rows,
            "",
            f"Bound: a gain of {LEAST} BLEU or more, its interval above 0: {met}. Intervals are of the paired "
            f"bootstrap over the {gain['count']:,} test sentences of one training each; another seed of training is "
            "another sample, which they do not cover.",
            "",
            f"{made['kept']:,} of {made['lines']:,} sentences became synthetic pairs; left out: {dropped}. "
            f"Each real pair is {mixture['copies']:.2f} times in the mixture, which makes "
            f"{100 * mixture['share']:.0f} % of its target tokens real. The reverse model reaches BLEU "
            f"{record['reverse']['scores']['test']['BLEU']:.2f}.",
            "",
            f"Training on two cores, baseline and reverse model beside each other: {taken}.",
            "",
            f"Signature of BLEU: `{gain['signature']}`",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what back-translation gains on 5,000 pairs of Multi30k.")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/backtranslation", help="where everything is kept")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time, one thread each")
    parser.add_argument("--page", action="store_true", help="train nothing; write the page again")
    options = parser.parse_args()
    if not options.page:
        make_data(options.folder)
        record = run(options.folder, options.workers)
        replace_file(RESULTS, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
    record = json.loads(RESULTS.read_bytes())
    replace_file(ROOT / "docs/backtranslation.md", page(record).encode())
    gain = record["rounds"][0]["gains"]["BLEU"]
    print(f"gain {gain['difference']:+.2f} BLEU [{gain['low']:+.2f}, {gain['high']:+.2f}]")
    if gain["difference"] < LEAST or gain["low"] <= 0:
        raise SystemExit(f"the bound is not met: {LEAST} BLEU or more, interval above 0")


if __name__ == "__main__":
    main()

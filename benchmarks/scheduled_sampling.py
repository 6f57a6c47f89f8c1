"""Teacher forcing, scheduled sampling and always sampling on the pocket world with noise, three seeds each.

    python benchmarks/scheduled_sampling.py            goes on where it stopped
    python benchmarks/scheduled_sampling.py --page     no training: write the page again

English sources have noise in all sets: words are left out, replaced and exchanged, so that not every word of the target
can be known and a decoder makes mistakes that it then has to read. Two small models, a GRU with attention and a
Transformer, are trained by the code of `regard sweep`: 18 runs with one thread each, two at a time, about half an hour
on two idle cores. Figures go to benchmarks/scheduled_sampling.json, from there to docs/scheduled_sampling.md.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

from regard.data.pocket import make
from regard.files import replace_file
from regard.metrics.spread import spread
from regard.run.sweep import sweep
from regard.run.sweep_results import sweep_record, write_sweep

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/scheduled_sampling.json"
SIZE, SEEDS = 5_000, 3
DROPPED, REPLACED, EXCHANGED = 0.1, 0.1, 0.1

WAYS = {
    "teacher forcing": "null",
    "scheduled sampling": "{decay: inverse_sigmoid, k: 100}",
    "always sampling": "{decay: always}",
}
RNN = "{kind: rnn, cell: gru, two_way: true}", "{kind: rnn, cell: gru, wiring: bahdanau, score: additive}"
TRANSFORMER = "{kind: transformer, heads: 4}", "{kind: transformer, heads: 4}"
MODELS = {"GRU with attention": ("gru", 1, RNN), "Transformer": ("transformer", 2, TRANSFORMER)}

RECIPE = """\
task: translation
run: {name}
data:
  train: data/train.tsv
  valid: data/valid.tsv
  test: data/test.tsv
text: {{unit: word, shared: false}}
model:
  width: 128
  layers: {layers}
  dropout: 0.1
  tie: target
  encoder: {encoder}
  decoder: {decoder}
training:
  steps: 600
  batch_tokens: 1500
  learning_rate: 0.002
  warmup: 200
  label_smoothing: 0.1
  validate_every: 100
  patience: null
  select: BLEU
search: {{beam: 4}}
evaluation: {{metrics: [BLEU, exact], tokenize: none}}
"""


def noisy(line: str, words: list[str], draw: random.Random) -> str:
    """Leave out, replace and exchange words; one is always left."""
    kept = [word for word in line.split() if draw.random() >= DROPPED] or line.split()[:1]
    kept = [draw.choice(words) if draw.random() < REPLACED else word for word in kept]
    for place in range(len(kept) - 1):
        if draw.random() < EXCHANGED:
            kept[place], kept[place + 1] = kept[place + 1], kept[place]
    return " ".join(kept)


def make_data(folder: Path) -> None:
    """Pocket sentences with noise on their sources; the same files each time."""
    make(folder / "pocket", size=SIZE)
    sets = {
        name: [line.split("\t") for line in (folder / f"pocket/{name}.tsv").read_text(encoding="utf-8").splitlines()]
        for name in ("train", "valid", "test")
    }
    words = sorted({word for source, _ in sets["train"] for word in source.split()})
    for name, pairs in sets.items():
        draw = random.Random(f"noise of {name}")
        lines = (f"{noisy(source, words, draw)}\t{target}\n" for source, target in pairs)
        replace_file(folder / f"data/{name}.tsv", "".join(lines).encode())


def run(folder: Path, workers: int) -> dict[str, Any]:
    """A sweep over the three ways for each model."""
    record: dict[str, Any] = {"format": 1, "seeds": SEEDS, "models": {}}
    values = ",".join(WAYS.values())
    for title, (name, layers, (encoder, decoder)) in MODELS.items():
        path = folder / f"{name}.yaml"
        text = RECIPE.format(name=folder / name, layers=layers, encoder=encoder, decoder=decoder)
        replace_file(path, text.encode())
        result = sweep(path, f"training.objective.sampling={values}", seeds=SEEDS, workers=workers)
        write_sweep(result)
        if result.failures:
            raise SystemExit("\n".join(result.failures))
        rows = sweep_record(result)["rows"]
        assert isinstance(rows, list)
        of = {row["settings"][0].partition("=")[2]: row for row in rows}
        record["models"][title] = {
            way: {"validation": of[value]["validation"], "test": of[value]["scores"]["test"]}
            for way, value in WAYS.items()
        }
    return record


def difference(ways: dict[str, Any], way: str, metric: str = "BLEU") -> Any:
    """A way minus teacher forcing: the mean over seeds of the difference on the same seed."""
    values = zip(ways[way]["test"][metric]["values"], ways["teacher forcing"]["test"][metric]["values"], strict=True)
    return spread([one - other for one, other in values])


def told(entry: dict[str, Any]) -> str:
    return f"{entry['mean']:.2f} ± {entry['high'] - entry['mean']:.2f}"


def page(record: dict[str, Any]) -> str:
    """docs/scheduled_sampling.md."""
    lines = [
        "# Scheduled sampling, measured",
        "",
        "Written by `benchmarks/scheduled_sampling.py`; the recipes and the noise stand there.",
        "",
        f"{SIZE:,} pairs of the pocket world, English to German, with noise on the English of all sets: "
        f"{DROPPED:.0%} of the words are left out, {REPLACED:.0%} replaced, {EXCHANGED:.0%} exchanged with the next. "
        "Teacher forcing reads the truth, scheduled sampling more and more of its own words (inverse sigmoid, k = 100, "
        "600 updates: half at update 460), always sampling nothing else. Checkpoints are chosen by BLEU on validation "
        f"data; scores are of the test set with beam 4, means over {record['seeds']} seeds with 95 % intervals "
        "(Student's t); differences are taken on the same seed.",
    ]
    for title, ways in record["models"].items():
        lines += [
            "",
            f"## {title}",
            "",
            "| | Validation BLEU | Test BLEU | Exact | BLEU against teacher forcing |",
            "|---|---:|---:|---:|---:|",
        ]
        for way, entry in ways.items():
            test = entry["test"]
            against = "" if way == "teacher forcing" else str(difference(ways, way))
            lines.append(
                f"| {way} | {told(entry['validation'])} | {told(test['BLEU'])} | {told(test['exact'])} | {against} |"
            )
    return "\n".join([*lines, "", *(f"- {line}" for line in verdicts(record))]) + "\n"


def verdicts(record: dict[str, Any]) -> list[str]:
    """What the figures say, a sentence for each comparison."""
    sentences = []
    for title, ways in record["models"].items():
        for way in ("always sampling", "scheduled sampling"):
            found = difference(ways, way)
            clearly = "clearly below" if found.high < 0 else "clearly above" if found.low > 0 else "not told apart from"
            sentences.append(f"{title}: {way} is {clearly} teacher forcing (BLEU {found}).")
    return sentences


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure scheduled sampling on the pocket world with noise.")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/scheduled_sampling", help="where runs are kept")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time, one thread each")
    parser.add_argument("--page", action="store_true", help="train nothing; write the page again")
    options = parser.parse_args()
    if not options.page:
        folder = options.folder.resolve()
        make_data(folder)
        record = run(folder, options.workers)
        replace_file(RESULTS, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
    record = json.loads(RESULTS.read_bytes())
    replace_file(ROOT / "docs/scheduled_sampling.md", page(record).encode())
    for line in verdicts(record):
        print(line)
    below = [difference(ways, "always sampling").high < 0 for ways in record["models"].values()]
    if not all(below):
        raise SystemExit("the bound is not met: always sampling clearly below teacher forcing")


if __name__ == "__main__":
    main()

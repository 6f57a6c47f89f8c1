"""Writes docs/translation_model.md: a trained translation model looked into, with its good and its bad outputs.

    python benchmarks/translation_page.py runs/translation/runs/ende_tiny_long-1

No sentence on the page is picked by hand: the best and the worst are so by chrF of the sentence, others are drawn with
a fixed seed. The outputs are those that benchmarks/translation.py kept when it judged the run, so the test set is not
searched a second time; only beams that are shown are.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from multi30k.corpus import TEST, part_files
from multi30k.plan import planned
from multi30k.running import LENGTHS, ROOT

import regard
from regard.data.lines import read_lines
from regard.files import replace_file
from regard.metrics import evaluate, metric
from regard.metrics.breakdown import Bucket, Segment, by_frequency, by_length, by_segment
from regard.metrics.overlap import words_by
from regard.report import to_svg
from regard.run.breakdown import training_counts
from regard.run.model import Model
from regard.search import Trace

PAGE: Final = "translation_model.md"
ENDS, DRAWN, PICTURES = 6, 10, 3
"""How many of the worst and of the best are shown, how many are drawn, and how many have a picture."""

SEED: Final = 1
SHORT: Final = 9
"""Words of a source whose beam can be shown."""

STEPS: Final = 12
"""Of a beam that is shown."""

SHORTER, LONGER = 0.8, 1.25
"""Outputs below and above so many times the words of the reference count as too short and too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A test set beside what a model wrote for it."""

    sources: list[str]
    references: list[str]
    outputs: list[str]
    tokenize: str

    @property
    def lists(self) -> list[list[str]]:
        return [[text] for text in self.references]


def page(model: Model, judged: Judged, *, resamples: int = 1000) -> str:
    """The whole page; pictures are files beside it (`pictures`)."""
    ordered = by_segment(metric("chrF"), judged.outputs, judged.lists)
    score = evaluate(metric("BLEU", tokenize=judged.tokenize), judged.outputs, judged.lists, resamples=resamples)
    chosen = drawn(len(judged.sources), DRAWN)
    values = {one.number: one.value for one in ordered}
    parts = [
        f"# A translation model, looked into: {model.folder.name}\n",
        f"Written by `benchmarks/translation_page.py`. {model.parameters:,} parameters, {score}, "
        f"{len(judged.sources):,} test sentences (`{score.signature}`). No sentence below is picked by hand: the worst "
        f"and the best are so by chrF of the sentence, the others are drawn with seed {SEED}.\n",
        "## What goes wrong, counted\n",
        faults(judged),
        length_table(judged, resamples),
        frequency_table(model, judged, resamples),
        "## Where it looks\n",
        "Attention of the last layer, the mean of its heads: rows are words of the output, columns of the source. It "
        "is what the model reads at a step, not a proof of why it writes a word.\n",
        *(
            f"![Attention from “{_plain(judged.outputs[number])}” to “{_plain(judged.sources[number])}”]"
            f"({picture_name(place)})\n"
            for place, number in enumerate(pictured(judged), start=1)
        ),
        beam_section(model, judged),
        f"## The {ENDS} worst sentences\n",
        examples(judged, ordered[:ENDS]),
        f"## {DRAWN} sentences, drawn\n",
        examples(judged, [Segment(number, values[number]) for number in chosen]),
        f"## The {ENDS} best sentences\n",
        examples(judged, ordered[::-1][:ENDS]),
    ]
    return "\n".join(part for part in parts if part)


def drawn(count: int, size: int) -> list[int]:
    """Numbers of sentences, drawn once and for all, in the order of the set."""
    return sorted(random.Random(SEED).sample(range(count), min(size, count)))


def pictured(judged: Judged) -> list[int]:
    """The first drawn sentences of 6 to 14 words with an output, which a picture has room for."""
    order = random.Random(SEED).sample(range(len(judged.sources)), len(judged.sources))
    fits = (n for n in order if 6 <= len(judged.sources[n].split()) <= 14 and judged.outputs[n].strip())
    return [number for number, _ in zip(fits, range(PICTURES), strict=False)]


def picture_name(place: int) -> str:
    return f"translation_alignment_{place}.svg"


def pictures(model: Model, judged: Judged) -> dict[str, str]:
    """The alignments of the page by the names of their files."""
    found: dict[str, str] = {}
    for place, number in enumerate(pictured(judged), start=1):
        (picture,) = model.align([(judged.sources[number], judged.outputs[number])])
        found[picture_name(place)] = to_svg(replace(picture, title=judged.outputs[number])) + "\n"
    return found


def faults(judged: Judged) -> str:
    """How often outputs are too short or too long, repeat a word, say nothing, or are the reference itself."""
    pairs = [(out.split(), ref.split()) for out, ref in zip(judged.outputs, judged.references, strict=True)]
    counts = {
        f"shorter than {SHORTER:g} times the reference": sum(len(out) < SHORTER * len(ref) for out, ref in pairs),
        f"longer than {LONGER:g} times the reference": sum(len(out) > LONGER * len(ref) for out, ref in pairs),
        "a word twice in a row": sum(any(a == b for a, b in pairwise(out)) for out, _ in pairs),
        "nothing written": sum(not out for out, _ in pairs),
        "the same as the reference": sum(out == ref for out, ref in pairs),
    }
    lines = ["| outputs | sentences | share |", "|---|---:|---:|"]
    lines += [f"| {name} | {count:,} | {100 * count / len(pairs):.1f} % |" for name, count in counts.items()]
    return "\n".join(lines) + "\n"


def length_table(judged: Judged, resamples: int) -> str:
    """BLEU by words of the source."""
    sizes = [len(source.split()) for source in judged.sources]
    bleu = metric("BLEU", tokenize=judged.tokenize)
    found = by_length(bleu, judged.outputs, judged.lists, sizes, edges=LENGTHS, resamples=resamples)
    return _buckets("source words", "sentences", "BLEU", found)


def frequency_table(model: Model, judged: Judged, resamples: int) -> str:
    """F1 of words by how often the training data has them."""
    words: Callable[[str], list[str]] = words_by(judged.tokenize)
    counts = training_counts(model, words)
    found = by_frequency(judged.outputs, judged.references, counts, words=words, resamples=resamples)
    return _buckets("times in the training data", "words", "F1", found)


def _buckets(what: str, counted: str, name: str, found: Sequence[Bucket]) -> str:
    lines = [f"| {what} | {counted} | {name} |", "|---|---:|---|"]
    for one in found:
        low, high = one.score.low, one.score.high
        interval = "" if low is None or high is None else f" [{low:.1f}, {high:.1f}]"
        lines.append(f"| {one.label} | {one.count:,} | {one.score.value:.1f}{interval} |")
    return "\n".join(lines) + "\n"


def beam_section(model: Model, judged: Judged) -> str:
    """The beam of the first drawn sentence that is short enough."""
    order = random.Random(SEED).sample(range(len(judged.sources)), len(judged.sources))
    number = next((n for n in order if len(judged.sources[n].split()) <= SHORT), None)
    if number is None:
        return ""
    prediction = model.predict(judged.sources[number], options=replace(model.options(), trace=True))
    assert prediction.trace is not None
    lines = [
        "## What a beam keeps and what it drops\n",
        f"- source: {_cell(judged.sources[number])}",
        f"- reference: {_cell(judged.references[number])}",
        f"- output: {_cell(prediction.text)}\n",
        "Numbers are log-probabilities of all that is written so far.\n",
        beam_table(prediction.trace, model.texts.target.decode),
    ]
    return "\n".join(lines)


def beam_table(trace: Trace, decode: Callable[[Sequence[int]], str]) -> str:
    """Step by step: what goes on or ends, and the likeliest of what is dropped."""
    lines = ["| step | kept | likeliest that is dropped |", "|---:|---|---|"]
    steps = sorted({node.step for node in trace.nodes if node.parent >= 0 or node.token >= 0})
    for place, step in enumerate(steps[:STEPS], start=1):
        nodes = sorted((node for node in trace.nodes if node.step == step), key=lambda node: -node.total)
        kept = [
            f"{_cell(decode(trace.path(node)))}{' ■' if node.fate == 'ended' else ''} {node.total:.2f}"
            for node in nodes
            if node.fate != "pruned"
        ]
        dropped = next((node for node in nodes if node.fate == "pruned"), None)
        told = "" if dropped is None else f"{_cell(decode(trace.path(dropped)))} {dropped.total:.2f}"
        lines.append(f"| {place} | {'<br>'.join(kept)} | {told} |")
    more = len(steps) - STEPS
    tail = f"\n■ ends here. {more} further steps are not shown.\n" if more > 0 else "\n■ ends here.\n"
    return "\n".join(lines) + "\n" + tail


def examples(judged: Judged, segments: Sequence[Segment]) -> str:
    """Source, reference and output of some sentences."""
    lines = ["| | |", "|---|---|"]
    for one in segments:
        number = one.number
        lines += [
            f"| **sentence {number + 1}** | chrF {one.value:.1f} |",
            f"| source | {_cell(judged.sources[number])} |",
            f"| reference | {_cell(judged.references[number])} |",
            f"| output | {_cell(judged.outputs[number]) or '(nothing)'} |",
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A text inside a table: nothing of it is Markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\")
    return "".join(f"\\{mark}" if mark in "|*_`[]" else mark for mark in escaped)


def _plain(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


def read_judged(model: Model, run: Path, files: Sequence[str] | None) -> Judged:
    """The test set of the run with the outputs that were kept; files of another set are translated here."""
    folder = run.parents[1]
    if files is None:
        row = planned(run.name.split("-")[0])
        sources, references = (list(read_lines(folder / name)) for name in part_files(row, TEST))
        outputs = list(read_lines(folder / "outputs" / f"{run.name}.txt"))
    else:
        sources, references = (list(read_lines(name)) for name in files)
        outputs = [prediction.text for prediction in model.predict_many(sources)]
    return Judged(sources=sources, references=references, outputs=outputs, tokenize=model.recipe.evaluation.tokenize)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a page about a trained translation model.")
    parser.add_argument("run", type=Path, help="a run folder of benchmarks/translation.py, or any with --files")
    parser.add_argument("--files", nargs=2, metavar=("SOURCE", "TARGET"), help="another set, translated for the page")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the page and its pictures go")
    options = parser.parse_args()
    run = options.run.resolve()
    model = regard.load(run)
    judged = read_judged(model, run, options.files)
    options.docs.mkdir(parents=True, exist_ok=True)
    for name, drawing in pictures(model, judged).items():
        replace_file(options.docs / name, drawing.encode())
    replace_file(options.docs / PAGE, page(model, judged).encode())
    print(f"wrote {options.docs / PAGE}")


if __name__ == "__main__":
    main()

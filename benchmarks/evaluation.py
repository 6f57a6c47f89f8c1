"""What evaluation costs beyond decoding: CPU seconds for 1,000 sentences of the pocket world.

Outputs are the references with words swapped and replaced. Aims: BLEU and chrF with intervals under 2 s, and all that
`regard evaluate` and `regard compare` can do with such outputs under 10 s.

    python benchmarks/evaluation.py [--write]

`--write` puts the figures into benchmarks/evaluation.json. Synonyms are measured where WordNet's files are
(REGARD_WORDNET, or Debian's folder).
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from regard.data.pocket import examples
from regard.metrics import MeteorSources, evaluate, metric
from regard.metrics.breakdown import by_frequency, by_label, by_length, by_segment
from regard.metrics.significance import Outputs, compare_with_first

SENTENCES = 1000
RESULTS = Path(__file__).with_name("evaluation.json")
WORDNET = Path(os.environ.get("REGARD_WORDNET", "/usr/share/wordnet"))


def noisy(texts: list[str], seed: int) -> list[str]:
    """Texts with two neighbours swapped and a word in eight replaced."""
    chance = random.Random(seed)
    vocabulary = sorted({word for text in texts for word in text.split()})
    outputs = []
    for text in texts:
        words = [chance.choice(vocabulary) if chance.random() < 0.125 else word for word in text.split()]
        place = chance.randrange(max(1, len(words) - 1))
        words[place : place + 2] = words[place : place + 2][::-1]
        outputs.append(" ".join(words))
    return outputs


def measured(name: str, work: Callable[[], object]) -> tuple[str, float]:
    """CPU seconds of some work."""
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    print(f"{name:<44} {seconds:6.2f} s", flush=True)
    return name, seconds


def main() -> None:
    """Measure everything, and tell the sums that have an aim."""
    texts = [one.target for one in examples(size=SENTENCES, seed=5, source="de", target="en").train]
    references = [[text] for text in texts]
    outputs, others = noisy(texts, 1), noisy(texts, 2)
    counts = Counter(word for text in texts for word in text.split())
    meteor = metric("METEOR")
    figures = dict(
        [
            measured("BLEU, interval", lambda: evaluate(metric("BLEU"), outputs, references)),
            measured("chrF, interval", lambda: evaluate(metric("chrF"), outputs, references)),
            measured("TER, interval", lambda: evaluate(metric("TER"), outputs, references)),
            measured("METEOR (exact, stem), interval", lambda: evaluate(meteor, outputs, references)),
        ]
    )
    if WORDNET.is_dir():
        with_synonyms = MeteorSources(wordnet=str(WORDNET))
        name = "METEOR (exact, stem, WordNet), interval"
        figures |= [measured(name, lambda: evaluate(metric("METEOR", meteor=with_synonyms), outputs, references))]
    for name in ("exact", "accuracy", "edit_distance", "WER", "CER"):
        figures |= [measured(f"{name}, interval", partial(evaluate, metric(name), outputs, references))]
    lengths = [len(text.split()) for text in texts]
    labels = [["long" if len(word) > 4 else "short" for word in text.split()] for text in texts]
    pair = [Outputs("one", outputs), Outputs("two", others)]
    figures |= [
        measured("BLEU by length", lambda: by_length(metric("BLEU"), outputs, references, lengths)),
        measured("words by frequency", lambda: by_frequency(outputs, texts, counts)),
        measured("words by label", lambda: by_label(outputs, texts, labels)),
        measured("chrF by segment", lambda: by_segment(metric("chrF"), outputs, references)),
        measured("two systems by BLEU, both tests", lambda: compare_with_first(metric("BLEU"), pair, references)),
        measured("two systems by chrF, both tests", lambda: compare_with_first(metric("chrF"), pair, references)),
    ]
    sums = {
        "BLEU and chrF": figures["BLEU, interval"] + figures["chrF, interval"],
        "everything": sum(figures.values()),
    }
    print(*(f"{name}: {seconds:.2f} s" for name, seconds in sums.items()), sep="\n")
    if "--write" in sys.argv[1:]:
        record = {"format": 1, "sentences": SENTENCES, "cpu_seconds": {**figures, **sums}}
        rounded = json.loads(json.dumps(record), parse_float=lambda text: round(float(text), 3))
        RESULTS.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

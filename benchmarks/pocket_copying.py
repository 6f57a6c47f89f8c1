"""How far copying gets on the pocket world: answer with the translation of the nearest training sentence.

If this scored well, a translation model could be judged good for remembering. Nearness is tried in three ways: cosine
of tf-idf vectors of words, the same of word n-grams up to 4, and word edit distance among the 200 nearest by n-grams.

    python benchmarks/pocket_copying.py [seed]
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import sacrebleu

from regard.data.pocket import PocketExample, Splits, examples

Nearest = Callable[[str], int]


def n_grams(text: str, longest: int) -> list[str]:
    """All word n-grams up to a length."""
    words = text.split()
    return [
        " ".join(words[start : start + size])
        for size in range(1, longest + 1)
        for start in range(len(words) - size + 1)
    ]


class Index:
    """Training sources by their n-grams, for cosine similarity of tf-idf vectors."""

    def __init__(self, sources: list[str], longest: int) -> None:
        self.longest = longest
        self.size = len(sources)
        counts = [Counter(n_grams(source, longest)) for source in sources]
        frequency = Counter(gram for count in counts for gram in count)
        self.weight = {gram: math.log(self.size / found) + 1.0 for gram, found in frequency.items()}
        entries: dict[str, tuple[list[int], list[float]]] = {}
        for line, count in enumerate(counts):
            length = math.sqrt(sum((many * self.weight[gram]) ** 2 for gram, many in count.items()))
            for gram, many in count.items():
                lines, values = entries.setdefault(gram, ([], []))
                lines.append(line)
                values.append(many * self.weight[gram] / length)
        self.entries = {gram: (np.array(lines), np.array(values)) for gram, (lines, values) in entries.items()}

    def scores(self, source: str) -> np.ndarray:
        """The similarity of every training sentence, up to a factor that is the same for all."""
        total = np.zeros(self.size)
        for gram, many in Counter(n_grams(source, self.longest)).items():
            if gram in self.entries:
                lines, values = self.entries[gram]
                total[lines] += many * self.weight[gram] * values
        return total


def edit_distance(one: list[str], two: list[str]) -> int:
    """Insertions, deletions and replacements of words."""
    row = list(range(len(two) + 1))
    for index, word in enumerate(one, 1):
        previous, row[0] = row[0], index
        for column, other in enumerate(two, 1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (word != other))
    return row[-1]


def ways(train: tuple[PocketExample, ...]) -> dict[str, Nearest]:
    """The ways of choosing the nearest training sentence, each giving its line."""
    sources = [pair.source for pair in train]
    words, grams = Index(sources, 1), Index(sources, 4)

    def by_edits(source: str) -> int:
        scores = grams.scores(source)
        near = np.argpartition(-scores, min(200, len(scores) - 1))[:200]
        return int(min(near, key=lambda line: (edit_distance(source.split(), sources[line].split()), -scores[line])))

    return {
        "tf-idf of words": lambda source: int(words.scores(source).argmax()),
        "tf-idf of n-grams": lambda source: int(grams.scores(source).argmax()),
        "edit distance": by_edits,
    }


def measure(splits: Splits, target: str) -> None:
    """Print the BLEU of copying for every way and test set."""
    for name, nearest in ways(splits.train).items():
        figures = []
        for pairs in (splits.test, splits.combinations):
            copied = [splits.train[nearest(pair.source)].target for pair in pairs]
            references = [[pair.target for pair in pairs]]
            figures.append(sacrebleu.corpus_bleu(copied, references, tokenize="none", force=True).score)
        print(f"{'en-' + target:<8}{name:<22}{figures[0]:>8.1f}{figures[1]:>15.1f}", flush=True)


def main() -> None:
    """Generate, copy and print a table."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(f"{'pair':<8}{'nearest by':<22}{'test':>8}{'combinations':>15}   BLEU, 20,000 training pairs, seed {seed}")
    for target in ("de", "fr"):
        start = time.perf_counter()
        splits = examples(size=20000, seed=seed, target=target)
        generated = time.perf_counter() - start
        measure(splits, target)
        print(f"        generated in {generated:.1f} s, copied in {time.perf_counter() - start - generated:.1f} s")


if __name__ == "__main__":
    main()

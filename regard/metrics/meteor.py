"""METEOR: words of output and reference are aligned, and judged by precision, recall and order.

    P, R    weighted share of the output's and of the reference's words that are matched
    F       P · R / (α · P + (1 - α) · R)
    penalty γ · (chunks / matches)^β
    score   F · (1 - penalty)

A matched word counts by its module (exact, stem, synonym, paraphrase), and content words count δ, function words 1 - δ.
Banerjee and Lavie 2005; Agarwal and Lavie 2008; Denkowski and Lavie 2011 (version 1.3) and 2014 (1.5). Statistics of a
set are added up before the formula is applied, as the original does; a segment like its reference adds no chunks.

What differs from the program of the original, and keeps the numbers from being equal to its: the tokenisation is that
of BLEU, the stemmer is Porter's, function words are a list of our own, and the alignment is chosen as the papers say
(the program rounds the weights of matches other than exact ones down to 0 while it searches).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from regard.errors import UsageError
from regard.metrics.function_words import ENGLISH
from regard.metrics.matching import VERSION
from regard.metrics.overlap import words_by
from regard.metrics.paraphrases import Paraphrases
from regard.metrics.resampling import Statistics
from regard.metrics.stemming import stem
from regard.metrics.word_alignment import Match, align, count_chunks
from regard.metrics.wordnet import WordNet

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
MODULES: Final = ("exact", "stem", "synonym", "paraphrase")


@dataclass(frozen=True, slots=True)
class Parameters:
    """How matches are weighed. `whole`: a segment that equals its reference has no penalty."""

    alpha: float
    beta: float
    gamma: float
    delta: float
    weights: tuple[float, float, float, float]
    whole: bool = True


PARAMETERS: Final[Mapping[str, Parameters]] = {
    "2005": Parameters(0.9, 3.0, 0.5, 0.5, (1.0, 1.0, 1.0, 1.0), whole=False),
    "1.0": Parameters(0.8, 2.5, 0.4, 0.5, (1.0, 1.0, 1.0, 1.0)),
    "1.0-ranking": Parameters(0.95, 0.5, 0.5, 0.5, (1.0, 1.0, 1.0, 1.0)),
    "1.0-hter": Parameters(0.65, 1.8, 0.45, 0.5, (1.0, 1.0, 1.0, 1.0)),
    "1.3": Parameters(0.85, 0.2, 0.6, 0.75, (1.0, 0.6, 0.8, 0.6)),
    "1.3-adequacy": Parameters(0.75, 1.4, 0.45, 0.7, (1.0, 1.0, 0.6, 0.8)),
    "1.3-hter": Parameters(0.4, 1.5, 0.35, 0.55, (1.0, 0.2, 0.6, 0.8)),
    "1.3-tuning": Parameters(0.5, 1.0, 0.5, 0.5, (1.0, 0.5, 0.5, 0.5)),
    "1.5": Parameters(0.85, 0.2, 0.6, 0.75, (1.0, 0.6, 0.8, 0.6)),
    "1.5-universal": Parameters(0.7, 1.4, 0.3, 0.7, (1.0, 0.0, 0.0, 0.6)),
    "1.5-other": Parameters(0.75, 1.4, 0.7, 0.5, (1.0, 0.5, 0.5, 0.5)),
}
"""By version, for English: the constants of the programs 1.0 and 1.5, and the formula of the paper of 2005.

A version alone stands for what its program takes if nothing is asked for: judgements of adequacy and fluency in 1.0,
rankings in 1.3 and 1.5. In 1.0 all words weigh the same. `other` is for languages other than English.
"""

# columns of the statistics: for each module content and function words of the output, then of the reference;
# content and function words of the output, and of the reference; chunks
_PER_MODULE: Final = 4
_LENGTHS: Final = _PER_MODULE * len(MODULES)
_CHUNKS: Final = _LENGTHS + 4
_COLUMNS: Final = _CHUNKS + 1


class Meteor:
    """METEOR of a version, with as many modules as there are sources for, in per cent."""

    name: Final = "METEOR"
    higher_is_better: Final = True

    def __init__(
        self,
        *,
        version: str = "1.5",
        tokenize: str = "13a",
        wordnet: WordNet | None = None,
        paraphrases: Paraphrases | None = None,
        stems: bool = True,
        function_words: frozenset[str] = ENGLISH,
    ) -> None:
        """Without `wordnet` there are no synonyms, without `paraphrases` none of these; the signature tells."""
        if version not in PARAMETERS:
            raise UsageError(f"METEOR has no version {version!r}: must be one of {', '.join(PARAMETERS)}")
        self.parameters = PARAMETERS[version]
        usable = [weight > 0 for weight in self.parameters.weights]
        english = version not in ("1.5-universal", "1.5-other")
        self.wordnet = wordnet if usable[SYNONYM] and english else None
        self.paraphrases = paraphrases if usable[PARAPHRASE] else None
        self.stems = stems and usable[STEM] and english
        self.function_words = function_words if english else frozenset()
        self._words = words_by(tokenize)
        self.signature = self._signed(version, tokenize)

    def _signed(self, version: str, tokenize: str) -> str:
        modules = ["exact"]
        modules += ["stem-porter"] if self.stems else []
        modules += [f"wordnet-{self.wordnet.version}"] if self.wordnet else []
        modules += [f"paraphrase-{self.paraphrases.mark}"] if self.paraphrases else []
        functions = "none" if not self.function_words else "regard-en" if self.function_words is ENGLISH else "own"
        return f"case:lc|tok:{tokenize}|param:{version}|mod:{'+'.join(modules)}|func:{functions}|{VERSION}"

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment, against the reference that gives the best score: matches, lengths and chunks."""
        rows = []
        for hypothesis, texts in zip(hypotheses, references, strict=True):
            words = self._words(hypothesis.lower())
            found = [self._row(words, self._words(text.lower())) for text in texts]
            rows.append(max(found, key=lambda row: self.aggregate(row)[0]))
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """The formula at the head of this file."""
        own = self.parameters
        by_module = totals[:_LENGTHS].reshape(len(MODULES), 2, 2)  # module, side, content or function
        kinds = np.array([own.delta, 1 - own.delta])
        matched = np.einsum("m,msk,k->s", np.array(own.weights), by_module, kinds)
        lengths = totals[_LENGTHS:_CHUNKS].reshape(2, 2) @ kinds
        matches = float(by_module.sum()) / 2
        precision, recall = (float(part / of) if of else 0.0 for part, of in zip(matched, lengths, strict=True))
        mean = own.alpha * precision + (1 - own.alpha) * recall
        score = precision * recall / mean if mean else 0.0
        penalty = own.gamma * (float(totals[_CHUNKS]) / matches) ** own.beta if matches else 0.0
        return 100 * score * (1 - penalty), {
            "precision": 100 * precision,
            "recall": 100 * recall,
            "penalty": 100 * penalty,
            **{name: float(of.sum()) / 2 for name, of in zip(MODULES, by_module, strict=True)},
        }

    def _row(self, hypothesis: Sequence[str], reference: Sequence[str]) -> Statistics:
        row = np.zeros(_COLUMNS)
        if hypothesis == reference:
            chosen = [Match(place, place) for place in range(len(reference))]
        else:
            chosen = align(self.matches(hypothesis, reference), len(reference), weights=self.parameters.weights)
        functions = [[word in self.function_words for word in words] for words in (hypothesis, reference)]
        for side, kinds in enumerate(functions):
            row[_LENGTHS + 2 * side] = len(kinds) - sum(kinds)
            row[_LENGTHS + 2 * side + 1] = sum(kinds)
        for match in chosen:
            column = _PER_MODULE * match.module
            for word in range(match.hypothesis, match.hypothesis_end):
                row[column + functions[0][word]] += 1
            for word in range(match.reference, match.reference + match.reference_length):
                row[column + 2 + functions[1][word]] += 1
        whole = self.parameters.whole and row[:_LENGTHS].sum() == len(hypothesis) + len(reference)
        chunks = count_chunks(chosen)
        row[_CHUNKS] = 0 if whole and chunks == 1 else chunks
        return row

    def matches(self, hypothesis: Sequence[str], reference: Sequence[str]) -> list[Match]:
        """Every match that may be chosen: two words by the first module that joins them, then phrases."""
        found = []
        stems = [[stem(word) for word in words] if self.stems else [] for words in (hypothesis, reference)]
        for place, word in enumerate(reference):
            for other, text in enumerate(hypothesis):
                if word == text:
                    found.append(Match(place, other, EXACT))
                elif self.stems and stems[0][other] == stems[1][place]:
                    found.append(Match(place, other, STEM))
                elif self.wordnet is not None and self.wordnet.synonymous(word, text):
                    found.append(Match(place, other, SYNONYM))
        return found + self._phrases(hypothesis, reference)

    def _phrases(self, hypothesis: Sequence[str], reference: Sequence[str]) -> list[Match]:
        if self.paraphrases is None:
            return []
        places: dict[tuple[str, ...], list[int]] = {}
        for length in range(1, self.paraphrases.longest + 1):
            for start in range(len(hypothesis) - length + 1):
                places.setdefault(tuple(hypothesis[start : start + length]), []).append(start)
        return [
            Match(start, other, PARAPHRASE, length, len(instead))
            for length in range(1, self.paraphrases.longest + 1)
            for start in range(len(reference) - length + 1)
            for instead in sorted(self.paraphrases.of(tuple(reference[start : start + length])))
            for other in places.get(instead, ())
        ]

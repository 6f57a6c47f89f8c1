"""Reranking of what one run finds, by what other runs say of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from regard.data.example import Example
from regard.errors import DataError, UsageError
from regard.metrics import MeteorSources
from regard.metrics import metric as named_metric
from regard.run.model import Model
from regard.run.prediction import Output, Prediction
from regard.search import SearchOptions
from regard.search.reranking import (
    LENGTH,
    MODEL,
    Parts,
    Tuned,
    Weights,
    check_weights,
    even_weights,
    ranked,
    tune,
    weighted_sum,
)
from regard.search.risk import UTILITIES

WINDOW: Final = 256
"""So many sources are held with all their outputs."""


class Reranker:
    """A model that searches, and models that judge what it found.

    `right_to_left` gives log p(y | x) of a run with `text.reverse_target`, `reverse` gives log p(x | y), and
    `language_model` gives log p(y), each teacher-forced, of the text, in tokens of its own.
    """

    def __init__(
        self,
        model: Model,
        *,
        right_to_left: Model | None = None,
        reverse: Model | None = None,
        language_model: Model | None = None,
    ) -> None:
        given = {"right_to_left": right_to_left, "reverse": reverse, "language_model": language_model}
        self.model = model
        self.judges = {name: judge for name, judge in given.items() if judge is not None}
        if not self.judges:
            raise UsageError(f"there is nothing to rerank by: give one or more of {', '.join(given)}")
        self._check(model)

    def _check(self, model: Model) -> None:
        if model.recipe.model.shape != "encoder-decoder":
            raise UsageError(
                f"{model.folder}: outputs of an encoder-decoder are reranked, and this is of shape "
                f"{model.recipe.model.shape}"
            )
        for name, judge in self.judges.items():
            wanted = "language-model" if name == "language_model" else "encoder-decoder"
            if judge.recipe.model.shape != wanted:
                raise UsageError(
                    f"{judge.folder}: {name} must be a run of shape {wanted}, and this is of shape "
                    f"{judge.recipe.model.shape}"
                )
        turned = self.judges.get("right_to_left")
        if turned is not None and not turned.recipe.text.reverse_target:
            raise UsageError(
                f"{turned.folder}: this run writes from left to right; train one with text.reverse_target=true"
            )
        if "reverse" in self.judges and (
            model.collation.source.text is None or not _reads_text(self.judges["reverse"])
        ):
            raise UsageError("reverse: log p(x | y) needs texts on both sides, and a source is none here")

    @property
    def names(self) -> tuple[str, ...]:
        """The parts of a score."""
        return (MODEL, *self.judges, LENGTH)

    def options(self, beam: int | None = None) -> SearchOptions:
        """A beam, all of whose outputs are reranked; as wide as the recipe says if left out."""
        width = self.model.recipe.search.beam if beam is None else beam
        if width < 2:
            raise UsageError(f"a beam of {width} leaves nothing to rerank; ask for 2 or more, say 20")
        return self.model.options(beam=width, best=width)

    def lists(self, texts: Iterable[str], *, beam: int | None = None) -> Iterator[Prediction]:
        """What the model finds for each text, in its order; every output has its parts."""
        predictions = self.model.predict_many(texts, options=self.options(beam))
        while window := list(islice(predictions, WINDOW)):
            yield from self._judged([_distinct(one) for one in window])

    def run(
        self, texts: Iterable[str], *, weights: Weights | None = None, beam: int | None = None, best: int = 1
    ) -> Iterator[Prediction]:
        """One prediction for each text, its `best` outputs by weighted sum, which is their score."""
        used = even_weights(self.names) if weights is None else check_weights(weights, self.names)
        for prediction in self.lists(texts, beam=beam):
            order = ranked([one.parts for one in prediction.outputs], used, self.names)
            outputs = (prediction.outputs[number] for number in order[:best])
            yield replace(
                prediction, outputs=tuple(replace(one, score=weighted_sum(one.parts, used)) for one in outputs)
            )

    def tune(self, examples: Sequence[Example], *, metric: str = "BLEU", beam: int | None = None) -> Tuned:
        """Weights whose choices are most like the targets of some examples."""
        if metric not in UTILITIES:
            raise UsageError(f"weights are tuned by one of {', '.join(UTILITIES)}, not by {metric!r}")
        section = self.model.recipe.evaluation
        meteor = MeteorSources(**section.meteor.model_dump())
        measure = named_metric(metric, tokenize=section.tokenize, meteor=meteor)
        predictions = list(self.lists((example.source for example in examples), beam=beam))
        found = [
            (one.outputs, example.target) for one, example in zip(predictions, examples, strict=True) if one.outputs
        ]
        if not found:
            raise DataError(f"weights cannot be tuned: not one of {len(examples):,} sources has an output")
        statistics = [
            measure.statistics([one.text for one in outputs], [[target]] * len(outputs)) for outputs, target in found
        ]
        lists = [[one.parts for one in outputs] for outputs, _ in found]
        return tune(lists, statistics, names=self.names, measure=measure)

    def _judged(self, predictions: Sequence[Prediction]) -> Iterator[Prediction]:
        pairs = [(one.source, output) for one in predictions for output in one.outputs]
        parts: list[dict[str, float]] = [
            {MODEL: output.log_probability, LENGTH: float(len(output.pieces) + output.complete)} for _, output in pairs
        ]
        faults = [""] * len(pairs)
        for name, judge in self.judges.items():
            asked = [number for number, (_, one) in enumerate(pairs) if name != "reverse" or one.text.strip()]
            for number in set(range(len(pairs))).difference(asked):
                faults[number] = f"{name}: the output is blank"
            sides = (self._sides(name, *pairs[number]) for number in asked)
            for number, scored in zip(asked, judge.score_many(sides), strict=True):
                if scored.fault:
                    faults[number] = f"{name}: {scored.fault}"
                else:
                    parts[number][name] = scored.log_probability
        place = 0
        for one in predictions:
            here = range(place, place + len(one.outputs))
            place += len(one.outputs)
            outputs = tuple(
                replace(output, parts=_in_order(parts[number], self.names))
                for output, number in zip(one.outputs, here, strict=True)
            )
            wrong = [faults[number] for number in here if faults[number]]
            told = f"{len(wrong)} of {len(outputs)} outputs could not be judged and stand last; {', '.join(wrong[:1])}"
            yield replace(one, outputs=outputs, remark="; ".join(filter(None, (one.remark, told if wrong else ""))))

    def _sides(self, name: str, source: str, output: Output) -> tuple[str, str]:
        """Source and target as a judge sees them."""
        if name == "language_model":
            return "", output.text
        if name == "reverse":
            return output.text, self.model.collation.source.columns(source)[0]
        return source, output.text


def _reads_text(model: Model) -> bool:
    return model.collation.source.text is not None


def _distinct(prediction: Prediction) -> Prediction:
    """Of outputs with the same text, in other tokens, only the first."""
    seen: dict[str, Output] = {}
    for one in prediction.outputs:
        seen.setdefault(one.text, one)
    return replace(prediction, outputs=tuple(seen.values()))


def _in_order(parts: Parts, names: Sequence[str]) -> Parts:
    return {name: parts[name] for name in names if name in parts}

"""Reading attention as an alignment of words.

A model attends with tokens; people align words. A reading chooses which attention is meant (a decoder layer, a head or
the mean of all, the step that predicts a token or the one that reads it); weights are then summed over the tokens of a
source word and averaged over those of a target word. Which reading fits best is found on validation data.

Shapes: H heads, M target tokens, N source tokens; m, n the same in words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UsageError
from regard.insight.capture import capture
from regard.metrics.alignment import Link, alignment_error
from regard.models import EncoderDecoder
from regard.text.encoding import Encoding
from regard.text.words import tokens_to_words, word_spans

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """`shift` 0 takes the step that predicts a token, 1 the step that has just read it."""

    layer: int = -1
    head: int | None = None
    shift: int = 0


@torch.no_grad()
def cross_attention(system: EncoderDecoder, batch: Batch) -> list[list[Tensor]]:
    """For each row of a batch, for each decoder layer, weights (H, M, N) over all positions of the memory.

    Target padding is cut off; END rows stay. Positions that may not be attended to have the weight 0.
    """
    with capture(parts=("decoder",), kinds=("cross",)) as captured:
        system.token_log_probabilities(batch)
    layers = [captured.values[site] for site in sorted(captured.values, key=lambda site: site.layer)]
    return [[layer[row][:, : int(batch.mask[row].sum())] for layer in layers] for row in range(batch.rows)]


def readings(layers: Sequence[Tensor]) -> Iterable[Reading]:
    """Every reading of a model, given the attention of one sentence."""
    for layer, weights in enumerate(layers):
        heads: list[int | None] = [None, *range(weights.size(0))] if weights.size(0) > 1 else [None]
        for head in heads:
            for shift in (0, 1):
                yield Reading(layer=layer, head=head, shift=shift)


def check_reading(reading: Reading, heads: Sequence[int]) -> None:
    """UsageError for one that a decoder with so many heads in each layer does not have."""
    if not -len(heads) <= reading.layer < len(heads):
        raise UsageError(
            f"there is no layer {reading.layer}: the decoder has {len(heads)}, counted from 0; -1 is the last"
        )
    count = heads[reading.layer]
    if reading.head is not None and not 0 <= reading.head < count:
        raise UsageError(f"there is no head {reading.head}: the layer has {count}, counted from 0")


def read(layers: Sequence[Tensor], reading: Reading) -> Weights:
    """The weights of one reading over the tokens of the text, without END: (M - 1, N - 1)."""
    check_reading(reading, [layer.size(0) for layer in layers])
    weights = layers[reading.layer]
    chosen = weights.mean(0) if reading.head is None else weights[reading.head]
    return of_tokens(chosen.double().numpy(), reading.shift)


def of_tokens(weights: Weights, shift: int) -> Weights:
    """Of steps (M, N) those that write the tokens, or with a shift read them, without END: (M - 1, N - 1)."""
    return weights[shift : shift + len(weights) - 1, :-1]


def by_words(
    weights: Weights, source: str, source_encoding: Encoding, target: str, target_encoding: Encoding
) -> Weights:
    """Token weights (M, N) merged to whitespace words (m, n)."""
    into_source = _membership(source, source_encoding)  # (n, N)
    into_target = _membership(target, target_encoding)  # (m, M)
    into_target /= np.maximum(into_target.sum(1, keepdims=True), 1)
    merged: Weights = into_target @ weights @ into_source.T
    return merged


def in_reading_order(weights: Weights, target: Encoding) -> tuple[Weights, Encoding]:
    """Token weights (M, N) and the tokens of a target from the first to the last, where it was written backwards."""
    if list(target.spans) == sorted(target.spans):
        return weights, target
    return weights[::-1], Encoding(ids=target.ids[::-1], spans=target.spans[::-1])


def _membership(text: str, encoding: Encoding) -> Weights:
    words = word_spans(text)
    matrix = np.zeros((len(words), len(encoding)))
    for token, word in enumerate(tokens_to_words(encoding.spans, words)):
        if word is not None:
            matrix[word, token] = 1.0
    return matrix


def links(weights: npt.NDArray[np.floating]) -> frozenset[Link]:
    """Each target word is linked with the source word it attends to most: {(source, target)}."""
    if not weights.shape[1]:
        return frozenset()
    return frozenset((int(source), target) for target, source in enumerate(weights.argmax(1)))


@dataclass(frozen=True, slots=True)
class Aligned:
    """A sentence pair with everything needed to judge readings of it."""

    layers: Sequence[Tensor]
    source: str
    target: str
    source_encoding: Encoding
    target_encoding: Encoding
    gold: frozenset[Link]

    def links(self, reading: Reading) -> frozenset[Link]:
        tokens = read(self.layers, reading)
        return links(by_words(tokens, self.source, self.source_encoding, self.target, self.target_encoding))


def best_reading(sentences: Iterable[Aligned]) -> tuple[Reading, Mapping[Reading, float]] | None:
    """The reading with the least alignment error on sentences with gold links, and the error of all readings.

    None where there are no sentences or no attention. Sentences come one by one: attention is large, links are not.
    """
    predicted: dict[Reading, list[frozenset[Link]]] = {}
    gold: list[frozenset[Link]] = []
    for one in sentences:
        gold.append(one.gold)
        for reading in readings(one.layers):
            predicted.setdefault(reading, []).append(one.links(reading))
    if not predicted:
        return None
    errors = {reading: alignment_error(links, gold, resamples=0).value for reading, links in predicted.items()}
    return min(errors, key=lambda reading: errors[reading]), errors

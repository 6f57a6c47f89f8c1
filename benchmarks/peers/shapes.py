"""The three models that are measured, and the matrix products that each of them needs for a target token.

Counted are the products of training: (forward) rows · inner · outer multiply-adds of every linear layer, of attention
(queries with keys, weights with values) and of the output; the gradients for inputs and for weights cost as much again
each, so that training is three times the forward pass. A multiply-add is two operations. Embeddings are looked up, and
what is not a product (softmax, norms, dropout, the optimiser) is not counted: it is what a perfect program would hide.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Side = Literal["source", "target"]
Family = Literal["transformer", "rnn"]
TRAINING = 3
"""Forward, gradient for the input, gradient for the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model. For `rnn`, `layers` is 1 and `width` that of the decoder; each direction of the encoder has half."""

    name: str
    family: Family
    layers: int
    width: int
    inner: int = 0
    heads: int = 1
    vocabulary: int = 8000

    @property
    def told(self) -> str:
        if self.family == "rnn":
            return (
                f"two-way LSTM 2 × {self.width // 2}, LSTM {self.width} with additive attention and input feeding, "
                "embeddings tied"
            )
        return (
            f"Transformer {self.layers}+{self.layers} layers, width {self.width}, feed-forward {self.inner}, "
            f"{self.heads} heads, embeddings tied"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """(rows, inner) times (inner, outer), `count` times for each token of a side."""

    name: str
    side: Side
    inner: int
    outer: int
    count: int

    @property
    def operations(self) -> int:
        """Of one token, forward."""
        return 2 * self.inner * self.outer * self.count


SHAPES = {
    "A": Shape(name="A", family="transformer", layers=4, width=128, inner=256, heads=4),
    "B": Shape(name="B", family="transformer", layers=3, width=512, inner=1024, heads=8),
    "C": Shape(name="C", family="rnn", layers=1, width=512),
}


def linear_products(shape: Shape) -> list[Product]:
    """The products with weights: what a token of the source or the target is multiplied with."""
    d, v = shape.width, shape.vocabulary
    if shape.family == "rnn":
        half = d // 2
        return [
            Product(name="encoder, inputs of cells", side="source", inner=d, outer=4 * half, count=2),
            Product(name="encoder, states of cells", side="source", inner=half, outer=4 * half, count=2),
            Product(name="keys", side="source", inner=d, outer=d, count=1),
            Product(name="decoder, input fed", side="target", inner=2 * d, outer=4 * d, count=1),
            Product(name="decoder, states", side="target", inner=d, outer=4 * d, count=1),
            Product(name="queries", side="target", inner=d, outer=d, count=1),
            Product(name="state and context", side="target", inner=2 * d, outer=d, count=1),
            Product(name="output", side="target", inner=d, outer=v, count=1),
        ]
    n, f = shape.layers, shape.inner
    return [
        Product(name="projections of the encoder", side="source", inner=d, outer=d, count=4 * n),
        Product(name="feed-forward of the encoder, up", side="source", inner=d, outer=f, count=n),
        Product(name="feed-forward of the encoder, down", side="source", inner=f, outer=d, count=n),
        Product(name="keys and values of the source", side="source", inner=d, outer=d, count=2 * n),
        Product(name="projections of the decoder", side="target", inner=d, outer=d, count=6 * n),
        Product(name="feed-forward of the decoder, up", side="target", inner=d, outer=f, count=n),
        Product(name="feed-forward of the decoder, down", side="target", inner=f, outer=d, count=n),
        Product(name="output", side="target", inner=d, outer=v, count=1),
    ]


def attention_operations(shape: Shape, source: float, target: float) -> float:
    """Forward, of all heads, for one pair with so many items on each side: scores, then weighted sums.

    Nothing is saved on what the mask of the decoder hides. The additive score of C is no product but for its last
    step, a product with one vector.
    """
    if shape.family == "rnn":
        return 2 * 2 * shape.width * source * target
    return 2 * 2 * shape.layers * shape.width * (source**2 + target**2 + source * target)


def pair_operations(shape: Shape, source: float, target: float) -> float:
    """Forward, for one pair, the marks of the end included in the lengths."""
    lengths = {"source": source, "target": target}
    linear = sum(product.operations * lengths[product.side] for product in linear_products(shape))
    return linear + attention_operations(shape, source, target)


def training_operations(shape: Shape, source: float, target: float) -> float:
    """Of training, for each target token, where pairs have these mean lengths."""
    return TRAINING * pair_operations(shape, source, target) / target


@dataclass(frozen=True, slots=True)
class Call:
    """One product as a program calls it: (rows, inner) times (inner, outer)."""

    rows: int
    inner: int
    outer: int

    @property
    def operations(self) -> int:
        return 2 * self.rows * self.inner * self.outer


def calls(product: Product, rows: int) -> tuple[Call, Call, Call]:
    """Forward, gradient for the input, gradient for the weights."""
    k, n = product.inner, product.outer
    return Call(rows, k, n), Call(rows, n, k), Call(k, rows, n)


def training_calls(shape: Shape, source: float, target: float, rows: int) -> Iterator[tuple[Call, float]]:
    """Every product of training with weights, and how often it is done for a batch of `rows` target tokens.

    Recurrent products of C are taken as if all steps were one product, which no program can do: its limit is not
    within reach.
    """
    lengths = {"source": round(rows * source / target), "target": rows}
    for product in linear_products(shape):
        for call in calls(product, lengths[product.side]):
            yield call, product.count

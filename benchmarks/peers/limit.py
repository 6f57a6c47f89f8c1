"""What the machine can do at most: matrix products alone, of the shapes that training needs, in each precision.

    python -m peers.limit THREADS ROWS SOURCE TARGET [--quick]

Prints a JSON object a line: operations per second by shape of product, and the target tokens per second that a program
would reach that did nothing but the products with weights of each model, forward and backward. Attention is left out
(some percent of the operations), which makes the limit a little higher than it is and the share reached a little lower.

There are two limits. `limit` has each product at its fastest, done over and over on the same numbers, which then lie in
the nearest cache: no program gets there. `order` has the products of a whole training step one after the other, each
on numbers of its own, as training has to do them.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping

from peers.shapes import SHAPES, Call, Shape, linear_products, training_calls

PRECISIONS = ("float32", "bfloat16", "int8")
FEWEST, ENOUGH = 3, 0.1
"""A product is timed at least so often, and until so many seconds are over; the fastest counts."""

STEPS = 5
"""Whole steps that are timed; the median counts."""

WIDEST = 1 << 21
"""Outputs of a product that are there at once: a wider one is made in pieces, as a program would do it with logits."""


def timed(run: Callable[[], object], *, enough: float) -> float:
    """The fewest seconds of a run."""
    run()
    best, total, count = float("inf"), 0.0, 0
    while count < FEWEST or total < enough:
        began = time.perf_counter()
        run()
        taken = time.perf_counter() - began
        best, total, count = min(best, taken), total + taken, count + 1
    return best


def product(call: Call, precision: str) -> Callable[[], object]:
    """A product that writes into a tensor that is there already."""
    import torch

    if precision == "int8":
        left = torch.randint(-64, 64, (call.rows, call.inner), dtype=torch.int8)
        right = torch.randint(-64, 64, (call.inner, call.outer), dtype=torch.int8)
        return lambda: torch._int_mm(left, right)
    kind = torch.float32 if precision == "float32" else torch.bfloat16
    left, right = torch.randn(call.rows, call.inner, dtype=kind), torch.randn(call.inner, call.outer, dtype=kind)
    out = torch.empty(call.rows, call.outer, dtype=kind)
    return lambda: torch.mm(left, right, out=out)


def speeds(calls: Iterable[Call], precision: str, *, enough: float) -> dict[Call, float]:
    """Operations per second of each product; none where torch does not have it."""
    found = {}
    for call in dict.fromkeys(calls):
        try:
            found[call] = call.operations / timed(product(call, precision), enough=enough)
        except RuntimeError:
            return {}
    return found


def tokens_per_second(shape: Shape, lengths: tuple[float, float], rows: int, found: Mapping[Call, float]) -> float:
    """Of a program that does nothing but these products, for a batch of `rows` target tokens."""
    seconds = sum(times * call.operations / found[call] for call, times in training_calls(shape, *lengths, rows))
    return rows / seconds


def step_of_products(shape: Shape, lengths: tuple[float, float], rows: int, precision: str) -> Callable[[], None]:
    """All products with weights of a training step: forward, and backward for inputs and weights."""
    import torch

    kind = torch.float32 if precision == "float32" else torch.bfloat16
    items = {"source": round(rows * lengths[0] / lengths[1]), "target": rows}
    products = []
    for one in linear_products(shape):
        count = items[one.side]
        at_once = min(count, max(1, WIDEST // one.outer))
        for _ in range(one.count):
            read, weight = torch.randn(count, one.inner, dtype=kind), torch.randn(one.inner, one.outer, dtype=kind)
            made = torch.randn(at_once, one.outer, dtype=kind)
            products.append((read, weight, made, torch.empty_like(read), torch.empty_like(weight)))

    def forward(read: torch.Tensor, weight: torch.Tensor, made: torch.Tensor) -> None:
        for part in read.split(len(made)):
            torch.mm(part, weight, out=made[: len(part)])

    def backward(read: torch.Tensor, weight: torch.Tensor, made: torch.Tensor, *out: torch.Tensor) -> None:
        for part, of_part in zip(read.split(len(made)), out[0].split(len(made)), strict=True):
            torch.mm(made[: len(part)], weight.t(), out=of_part)
            torch.mm(part.t(), made[: len(part)], out=out[1])

    def step() -> None:
        for read, weight, made, *_ in products:
            forward(read, weight, made)
        for read, weight, made, *out in reversed(products):
            backward(read, weight, made, *out)

    return step


def tokens_in_order(shape: Shape, lengths: tuple[float, float], rows: int, precision: str) -> float:
    """Target tokens per second of a program that does nothing but a step of products after the other."""
    step, taken = step_of_products(shape, lengths, rows, precision), []
    step()
    for _ in range(STEPS):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    return rows / statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threads", type=int)
    parser.add_argument("rows", type=int)
    parser.add_argument("source", type=float)
    parser.add_argument("target", type=float)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    lengths, enough = (options.source, options.target), 0.0 if options.quick else ENOUGH
    cube = Call(1024, 1024, 1024)
    for precision in PRECISIONS:
        needed = {
            name: [call for call, _ in training_calls(one, *lengths, options.rows)] for name, one in SHAPES.items()
        }
        wanted = [cube, *(call for calls in needed.values() for call in calls)]
        found = speeds([cube] if precision == "int8" else wanted, precision, enough=enough)
        for call, speed in found.items():
            told = {"rows": call.rows, "inner": call.inner, "outer": call.outer}
            print(json.dumps({"precision": precision, **told, "speed": speed}), flush=True)
        for name, shape in SHAPES.items():
            if all(call in found for call in needed[name]):
                rate = tokens_per_second(shape, lengths, options.rows, found)
                order = tokens_in_order(shape, lengths, 256 if options.quick else options.rows, precision)
                print(json.dumps({"precision": precision, "model": name, "limit": rate, "order": order}), flush=True)


if __name__ == "__main__":
    main()

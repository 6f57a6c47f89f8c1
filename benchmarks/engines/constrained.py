"""Searches under constraints, by torch, by the engine, and step by step over what the engine says: same outputs, times.

What is demanded comes from the references of the test set: words that must not come out, one that must, a list to
choose from, and a pattern.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from regard.data.example import Example
from regard.run.model import Model
from regard.run.native import NativeEngine
from regard.run.native_scorer import NativeScorer
from regard.run.searching import Searching
from regard.search import Constraint, Search, SearchOptions

Json = dict[str, object]

SENTENCES = 200
WORDS = 3
"""Of the most frequent words, so many are forbidden."""


class StepByStep(NativeEngine):
    """An engine that says what may come next, and does not choose."""

    def searching(
        self, options: SearchOptions, *, prefix: tuple[int, ...], constraint: Constraint | None, capacity: int
    ) -> Searching:
        del prefix, constraint
        return Search(NativeScorer(self.engine, options=options, capacity=capacity), capacity=capacity)


def demands(examples: Sequence[Example]) -> Iterator[tuple[str, Constraint]]:
    """Constraints that the outputs of a test set can satisfy."""
    references = [one.target for one in examples]
    counts = Counter(word for text in references for word in re.findall(r"\w+", text))
    words = [word for word, _ in counts.most_common(WORDS)]
    yield "nothing", Constraint()
    yield f"not {', '.join(words)}", Constraint(forbid=tuple(words))
    yield f"{words[-1]} must come", Constraint(force=(words[-1],))
    yield f"one of {len(set(references)):,} lines", Constraint(only=tuple(dict.fromkeys(references)))
    yield "no digit", Constraint(matching=r"\D*")


def constrained(model: Model, native: Model, examples: Sequence[Example]) -> list[Json]:
    """For each demand, how many outputs of the engine are those of torch, and the seconds of each, beam 5.

    The engine searches twice: states that it has not met before take time in the first.
    """
    assert isinstance(native.engine, NativeEngine)
    each = native.with_recipe(native.recipe)
    each.engine = StepByStep(native.engine.path)
    sources = [one.source for one in examples[:SENTENCES]]
    found = []
    for told, constraint in demands(examples):
        runs = {"first": native, "engine": native, "steps": each, "torch": model}
        seconds, outputs = {}, {}
        for name, searcher in runs.items():
            began = time.perf_counter()
            predictions = list(searcher.predict_many(sources, beam=5, constraint=constraint or None))
            seconds[name] = time.perf_counter() - began
            outputs[name] = [one.text if one.outputs else None for one in predictions]
        same = {
            name: sum(one == other for one, other in zip(outputs["engine"], outputs[name], strict=True))
            for name in ("steps", "torch")
        }
        found.append({"demand": told, "sentences": len(sources), "same": same, "seconds": seconds})
    return found

"""What is asked of shards, and what becomes of faults, on their way between processes."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from regard.errors import DataError
from regard.run.model import Model
from regard.run.shards import Asked, Beginning, ShardPredictor, Task
from regard.run.written import Form
from regard.search import Constraint, SearchOptions

OPTIONS = SearchOptions(beam=3, max_length=9)


@pytest.mark.parametrize(
    "asked",
    [
        Asked(options=OPTIONS),
        Asked(options=SearchOptions(beam=3, best=2, max_length=9), prefix="so ", form=Form(best=2, jsonl=True)),
        Asked(options=OPTIONS, form=Form(align=True)),
        Asked(options=OPTIONS, form=Form(jsonl=True, probable=False)),
        Asked(options=OPTIONS, constraint=Constraint(forbid=("a",))),
    ],
    ids=["plain", "lists", "links", "numbers", "constraint"],
)
def test_what_is_asked_comes_to_workers_as_it_was(asked: Asked) -> None:
    assert Asked.from_record(json.loads(json.dumps(asked.record()))) == asked
    begun = Beginning(run="run", files={"recipe.yaml": "0"}, asked=asked)
    assert Beginning.decode(begun.encode()) == begun


def test_records_of_texts_are_what_they_were() -> None:
    """Predictions that were begun by an earlier version go on."""
    assert "probable" not in Asked(options=OPTIONS).record()


@pytest.mark.parametrize(
    ("error", "fault", "lost"),
    [
        (MemoryError(), "MemoryError", True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), "RuntimeErr", True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"), "RuntimeErr", True),
        (DataError("a fault with a name"), "a fault with a name", False),
        (ValueError("nobody foresaw"), "ValueError: nobody foresaw", False),
    ],
    ids=["memory", "torch", "torch on Windows", "named", "unforeseen"],
)
def test_a_fault_is_an_outcome(error: Exception, fault: str, lost: bool) -> None:
    def predict_many(texts: tuple[str, ...], **_: Any) -> list[object]:
        if texts:
            raise error
        return []

    predictor = ShardPredictor(cast(Model, SimpleNamespace(predict_many=predict_many)), Asked(options=OPTIONS))
    outcome = predictor.attempt(Task(0, "file", 1, ("a",)))
    assert outcome.answer is None
    assert outcome.fault.startswith(fault)
    assert outcome.lost is lost

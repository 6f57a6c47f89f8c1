"""The benchmark of the engine: what it calls a near-tie, what it counts, and what its page makes of a record."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine import without
from engines import goals, speed
from engines.agreement import TIE, Difference, agreement, arbitrated, held, natively, nearest, sample
from engines.bare import bare
from engines.goals import all_goals
from engines.limit import Matrix, limit, matrices, product_speed, rows_read
from engines.page import page, page_of, write_page
from engines.speed import QUICK, Work, percentiles
from peers.cells import NATIVE, OURS, Cell

from regard.engine.build import BuildError, build
from regard.engine.library import loaded
from regard.run.model import Model
from regard.search.trace import Node, Trace
from regard.special import END
from tests.toys import toy_sources
from tests.untrained import RECURRENT, untrained_run

A, B, C = 10, 11, 12
SETTINGS = [f"natural batch {size} beam {beam}" for size in (64, 1) for beam in (1, 5)]


@pytest.fixture(scope="module")
def _library():
    try:
        build()
    except BuildError as error:
        pytest.skip(str(error))
    loaded.cache_clear()


def test_what_is_not_measured_again_is_kept():
    record = {"about": 1, "models": {"A": 2}, "cells": {"a": 3}, "limits": [4], "latencies": [5]}
    assert without(record, ["held"]) == {**record, "models": {}}
    assert without(record, ["speed"]) == {"about": 1, "models": {"A": 2}, "cells": {}, "limits": [], "latencies": []}
    assert record["models"] == {"A": 2}


def node(id_, parent, token, total, step, fate):
    return Node(id_, parent, token, 0.0, total, 0.0, step, 0, fate)


def test_ties_are_where_paths_part():
    """A beam of 1: `a` was kept and `b` pruned at the first step, then `c` kept and END pruned."""
    trace = Trace(
        (
            node(0, -1, A, -1.0, 1, "kept"),
            node(1, -1, B, -1.5, 1, "pruned"),
            node(2, 0, C, -2.0, 2, "kept"),
            node(3, 0, END, -2.0001, 2, "pruned"),
            node(4, 2, END, -2.5, 3, "ended"),
        )
    )
    piece = {A: "a", B: "b", C: "c", END: "</s>"}.__getitem__
    assert nearest(trace, ("a", "c"), ("b",), piece) == pytest.approx(1e-4)  # ours could have been lost at `c`
    shorter = Trace((*trace.nodes[:3], node(3, 0, B, -2.4, 2, "pruned"), trace.nodes[4]))
    assert nearest(shorter, ("a", "c"), ("b",), piece) == pytest.approx(0.4)
    assert nearest(shorter, ("a", "c"), ("a", "b", "b"), piece) == pytest.approx(0.4)
    alone = Trace((node(0, -1, A, -1.0, 1, "kept"), node(1, 0, END, -1.5, 2, "ended")))
    assert nearest(alone, ("a",), ("b",), piece) == float("inf")
    assert [Difference(0, 1.0, 1.0, close).tie for close in (TIE, TIE * 1.1)] == [True, False]


@pytest.mark.usefixtures("_library")
def test_a_run_is_held_against_torch(trained, tmp_path):
    model = trained.model
    examples = sample(model, [], 12)
    assert len(examples) == 12
    found = held(model, examples, tmp_path, workers=2, resamples=10)
    for one, beam in zip(found["float32"], (1, 5), strict=True):
        assert (one["beam"], one["sentences"], one["same"] + len(one["differences"])) == (beam, 12, 12)
        assert one["log_probability"] < 1e-4
    assert len(found["constrained"]) == 5
    for one in found["constrained"]:
        assert (one["sentences"], one["same"]) == (12, {"steps": 12, "torch": 12})
        assert min(one["seconds"].values()) > 0
    assert found["int8"]["count"] == 12
    assert found["int8"]["loss"] == -found["int8"]["difference"]
    assert all(set(one["differing"].values()) == {0} for one in found["independence"].values())


def test_double_precision_says_who_is_wrong(trained):
    """Of two log-probabilities that are far apart; where it writes something else, both may be."""
    model, source = trained.model, sample(trained.model, [], 1)[0].source
    (found,) = model.predict_many([source], beam=1)
    ours = found.outputs[0]
    wrong = replace(ours, log_probability=ours.log_probability - 1e-3)
    told = arbitrated(model, source, 7, wrong, ours, beam=1)
    assert (told.line, told.torch) == (7, pytest.approx(1e-3, rel=0.1))
    assert told.engine < 1e-4
    other = replace(wrong, pieces=("x",))
    told = arbitrated(model, source, 7, other, ours, beam=1)
    assert (told.torch, told.engine) == (float("inf"), pytest.approx(1e-3, rel=0.1))


@pytest.mark.usefixtures("_library")
def test_other_outputs_are_told_with_their_reasons(trained, tmp_path):
    """An engine of other weights gives other outputs, and no near-tie explains them."""
    other = Model.load(trained.model.folder)
    generator = np.random.default_rng(0)
    for parameter in other.system.parameters():
        noise = generator.standard_normal(tuple(parameter.shape)).astype(np.float32)
        parameter.data += parameter.data.new_tensor(noise) * 0.3
    native = natively(other, tmp_path / "other.bin", int8=False)
    found = agreement(trained.model, native, toy_sources(8, seed=5), beam=2)
    assert found["same"] < 8
    assert found["ties"] < len(found["differences"])
    assert all(one["closest"] >= 0 for one in found["differences"])


@pytest.mark.usefixtures("_library")
def test_the_limit_counts_products_of_weights(trained):
    model, sources = trained.model, toy_sources(6, seed=5)
    own = list(matrices(model.system))
    shapes = sum(p.numel() for name, p in model.system.named_parameters() if p.dim() == 2 and "embedding" not in name)
    output = model.system.decoder.output.weight.numel()
    tied = model.system.decoder.output.weight is model.system.decoder.embedding.weight
    assert sum(one.operations for one in own) == 2 * (shapes + (output if tied else 0))
    greedy = [len(one.outputs[0].pieces) for one in model.predict_many(sources, beam=1)]
    assert rows_read(model, sources, beam=1) == pytest.approx(np.mean(greedy) + 1)
    found = limit(model, sources, threads=1, seconds=0.0, beam=1)
    assert found["limit"] == pytest.approx(found["fastest"] / found["operations"])
    assert found["fastest"] == max(one["speed"] for one in found["products"])
    assert product_speed(Matrix("both", 64, 64), 8, threads=2, seconds=0.0) > 0


def test_percentiles():
    assert percentiles([float(value) for value in range(101)]) == {"p50": 50.0, "p99": 99.0}
    assert percentiles([]) == {"p50": 0.0, "p99": 0.0}


@pytest.mark.usefixtures("_library")
def test_drivers_are_handed_what_they_read(tmp_path):
    """The driver of latencies really runs; those of others have been running in benchmarks/speed.py."""
    model = Model.load(untrained_run(tmp_path / "run", seed=2, model=RECURRENT))
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\tA\n" for source in toy_sources(4, seed=1)))
    examples = sample(model, [str(tmp_path / "pairs.tsv")], None)
    work = Work(name="C", run=model.folder, folder=tmp_path / "work")
    natively(model, work.engine, int8=True)
    work.write(model, examples)
    labels = ["regard, int8, native engine", "regard, native engine", "regard"]
    assert [cell.label for cell in work.cells(model)] == labels
    assert work.whole in work.command(work.cells(model)[1], "[]", 2)
    assert work.engine in work.command(work.cells(model)[0], "[]", 2)
    assert len(json.loads(work.pairs.read_text())["source"]) == 4
    found = speed.latency(work, QUICK, beam=2)
    assert (found["sentences"], found["beam"]) == (4, 2)
    for kind in ("between", "typical", "first", "sentence", "bare"):
        assert 0 < found[kind]["p50"] <= found[kind]["p99"]


def test_an_empty_loop_takes_its_length_and_what_comes_between(monkeypatch):
    """A clock that a host stops for 30 µs after every hundredth look."""
    looks = 0

    def clock() -> int:
        nonlocal looks
        looks += 1
        return 100 * looks + 30_000 * (looks // 100)

    monkeypatch.setattr("engines.bare.time.perf_counter_ns", clock)
    taken = bare(5e-6, seconds=5e-4)  # 50 looks each
    assert len(taken) == 100
    assert {round(1e9 * one) for one in taken} == {5_000, 35_100}
    assert bare(0.0) == []


def cell_results(rates, rounds=2):
    return [
        {"figures": {setting: {"rate": rate * (1 + number), "bytes": 5e7} for setting, rate in rates.items()}}
        for number in range(rounds)
    ]


@pytest.fixture
def record():
    cells = {}
    for name, native, other in (("A", 1000.0, 400.0), ("B", 300.0, 200.0), ("C", 700.0, 0.0)):
        mine = Cell(kind="decode", system=OURS, model=name, precision="int8", way=NATIVE)
        cells[mine.key] = cell_results(dict.fromkeys(SETTINGS, native))
        cells[Cell(kind="decode", system=OURS, model=name).key] = cell_results(dict.fromkeys(SETTINGS, 100.0))
        if other:
            theirs = Cell(kind="decode", system="ctranslate2", model=name, precision="int8")
            cells[theirs.key] = cell_results(dict.fromkeys(SETTINGS, other))
    whole = {
        "beam": 5,
        "sentences": 1000,
        "same": 998,
        "log_probability": 3e-5,
        "apart": [],
        "ties": 1,
        "differences": [{"line": 3, "closest": 1e-5}, {"line": 4, "closest": 1.0}],
    }
    small = {
        "metric": "BLEU", "same": 950, "first": 30.0, "other": 29.9, "difference": -0.1, "low": -0.3, "high": 0.1,
        "p_value": 0.3, "randomised_p_value": 0.4, "count": 1000, "loss": 0.1,
    }  # fmt: skip
    exact = {**small, "metric": "exact", "loss": 0.2}
    alone = {"sentences": 1000, "differing": {"16 together": 0, "2 workers, 16 together": 0}}
    under = {
        "demand": "no digit",
        "sentences": 200,
        "same": {"steps": 200, "torch": 199},
        "seconds": {"first": 2.0, "engine": 0.1, "steps": 4.0, "torch": 5.0},
    }
    inner = {"float32": [whole], "constrained": [under], "independence": {"32": alone, "8": alone}}
    models = {name: {"told": "a model", "held": {**inner, "int8": small}} for name in ("A", "B", "C")}
    models["inflection"] = {"told": "another", "held": {**inner, "int8": exact}}
    even = {"beam": 5, "sentences": 200, "between": {"p50": 1e-4, "p99": 1.4e-4}, "first": {"p50": 2e-4, "p99": 5e-4}}
    bound = {"operations": 2e9, "fastest": 8e11, "limit": 400.0}
    return {
        "format": 1,
        "about": {
            "machine": {"processor": "Test CPU", "cores": 2, "system": "Linux", "python": "3.11.7"},
            "torch": "2.13.0", "ctranslate2": "4.8.4", "kernels": "avx512_vnni", "threads": 2, "quick": True,
        },
        "models": models,
        "cells": cells,
        "limits": [{"B": bound}, {"B": {**bound, "limit": 800.0}}],
        "latencies": [{"A": even, "B": even}, {"A": even}],
    }  # fmt: skip


def test_goals_of_a_record(record):
    found = {goal.name: goal for goal in all_goals(record)}
    seen = {name: (round(goal.found.median, 6), goal.met) for name, goal in found.items() if goal.found}
    assert seen["A, batch 64, beam 5, CTranslate2 int8"] == (2.5, True)
    assert seen["B, batch 1, beam 1, CTranslate2 int8"] == (1.5, False)
    assert seen["C, batch 64, beam 5, torch"] == (7.0, True)
    assert seen["B, batch 64, beam 5, share of the limit of int8 products"] == (0.75, True)
    assert seen["A, batch 1, seconds between tokens, p99 / p50"] == (1.4, True)
    assert not found["C, batch 1, seconds between tokens, p99 / p50"].found
    assert seen["32 bits: share of the same outputs, the least of all runs"] == (0.998, True)
    assert seen["32 bits: share of other outputs that follow from a near-tie"] == (0.5, False)
    assert seen["32 bits: log-probabilities, the furthest apart"] == (0.00003, True)
    assert seen["8 bits: loss of BLEU, mean of 3 runs"] == (0.1, True)
    assert seen["8 bits: loss of percent of accuracy, mean of 1 runs"] == (0.2, False)
    assert seen["sentences that depend on batch or workers"] == (0.0, True)
    assert list(goals.held_goals({**record, "models": {}})) == []


def test_each_record_has_a_page_of_its_own():
    assert page_of(Path("benchmarks/engine.json")) == "engine_speed.md"
    assert page_of(Path("benchmarks/engine_amx.json")) == "engine_speed_amx.md"


def test_the_page_tells_all_of_it(record, tmp_path):
    write_page(record, tmp_path)
    text = (tmp_path / "engine_speed.md").read_text()
    assert text == page(record)
    for line in (
        "| A, CTranslate2, int8 | 600 ± 33 % (2.50) |",
        "| inflection | exact | 30.00 | 29.90 | -0.10 | -0.30 … +0.10 | 0.30, 0.40 | 950 of 1,000 |",
        "| A | 5 | 1,000 | 99.80 % | 2 | 1 | 3.0e-05 |",
        "| A | no digit | 199 of 200 | 200 of 200 | 100 | 2,000 | 50 | 40 |",
        "| B | 2,000.0 | 800 | 600 ± 33 % | 0.75 |",
        "| A | 5 | between tokens | 100.0 ± 0 % | 140.0 ± 0 % | 1.40 |",
        "| B | 5 | to the first token | 200.0 | 500.0 | 2.50 |",
        "**This was a quick trial: none of it is a result.**",
        "| C | 8 | 2 workers, 16 together | 0 of 1,000 |",
    ):
        assert line in text

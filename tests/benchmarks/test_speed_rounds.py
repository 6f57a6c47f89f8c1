"""What is run in which round, what is left out, when a benchmark stops, and where it goes on."""

import argparse
import sys
from pathlib import Path

import pytest
import speed
from peers.cells import Cell, memories
from peers.processes import Failed
from peers.record import begin, forget, keep, matching
from peers.rounds import Budget, Turn, decides, expected, minutes_left, turns

RATES = {"regard": 10.0, "transformers": 50.0, "eole": 40.0, "opennmt": 30.0, "joeynmt": 20.0}
CELLS = [Cell(kind="train", system=name, model="A") for name in RATES]
TUNED = Cell(kind="train", system="joeynmt", model="A", tuned=True)


def record_of(*, first: bool) -> dict:
    cells = {cell.key: [{"rate": RATES[cell.system], "took": 30.0}] for cell in CELLS} if first else {}
    return {"peers": {}, "cells": cells}


def options_of(path: Path, **further: object) -> argparse.Namespace:
    return argparse.Namespace(**{"results": path, "rounds": 3, "retry": False, "redo": [], "minutes": None, **further})


def test_all_run_once_and_the_best_two_peers_again() -> None:
    record = record_of(first=True)
    later = turns(record, CELLS, 3, retry=False)
    names = ["regard", "transformers", "eole"]
    assert [(turn.number, turn.cell.system) for turn in later] == [(n, name) for n in (2, 3) for name in names]
    assert [turn.cell for turn in turns(record_of(first=False), CELLS, 1, retry=False)] == CELLS


def test_rows_have_leaders_of_their_own() -> None:
    record = record_of(first=True)
    record["cells"][TUNED.key] = [{"rate": 1.0}]
    assert decides(record, TUNED, [*CELLS, TUNED])
    assert not decides(record, CELLS[-1], [*CELLS, TUNED])


@pytest.mark.parametrize(("rate", "expected"), [(7.0, False), (8.0, True), (20.0, True)])
def test_a_precision_that_is_no_choice_runs_once(rate: float, expected: bool) -> None:
    own, peer = (
        Cell(kind="train", system=name, model="A", precision="bfloat16") for name in ("regard", "transformers")
    )
    record = record_of(first=True)
    record["cells"] |= {own.key: [{"rate": rate}], peer.key: [{"rate": 5.0}]}
    assert [decides(record, cell, [*CELLS, own, peer]) for cell in (own, peer, CELLS[0])] == [expected, expected, True]
    larger = Cell(kind="train", system="regard", model="B", precision="bfloat16")
    left = [turn.number for turn in turns(record, [*CELLS, own, peer, larger], 2, retry=False) if turn.cell == larger]
    assert left == ([1, 2] if expected else [])


def test_decoders_are_ranked_by_one_setting() -> None:
    cells = [Cell(kind="decode", system=name, model="B") for name in ("transformers", "eole", "opennmt")]
    engine = Cell(kind="decode", system="ctranslate2", model="B")
    rates = zip([*cells, engine], (1.0, 3.0, 2.0, 9.0), strict=True)
    record = {"cells": {cell.key: [{"figures": {"forced batch 64 beam 5": {"rate": rate}}}] for cell, rate in rates}}
    assert [decides(record, cell, [*cells, engine]) for cell in (*cells, engine)] == [False, True, True, True]


def test_a_tuned_allocator_takes_no_place_from_others_that_decode() -> None:
    cells = [Cell(kind="decode", system=name, model="C") for name in ("eole", "opennmt")]
    tuned = [Cell(kind="decode", system=name, model="C", tuned=True) for name in ("eole", "opennmt")]
    rates = zip([*cells, *tuned], (1.0, 2.0, 3.0, 4.0), strict=True)
    record = {"cells": {cell.key: [{"figures": {"forced batch 64 beam 5": {"rate": rate}}}] for cell, rate in rates}}
    assert all(decides(record, cell, [*cells, *tuned]) for cell in (*cells, *tuned))


def test_memory_has_one_round_and_none_in_a_precision_that_is_no_choice() -> None:
    record, cells = record_of(first=True), list(memories())
    assert [turn.number for turn in turns(record, cells, 3, retry=False)] == [1, 1, 1]
    record["cells"]["train A regard bfloat16"] = [{"rate": 1.0}]
    left = [turn.cell for turn in turns(record, cells, 3, retry=False)]
    assert left == [cell for cell in cells if cell.precision == "float32"]


def test_what_a_measure_names_has_all_rounds() -> None:
    cells = [Cell(kind="decode", system=name, model="A") for name in ("transformers", "eole", "opennmt")]
    rates = zip(cells, (1.0, 3.0, 2.0), strict=True)
    record = {"cells": {cell.key: [{"figures": {"forced batch 64 beam 5": {"rate": rate}}}] for cell, rate in rates}}
    assert [decides(record, cell, cells) for cell in cells] == [True, True, True]


def test_what_failed_is_not_run_again_unless_it_is_ours() -> None:
    record = record_of(first=True)
    record["cells"][CELLS[0].key] = record["cells"][CELLS[1].key] = [{"fault": "no"}]
    assert [decides(record, cell, CELLS) for cell in CELLS[:3]] == [True, False, True]


def test_time_is_estimated_by_the_last_time() -> None:
    assert minutes_left(record_of(first=True), CELLS, 3, retry=False) == pytest.approx(2 * 3 * 30 / 60)
    assert expected(record_of(first=False), CELLS[0]) == 35


def test_a_budget_ends() -> None:
    now = [0.0]
    budget = Budget(1.0, 0.0, lambda: now[0])
    assert budget.allows(60)
    now[0] = 30.5
    assert not budget.allows(30)
    assert Budget(None, 0.0, lambda: 1e9).allows(1e9)


def test_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch, capsys) -> None:
    cells = [Cell(kind="start", system=name) for name in ("regard", "eole", "joeynmt", "opennmt")]
    path, asked = tmp_path / "speed.json", []

    def drive(cell: Cell, bench: object) -> dict:
        asked.append(cell.system)
        if cell.system == "eole":
            raise Failed("exit code 1 after 0 s: no")
        return {"seconds": 1.0}

    monkeypatch.setattr(speed, "drive", drive)
    record = begin(path, {}, again=False)
    record["peers"] = {"joeynmt": {"fault": "gone"}}
    speed.measure(cells, None, record, options_of(path, minutes=0.0))
    assert asked == []
    assert "the time is over; about 1 min are left" in capsys.readouterr().out
    speed.measure(cells, None, record, options_of(path, rounds=2))
    assert asked == ["regard", "eole", "opennmt", "regard", "opennmt"]
    kept = begin(path, {}, again=False)
    assert [one["fault"] for one in kept["cells"][cells[1].key]] == ["exit code 1 after 0 s: no"]
    assert [one["fault"] for one in kept["cells"][cells[2].key]] == ["does not install: gone"]
    speed.measure(cells, None, kept, options_of(path))
    assert asked[5:] == ["regard", "opennmt"]
    speed.measure(cells, None, kept, options_of(path, retry=True))
    assert asked[7:] == ["eole"], "what fails again is tried once"
    monkeypatch.setattr(speed, "drive", lambda cell, bench: {"seconds": 2.0})
    speed.measure(cells, None, kept, options_of(path, retry=True))
    assert [one["seconds"] for one in kept["cells"][cells[0].key]] == [1.0] * 3
    assert [one["seconds"] for one in kept["cells"][cells[1].key]] == [2.0] * 3


def test_turns_are_in_the_order_of_rounds() -> None:
    cells = [Cell(kind="start", system=name) for name in ("regard", "eole")]
    assert turns({"cells": {}}, cells, 2, retry=False) == [Turn(n, cell) for n in (1, 2) for cell in cells]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], []),
        (["*"], ["start eole", "decode A eole", "decode B eole tuned", "decode B eole"]),
        (["start *", "decode [A] *"], ["start eole", "decode A eole"]),
        (["*B eole", "decode ? eole"], ["decode A eole", "decode B eole"]),
    ],
)
def test_patterns_stand_for_whole_names(patterns: list[str], expected: list[str]) -> None:
    keys = ["start eole", "decode A eole", "decode B eole tuned", "decode B eole"]
    assert matching(keys, patterns) == expected


def test_a_pattern_that_stands_for_nothing_is_told() -> None:
    with pytest.raises(SystemExit, match=r"--redo 'decode', '\*D\*': no cell .* names are start eole, decode A eole"):
        matching(["start eole", "decode A eole"], ["decode", "start *", "*D*"])


def test_what_is_thrown_away_is_measured_in_all_rounds() -> None:
    """In turns with each other, and nothing else; peers that are far behind have one round again."""
    record = record_of(first=True)
    for cell in CELLS[:3]:
        record["cells"][cell.key] *= 3
    other = Cell(kind="start", system="regard")
    record["cells"][other.key] = [{"seconds": 1.0, "took": 1.0}] * 3
    assert turns(record, [other, *CELLS], 3, retry=False) == []
    forget(record, [CELLS[0].key, CELLS[1].key, "never run"])
    assert turns(record, [other, *CELLS], 3, retry=False)[:2] == [Turn(1, CELLS[0]), Turn(1, CELLS[1])]
    for cell in CELLS[:2]:
        assert expected(record, cell) == 30, "as long as before"
        record["cells"][cell.key] = [{"rate": RATES[cell.system], "took": 30.0}]
    left = turns(record, [other, *CELLS], 3, retry=False)
    assert left == [Turn(number, cell) for number in (2, 3) for cell in CELLS[:2]]


def test_again_from_the_command_line(tmp_path: Path, monkeypatch, capsys) -> None:
    """The whole command without peers: what is named is measured again, while preparing nothing is thrown away."""
    path = tmp_path / "speed.json"
    keep(
        {**begin(path, {}, again=False), "cells": {"start regard float32": [{"seconds": 9.0, "took": 60.0}] * 3}}, path
    )
    for name, value in (
        ("settings_of", lambda options, bench: {}),
        ("install_all", lambda names, home, root: {}),
        ("train_models", lambda *given: None),
        ("write_pages", lambda record, folder: None),
        ("drive", lambda cell, bench: {"seconds": 1.0}),
    ):
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(speed.signal, "signal", lambda *given: None)
    monkeypatch.setattr(speed, "bench_of", lambda options: argparse.Namespace(home=tmp_path))
    asked = ["speed.py", "--results", str(path), "--only", "regard", "--kinds", "start", "--redo", "start *"]
    monkeypatch.setattr(sys, "argv", [*asked, "--prepare"])
    speed.main()
    assert "the measurements take about 3 min" in capsys.readouterr().out
    assert [one["seconds"] for one in begin(path, {}, again=False)["cells"]["start regard float32"]] == [9.0] * 3
    monkeypatch.setattr(sys, "argv", [*asked, "--minutes", "0"])
    speed.main()
    assert "the same command without --redo goes on with them" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", asked[:-2])
    speed.main()
    assert [one["seconds"] for one in begin(path, {}, again=False)["cells"]["start regard float32"]] == [1.0] * 3

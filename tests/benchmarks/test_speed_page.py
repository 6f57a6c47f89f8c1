"""From a record to the page: medians, ratios within rounds, what failed, what was aimed at."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from peers import driving, processes
from peers.cells import OURS, SYSTEMS, Cell, all_cells, setting_key, settings, settings_of
from peers.configs import Steps, eole_config, joeynmt_config, opennmt_config
from peers.corpus import Corpus, check_pieces
from peers.figures import Figure, best, engine_goals, faster, goals, least, limit, ours, peers, share
from peers.page import page, shown, times, write_pages
from peers.picture import picture
from peers.processes import Failed, run
from peers.record import begin, keep
from peers.shapes import SHAPES

ABOUT = {
    "machine": {"processor": "Test CPU", "cores": 2, "system": "Linux", "python": "3.11.7"},
    "torch": "2.13.0+cpu",
    "threads": 2,
    "steps": {"A": {"warm": 4, "timed": 12}, "B": {"warm": 2, "timed": 6}, "C": {"warm": 2, "timed": 6}},
    "lengths": [15.1, 15.5],
    "quick": False,
}
RATES = {"regard": 300.0, "transformers": 150.0, "eole": 120.0, "opennmt": 100.0, "joeynmt": 50.0, "yoyodyne": 60.0}


def result_of(cell: Cell, number: int) -> dict:
    factor = 1 + 0.1 * number
    base = RATES.get(cell.system, 600.0) * factor * (1.2 if cell.tuned and cell.system != OURS else 1)
    base *= 1.1 if cell.precision == "bfloat16" else 1
    match cell.kind:
        case "start":
            return {"seconds": 1.5 * factor}
        case "limit":
            limits = [
                {"model": name, "precision": precision, "limit": bound * factor, "order": bound * factor / 2}
                for name in SHAPES
                for precision, bound in (("float32", 600.0), ("bfloat16", 660.0))
            ]
            product = {"precision": "float32", "rows": 4096, "inner": 128, "outer": 8000, "speed": 1e11 * factor}
            return {"limits": limits, "products": [product]}
        case "train":
            return {
                "rate": base,
                "parameters": 2_371_328,
                "tokens": 3900.0,
                "bytes": 8e8 if cell.system == OURS else 1e9,
            }
        case "memory":
            most = {"float32": 8e8, "bfloat16": 1.1e9}[cell.precision] if cell.system == OURS else 1.25e9
            seen = [{"step": step, "peak": most * step / 200, "resident": most * step / 250} for step in (20, 200)]
            return {"steps": 200, "bytes": most, "seen": seen}
        case _:
            told = settings(batch=(64, 1), ends=("natural", "forced"), sentences={64: 1000, 1: 100})
            keys = [f"{one['ends']} batch {one['batch']} beam {one['beam']}" for one in told]
            return {"figures": {key: {"rate": base, "bytes": 5e8, "tokens": 650, "sentences": 50} for key in keys}}


@pytest.fixture
def record() -> dict:
    cells = {cell.key: [result_of(cell, number) for number in range(3)] for cell in all_cells()}
    broken = Cell(kind="train", system="joeynmt", model="B").key
    cells[broken] = [{"fault": "exit code 1: Traceback\nRuntimeError: no | luck"}] * 3
    installed = {
        name: {"name": name, "package": f"{name}==1.0", "torch": "torch==2.13.0", "fault": "", "note": ""}
        for name in SYSTEMS[1:]
    }
    installed["yoyodyne"]["fault"] = "no such package"
    models = {name: {"told": one.told, "steps": 800, "BLEU": 31.25} for name, one in SHAPES.items()}
    return {"format": 1, "about": ABOUT, "peers": installed, "models": models, "cells": cells}


def test_ratios_are_taken_within_rounds() -> None:
    ours_, theirs = Figure((100.0, 400.0, None)), Figure((50.0, 100.0, 10.0))
    assert ours_.over(theirs).values == (2.0, 4.0, None)
    assert ours_.over(theirs).median == 3.0
    assert ours_.median / theirs.median != 3.0
    assert Figure((90.0, 100.0, 130.0)).spread == pytest.approx(0.4)
    assert shown(Figure((900.0, 1000.0, 1300.0))) == "1,000 ± 20 %"
    assert shown(Figure((1000.0, None))) == "1,000"
    assert (shown(Figure(())), times(Figure((None,)))) == ("–", "–")


def test_the_strongest_peer_is_the_measure(record: dict) -> None:
    assert peers(record, "A", tuned=False).median == pytest.approx(165.0)
    assert peers(record, "A", tuned=True).median == pytest.approx(150 * 1.1 * 1.2 * 1.1)
    assert ours(record, "A", "float32").median == pytest.approx(330.0)
    assert faster(record, "A") == "bfloat16"
    assert limit(record, "A", "bfloat16").median == pytest.approx(726.0)
    assert share(record, "A", "bfloat16", "limit").median == pytest.approx(0.5)
    assert best([Figure((1.0,)), Figure(()), Figure((2.0,))]).median == 2.0
    assert least([Figure((1.0,)), Figure(()), Figure((2.0,))]).median == 1.0


def test_goals(record: dict) -> None:
    found = {goal.name: goal for goal in goals(record)}
    assert found["training A, best peer at its defaults"].found.median == pytest.approx(2.2)
    assert found["training A, best peer at its defaults"].met
    alone = found["share of the limit of products, each alone, training A, bfloat16"]
    assert alone.found.median == pytest.approx(0.5)
    assert not alone.met
    in_order = found["share of the limit of products in the order of training, training A, bfloat16"]
    assert in_order.found.median == pytest.approx(1.0)
    assert found["decoding C, batch 64, beam 5, forced, best peer"].found.median == pytest.approx(2.5)


def test_memory_is_that_of_a_longer_training(record: dict) -> None:
    found = {goal.name: goal for goal in goals(record)}
    assert found["memory of training A, Transformers"].found.median == pytest.approx(1.1 / 1.25)
    assert not found["memory of training A, Transformers"].met
    assert found["memory of training A in float32, Transformers"].found.median == pytest.approx(0.8 / 1.25)
    assert found["memory of training A in float32, Transformers"].met
    text = page(record)
    assert "in a training of 200 steps of A" in text
    assert "Memory is the most held in 16 steps, of JoeyNMT in 3." in text
    assert "|  | most until step 20, MB | until step 200 | held after step 20 | after step 200 | most of all |" in text
    assert "| Transformers (Marian) | 125 | 1,250 | 100 | 1,000 | 1,250 | 1.14 |" in text


def test_a_record_from_before_memory_was_looked_at_has_none(record: dict) -> None:
    old = {key: rounds for key, rounds in record["cells"].items() if not key.startswith("memory")}
    text = page({**record, "cells": old})
    assert "| memory of training A, Transformers | ≤ 0.8 |  | – |  |  |" in text
    assert "most until step" not in text


def test_peers_decode_with_a_tuned_allocator_too(record: dict) -> None:
    found = {goal.name: goal for goal in goals(record)}
    tuned = found["decoding A, batch 64, beam 5, forced length, Transformers, allocator tuned"]
    assert tuned.found.median == pytest.approx(2 / 1.2)
    assert tuned.aim is None
    assert not tuned.met
    other = found["decoding C, batch 64, beam 5, forced, best peer, allocator tuned"]
    assert other.found.median == pytest.approx(2.5 / 1.2)
    text = page(record)
    assert f"| {tuned.name} |  |  | 1.67 | 1.67 – 1.67 |  |" in text
    assert text.count("| Transformers (Marian), allocator tuned | 198 ± 9 % (1.67) |") == 2  # A and B
    assert text.count("| Eole, allocator tuned | 158 ± 9 % (2.08) |") == 1  # C


@pytest.mark.parametrize(
    ("cell", "count"),
    [
        (Cell(kind="decode", system=OURS, model="A"), 10),
        (Cell(kind="decode", system="transformers", model="A"), 10),
        (Cell(kind="decode", system="transformers", model="A", tuned=True), 3),
        (Cell(kind="decode", system="transformers", model="B"), 8),
        (Cell(kind="decode", system="transformers", model="B", tuned=True), 3),
        (Cell(kind="decode", system="eole", model="C"), 2),
        (Cell(kind="decode", system="eole", model="C", tuned=True), 1),
    ],
    ids=lambda value: value.key if isinstance(value, Cell) else str(value),
)
def test_settings_of_a_cell(cell: Cell, count: int) -> None:
    keys = [setting_key(one) for one in settings_of(cell, {64: 1000, 1: 50})]
    assert len(keys) == count
    assert "forced batch 64 beam 5" in keys


@pytest.mark.parametrize("system", ["transformers", "eole", "opennmt"])
def test_decoding_is_run_with_the_settings_of_the_allocator(system: str, tmp_path: Path, monkeypatch) -> None:
    seen: list[dict[str, str]] = []

    def pretend(command: list, *, further: dict[str, str], **_: object) -> processes.Ran:
        seen.append(further)
        return processes.Ran(seconds=1.0, bytes=1, output="Total prediction time (s): 2.0\n")

    monkeypatch.setattr(driving, "run", pretend)
    (tmp_path / "test.src").write_text("a\n" * 3)
    bench = driving.Bench(
        home=tmp_path, folder=tmp_path, corpus=Corpus(tmp_path), threads=1, steps={}, sentences={"C": {64: 2, 1: 1}},
        limit=1.0,
    )  # fmt: skip
    trained = bench.work(Cell(kind="train", system=system, model="C"))
    trained.mkdir(parents=True)
    (trained / driving.SAID).touch()
    for tuned in (False, True):
        driving.decode(Cell(kind="decode", system=system, model="C", tuned=tuned), bench)
    assert {name: value for name, value in seen[-1].items() if name.startswith("MALLOC")} == processes.TUNED
    assert not any(name.startswith("MALLOC") for name in seen[0])


def test_peers_learn_first_what_they_decode_with(tmp_path: Path, monkeypatch) -> None:
    """Training was measured long ago, and its folder is gone."""
    ran: list[str] = []
    bench = driving.Bench(
        home=tmp_path, folder=tmp_path, corpus=Corpus(tmp_path), threads=1, steps={}, sentences={}, limit=1.0
    )

    def run_training(cell: Cell, bench: driving.Bench) -> None:
        ran.append(cell.key)
        bench.work(cell).mkdir(parents=True)
        (bench.work(cell) / driving.SAID).touch()

    monkeypatch.setattr(driving, "run_training", run_training)
    for tuned in (False, True):
        driving.learn_first(Cell(kind="decode", system="eole", model="C", tuned=tuned), bench)
    assert ran == ["train C eole float32"]


def test_goals_of_the_engine(record: dict) -> None:
    found = {goal.name: goal for goal in engine_goals(record)}
    assert found["A, batch 64, beam 5, CTranslate2 int8"].found.median == pytest.approx(0.5)
    assert not found["A, batch 64, beam 5, CTranslate2 int8"].met
    assert found["C, batch 1, beam 5, torch"].found.median == pytest.approx(1.0)
    assert "| A, batch 64, beam 5, CTranslate2 int8 | ≥ 2 | ≥ 2.5 | 0.50 | 0.50 – 0.50 | missed |" in page(record)


def test_goals_of_an_empty_record_are_open(record: dict) -> None:
    assert not any(goal.met for goal in goals({**record, "cells": {}}))
    assert "not run" in page({**record, "cells": {}})


def test_the_page_has_every_figure(record: dict) -> None:
    text = page(record)
    assert "Test CPU, 2 threads on 2 cores" in text
    assert "| Transformers (Marian) | 165 ± 9 % | 2.20 | 3,900 | 2,371,328 | 1,000 | 1.25 |" in text
    assert "| JoeyNMT | RuntimeError: no / luck |" in text
    assert "batch 64, beam 5: regard 13.0; regard, two workers 13.0; Transformers (Marian) 13.0;" in text
    assert "| yoyodyne | yoyodyne==1.0 | torch==2.13.0 | does not install: no such package |" in text
    assert "A: 800 steps, BLEU 31.2" in text
    assert "| 4,096 × 128 × 8,000 | float32 | 110 ± 9 % |" in text
    assert "none of it is a result" not in text
    assert "none of it is a result" in page({**record, "about": {**ABOUT, "quick": True}})


def test_rows_have_as_many_cells_as_their_heads(record: dict) -> None:
    lines = page(record).splitlines()
    for number, line in enumerate(lines):
        if line.startswith("|---"):
            width, row = lines[number - 1].count("|"), number
            while row < len(lines) and lines[row].startswith("|"):
                assert lines[row].count("|") == width, lines[row]
                row += 1


def test_the_picture_shows_what_there_is(record: dict) -> None:
    drawing = ElementTree.fromstring(picture(record))
    titles = [one.text for one in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert "regard, bfloat16: 363" in titles
    bars = sum(len(rounds) > 0 for key, rounds in record["cells"].items() if key.startswith("train"))
    trained = [title for title in titles if title is not None]
    assert len(trained) >= bars - 1  # all but the one that failed


def test_pages_are_written(record: dict, tmp_path: Path) -> None:
    write_pages(record, tmp_path / "docs")
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == ["performance.md", "performance.svg"]


def test_cells_have_names_of_their_own() -> None:
    keys = [cell.key for cell in all_cells()]
    assert len(set(keys)) == len(keys)
    assert {cell.system for cell in all_cells()} == set(SYSTEMS)


def test_results_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    keep(begin(path, ABOUT, again=False), path)
    with pytest.raises(SystemExit, match="results of other settings or another machine; give --again"):
        begin(path, {**ABOUT, "threads": 1}, again=False)
    assert begin(path, {**ABOUT, "threads": 1}, again=True)["about"]["threads"] == 1


@pytest.mark.parametrize("make", [eole_config, opennmt_config, joeynmt_config])
@pytest.mark.parametrize("name", SHAPES)
def test_peers_are_told_the_same_sizes(make, name: str, tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.vocabulary.write_text("a\nb\n")
    for ending in ("src", "tgt"):
        corpus.file(f"valid.{ending}").write_text("a\nb\n")
    told = json.dumps(make(SHAPES[name], corpus, tmp_path, steps=Steps(warm=2, timed=5, window=3)))
    assert str(SHAPES[name].width) in told
    assert ": 7" in told
    assert ": 3" in told
    assert "4096" in told
    assert "0.1" in told


def test_pieces_with_white_space_are_refused(tmp_path: Path) -> None:
    check_pieces([["▁a", "b"]], tmp_path / "train.en")
    with pytest.raises(SystemExit, match=r"train\.en:2: a piece holds white space"):
        check_pieces([["▁a"], ["a\u00a0b"]], tmp_path / "train.en")


def test_a_program_is_run_and_watched(tmp_path: Path) -> None:
    held = "import time; x = bytearray(80_000_000); print('said', flush=True); time.sleep(0.9)"
    ran = run(["python3", "-c", held], threads=1, further={}, limit=60, folder=tmp_path)
    assert ran.output == "said\n"
    assert ran.seconds > 0.9
    assert ran.bytes > 80_000_000
    with pytest.raises(Failed, match=r"(?s)exit code 3 after \d+ s: .*told"):
        run(["python3", "-c", "print('told'); raise SystemExit(3)"], threads=1, further={}, limit=60, folder=tmp_path)
    two = (
        "import subprocess; subprocess.run(['python3', '-c', 'import time; x = bytearray(50_000_000); time.sleep(1)'])"
    )
    assert run(["python3", "-c", two], threads=1, further={}, limit=60, folder=tmp_path).bytes > 50_000_000
    with pytest.raises(Failed, match="exit code -9"):
        run(["python3", "-c", "import time; time.sleep(60)"], threads=1, further={}, limit=0.1, folder=tmp_path)


def test_the_end_of_a_program_is_seen_when_it_comes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes, "PAUSE", 20.0)
    assert 0.2 < run(["sleep", "0.2"], threads=1, further={}, limit=60, folder=tmp_path).seconds < 10

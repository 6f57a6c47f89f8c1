"""Rows and pages of Multi30k: what is shown follows from the rows."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu
import translation
from multi30k import page, pictures
from multi30k.plan import COMPARED, DEFAULT, LADDER, PLAN
from multi30k.rows import Cost, Place, Row, add_row, current, read_rows
from multi30k.running import LENGTHS, buckets
from published import picture, sections
from published.entries import Bucket, Value
from published.heads import settings_hash

import recipes as runner

SVG = "{http://www.w3.org/2000/svg}"
PLACE = Place(
    commits=("0123456789abcdef",),
    clean=True,
    machine="2 cores",
    threads=2,
    versions={"regard": "0.1.0", "torch": "2.13.0", "python": "3.11.2", "sacrebleu": "2.6.0"},
)


def value(number: float) -> Value:
    return Value(value=number, low=number - 1, high=number + 1, count=9, signature="tok:none")


def row(recipe: str = DEFAULT, bleu: float = 40.0, *, seed: int = 1, minutes: float = 88.0) -> Row:
    return Row(
        recipe=recipe,
        recipe_hash="a",
        seed=seed,
        finished="2026-11-16",
        place=PLACE,
        cost=Cost(minutes=minutes, training_minutes=84.0, cpu_minutes=160.0, steps=7000, epochs=60),
        parameters=2_600_000,
        curve=((1.0, 5.0), (10.0, 30.0), (20.0, 38.5), (40.0, 39.2)),
        validation={"BLEU": value(bleu + 1)},
        test={"BLEU": value(bleu), "chrF": value(60.0)},
    )


def beside_others(one: Row, *, cpu: float) -> Row:
    """A training on one thread that had to wait for other programs."""
    return replace(one, cost=replace(one.cost, minutes=120.0, cpu_minutes=cpu))


def tried(what: str, bleu: float, *settings: str) -> Row:
    return replace(row(bleu=bleu), experiment=what, settings=settings, test={})


def standing(*rows: Row, recipe: str = DEFAULT) -> page.Standing:
    return next(one for one in page.standings(rows) if one.planned.recipe == recipe)


def test_rows_are_appended_and_the_same_training_made_again_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks/translation.json"
    assert read_rows(path) == ()
    first, second, less = row(bleu=40.0), row(bleu=41.0, seed=2), replace(row(bleu=38.0), asked_minutes=45.0)
    for one in (first, second, less, tried("dropout", 40.5, "model.dropout=0.2")):
        add_row(path, one)
    assert [one.bleu for one in read_rows(path)] == [40.0, 41.0, 38.0, None]
    assert [one.bleu for one in add_row(path, replace(first, test={"BLEU": value(40.2)}))] == [41.0, 38.0, None, 40.2]
    assert read_rows(path)[0] == second


@pytest.mark.parametrize(
    ("rows", "met", "verdict"),
    [
        ((), None, "0 of 3 trained"),
        ((row(bleu=41.0), row(bleu=41.0, seed=2)), None, "2 of 3 trained"),
        ((row(bleu=40.0), row(bleu=40.3, seed=2), row(bleu=40.6, seed=3)), True, "yes"),
        ((row(bleu=40.0), row(bleu=40.3, seed=2), row(bleu=40.5, seed=3)), False, "**no**"),
        ((row(bleu=41.0), row(bleu=41.0, seed=2), row(bleu=41.0, seed=3, minutes=91.0)), False, "**no**"),
        ((row(bleu=41.0), row(bleu=41.0, seed=2), beside_others(row(bleu=41.0, seed=3), cpu=89.0)), True, "yes"),
    ],
)
def test_a_bound_is_on_the_mean_of_all_seeds_in_time(rows: tuple[Row, ...], met: bool | None, verdict: str) -> None:
    one = standing(*rows)
    assert (one.met, one.verdict) == (met, verdict)
    assert one.asked == "≥ 40.3 in 90 minutes, mean of 3"


def test_other_settings_times_and_experiments_do_not_count() -> None:
    rows = (replace(row(bleu=50.0), recipe_hash="old"), replace(row(bleu=51.0), asked_minutes=45.0), tried("x", 55.0))
    assert current((*rows, row())) == (rows[1], row())
    assert standing(*rows, row()).values == [40.0]
    table = page.run_table((*rows, row()))
    assert f"| {DEFAULT} (earlier settings) | 1 | 50.00 [49.00, 51.00] |" in table
    assert f"| {DEFAULT} (45 minutes) | 1 | 51.00" in table
    assert "55.00" not in table


def test_the_section_says_what_the_rows_say() -> None:
    rows = (row(bleu=40.0), row(bleu=41.0, seed=2), row(bleu=42.0, seed=3), row(COMPARED, 37.0))
    written = page.section(rows)
    assert "41.00 ± 2.48 (40.00, 41.00, 42.00) | 60.00 ± 0.00 | 88 | 41.02 (Wu et al. 2021," in written
    assert "| 37.00 [36.00, 38.00] | 60.00 [59.00, 61.00] | 88 |  |  |  |" in written
    assert "BLEU 39 is reached after **40 minutes**." in written
    assert "for small corpora reach in the same time, 39.20, is\npassed" not in written
    assert "39.20, is passed after **40 minutes**." in written
    assert "Signature: `tok:none`" in written
    assert "| 160 | 2 | 7,000 | 60 | 01234567 |" in written
    assert "01234567 + changes" in page.section((replace(row(), place=replace(PLACE, clean=False)),))
    lines = [line for line in written.splitlines() if line.startswith("|")]
    widths = {line.count("|") for line in lines if line.startswith("| ---")}
    assert {line.count("|") for line in lines} == widths


def test_a_goal_that_is_not_reached_is_told() -> None:
    low = replace(row(), curve=((1.0, 5.0), (80.0, 30.0)))
    written = page.told_times((low, replace(row(COMPARED), curve=((1.0, 2.0), (80.0, 31.0)))))
    assert "BLEU 39 is not reached; the best is 30.00." in written
    assert "31.00, is **not passed**." in written
    assert page.told_times(()) == ""


def test_experiments_stand_beside_the_unchanged_recipe() -> None:
    rows = (row(bleu=40.0), tried("less dropout", 39.5, "model.dropout=0.2"), tried("R-Drop", 41.0, "a=1", "b=2"))
    written = page.experiments(rows)
    better, worse = (line for line in written.splitlines() if line.startswith(("| R-Drop", "| less")))
    assert better.startswith("| R-Drop (`a=1 b=2`) | 42.00 [41.00, 43.00] | +1.00 | 84 | 7,000 | 1 |")
    assert "| 40.50 [39.50, 41.50] | -0.50 |" in worse
    assert "Nothing is measured yet." in page.experiments((row(),))


def test_the_section_stays_when_the_rest_of_the_page_is_written(tmp_path: Path) -> None:
    for folder in ("benchmarks", "recipes"):
        (tmp_path / folder).mkdir()
    runner.write_pages({}, tmp_path)
    before = (tmp_path / "docs/results.md").read_text(encoding="utf-8")
    assert sections.section_of(before) == ""
    translation.write_pages((row(),), tmp_path)
    written = (tmp_path / "docs/results.md").read_text(encoding="utf-8")
    assert written.startswith(before.rstrip("\n"))
    assert "40.00 [39.00, 41.00]" in sections.section_of(written)
    runner.write_pages({}, tmp_path)
    translation.write_pages((row(),), tmp_path)
    assert (tmp_path / "docs/results.md").read_text(encoding="utf-8") == written
    assert sections.with_section(written, "").rstrip("\n") == before.rstrip("\n")
    assert (tmp_path / "docs" / page.CURVE).exists()
    assert not (tmp_path / "docs" / page.LENGTHS).exists()
    assert "Nothing is measured" in (tmp_path / "docs/experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("wanted", "minutes"), [(5.0, 1.0), (30.1, 20.0), (39.2, 40.0), (40.0, None)])
def test_minutes_to_a_value(wanted: float, minutes: float | None) -> None:
    assert pictures.minutes_to(row().curve, wanted) == minutes


def test_the_curve_is_of_the_first_seed_with_all_its_time() -> None:
    rows = (row(seed=2), replace(row(), asked_minutes=45.0), row())
    assert pictures.first_of(rows, DEFAULT) is rows[2]
    assert pictures.curve_picture(()) is None
    drawing = ElementTree.fromstring(pictures.curve_picture((*rows, row(COMPARED))) or "")
    texts = {text.text for text in drawing.iter(f"{SVG}text")}
    assert {"Validation BLEU", "default", "JoeyNMT's settings", "passes 39.2"} <= texts


def rungs(*values: float) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(first=1 + 9 * i, last=9 if i == 0 else None, sentences=20, value=v, low=v - 2, high=v + 2)
        for i, v in enumerate(values)
    )


def test_the_ladder_is_drawn_where_its_values_are() -> None:
    rows = [replace(row(name), by_length=rungs(10.0 + n, 8.0 + n)) for n, name in enumerate(LADDER)]
    odd = replace(rows[-1], by_length=rungs(9.0))
    assert list(pictures.ladder((*rows[:-1], odd))) == list(LADDER[:-1])
    drawing = ElementTree.fromstring(pictures.ladder_picture(rows) or "")
    dots = drawing.findall(f"{SVG}circle")
    tall = picture.HEIGHT - picture.BOTTOM - picture.TOP
    heights = [(picture.HEIGHT - picture.BOTTOM - float(dot.attrib["cy"])) / tall * 20 for dot in dots]
    assert heights == pytest.approx([v + n for n in range(5) for v in (10.0, 8.0)], abs=0.05)
    assert "| 1 to 9 | 20 | 10.0 [8.0, 12.0] | 11.0" in page.rung_table(rows)
    assert pictures.ladder_picture(()) is None
    assert page.rung_table(()) == ""


def test_bleu_by_length_is_that_of_sacrebleu() -> None:
    sources = ["w " * size for size in (3, LENGTHS[0] - 1, LENGTHS[0], 40)]
    references = ["das ist so schön .", "er geht heute heim .", "sie kam nie mehr zurück .", "zu lang für ein Bett"]
    outputs = ["das ist so schön !", "er geht heute heim .", "sie kam nie zurück .", "zu lang für das Bett"]
    short, middle, long = buckets(sources, references, outputs, tokenize="none", resamples=10)
    expected = sacrebleu.corpus_bleu(outputs[:2], [references[:2]], tokenize="none", force=True)
    assert short.value == pytest.approx(expected.score, abs=0.01)
    assert [(one.first, one.last, one.sentences) for one in (short, middle, long)] == [
        (1, LENGTHS[0] - 1, 2),
        (LENGTHS[0], LENGTHS[1] - 1, 1),
        (LENGTHS[-1], None, 1),
    ]


def test_a_result_goes_into_the_head() -> None:
    assert page.result_line((), DEFAULT) is None
    line = page.result_line((row(),), DEFAULT)
    assert line == (
        "# Result:   BLEU 40.00 [39.00, 41.00] on test_2016_flickr; 2,600,000 parameters, 7,000 steps, "
        "88 minutes on 2 threads"
    )


def test_heads_hold_results_of_their_own_settings_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for planned in PLAN:
        (tmp_path / f"{planned.recipe}.yaml").write_text("# Result:   not measured yet\ntask: translation\nseed: 1\n")
    monkeypatch.setattr(translation, "recipe_path", lambda name: tmp_path / f"{name}.yaml")
    path = tmp_path / f"{DEFAULT}.yaml"
    own = replace(row(bleu=41.0), recipe_hash=settings_hash(path.read_text()))
    translation.write_heads((row(bleu=40.0),))
    assert "not measured yet" in path.read_text()
    translation.write_heads((own, row(bleu=40.0)))
    assert path.read_text().startswith("# Result:   BLEU 41.00 [40.00, 42.00] on test_2016_flickr;")
    path.write_text(path.read_text().replace("seed: 1", "seed: 2"))
    translation.write_heads((row(bleu=40.0),))
    assert path.read_text().startswith("# Result:   not measured yet")

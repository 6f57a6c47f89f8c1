"""The recipes of Multi30k: each has a row in the plan, a head, the data of its pair, and can be built."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
import translation
from multi30k import running
from multi30k.corpus import SMALL, TEST, part_files, place_corpus
from multi30k.plan import LADDER, PLAN, WITHOUT, planned
from multi30k.running import Asked
from published import heads

from regard.recipe import load_recipe
from regard.recipe.build import build_system

ROOT = Path(__file__).parents[2]
ROWS = {row.recipe: row for row in PLAN}


def asked(recipe: str = "ende_tiny_short", **changes: object) -> Asked:
    return replace(Asked(row=planned(recipe), seed=1, threads=1), **changes)  # type: ignore[arg-type]


def test_every_recipe_is_planned_once() -> None:
    there = sorted(path.stem for path in (ROOT / "recipes/multi30k").glob("*.yaml"))
    assert there == sorted(ROWS)
    assert len(ROWS) == len(PLAN)
    assert len(LADDER) == 5
    assert set(WITHOUT) < set(LADDER)


@pytest.mark.parametrize("name", ROWS)
def test_every_recipe_can_be_built_and_has_a_head(name: str) -> None:
    path = running.recipe_path(name)
    recipe = load_recipe(path)
    build_system(recipe.model, source_vocabulary=9, target_vocabulary=9)
    assert recipe.run == f"runs/multi30k/{name}"
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    told = "\n".join(head)
    assert f"# Command:  regard train recipes/multi30k/{name}.yaml" in head
    assert sum(line.startswith(heads.RESULT) for line in head) == 1
    assert "label smoothing" in told.replace("\n# ", " ")
    assert (recipe.evaluation.tokenize == "13a") == ROWS[name].raw
    assert recipe.training.select == "BLEU"


@pytest.mark.parametrize("name", ROWS)
def test_every_recipe_has_the_data_of_its_pair(name: str) -> None:
    data, row = load_recipe(running.recipe_path(name)).data, ROWS[name]
    train = tuple(f"{file.replace('val.', 'train.')}.gz" for file in part_files(row, "val"))
    for files, expected in (
        (data.train, train),
        (data.valid, part_files(row, "val")),
        (data.test, part_files(row, TEST)),
    ):
        assert files is not None
        assert tuple(str(Path(file).relative_to(ROOT)) for file in files) == expected


def test_the_ladder_differs_in_the_model_and_its_rate_only() -> None:
    recipes = [load_recipe(running.recipe_path(name)) for name in LADDER]
    assert len({recipe.text.model_dump_json() for recipe in recipes}) == 1
    assert {recipe.training.minutes for recipe in recipes} == {10}
    assert [recipe.model.decoder.attends for recipe in recipes] == [name not in WITHOUT for name in LADDER]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "ende_tiny_short-1"),
        ({"seed": 2}, "ende_tiny_short-2"),
        ({"minutes": 45.0}, "ende_tiny_short-1-45m"),
        ({"experiment": "x", "settings": ("model.dropout=0.2",)}, "ende_tiny_short-1-6a43955e"),
    ],
)
def test_training_never_sees_the_test_set(changes: dict[str, object], name: str) -> None:
    one = asked(**changes)
    arguments = one.arguments()
    assert one.name == name
    assert f"run=runs/{name}" in arguments
    assert not any(TEST in argument for argument in arguments)
    assert "data.test=[multi30k/val.lc.norm.tok.en, multi30k/val.lc.norm.tok.de]" in arguments
    assert ("training.minutes=45" in arguments) == ("minutes" in changes)


def test_an_unknown_recipe_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"no such recipe: ende_big; there are ende_tiny_short, ende_tiny_long"):
        planned("ende_big")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"recipe": None}, r"name a recipe \(ende_tiny_short, .*\), or give --all or --page"),
        ({"settings": ["model.dropout=0.2"]}, r"model.dropout=0.2 changes the recipe: say what is tried with --exp"),
        ({"mbr": "chrF"}, r"--average and --mbr are for finished runs: give their seeds with --decode"),
        ({"all": True}, r"--all trains every recipe as it is: leave out the name and --experiment"),
    ],
)
def test_what_cannot_be_asked_for(options: dict[str, object], told: str) -> None:
    usual = {"recipe": "ende_luong", "settings": [], "seed": 1, "threads": 1, "minutes": None, "experiment": ""}
    usual |= {"average": None, "mbr": None}
    with pytest.raises(SystemExit, match=told):
        translation.wanted(argparse.Namespace(**{**usual, "all": False, "quick": False, **options}))


def test_all_is_every_seed_of_the_plan() -> None:
    usual = {"recipe": None, "settings": [], "seed": 1, "threads": 2, "minutes": None, "experiment": "", "all": True}
    usual |= {"average": None, "mbr": None}
    everything = translation.wanted(argparse.Namespace(**usual, quick=False))
    assert [one.name for one in everything[:4]] == [*(f"ende_tiny_short-{n}" for n in (1, 2, 3)), "ende_tiny_long-1"]
    assert len(everything) == sum(row.seeds for row in PLAN)
    assert len(translation.wanted(argparse.Namespace(**usual, quick=True))) == len(PLAN)


def test_a_corpus_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("", str(tmp_path)):
        monkeypatch.setenv("REGARD_DATA", place)
        with pytest.raises(SystemExit, match="set REGARD_DATA to the folder of corpora that has mt/multi30k"):
            place_corpus(tmp_path / "here", small=True)
    assert set(SMALL) == {"train", "val", TEST}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"experiment": ""},
            r'--decode is an experiment: name the recipe, and say what is tried with --experiment "..."',
        ),
        (
            {"settings": ["search.beam=2", "model.width=8"]},
            r"model.width=8 needs a training; --decode takes .* search.*",
        ),
    ],
)
def test_what_cannot_be_decoded(options: dict[str, object], told: str) -> None:
    usual = {"recipe": "ende_luong", "settings": [], "threads": 1, "experiment": "x", "average": None, "mbr": None}
    with pytest.raises(SystemExit, match=told):
        translation.decoding(argparse.Namespace(**{**usual, "decode": "1,2", **options}))
    fine = translation.decoding(argparse.Namespace(**{**usual, "decode": "1,2", "settings": ["search.beam=2"]}))
    assert fine.settings == ("seeds=1,2", "search.beam=2")

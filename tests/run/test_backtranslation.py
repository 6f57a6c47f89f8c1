"""Back-translation of the toy task from end to end."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.errors import BusyError, DataError, RegardError, UsageError
from regard.recipe.schema import Recipe
from regard.run import backtranslation
from regard.run.backtranslation import Plan, backtranslate, check_recipe
from regard.run.backtranslation_results import gain_lines, told_lines, write_backtranslation
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.series import Failed
from tests.in_process import train_all_here
from tests.toys import toy_pairs, toy_recipe, write_tsv

SMALL = ("training.steps=2", "training.validate_every=2", "model.width=8")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtranslation, "train_all", train_all_here)


def toy_task(folder: Path, *overrides: str, mono: int = 400) -> tuple[Recipe, Path]:
    """Sixty pairs, and more text of the target language than that."""
    pairs = toy_pairs(200 + mono)
    files = {
        name: write_tsv(folder / f"{name}.tsv", part)
        for name, part in (("train", pairs[:60]), ("valid", pairs[60:100]), ("test", pairs[100:200]))
    }
    text = folder / "mono.txt"
    text.write_text("".join(f"{target}\n" for _, target in pairs[200:]) + "NEW WORD\n", encoding="utf-8")
    recipe = toy_recipe(
        folder / "run",
        files["train"],
        f"data.valid={files['valid']}",
        f"data.test={files['test']}",
        f"data.further.again={files['valid']}",
        "training.steps=150",
        "training.validate_every=75",
        *overrides,
    )
    return recipe, text


def test_monolingual_text_gives_a_gain_and_nothing_is_done_twice(tmp_path: Path) -> None:
    recipe, mono = toy_task(tmp_path, "training.steps=500")
    told: list[str] = []
    result = backtranslate(recipe, Plan(mono=mono, draw="beam"), tell=told.append)
    assert [line for line in told if "training" in line] == [
        "baseline: training",
        "reverse: training",
        "round1/final: training",
    ]
    (only,) = result.rounds
    gains = {gain.name: gain for gain in only.gains}
    assert gains["BLEU"].value > 0
    assert gains["BLEU"].low > 0
    assert gains["BLEU"].count == 100
    assert gains["BLEU"].first == pytest.approx(result.baseline.scores["test"]["BLEU"])
    assert gains["BLEU"].other == pytest.approx(only.final.scores["test"]["BLEU"])
    assert only.mixed.share == pytest.approx(0.5, abs=0.02)
    assert result.tag_tokens == 1
    write_backtranslation(result)
    record: Any = json.loads((result.folder / "backtranslation.json").read_bytes())
    assert record["rounds"][0]["gains"]["BLEU"]["difference"] == gains["BLEU"].value
    assert record["rounds"][0]["translated"]["lines"] == 401
    page = (result.folder / "backtranslation.md").read_text(encoding="utf-8")
    assert f"| BLEU | {gains['BLEU'].first:.2f} | {gains['BLEU'].other:.2f} | {gains['BLEU'].value:+.2f} |" in page
    assert gain_lines(result)[0] == "gain of back-translation (100 pairs)"
    assert f"{only.made.kept} of 401 lines became synthetic pairs" in told_lines(only)
    kept = {path: path.stat().st_mtime_ns for path in result.folder.rglob("*") if path.is_file()}
    told.clear()
    again = backtranslate(recipe, Plan(mono=mono, draw="beam"), tell=told.append)
    assert again == result
    assert not any("training" in line for line in told)
    changed = {path.name for path, time in kept.items() if path.stat().st_mtime_ns != time}
    assert changed <= {"skipped.tsv", "lock", ".lock"}


def test_a_second_one_in_the_same_folder_is_refused_and_deletes_nothing(tmp_path: Path) -> None:
    recipe, mono = toy_task(tmp_path, *SMALL, mono=5)
    folder = RunFolder(tmp_path / "run-backtranslation")
    folder.make()
    kept = folder.path / "baseline" / "weights.safetensors"
    kept.parent.mkdir()
    kept.write_text("learned")
    with folder.locked(), pytest.raises(BusyError, match=r"run-backtranslation: another process is training into this"):
        backtranslate(recipe, Plan(mono=mono), tell=lambda line: None, overwrite=True)
    assert kept.read_text() == "learned"


def test_the_models_are_what_they_are_said_to_be(tmp_path: Path) -> None:
    recipe, mono = toy_task(tmp_path, *SMALL, mono=30)
    plan = Plan(mono=mono, settings=[("final", "training.steps=3"), ("reverse", "model.layers=2")])
    folder = backtranslate(recipe, plan, tell=lambda line: None).folder
    models = {name: Model.load(folder / name) for name in ("baseline", "reverse", "round1/final")}
    assert models["baseline"].examples(str(folder / "data/forward/test.jsonl"))[0].target.isupper()
    assert models["reverse"].texts.source.encode("NEW").ids == models["baseline"].texts.target.encode("NEW").ids
    assert models["baseline"].texts.target.decode(models["baseline"].texts.target.encode("NEW").ids) == "NEW"
    for name in ("baseline", "round1/final"):
        tag = models[name].texts.source.encode("<BT> a").ids
        assert models[name].texts.source.decode(tag) == "<BT> a"
    steps = {name: model.recipe.training.steps for name, model in models.items()}
    assert steps == {"baseline": 2, "reverse": 2, "round1/final": 3}
    assert [model.recipe.model.layers for model in models.values()] == [1, 2, 1]
    lines = (folder / "round1/mixed.jsonl").read_text(encoding="utf-8").splitlines()
    sources = [json.loads(line)["source"] for line in lines]
    assert 0 < sum(source.startswith("<BT> ") for source in sources) <= 31
    metrics: Any = json.loads((folder / "round1/final/metrics.json").read_bytes())
    assert "again" in metrics["further"]


def test_later_rounds_teach_the_reverse_model_first(tmp_path: Path) -> None:
    recipe, mono = toy_task(tmp_path, *SMALL, "text.shared=true", mono=30)
    other = tmp_path / "source.txt"
    other.write_text("c d e\n" * 10 + "strange a\n", encoding="utf-8")
    plan = Plan(mono=mono, source_mono=other, rounds=2, tagged=False, share=0.3)
    told: list[str] = []
    result = backtranslate(recipe, plan, tell=told.append)
    assert [line.removesuffix(": training") for line in told if "training" in line] == [
        "baseline",
        "reverse",
        "round1/final",
        "round2/reverse",
        "round2/final",
    ]
    assert (len(result.rounds), result.tag_tokens) == (2, 0)
    assert "gain of back-translation, round 2 (100 pairs)" in gain_lines(result)
    pairs = (result.folder / "round2/reverse_mixed.jsonl").read_text(encoding="utf-8")
    assert '"target": "c d e"' in pairs
    assert "<BT>" not in pairs
    texts = Model.load(result.folder / "baseline").texts
    assert texts.source.decode(texts.source.encode("strange").ids) == "strange"


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_the_tag_is_one_token_of_a_vocabulary_of_pieces(tmp_path: Path, unit: str) -> None:
    sizes = ("text.size=300", "text.shared=true", f"text.unit={unit}", "search.max_length=60")
    recipe, mono = toy_task(tmp_path, *SMALL, *sizes, mono=30)
    assert backtranslate(recipe, Plan(mono=mono), tell=lambda line: None).tag_tokens == 1


def test_other_data_are_refused_and_can_be_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe, mono = toy_task(tmp_path, *SMALL, "run=runs/toy", mono=20)
    plan = Plan(mono=mono)
    folder = backtranslate(recipe, plan, tell=lambda line: None).folder
    mine = folder / "notes.txt"
    mine.write_text("mine")
    mono.write_text("A B\nC D\n" * 10, encoding="utf-8")
    told = "holds a back-translation with other settings or data \\(different: mono\\).*or start anew with --overwrite"
    with pytest.raises(UsageError, match=told):
        backtranslate(recipe, plan, tell=lambda line: None)
    result = backtranslate(recipe, plan, tell=lambda line: None, overwrite=True)
    assert result.rounds[0].made.lines == 20
    assert mine.read_text() == "mine"


def test_a_run_that_fails_ends_the_work_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, mono = toy_task(tmp_path, *SMALL, mono=20)
    monkeypatch.setattr(
        backtranslation, "train_all", lambda jobs, **_: {job.name: Failed("no room", 7) for job in jobs}
    )
    with pytest.raises(RegardError, match="the run baseline failed: no room") as error:
        backtranslate(recipe, Plan(mono=mono), tell=lambda line: None)
    assert error.value.exit_code == 7


def test_bad_texts(tmp_path: Path) -> None:
    recipe, mono = toy_task(tmp_path, *SMALL, mono=5)
    mono.write_text("\n\n")
    with pytest.raises(DataError, match=r"mono\.txt: there is not one line of text in it"):
        backtranslate(recipe, Plan(mono=mono), tell=lambda line: None)
    mono.write_text("A\n")
    train = tmp_path / "train.tsv"
    train.write_text(train.read_text(encoding="utf-8") + "<BT> a\tA\n", encoding="utf-8")
    with pytest.raises(DataError, match="sources of the set train hold <BT>, which is the tag of synthetic ones"):
        backtranslate(recipe, Plan(mono=mono), tell=lambda line: None)
    assert not RunFolder(tmp_path / "run-backtranslation/baseline").begun


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"share": 0.0}, "share = 0.0: the share of real pairs must lie between 0 and 1"),
        ({"share": 1.0}, "share = 1.0: the share"),
        ({"rounds": 0}, "rounds = 0: there must be at least 1"),
        ({"rounds": 2}, "rounds = 2: from the second round on the reverse model learns from text of the source"),
        ({"source_mono": Path("a")}, "text of the source language is only used from the second round on"),
    ],
)
def test_plans_that_make_no_sense(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Plan(mono=Path("mono"), **options)


@pytest.mark.parametrize(
    ("overrides", "settings", "told"),
    [
        (["text.start_from=x"], [], "learns vocabularies and models of its own: leave out `text.start_from`"),
        (["model.start_from=x"], [], "leave out `model.start_from`"),
        (["data.attributes=[2]"], [], "needs a recipe that can be turned round"),
        ([], [("last", "a=1")], "last.a=1: settings of one stage begin with baseline, reverse, final"),
        ([], [("final", "data.train=x")], "data, text, seed, run and evaluation are the same for all stages"),
    ],
)
def test_recipes_that_cannot_be_turned_round(
    tmp_path: Path, overrides: list[str], settings: list[tuple[str, str]], told: str
) -> None:
    recipe = toy_recipe(tmp_path / "run", tmp_path / "pairs.tsv", *overrides)
    with pytest.raises(UsageError, match=told):
        check_recipe(recipe, Plan(mono=Path("mono"), settings=settings))

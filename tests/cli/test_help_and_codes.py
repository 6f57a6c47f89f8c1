"""What a command says of itself, and the exit codes that scripts rely on."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard import __version__
from regard.recipe import tasks
from regard.run.folder import RunFolder
from tests.cli.conftest import Command
from tests.toys import toy_pairs, write_tsv

VERBS = [
    "demo",
    "new",
    "train",
    "sweep",
    "backtranslate",
    "predict",
    "rerank",
    "score",
    "evaluate",
    "compare",
    "inspect",
    "import",
    "data",
    "human",
]
EVERY = [
    [],
    *([verb] for verb in VERBS),
    *(["data", verb] for verb in ("list", "make", "check")),
    *(["human", verb] for verb in ("new", "serve", "results")),
]


@pytest.mark.parametrize("verb", EVERY, ids=" ".join)
@pytest.mark.parametrize("columns", ["40", "80"])
def test_every_command_explains_itself(
    regard: Command, monkeypatch: pytest.MonkeyPatch, verb: list[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = regard(*verb, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: {' '.join(['regard', *verb])}")
    assert "\x1b" not in result.out
    widest = max(int(columns), 50)  # less is not possible with typer
    assert all(len(line) <= widest for line in result.out.splitlines() if not line.startswith("  regard "))


def test_the_overview_names_every_verb(regard: Command) -> None:
    overview = regard("--help").out
    assert all(f"  {verb} " in overview for verb in VERBS)


def test_examples_in_the_help_stand_on_lines_of_their_own(regard: Command) -> None:
    assert "  regard train pairs.tsv\n" in regard("train", "--help").out


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"], ["new", "translation"]])
def test_help_does_not_wait_for_torch(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom regard.cli.main import main\n"
        f"sys.argv = ['regard', *{arguments!r}]\n"
        "try:\n    main()\nfinally:\n    print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False"


def test_version(regard: Command) -> None:
    assert regard("--version").out == f"regard {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Usage: regard"),
        (["nonsense"], "No such command 'nonsense'"),
        (["predict"], "Missing argument 'RUN'"),
        (["predict", "--bogus"], "No such option"),
        (["predict", "x", "--beam", "0"], "Invalid value for '--beam'"),
        (["predict", "x", "--beam", "two"], "Invalid value for '--beam'"),
        (["predict", "x", "--align", "--nbest", "2"], "regard: --align tells the links of the best output only"),
        (["train"], "Missing argument"),
        (["train", "training.steps=3"], "regard: train needs a recipe or a file of pairs before the settings"),
        (["train", "a.yaml", "b.tsv"], "regard: a.yaml is a recipe, which names its data itself"),
        (["evaluate", "x"], "Missing argument 'FILE'"),
        (["new", "inflexion"], "did you mean inflection?"),
        (["demo", "a", "b"], "regard: demo writes to one folder, and 2 were given: a, b"),
        (["data", "make", "planet", "x"], "regard: 'planet' is not known; there is one built-in world: pocket"),
    ],
    ids=str,
)
def test_usage_is_2(
    regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = regard(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert list(tmp_path.iterdir()) == []


def test_recipes_are_3_and_all_that_is_wrong_is_listed(
    regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("data: {train: x.tsv}\ntraining: {steps: none, warmpu: 3}\nmodel: {width: 0}\n")
    result = regard("train", "bad.yaml", "serch.beam=3")
    assert (result.code, result.out) == (3, "")
    for told in (
        "4 problems",
        "bad.yaml:2",
        "training.steps",
        "did you mean warmup?",
        "bad.yaml:3",
        "model.width",
        "serch",
    ):
        assert told in result.err, told
    missing = regard("train", "missing.yaml")
    assert (missing.code, missing.out) == (3, "")
    assert not (tmp_path / "runs").exists()


def bad_utf8(folder: Path) -> list[str]:
    (folder / "bad.tsv").write_bytes(b"a b\tA B\n" * 50 + b"c\xff\tC\n")
    return ["bad.tsv", "bad.tsv:51: byte 0xFF"]


def unequal(folder: Path) -> list[str]:
    (folder / "a.en").write_text("a\nb\nc\n")
    (folder / "a.de").write_text("A\nB\n")
    return ["a.en", "a.de", "a.de:3: the line is missing"]


def missing(folder: Path) -> list[str]:
    return ["nowhere.tsv", "nowhere.tsv: there is no such file"]


def no_pairs(folder: Path) -> list[str]:
    (folder / "list.tsv").write_text("just a line\n")
    return ["list.tsv", "list.tsv:1: no tab in the line"]


def too_few(folder: Path) -> list[str]:
    (folder / "few.tsv").write_text("a\tb\nc\td\n")
    return ["few.tsv", "too few to split off"]


@pytest.mark.parametrize("case", [bad_utf8, unequal, missing, no_pairs, too_few])
def test_data_is_4(
    regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Callable[[Path], list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    *files, message = case(tmp_path)
    result = regard("train", *files, "training.steps=2")
    assert (result.code, result.out) == (4, "")
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("verb", ["predict", "score", "evaluate", "inspect"])
def test_models_are_5(regard: Command, tmp_path: Path, run: Path, verb: str) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"junk")
    for folder, message in ((tmp_path / "nowhere", "there is no such run"), (tmp_path / "run", "not a weights file")):
        result = regard(verb, folder, "a b")
        assert (result.code, result.out) == (5, "")
        assert message in result.err


def test_a_folder_in_use_is_8(regard: Command, tmp_path: Path) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    folder = RunFolder(tmp_path / "run")
    folder.create()
    with folder.locked():
        result = regard("train", pairs, f"run={tmp_path / 'run'}", "training.steps=2")
    assert (result.code, result.out) == (8, "")
    assert "another process is training into this folder" in result.err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 7, "regard: there is not enough memory"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("oh"), 1, "regard: this is a bug in regard; please report it with the lines above"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_nobody_expects(
    regard: Command, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    def failing(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("regard.recipe.new_recipe", failing)
    result = regard("new", "translation")
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert ("Traceback" in result.err) == (code == 1)


def test_new_lists_the_tasks(regard: Command) -> None:
    listed = "translation, inflection, language, tagging, classification, rating, generation, captioning, pretraining"
    assert listed == ", ".join(tasks())
    alone = regard("new")
    assert (alone.code, alone.out) == (2, "")
    assert alone.err == f"regard: name a task, as in: regard new translation. There is {listed}\n"
    assert listed in " ".join(regard("new", "--help").out.split())


def test_freezing_what_is_not_there_is_a_fault_of_the_recipe(regard: Command, tmp_path: Path) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    result = regard("train", pairs, f"run={tmp_path / 'run'}", "training.freeze=[encoder.nothing]")
    assert result.code == 3
    assert "`training.freeze` names 'encoder.nothing', with which no parameter begins" in result.err

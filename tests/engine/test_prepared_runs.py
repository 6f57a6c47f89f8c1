"""Runs away from torch: the same lines as `regard predict --engine native`, from a wheel without torch."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import runtime
from regard.data import read_lines
from regard.engine.prepared import Prepared, read_settings
from regard.errors import DataError, ModelError, ResourceError, UsageError
from regard.insight import Reading
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.native import prepare_model, with_engine
from regard.run.written import Form
from regard.text.build import train_tokenizer
from tests.toys import toy_sources
from tests.untrained import TRANSFORMER, untrained_run

pytestmark = pytest.mark.usefixtures("library")
ROOT = Path(__file__).parents[2]
SIDES = {"encoder": TRANSFORMER, "decoder": TRANSFORMER}
LINES = ["", *toy_sources(30, seed=3), " ", "a\tb", "zzz ä \u2581 q", "a " * 400]


@pytest.fixture
def model(trained, tmp_path):
    """A prepared copy of the trained run."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in trained.model.folder.iterdir():
        if path.is_file() and path.name != ".lock":
            (folder / path.name).write_bytes(path.read_bytes())
    copied = Model.load(folder)
    assert prepare_model(copied) == ""
    return copied


@pytest.mark.parametrize("beam", [None, 1, 3])
def test_lines_are_those_of_the_model(model, beam):
    expected = [one.text for one in with_engine(model).predict_many(LINES, beam=beam)]
    found = list(Prepared(model.folder).predict(LINES, beam=beam))
    assert [one.text for one in found] == expected
    assert found[-3].remark == "a source of one text was expected, and there are tabs in it"
    assert "tokens, of which only these were read" in found[-1].remark
    assert [one.remark for one in found[:32]] == [""] * 32


SAMPLED = {"sample": True, "seed": 7, "temperature": 1.3, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "typical": 0.95}


@pytest.mark.parametrize(
    "asked", [{"sample": True}, SAMPLED, {"coverage_penalty": 0.6}], ids=["plain", "rules", "covered"]
)
def test_samples_and_coverage_are_those_of_the_model(model, asked, tmp_path, monkeypatch, capsys):
    native = with_engine(model)
    lines = LINES * 40  # more than are read ahead
    expected = [one.text for one in native.predict_many(lines, options=native.options(**asked))]
    assert [one.text for one in Prepared(model.folder).predict(lines, **asked)] == expected
    assert len({*expected}) > 2
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES))
    flags = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in asked.items()]
    for further in ([], ["--at-once"], ["--workers", "2"]):
        command = ["regard-runtime", str(model.folder), str(tmp_path / "lines"), *flags, *further]
        monkeypatch.setattr(sys, "argv", command)
        runtime.main()
        assert capsys.readouterr().out.split("\n")[:-1] == expected[: len(LINES)]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sample", "--temperature", "0"], "temperature must be a number above 0, not 0;"),
        (["--sample", "--top-k", "0"], "top_k must be at least 1, or None for all tokens, not 0"),
        (["--sample", "--top-p", "2"], "top_p must be above 0 and at most 1, or None for all tokens, not 2"),
        (["--sample", "--seed", "-1"], "seed must be a number from 0 to 2^64 - 1, not -1"),
        (["--sample", "--beam", "3"], "a beam (3) has no effect on samples; leave it out"),
        (["--sample", "--coverage-penalty", "1"], "coverage_penalty has no effect on samples, which are not ranked"),
        (["--top-k", "3"], "can only have an effect on samples; ask for sample as well"),
        (["--coverage-penalty", "-1"], "coverage_penalty must be a number from 0 on, not -1; 0 is none"),
    ],
)
def test_a_search_that_cannot_be_is_a_wrong_use(model, flags, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "lines").write_text("a b\n")
    monkeypatch.setattr(sys, "argv", ["regard-runtime", str(model.folder), str(tmp_path / "lines"), *flags])
    with pytest.raises(SystemExit, match=str(UsageError.exit_code)):
        runtime.main()
    assert message in capsys.readouterr().err


def aligned_lines(model: Model) -> list[str]:
    form = Form(align=True)
    found = with_engine(model).predict_many(LINES, capture=True)
    return [line for number, one in enumerate(found, start=1) for line in form.lines(one, number)]


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (Reading(), {"unit": "word", "size": 50, "shared": False}),
        (Reading(layer=0, head=1, shift=1), {"unit": "character", "shared": False}),
        (Reading(head=0), {"unit": "character", "reverse_target": True}),
        (Reading(layer=1), {"unit": "bpe", "size": 290, "reverse_target": True}),
    ],
    ids=["words", "characters", "backwards", "subwords"],
)
def test_links_are_those_of_the_model(reading, text, tmp_path, monkeypatch, capsys):
    folder = untrained_run(tmp_path / "run", seed=3, text=text, model={**SIDES, "layers": 2})
    drawn = Model.load(folder).with_reading(reading)
    longer = drawn.recipe.search.model_copy(update={"min_length": 5})  # wild weights end at once
    model = drawn.with_recipe(drawn.recipe.model_copy(update={"search": longer}))
    assert prepare_model(model) == ""
    expected = aligned_lines(model)
    found = list(Prepared(folder).predict(LINES, align=True))
    assert [f"{one.text}\t{one.links}" for one in found] == expected
    assert sum(bool(one.links) for one in found) > 20
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES))
    for further in ([], ["--at-once"]):
        command = ["regard-runtime", str(folder), str(tmp_path / "lines"), "--align", *further]
        monkeypatch.setattr(sys, "argv", command)
        runtime.main()
        assert capsys.readouterr().out.split("\n")[:-1] == expected


def test_a_source_that_is_cut_within_a_character_has_links(tmp_path):
    """Only some bytes of the last character are read; with all of them it would be longer than the positions."""
    learned = {**TRANSFORMER, "positions": "learned", "longest": 13}
    sections = {"text": {"unit": "byte"}, "model": {"encoder": learned, "decoder": TRANSFORMER}}
    model = Model.load(untrained_run(tmp_path / "run", seed=3, data={"max_length": 12}, **sections))
    assert prepare_model(model) == ""
    line = "a" + "\u00e4" * 20  # 1 + 5 · 2 bytes, and one of two
    (found,) = Prepared(model.folder).predict([line], align=True)
    told = [with_engine(model).predict(line, capture=True), model.predict(line, capture=True)]
    assert [len(one.alignment.source) for one in told] == [11, 11]
    assert list(Form(align=True).lines(told[0], 1)) == [f"{found.text}\t{found.links}"]
    assert found.remark == "longer than 12 tokens, of which only these were read"


def test_links_of_trained_models(model):
    found = Prepared(model.folder).predict(LINES, align=True)
    assert [f"{one.text}\t{one.links}" for one in found] == aligned_lines(model)


def test_links_that_cannot_be_told_are_refused(model, tmp_path):
    told = "this model has no attention to a source text to read an alignment from, or it was prepared before that coul"
    blind = {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "wiring": "every_step"}}
    other = untrained_run(tmp_path / "blind", seed=1, model=blind)
    assert prepare_model(Model.load(other)) == ""
    path = model.folder / "engine.json"
    later = ("stopping", "coverage_penalty", "alignment_layer", "alignment_head", "alignment_shift", "aligns_words")
    written = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in written.items() if name not in later}))
    for folder in (other, model.folder):
        assert len(list(Prepared(folder).predict(LINES))) == len(LINES)
        with pytest.raises(UsageError, match=told):
            list(Prepared(folder).predict(LINES, align=True))
    for change, message in (
        ({"alignment_layer": -9}, "there is no layer -9: the decoder has 1, counted from 0; -1 is the last; write it"),
        ({"alignment_head": 99}, "there is no head 99: the layer has 2, counted from 0; write it again with `reg"),
    ):
        path.write_text(json.dumps({**written, **change}))
        with pytest.raises(ModelError, match=f"engine.json: {message}"):
            Prepared(model.folder)


def test_settings_that_do_not_fit_are_refused(model):
    path = model.folder / "engine.json"
    good = json.loads(path.read_text())
    cases = [
        ({"format": 2}, "is not of format 1"),
        ({"beam": "five"}, "beam cannot be 'five'"),
        ({"source": "../../etc/passwd"}, "source cannot be '../../etc/passwd'"),
        ({"max_ratio": True}, "max_ratio cannot be True"),
        ({"max_ratio": float("nan")}, "max_ratio cannot be nan"),
        ({"max_ratio": float("inf")}, "max_ratio cannot be inf"),
        ({"length_penalty": -1.0}, "length_penalty cannot be -1.0"),
        ({"block_ngrams": -1}, "block_ngrams cannot be -1"),
        ({"coverage_penalty": -0.5}, "coverage_penalty cannot be -0.5"),
        ({"min_length": 10**30}, "min_length cannot be 1000"),
        ({"max_source": -5}, "max_source cannot be -5"),
        ({"alignment_layer": 10**30}, "alignment_layer cannot be 1000"),
        ({"alignment_layer": 0.5}, "alignment_layer cannot be 0.5"),
        ({"alignment_head": -1}, "alignment_head cannot be -1"),
        ({"alignment_shift": None}, "alignment_shift cannot be None"),
        ({"alignment_shift": 2}, "alignment_shift cannot be 2"),
        ({"max_source": 0}, "max_source cannot be 0"),
        ({"aligns_words": 1}, "aligns_words cannot be 1"),
    ]
    for change, message in cases:
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(ModelError, match=message):
            read_settings(model.folder)
    for content in ("{", "[" * 100_000, '{"format": 1, "beam": "\xff'):
        path.write_text(content, encoding="latin-1")
        with pytest.raises(ModelError, match=r"engine.json: cannot be read: .*write it again with `regard prepare`"):
            read_settings(model.folder)
    path.write_text(json.dumps({**good, "weights": 1}))
    with pytest.raises(ModelError, match=r"engine.bin and engine.json are of different weights; prepare the run again"):
        Prepared(model.folder)
    path.unlink()
    with pytest.raises(ModelError, match=r"there is no such file; `regard prepare .*` writes it"):
        read_settings(model.folder)


def test_tokenizers_of_another_run_are_refused(model):
    words = train_tokenizer(["x y z"], unit="word", size=20)
    for name in ("text", "source", "target"):
        words.save(model.folder, name)
    with pytest.raises(ModelError, match=r"engine.bin is of other vocabularies than the tokenizers here; prepare"):
        Prepared(model.folder)


def test_a_beam_that_the_engine_does_not_have_is_refused(model):
    with pytest.raises(UsageError, match="the beam must be from 1 to 64, not 65"):
        list(Prepared(model.folder).predict(["a"], beam=65))


def test_a_recipe_with_coverage_is_prepared_for_the_runtime(model):
    section = model.recipe.search.model_copy(update={"coverage_penalty": 0.5})
    other = model.with_recipe(model.recipe.model_copy(update={"search": section}))
    assert prepare_model(other) == ""
    prepared = Prepared(model.folder)
    assert prepared.options().coverage_penalty == 0.5
    assert prepared.options(coverage_penalty=0.0).coverage_penalty == 0.0
    assert prepared.options(sample=True).coverage_penalty == 0.0
    expected = [one.text for one in with_engine(other).predict_many(LINES)]
    assert [one.text for one in prepared.predict(LINES)] == expected


def test_what_the_engine_does_not_do_by_itself_is_not_prepared_for_the_runtime(model):
    section = model.recipe.search.model_copy(update={"groups": 2})
    other = model.with_recipe(model.recipe.model_copy(update={"search": section}))
    assert prepare_model(other) == "its recipe searches by more than the engine does by itself"
    assert not (model.folder / "engine.json").exists()
    assert (RunFolder(model.folder).path / "engine.bin").exists()


def test_the_command_tells_what_was_wrong(model, monkeypatch, capsys, tmp_path):
    lines = tmp_path / "lines"
    lines.write_bytes(b"a b\n\nc\td\n" + b"x\ty\n" * 10 + b"a \xff\n" + b"x\ty\n" * 2)
    monkeypatch.setattr(sys, "argv", ["regard-runtime", str(model.folder), str(lines)])
    runtime.main()
    told = capsys.readouterr()
    assert told.out.count("\n") == 16
    assert told.out.split("\n")[13] == ""
    said = f"regard-runtime: lines that are not UTF-8, answered with a blank line: 1 ({lines}:14)\n"
    assert said in told.err
    assert "regard-runtime: line 3: a source of one text was expected" in told.err
    assert "regard-runtime: and 3 more lines" in told.err
    monkeypatch.setattr(sys, "argv", ["regard-runtime", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit, match="5"):
        runtime.main()
    assert "there is no such file; `regard prepare" in capsys.readouterr().err


def test_files_are_read_as_predict_reads_them(model, monkeypatch, capsys, tmp_path):
    content = b"\xef\xbb\xbfa b\r\nc \xff\n\nb a c"
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]))
    read = list(read_lines(plain, bad_lines="blank"))
    expected = "".join(f"{one.text}\n" for one in with_engine(model).predict_many(read))
    for path in (plain, packed):
        monkeypatch.setattr(sys, "argv", ["regard-runtime", str(model.folder), str(path)])
        runtime.main()
        assert capsys.readouterr().out == expected
    whole = packed.read_bytes()
    for damaged in (whole[:-9], whole[:-1] + b"x", whole + b"x"):
        packed.write_bytes(damaged)
        monkeypatch.setattr(sys, "argv", ["regard-runtime", str(model.folder), str(packed)])
        with pytest.raises(SystemExit, match=str(DataError.exit_code)):
            runtime.main()
        told = capsys.readouterr().err
        assert told.startswith(f"regard-runtime: {packed}:")
        assert "the gzip data is damaged or cut off" in told
    for name, foreign, said in (("u", "a b\n".encode("utf-16"), "is UTF-16"), ("u.gz", b"a b\n", "is not gzip data")):
        (tmp_path / name).write_bytes(foreign)
        monkeypatch.setattr(sys, "argv", ["regard-runtime", str(model.folder), str(tmp_path / name)])
        with pytest.raises(SystemExit, match=str(DataError.exit_code)):
            runtime.main()
        assert said in capsys.readouterr().err


def test_a_closed_standard_input_is_told(model, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["regard-runtime", str(model.folder)])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit, match=str(DataError.exit_code)):
        runtime.main()
    assert "regard-runtime: <stdin>: standard input is closed" in capsys.readouterr().err


def test_options_may_stand_anywhere(model, monkeypatch, capsys, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("a b\nc\n")
    run, file, options = str(model.folder), str(lines), ["--beam", "2", "--align"]
    told = []
    for order in ([run, file, *options], [run, *options, file], [*options, run, file]):
        monkeypatch.setattr(sys, "argv", ["regard-runtime", *order])
        runtime.main()
        told.append(capsys.readouterr().out)
    assert told[0].count("\n") == 2
    assert told == [told[0]] * 3


def test_the_command_leaves_with_the_code_that_says_what_was_wrong(model, tmp_path):
    def left(*further: str, out: Path) -> tuple[int, str]:
        command = [sys.executable, "-c", "from regard.cli.runtime import main; main()", str(model.folder), *further]
        with out.open("wb") as stream:
            done = subprocess.run(command, input=b"a b\n", stdout=stream, stderr=subprocess.PIPE, cwd=ROOT, check=False)
        return done.returncode, done.stderr.decode()

    assert left(out=tmp_path / "out") == (0, "")
    assert left("--workers", "0", out=tmp_path / "out") == (2, "regard-runtime: --workers 0: there can be 1 to 1024\n")
    assert left(str(tmp_path / "nothing"), out=tmp_path / "out")[0] == DataError.exit_code
    full = Path("/dev/full")
    if full.exists():
        told = "regard-runtime: standard output: No space left on device\n"
        assert left(out=full) == (ResourceError.exit_code, told)


def test_what_the_command_cannot_do_is_told(model, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["regard-runtime", str(model.folder), "--nbest", "3", "lines"])
    with pytest.raises(SystemExit, match="2"):
        runtime.main()
    told = "regard-runtime: error: --nbest: there is no such option here; `regard predict` has more of them\n"
    assert capsys.readouterr().err.endswith(told)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="2"):
        runtime.main()
    assert capsys.readouterr().err == "regard-runtime: standard output is closed: nothing can be written\n"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (1, "1 output reached the limit of length before its end"),
        (3, "3 outputs reached the limit of length before their end"),
    ],
)
def test_outputs_that_were_cut_off_are_counted(tmp_path, monkeypatch, capsys, lines, told):
    never = Model.load(
        untrained_run(tmp_path / "run", seed=3, search={"max_length": 2, "max_ratio": None, "min_length": 2})
    )
    assert prepare_model(never) == ""
    file = tmp_path / "lines"
    file.write_text("a b\n" * lines)
    monkeypatch.setattr(sys, "argv", ["regard-runtime", str(never.folder), str(file)])
    runtime.main()
    assert capsys.readouterr().err == f"regard-runtime: {told}\n"


def test_memory_that_ends_in_python_is_told(monkeypatch, capsys):
    def exhausted(asked: object) -> None:
        raise MemoryError

    monkeypatch.setattr(sys, "argv", ["regard-runtime", "RUN"])
    monkeypatch.setattr(runtime, "run", exhausted)
    with pytest.raises(SystemExit) as left:
        runtime.main()
    assert left.value.code == ResourceError.exit_code
    assert capsys.readouterr().err == "regard-runtime: there is not enough memory\n"


def test_no_torch_and_no_numpy_are_needed():
    program = (
        "import sys, regard.cli.runtime, regard.engine.prepared; sys.exit(bool({'torch', 'numpy'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


@pytest.mark.long
def test_the_wheel_predicts_without_torch(model, tmp_path):
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    subprocess.run([*wheel, str(ROOT / "packaging" / "runtime")], check=True)
    (made,) = tmp_path.glob("regard_runtime-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(made)], check=True)
    assert subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0
    subprocess.run([python, "-I", "-c", "from regard.engine import *; import regard.engine.constraints"], check=True)
    missing = subprocess.run(
        [python, "-I", "-c", "import regard; regard.load"], capture_output=True, text=True, check=False
    )
    assert "regard.load is in regard, but not in regard-runtime" in missing.stderr
    expected = [one.text for one in with_engine(model).predict_many(LINES)]
    content = "".join(f"{line}\n" for line in LINES).encode()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for further in ([], ["--at-once"], ["--workers", "1"]):
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / "regard-runtime", model.folder, *further],
            input=content,
            capture_output=True,
            cwd=tmp_path,
            env=environment,
            check=True,
        )
        assert done.stdout.decode().split("\n")[:-1] == expected

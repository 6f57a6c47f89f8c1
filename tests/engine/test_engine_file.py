"""The engine file: what is damaged or hostile is refused with the reason, and never crashes."""

import os
import re
import struct
import zlib
from pathlib import Path

import pytest
import torch

from regard.engine import Engine
from regard.engine.container import Container, sealed
from regard.engine.preparation import contained
from regard.errors import ModelError
from tests.engine.sanitize import hostile, leaks, run, sanitized, write_files
from tests.engine.searching import system_named

pytestmark = pytest.mark.usefixtures("library")


@pytest.fixture(scope="module")
def whole() -> bytes:
    return contained(system_named("transformer post")).content()


def changed(content: bytes, place: int, form: str, value: object) -> bytes:
    copy = bytearray(content)
    struct.pack_into(form, copy, place, value)
    return sealed(bytes(copy))


def test_the_checksum_is_that_of_zlib(whole):
    (checksum,) = struct.unpack_from("<I", whole, 32)
    assert checksum == zlib.crc32(whole[:32] + bytes(4) + whole[36:])
    assert struct.unpack_from("<Q", whole, 24) == (len(whole),)


def test_tied_embeddings_are_in_the_file_once():
    system = system_named("transformer post")
    apart = len(contained(system, int8=False).content())
    with torch.no_grad():
        system.encoder.embedding.weight.copy_(system.decoder.embedding.weight)
    container = contained(system, int8=False)
    table = container.tensors["encoder.embedding"]
    assert len(container.content()) == apart - -(-table.nbytes // 64) * 64
    assert container.content().count(table.tobytes()) == 1


def first_tensor(content: bytes) -> int:
    return 64 + 64 * struct.unpack_from("<I", content, 12)[0]


CASES = {
    "too short": (lambda whole: whole[:40], "it is too short; prepare the run again"),
    "empty": (lambda whole: b"", "it is too short; prepare the run again"),
    "not one": (lambda whole: changed(whole, 0, "8s", b"RGENGINX"), "it does not begin like one"),
    "later": (lambda whole: changed(whole, 8, "<I", 2), "it has format 2 and this version reads 1"),
    "cut": (lambda whole: sealed(whole[:-64]), "it was cut off"),
    "longer": (lambda whole: sealed(whole + bytes(64)), "it was cut off or has something behind it"),
    "one bit": (lambda whole: whole[:-70] + bytes([whole[-70] ^ 4]) + whole[-69:], "its checksum is wrong"),
    "tables": (lambda whole: changed(whole, 16, "<I", 90_000), "its tables are longer than it"),
    "name": (lambda whole: changed(whole, 64, "48s", b"x" * 48), "a name in its tables is empty or has no end"),
    "twice": (lambda whole: changed(whole, 64 + 64, "64s", whole[64:128]), "a setting is there twice"),
    "type": (lambda whole: changed(whole, first_tensor(whole) + 64, "<I", 3), "unknown type or rank"),
    "rank": (lambda whole: changed(whole, first_tensor(whole) + 68, "<I", 5), "unknown type or rank"),
    "shape": (lambda whole: changed(whole, first_tensor(whole) + 72, "<q", -1), "an impossible shape"),
    "overflow": (lambda whole: changed(whole, first_tensor(whole) + 72, "<q", 1 << 39), "does not lie within it"),
    "beyond": (lambda whole: changed(whole, first_tensor(whole) + 104, "<Q", 1 << 40), "does not lie within it"),
    "askew": (lambda whole: changed(whole, first_tensor(whole) + 104, "<Q", 65), "does not lie within it"),
}


@pytest.mark.parametrize("case", CASES)
def test_damaged_files_are_refused_with_the_reason(case, whole, tmp_path):
    change, reason = CASES[case]
    path = tmp_path / "engine.bin"
    path.write_bytes(change(whole))
    with pytest.raises(ModelError, match=f"{re.escape(str(path))}: not .*{reason}"):
        Engine(path)


def without(name: str) -> "Container":
    container = contained(system_named("transformer post"))
    container.settings.pop(name, None)
    container.tensors.pop(name, None)
    return container


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("decoder.heads", "setting decoder.heads is missing"),
        ("decoder.output.bytes", "tensor decoder.output.bytes is missing"),
        ("encoder.positions", "setting encoder.positions is missing"),
    ],
)
def test_files_without_something_are_refused(name, reason, tmp_path):
    without(name).write(tmp_path / "engine.bin")
    with pytest.raises(ModelError, match=reason):
        Engine(tmp_path / "engine.bin")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("decoder.heads", 0, "setting decoder.heads is 0.0* and not a whole number from 1 to 4096"),
        ("decoder.heads", 1.5, "setting decoder.heads is 1.50* and not a whole number"),
        ("decoder.heads", float("nan"), "setting decoder.heads is not a number"),
        ("decoder.heads", 4, "tensor decoder.0.attention.output.bytes has another type or shape than the settings say"),
        ("decoder.heads", 3, "decoder has key heads that cannot serve its heads"),
        ("encoder.kind", 2, "setting encoder.backwards is missing"),
        ("encoder.kind", 0, "tensor|setting"),
        ("int8", 0, "tensor encoder.0.attention.all.floats is missing"),
        ("decoder.vocabulary", 4, "not a whole number from 5"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name, value, reason, tmp_path):
    container = contained(system_named("transformer none"))
    container.settings[name] = value
    container.write(tmp_path / "engine.bin")
    if name == "encoder.kind" and value == 0:
        assert (
            Engine(tmp_path / "engine.bin").source_vocabulary == 0
        )  # a decoder without its source is a language model
        return
    with pytest.raises(ModelError, match=reason):
        Engine(tmp_path / "engine.bin")


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(ModelError, match=r"missing\.bin: cannot be opened \(No such file or directory\)"):
        Engine(tmp_path / "missing.bin")
    with pytest.raises(ModelError, match="not a file"):
        Engine(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="not a file"):
        Engine(tmp_path / "pipe")


def test_a_setting_that_is_not_there_names_the_file(whole, tmp_path):
    path = tmp_path / "engine.bin"
    path.write_bytes(whole)
    with pytest.raises(ModelError, match=f"{re.escape(str(path))}: setting weights is missing; prepare the run again"):
        Engine(path).setting("weights")


def child(program: str, folder: Path, *arguments: str, **environment: str) -> str:
    """What a program of these tests says about engine files of several families."""
    write_files(folder)
    done = run("-m", f"tests.engine.{program}", str(folder), *arguments, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_mutated_files_never_crash(tmp_path):
    refused, answered = map(int, re.findall(r"\d+", child("fuzz", tmp_path, "1000", "1")))
    assert refused > 200
    assert answered > 30


def test_threads_share_an_engine(tmp_path):
    child("threads", tmp_path)


@pytest.mark.long
def test_mutated_files_never_crash_under_sanitizers(tmp_path):
    write_files(tmp_path)
    environment = sanitized(tmp_path, "address,undefined", "libasan.so")
    options = "detect_leaks=0:allocator_may_return_null=1"
    passed, told = hostile(tmp_path, 100_000, ASAN_OPTIONS=options, **environment)
    assert passed, told[-3000:]
    assert sum(map(int, re.findall(r"\d+", told))) == 100_000


@pytest.mark.long
def test_threads_have_no_races(tmp_path):
    child("threads", tmp_path, **sanitized(tmp_path, "thread", "libtsan.so"))


@pytest.mark.long
def test_nothing_is_leaked(tmp_path):
    write_files(tmp_path)
    environment = sanitized(tmp_path, "address,undefined", "libasan.so")
    options = "detect_leaks=1:exitcode=0:allocator_may_return_null=1"
    fuzz = ("-m", "tests.engine.fuzz", str(tmp_path), "100", "3")
    told = run(*fuzz, ASAN_OPTIONS=options, PYTHONMALLOC="malloc", **environment)
    assert told.returncode == 0
    assert leaks(told.stderr) == []


def test_leaks_of_the_engine_are_told_from_others():
    other = "Direct leak of 8 byte(s) in 1 object(s) allocated from:\n #0 malloc\n #1 PyMem_Malloc"
    own = "Direct leak of 8 byte(s) in 1 object(s) allocated from:\n #0 malloc\n #1 regard::Model::Model()"
    assert leaks(f"==1==ERROR: LeakSanitizer\n\n{other}\n\n{own}\n\nSUMMARY") == [own]

"""Building the native library, and doing without it."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.engine import build as building
from regard.engine import library as library_module
from regard.engine.build import BuildError, Native, build, compiler, instructions
from regard.engine.wheel import NativeEngine

ROOT = Path(__file__).parents[2]


def test_without_a_compiler_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O3")
    with pytest.raises(
        BuildError, match=r"no C\+\+ compiler was found \(no-such-compiler\); install one, or name it in CXX"
    ):
        compiler()
    monkeypatch.setenv("CXX", "'g++")
    with pytest.raises(BuildError, match=r"CXX is no command \(No closing quotation\): 'g\+\+"):
        compiler()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BuildError, match=r"no C\+\+ compiler was found \(g\+\+, clang\+\+, c\+\+\)"):
        build()


def test_a_compiler_that_does_not_start_is_told(monkeypatch, tmp_path):
    broken = tmp_path / "c++"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(BuildError, match=r"c\+\+ cannot be started: No such file or directory"):
        build()


def test_without_room_for_objects_the_reason_is_told(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "build").touch()
    monkeypatch.setattr(building, "ROOT", tmp_path)
    with pytest.raises(BuildError, match=r"cannot be made: .*Not a directory"):
        build()


def test_without_locks_or_a_place_for_the_library_the_reason_is_told(monkeypatch, tmp_path):
    (tmp_path / "empty.cpp").touch()
    (tmp_path / "taken.so").mkdir()
    monkeypatch.setattr(building, "ROOT", tmp_path)
    taken = Native("taken", tmp_path / "taken.so", tmp_path)
    with pytest.raises(BuildError, match=r"taken\.so cannot be made: .*Is a directory"):
        build(native=taken)
    assert {path.name for path in tmp_path.iterdir()} == {"empty.cpp", "taken.so"}
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(building.fcntl, "flock", refused)
    with pytest.raises(BuildError, match=r"cannot be made: .*No locks available"):
        build(native=taken)


def refused(*_):
    raise OSError(errno.ENOLCK, "No locks available")


def test_a_wheel_is_made_without_libraries_where_none_can_be_built(monkeypatch):
    def fails(*, native):
        raise BuildError(f"no compiler for {native.name}")

    monkeypatch.setattr(building, "build", fails)
    warnings, data = [], {"artifacts": []}
    hook = NativeEngine.__new__(NativeEngine)
    monkeypatch.setattr(NativeEngine, "root", str(ROOT))
    monkeypatch.setattr(NativeEngine, "app", SimpleNamespace(display_warning=warnings.append))
    hook.initialize("standard", data)
    assert data == {"artifacts": []}
    assert warnings == [
        f"regard is built without a native library ({name}): no compiler for {name}" for name in ("engine", "kernels")
    ]


def test_what_a_compiler_says_is_told(monkeypatch, tmp_path):
    (tmp_path / "wrong.cpp").write_text("int main() { return nothing; }\n")
    monkeypatch.setattr(building, "ROOT", tmp_path)
    wrong = Native("wrong", tmp_path / "wrong.so", tmp_path)
    with pytest.raises(BuildError, match=r"(?s)failed:.*nothing.*was not declared"):
        build(native=wrong)


def test_instructions_are_for_their_sources_only(monkeypatch):
    assert instructions("search") == []
    assert instructions("kernels_portable") == []
    monkeypatch.setattr(building.platform, "machine", lambda: "aarch64")
    assert instructions("kernels_avx2") == []


def test_a_library_of_another_version_is_not_used(monkeypatch, library):
    monkeypatch.setattr(library_module, "INTERFACE", 99)
    library_module.loaded.cache_clear()
    try:
        assert "is of another version; build it again" in library_module.available()
        assert library_module.kernels_here() == []
    finally:
        monkeypatch.undo()
        library_module.loaded.cache_clear()


def test_the_runtime_needs_no_torch():
    program = "import sys, regard.engine.runtime, regard.engine.container; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


@pytest.mark.long
def test_a_wheel_brings_the_library(tmp_path):
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        ".",
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "py3-none-" in wheel.name
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True
    )
    assert "regard/engine/native/_regard_engine.so" in listing.stdout
    assert "regard/engine/native/searching.cpp" in listing.stdout
    assert "regard/kernels/native/_regard_kernels.so" in listing.stdout


@pytest.mark.long
def test_kernels_for_avx_vnni_are_right(tmp_path):
    """Tested with the same instruction as AVX-512 spells it, on processors that have only that."""
    library = build(tmp_path / "library.so", vnni_256=True)
    program = "from regard.engine.library import kernels_here; print(*kernels_here())"
    environment = {**os.environ, library_module.WHERE: str(library)}
    told = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    if "avx_vnni" not in told.stdout:
        pytest.skip("this processor has no AVX-512 VNNI")
    names = ("kernels", "fused_kernels", "engine_search")
    tests = [*(f"tests/engine/test_{name}.py" for name in names), "-k", "avx_vnni or every_set"]
    done = subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=ROOT, env=environment)
    assert done.returncode == 0

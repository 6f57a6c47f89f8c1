"""Allocations of the engine fail one by one: nothing but an error that says so, and nothing wrong afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.engine.build import compiler
from regard.engine.library import LIBRARY, WHERE

HERE = Path(__file__).parent


@pytest.mark.usefixtures("library")
def test_after_an_allocation_that_failed_all_is_as_before(tmp_path):
    failing = tmp_path / "failing.so"
    # Without libstdc++, which would give the engine another `operator new` than its own.
    alone = ["-shared", "-fPIC", "-O1", "-fno-exceptions", "-nodefaultlibs"]
    subprocess.run([*compiler(), *alone, str(HERE / "failing.cpp"), "-o", str(failing), "-lc"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(failing), WHERE: str(LIBRARY)}
    program = [
        sys.executable,
        "-m",
        "tests.engine.allocations",
        "t5",
        "alibi, silu, rms",
        "luong lstm",
        "bahdanau gru_cho",
    ]
    done = subprocess.run(program, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 3000

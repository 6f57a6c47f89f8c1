"""Warnings of ours are lines for people."""

from regard.cli.main import format_warning
from regard.kernels.library import KernelsWarning


def test_a_warning_of_ours_names_no_line_of_code() -> None:
    assert (
        format_warning(KernelsWarning("no native kernels"), KernelsWarning, "a.py", 3) == "regard: no native kernels\n"
    )


def test_other_warnings_are_as_python_shows_them() -> None:
    told = format_warning(UserWarning("odd"), UserWarning, "nowhere.py", 3, line="x = 1")
    assert told == "nowhere.py:3: UserWarning: odd\n  x = 1\n"

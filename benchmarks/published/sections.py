"""A section of docs/results.md that another script writes: it stands between marks and stays as it is."""

from typing import Final

BEGIN: Final = "<!-- translation -->"
END: Final = "<!-- /translation -->"


def section_of(page: str) -> str:
    """What stands between the marks; nothing where there are none."""
    _, begun, rest = page.partition(f"{BEGIN}\n")
    inside, ended, _ = rest.partition(f"{END}\n")
    return inside if begun and ended else ""


def with_section(page: str, section: str) -> str:
    """The page with this section in place of the one that it has, or at its end."""
    old = section_of(page)
    page = page.replace(f"{BEGIN}\n{old}{END}\n", "").rstrip("\n") + "\n"
    return f"{page}\n{BEGIN}\n{section.rstrip()}\n{END}\n" if section.strip() else page

"""Text of users inside markup and inside terminals: nothing of it is ever obeyed.

`escape` is for HTML and SVG, `visible` for terminals, `markdown` for model cards. All three replace characters that the
medium would act on or refuse; ordinary text of any script stays as it is.
"""

import base64
import hashlib
import html
import re
import unicodedata
from typing import Final

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]<>|~&$])")
_LEADING: Final = re.compile(r"^([0-9]*)([-+#=.)])")
_REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escape(text: str) -> str:
    """Text for an element or a quoted attribute; what XML cannot hold becomes U+FFFD."""
    return html.escape(_NOT_XML.sub("\ufffd", text), quote=True)


def visible(text: str) -> str:
    """Text for one line of a terminal: tabs are blanks; other controls and overrides of direction U+FFFD."""
    return "".join("\ufffd" if _acts(character) else character for character in text.replace("\t", " "))


def markdown(text: str) -> str:
    """Text for one line of Markdown, every sign that could mean something escaped."""
    line = " ".join(visible(" ".join(text.split())).split())
    return _LEADING.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", line))


def fenced(text: str, language: str = "") -> str:
    """A block of code in Markdown, with a fence that is longer than any inside."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def content_hash(text: str) -> str:
    """The source expression by which a content security policy permits one inline block."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _acts(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _REORDERING

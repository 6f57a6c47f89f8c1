"""Text from outside, made safe to print: no control characters, no direction changes, no endless lines."""


def excerpt(text: str, limit: int = 60) -> str:
    """The first `limit` characters, with everything that does not print written as an escape (`\\x1b`, `\\u2028`)."""
    shown = text[:limit]
    if not shown.isprintable():
        shown = "".join(character if character.isprintable() else _escape(character) for character in shown)
    return shown + "…" if len(text) > limit else shown


def _escape(character: str) -> str:
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
    code = ord(character)
    if character in named:
        return named[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

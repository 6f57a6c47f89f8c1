"""Names of a package that are looked up when they are first used, so that importing it costs nothing."""

from collections.abc import Mapping
from importlib import import_module


def look_up(package: str, homes: Mapping[str, str], name: str) -> object:
    """What a package exports by a name; `homes` are the modules it stands in."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        return getattr(import_module(homes[name]), name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("regard."):
            error.add_note(
                f"{package}.{name} is in regard, but not in regard-runtime, which only predicts with prepared runs"
            )
        raise

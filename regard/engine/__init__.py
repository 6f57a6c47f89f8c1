"""Fast decoding on CPU: prepared weights, in 8 bits or 32, searched by a native library without torch.

`regard.engine.preparation` makes an engine file of a system (it needs torch); `Engine` opens one and searches.
Names are looked up when they are first used: `regard.engine.build` must run where there is nothing but Python.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.engine.calling import StopFlag
    from regard.engine.library import available
    from regard.engine.runtime import (
        Answer,
        Attention,
        Engine,
        EngineOptions,
        EngineReading,
        EngineRequest,
        Found,
    )
    from regard.engine.session import Session

__all__ = [
    "Answer",
    "Attention",
    "Engine",
    "EngineOptions",
    "EngineReading",
    "EngineRequest",
    "Found",
    "Session",
    "StopFlag",
    "available",
]

_HOMES = {
    "Answer": "regard.engine.runtime",
    "Attention": "regard.engine.runtime",
    "Session": "regard.engine.session",
    "StopFlag": "regard.engine.calling",
    "Engine": "regard.engine.runtime",
    "EngineOptions": "regard.engine.runtime",
    "EngineReading": "regard.engine.runtime",
    "EngineRequest": "regard.engine.runtime",
    "Found": "regard.engine.runtime",
    "available": "regard.engine.library",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard.engine' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

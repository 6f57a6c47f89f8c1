"""Fast decoding on CPU: prepared weights, in 8 bits or 32, searched by a native library without torch.

`regard.engine.preparation` makes an engine file of a system (it needs torch); `Engine` opens one and searches.
Names are looked up when they are first used: `regard.engine.build` must run where there is nothing but Python.
"""

from typing import TYPE_CHECKING

from regard.lazy import look_up

if TYPE_CHECKING:
    from regard.engine.calling import StopFlag
    from regard.engine.library import available
    from regard.engine.requests import Answer, Attention, EngineOptions, EngineReading, EngineRequest, Found
    from regard.engine.runtime import Engine
    from regard.engine.session import Session as Session

__all__ = [
    "Answer",
    "Attention",
    "Engine",
    "EngineOptions",
    "EngineReading",
    "EngineRequest",
    "Found",
    "StopFlag",
    "available",
]
"""What regard-runtime has, too; `Session` needs numpy, which that does without."""

_HOMES = {
    "Answer": "regard.engine.requests",
    "Attention": "regard.engine.requests",
    "Session": "regard.engine.session",
    "StopFlag": "regard.engine.calling",
    "Engine": "regard.engine.runtime",
    "EngineOptions": "regard.engine.requests",
    "EngineReading": "regard.engine.requests",
    "EngineRequest": "regard.engine.requests",
    "Found": "regard.engine.requests",
    "available": "regard.engine.library",
}


def __getattr__(name: str) -> object:
    return look_up("regard.engine", _HOMES, name)

"""Sites: the named places inside a model that can be looked at or changed while it runs.

A module calls `visit(site, value)` where a value passes; with nobody watching this returns the value at once. Whoever
watches (see `regard.insight`) is held in a context variable, never in the module, so a shared model stays unchanged and
threads do not see each other. Attention asks `watched(site)` to know whether its weights must be made explicitly.

The names are the same in every family: `{encoder,decoder}.{embedding,self,cross,cell,ffn}` with a layer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

Part = Literal["encoder", "decoder"]
Kind = Literal["embedding", "self", "cross", "cell", "ffn"]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a value passes. Values at `self` and `cross` are attention weights (B, H, M, N), elsewhere (B, M, D).

    What runs step by step shows one item at a time: a recurrence and its attention show M = 1. Under search the beams
    of a sentence stand in the place of M, except at `self`, where every row is a B of its own: (S·K, H, 1, T).
    """

    part: Part
    kind: Kind
    layer: int = 0

    def __str__(self) -> str:
        return f"{self.part}.{self.kind}.{self.layer}"


class Watcher(Protocol):
    """Who is looking, and at what. What `visit` returns takes the value's place."""

    def watches(self, site: Site) -> bool: ...

    def visit(self, site: Site, value: Tensor) -> Tensor: ...


_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


def watched(site: Site) -> bool:
    """Whether somebody wants the value at a site."""
    watchers = _watchers.get()
    return bool(watchers) and any(watcher.watches(site) for watcher in watchers)


def anyone_watches() -> bool:
    """Whether there is somebody who may want the value at some site."""
    return bool(_watchers.get())


def visit(site: Site, value: Tensor) -> Tensor:
    """Let a value pass a site; returns it, or what a watcher puts in its place.

    Of several watchers the outermost comes first, so that who looks inside a change sees what it changed.
    """
    for watcher in _watchers.get():
        if watcher.watches(site):
            value = watcher.visit(site, value)
    return value


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Look through `watcher` for the length of a block, besides all who look already."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)

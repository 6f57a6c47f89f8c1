"""Looking into a running model: who watches, what is seen, what is replaced."""

import threading

import pytest
import torch
from torch import Tensor

from regard.nn import Site, visit, watched, watching

HERE = Site("encoder", "ffn", 2)
THERE = Site("decoder", "cross", 0)


class Watching:
    """Watches some sites; puts `replacement` in the place of what passes, if there is one."""

    def __init__(self, *sites: Site, replacement: Tensor | None = None) -> None:
        self.sites = sites
        self.replacement = replacement
        self.seen: list[tuple[Site, Tensor]] = []

    def watches(self, site: Site) -> bool:
        return site in self.sites

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self.seen.append((site, value))
        return value if self.replacement is None else self.replacement


def test_with_nobody_watching_a_value_passes_as_it_is() -> None:
    value = torch.randn(2)
    assert visit(HERE, value) is value
    assert not watched(HERE)


def test_a_watcher_sees_only_its_sites() -> None:
    value, other = torch.randn(2), torch.randn(2)
    watcher = Watching(HERE)
    with watching(watcher):
        assert watched(HERE)
        assert not watched(THERE)
        assert visit(HERE, value) is value
        assert visit(THERE, other) is other
    assert len(watcher.seen) == 1
    assert watcher.seen[0][0] == HERE
    assert watcher.seen[0][1] is value
    assert not watched(HERE)


def test_a_replaced_value_takes_effect() -> None:
    replacement = torch.zeros(2)
    with watching(Watching(HERE, replacement=replacement)):
        assert visit(HERE, torch.ones(2)) is replacement


def test_all_watchers_watch_and_the_outer_one_comes_first() -> None:
    value, changed = torch.ones(2), torch.zeros(2)
    outer, inner = Watching(HERE, replacement=changed), Watching(HERE, THERE)
    with watching(outer):
        with watching(inner):
            assert watched(HERE)
            assert watched(THERE)
            assert visit(HERE, value) is changed
            assert visit(THERE, value) is value
        assert watched(HERE)
        assert not watched(THERE)
    assert [(site, id(seen)) for site, seen in outer.seen] == [(HERE, id(value))]
    assert [(site, id(seen)) for site, seen in inner.seen] == [(HERE, id(changed)), (THERE, id(value))]


def fail_while_watching() -> None:
    with watching(Watching(HERE)):
        raise RuntimeError("inside")


def test_an_error_ends_the_watch() -> None:
    with pytest.raises(RuntimeError, match="inside"):
        fail_while_watching()
    assert not watched(HERE)


def test_threads_do_not_see_each_other() -> None:
    both_watch = threading.Barrier(2, timeout=10)
    watchers = [Watching(HERE), Watching(HERE)]
    unwatched: list[bool] = []

    def look(index: int) -> None:
        with watching(watchers[index]):
            both_watch.wait()
            visit(HERE, torch.full((), float(index)))
            both_watch.wait()

    def pass_by() -> None:
        unwatched.append(watched(HERE))

    threads = [threading.Thread(target=look, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with watching(Watching(HERE)):
        bystander = threading.Thread(target=pass_by)
        bystander.start()
        bystander.join()
    assert [[float(value) for _, value in watcher.seen] for watcher in watchers] == [[0.0], [1.0]]
    assert unwatched == [False]


def test_names_are_readable() -> None:
    assert str(HERE) == "encoder.ffn.2"
    assert str(Site("decoder", "self")) == "decoder.self.0"

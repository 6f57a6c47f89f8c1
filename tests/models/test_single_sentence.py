"""One sentence under search alone: the same as in a grid, whatever is done with its state."""

import pytest
import torch

from regard.data.batch import make_batch, source_ids
from regard.models import EncoderDecoder, State
from regard.models.transformer import GridState, SingleState
from regard.nn.feedforward import FeedForward
from regard.nn.sites import Site, watching
from regard.special import START
from tests.families import family

SOURCE = [4, 5, 6, 7]
NAMES = ("transformer post", "transformer pre", "rnn to transformer")


class Nobody:
    """Watches without wanting anything, so that the usual path is taken."""

    def watches(self, site: Site) -> bool:
        return False

    def visit(self, site: Site, value: torch.Tensor) -> torch.Tensor:
        raise AssertionError(f"nothing was wanted at {site}")


def start(system: EncoderDecoder) -> SingleState:
    state = system.start({"source": source_ids([SOURCE])})
    assert isinstance(state, SingleState)
    return state


def moves(seed: int, steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The beams that go on, and what they read; there are now more of them and now fewer."""
    chance = torch.Generator().manual_seed(seed)
    found, width = [], 1
    for step in range(steps):
        wider = 1 + step * 3 % 7
        beams = torch.randint(0, width, (1, wider), generator=chance)
        found.append((beams, torch.randint(4, 9, (1, wider), generator=chance)))
        width = wider
    return found


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_alone_says_what_a_grid_says(name: str) -> None:
    system = family(name)
    alone: State = start(system)
    wide: State = start(system).wide()
    assert isinstance(wide, GridState)
    with watching(Nobody()):
        usual: State = start(system).wide()
    for beams, tokens in [(torch.tensor([[0]]), torch.tensor([[START]])), *moves(1, 40)]:
        alone, wide, usual = (one.select(None, beams) for one in (alone, wide, usual))
        single, grid = system.step(tokens, alone), system.step(tokens, wide)
        with watching(Nobody()):
            plain = system.step(tokens, usual)
        torch.testing.assert_close(single.log_probabilities, plain.log_probabilities, rtol=0, atol=1e-9)
        torch.testing.assert_close(grid.log_probabilities, plain.log_probabilities, rtol=0, atol=1e-9)
        alone, wide, usual = single.state, grid.state, plain.state
    assert isinstance(alone, SingleState)
    assert alone.past.seen.shape[1] < 40 * 7


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [0, 1, 5])
@torch.no_grad()
def test_a_single_sentence_joins_others_at_any_time(name: str, steps: int) -> None:
    system = family(name)
    state: State = start(system)
    tokens = torch.tensor([[START]])
    for _ in range(steps):
        state = system.step(tokens, state).state.select(None, torch.zeros(1, 1, dtype=torch.long))
        tokens = torch.tensor([[5]])
    alone = system.step(tokens, state).log_probabilities
    other = start(system)
    both = state.join(other)
    assert isinstance(both, GridState)
    together = system.step(torch.cat((tokens, torch.tensor([[START]]))), both).log_probabilities
    torch.testing.assert_close(together[:1], alone, rtol=0, atol=1e-9)
    torch.testing.assert_close(together[1:], system.step(torch.tensor([[START]]), other).log_probabilities)
    twice = state.select(torch.tensor([0, 0]), torch.zeros(2, 1, dtype=torch.long))
    doubled = system.step(tokens.expand(2, 1), twice).log_probabilities
    torch.testing.assert_close(doubled, alone.expand(2, -1, -1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_state_can_be_gone_on_from_twice(name: str) -> None:
    """What one continuation writes must not be seen by another."""
    system = family(name)
    begun = system.step(torch.tensor([[START]]), start(system)).state
    first = system.step(torch.tensor([[4]]), begun).state
    second = system.step(torch.tensor([[8]]), begun).state
    after = [system.step(torch.tensor([[6]]), one).log_probabilities for one in (first, second, first)]
    assert torch.equal(after[0], after[2])
    assert not torch.allclose(after[0], after[1])
    fresh = system.step(torch.tensor([[START]]), start(system)).state
    fresh = system.step(torch.tensor([[8]]), fresh).state
    torch.testing.assert_close(system.step(torch.tensor([[6]]), fresh).log_probabilities, after[1])


@torch.no_grad()
def test_somebody_who_looks_changes_nothing() -> None:
    system = family("transformer post")
    state = system.step(torch.tensor([[START]]), start(system)).state
    quick = system.step(torch.tensor([[4]]), state)
    with watching(Nobody()):
        slow = system.step(torch.tensor([[4]]), state)
    assert isinstance(slow.state, GridState)
    torch.testing.assert_close(quick.log_probabilities, slow.log_probabilities, rtol=0, atol=1e-9)


@torch.no_grad()
def test_long_sources_and_other_parts_are_searched_in_a_grid() -> None:
    system = family("transformer post")
    long = system.start({"source": source_ids([[4, 5] * 40])})
    assert isinstance(long, GridState)
    assert isinstance(family("transformer rotary").start({"source": source_ids([SOURCE])}), GridState)
    with torch.enable_grad():
        assert isinstance(system.start({"source": source_ids([SOURCE])}), GridState)
    assert isinstance(system.train().start({"source": source_ids([SOURCE])}), GridState)


@torch.no_grad()
def test_what_is_learned_is_searched_with() -> None:
    """A step of training between two searches: nothing of the old weights is left."""
    system = family("transformer post")
    before = system.step(torch.tensor([[START]]), start(system)).log_probabilities
    for one in system.parameters():
        one.mul_(0.9)
    after = system.step(torch.tensor([[START]]), start(system)).log_probabilities
    assert not torch.allclose(before, after)
    with watching(Nobody()):
        usual = system.step(torch.tensor([[START]]), start(system)).log_probabilities
    torch.testing.assert_close(after, usual, rtol=0, atol=1e-9)


def test_what_a_fused_optimiser_has_written_is_searched_with() -> None:
    """It writes without telling torch; that training came between is enough to know."""
    system = family("transformer post")

    def said() -> torch.Tensor:
        with torch.no_grad():
            return system.step(torch.tensor([[START]]), start(system)).log_probabilities

    before = said()
    optimizer = torch.optim.Adam(system.train().parameters(), lr=0.01, fused=True)
    system.loss(make_batch([SOURCE], [[5, 6]])).sum.backward()
    optimizer.step()
    system.eval()
    after = said()
    assert not torch.allclose(before, after)
    with watching(Nobody()):
        torch.testing.assert_close(after, said(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["transformer post", "transformer pre"])
@torch.no_grad()
def test_the_encoder_says_the_same_in_plain_calls(name: str) -> None:
    system = family(name)
    for rows in ([SOURCE], [SOURCE, [8], [5, 5, 4, 6, 7, 8, 4]]):
        source = source_ids(rows)
        quick = system.encoder.encode(source)
        with watching(Nobody()):
            slow = system.encoder.encode(source)
        real = source.mask
        torch.testing.assert_close(quick.states[real], slow.states[real], rtol=0, atol=1e-9)
        torch.testing.assert_close(quick.summary, slow.summary, rtol=0, atol=1e-9)


class Louder(torch.nn.Linear):
    """Stands in the place of a projection, as adapters do."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return super().forward(given) * 1.5


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("where", ["encoder", "decoder"])
@torch.no_grad()
def test_what_stands_in_the_place_of_a_projection_is_heard(where: str, alone: bool) -> None:
    system = family("transformer post", dtype=torch.float32)
    owner = system.get_submodule(f"{where}.layers.0.feedforward")
    assert isinstance(owner, FeedForward)
    old = owner.inner
    owner.inner = Louder(old.in_features, old.out_features)
    owner.inner.load_state_dict(old.state_dict())
    system.eval()
    sources = {"source": source_ids([SOURCE] if alone else [SOURCE, SOURCE[:2]])}
    tokens = torch.full((1 if alone else 2, 1), START)
    said = system.step(tokens, system.start(sources)).log_probabilities
    owner.inner = old
    assert not torch.allclose(system.step(tokens, system.start(sources)).log_probabilities, said, atol=1e-4)


class Around(torch.nn.Module):
    """Stands in the place of a layer, does as it does, and adds something to what it says."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def __getattr__(self, name: str) -> object:
        return super().__getattr__(name) if name == "layer" else getattr(super().__getattr__("layer"), name)

    def forward(self, *given: object) -> torch.Tensor:
        return torch.as_tensor(self.layer(*given)) * 2.0

    def step(self, *given: object) -> torch.Tensor:
        return torch.as_tensor(self.layer.step(*given)) * 2.0


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("where", ["encoder", "decoder"])
@torch.no_grad()
def test_what_stands_in_the_place_of_a_layer_is_heard(where: str, alone: bool) -> None:
    """As in training, which calls it."""
    system = family("transformer pre")
    layers = system.get_submodule(f"{where}.layers")
    assert isinstance(layers, torch.nn.ModuleList)
    layers[0] = Around(layers[0])
    system.eval()
    rows = [SOURCE] if alone else [SOURCE, SOURCE[:2]]
    tokens = torch.full((len(rows), 1), START)
    said = system.step(tokens, system.start({"source": source_ids(rows)})).log_probabilities
    batch = make_batch(rows, [[4]] * len(rows))
    memory = system.encoder.encode(batch.sources["source"])
    taught = system.decoder.logits(system.decoder.hidden(memory, batch.inputs))[:, :1].log_softmax(-1)
    torch.testing.assert_close(said, taught, rtol=0, atol=1e-9)


@torch.no_grad()
def test_hooks_are_heard_under_search() -> None:
    system, heard = family("transformer post").eval(), list[str]()
    for part in ("encoder", "decoder"):
        module = system.get_submodule(f"{part}.layers.0.feedforward.outer")
        module.register_forward_hook(lambda *_, part=part: heard.append(part))
    system.step(torch.tensor([[START]]), system.start({"source": source_ids([SOURCE])}))
    assert heard == ["encoder", "decoder"]


@pytest.mark.parametrize("part", ["embedding", "layers.1.around_cross.norm"])
@torch.no_grad()
def test_a_way_of_its_own_is_heard_under_search(part: str) -> None:
    system = family("transformer post")
    sources, tokens = {"source": source_ids([SOURCE])}, torch.tensor([[START]])
    before = system.step(tokens, system.start(sources)).log_probabilities
    module = system.get_submodule(f"decoder.{part}")
    forward = module.forward
    module.forward = lambda given: forward(given) * 1.5  # type: ignore[method-assign]
    system.eval()
    after = system.step(tokens, system.start(sources)).log_probabilities
    with watching(Nobody()):
        usual = system.step(tokens, system.start(sources)).log_probabilities
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, usual, rtol=0, atol=1e-9)


@torch.no_grad()
def test_hooks_of_the_embedding_are_heard_under_search() -> None:
    system, heard = family("transformer post"), list[int]()
    system.get_submodule("decoder.embedding").register_forward_hook(lambda *_: heard.append(1))
    system.step(torch.tensor([[START]]), system.start({"source": source_ids([SOURCE])}))
    assert heard == [1]

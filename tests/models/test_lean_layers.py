"""Decoding with plain calls, shared pasts and logits that are not normalised: the same as the plain way."""

import math

import pytest
import torch

from regard.data.batch import source_ids
from regard.models.likelihood import log_normaliser
from regard.models.transformer import TransformerState
from regard.nn.sites import Site, watching
from regard.special import START
from tests.families import FAMILIES, family

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4])


class Nobody:
    """Watches without wanting anything, so that the usual path is taken."""

    def watches(self, site: Site) -> bool:
        return False

    def visit(self, site: Site, value: torch.Tensor) -> torch.Tensor:
        raise AssertionError(f"nothing was wanted at {site}")


@pytest.mark.parametrize("name", [name for name in FAMILIES if name.startswith("transformer p")])
@torch.no_grad()
def test_plain_calls_say_what_the_layers_say(name: str) -> None:
    system = family(name)
    system.eval()
    lean = usual = system.start({"source": source_ids(SOURCES)})
    assert isinstance(lean, TransformerState)
    assert len(lean.lean) == 2
    tokens = torch.full((3, 1), START)
    chance = torch.Generator().manual_seed(1)
    for _ in range(30):
        quick = system.step(tokens, lean)
        with watching(Nobody()):
            slow = system.step(tokens, usual)
        torch.testing.assert_close(quick.log_probabilities, slow.log_probabilities, rtol=0, atol=1e-9)
        beams = torch.randint(0, tokens.size(1), (3, 4), generator=chance)
        lean, usual = quick.state.select(None, beams), slow.state.select(None, beams)
        tokens = torch.randint(4, 9, (3, 4), generator=chance)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name.startswith("transformer")])
@torch.no_grad()
def test_many_samples_look_apart_and_see_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row goes on from itself, as samples do; the second sentences join later, so that lengths differ."""
    system = family(name).eval()

    def said(many: int) -> tuple[list[torch.Tensor], list[bool]]:
        monkeypatch.setattr("regard.nn.past.MANY", many)
        chance = torch.Generator().manual_seed(2)
        state = system.start({"source": source_ids(SOURCES)}).select(None, torch.zeros(3, 32, dtype=torch.long))
        found, apart = [], []
        for step in range(14):
            if step == 7:
                later = system.start({"source": source_ids(SOURCES)})
                state = state.join(later.select(None, torch.zeros(3, 32, dtype=torch.long)))
            sentences = 3 if step < 7 else 6
            told = system.step(torch.randint(4, 9, (sentences, 32), generator=chance), state)
            found.append(told.log_probabilities)
            state = told.state.select(None, torch.arange(32).expand(sentences, -1))
            if isinstance(state, TransformerState):
                apart.append(state.past.scattered(state.lengths))
        return found, apart

    shared, never = said(33)
    alone, scattered = said(32)
    torch.testing.assert_close(alone, shared, rtol=0, atol=1e-9)
    assert (any(never), any(scattered)) == (False, bool(scattered))


@torch.no_grad()
def test_wide_beams_stay_together() -> None:
    system = family("transformer post").eval()
    state = system.start({"source": source_ids(SOURCES)}).select(None, torch.zeros(3, 256, dtype=torch.long))
    for _ in range(12):
        state = system.step(torch.full((3, 256), 4), state).state.select(None, torch.zeros(3, 256, dtype=torch.long))
        assert isinstance(state, TransformerState)
        assert not state.past.scattered(state.lengths)


@torch.no_grad()
def test_entries_that_no_row_sees_are_dropped() -> None:
    system = family("transformer post").eval()
    state = system.start({"source": source_ids(SOURCES)})
    tokens = torch.full((3, 1), START)
    for _ in range(60):
        state = system.step(tokens, state).state.select(None, torch.zeros(3, 5, dtype=torch.long))
        tokens = torch.full((3, 5), 4)
    assert isinstance(state, TransformerState)
    assert state.past.seen.size(2) < 2 * 60
    assert (state.past.seen == 0).sum(2).eq(60).all()


def test_a_gradient_goes_through_steps() -> None:
    system = family("transformer post").eval()
    state, total = system.start({"source": source_ids(SOURCES)}), torch.zeros((), dtype=torch.float64)
    for token in (START, 4, 5, 6):
        step = system.step(torch.full((3, 1), token), state)
        state, total = step.state, total + step.log_probabilities[:, 0, 4].sum()
    total.backward()  # type: ignore[no-untyped-call]
    found = {name: one.grad for name, one in system.decoder.named_parameters()}
    memory = system.encoder.encode(source_ids(SOURCES))
    system.zero_grad()
    hidden = system.decoder.hidden(memory, torch.tensor([[START, 4, 5, 6]] * 3))
    system.decoder.logits(hidden).log_softmax(-1)[..., 4].sum().backward()  # type: ignore[no-untyped-call]
    for name, one in system.decoder.named_parameters():
        torch.testing.assert_close(found[name], one.grad, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 30.0, 80.0, -80.0, 1000.0, -1000.0])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_normaliser_is_the_log_of_the_sum(shift: float, kind: torch.dtype) -> None:
    logits = torch.randn(7, 3, 90_000, generator=torch.Generator().manual_seed(1)).to(kind) * 3
    logits[2] += shift
    wanted = logits.double().logsumexp(-1)
    torch.testing.assert_close(log_normaliser(logits).double(), wanted, rtol=3e-7, atol=2e-6)


def test_the_normaliser_of_nothing_possible() -> None:
    logits = torch.zeros(2, 2, 5)
    logits[0, 1] = -math.inf
    assert log_normaliser(logits)[0, 1] == -math.inf
    logits[1, 1, 2] = math.nan
    assert log_normaliser(logits)[1, 1].isnan()
    assert log_normaliser(logits[:0]).shape == (0, 2)

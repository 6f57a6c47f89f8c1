"""Recurrent decoders under search with a table of all tokens: the same as the plain way, and as teacher forcing."""

import pytest
import torch

from regard.data.batch import source_ids
from regard.models import AttentiveDecoder, BahdanauDecoder
from regard.nn.sites import Site, watching
from regard.special import START
from tests.families import family

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4])
NAMES = (
    "bahdanau gru",
    "bahdanau gru_cho",
    "pyramid to deep bahdanau",
    "luong lstm",
    "luong elman local",
    "bag to output",
)


class Nobody:
    """Watches without wanting anything, so that the usual path is taken."""

    def watches(self, site: Site) -> bool:
        return False

    def visit(self, site: Site, value: torch.Tensor) -> torch.Tensor:
        raise AssertionError(f"nothing was wanted at {site}")


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_tables_say_what_the_layers_say(name: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.nn.sought.MANY", 1)
    system = family(name).eval().to(kind)
    lean = usual = system.start({"source": source_ids(SOURCES)})
    tokens = torch.full((3, 1), START)
    chance = torch.Generator().manual_seed(1)
    for step in range(20):
        quick = system.step(tokens, lean)
        with watching(Nobody()):
            slow = system.step(tokens, usual)
        assert isinstance(system.decoder, AttentiveDecoder | BahdanauDecoder)
        assert system.decoder._sought._kept._known is not None
        close = 1e-9 if kind is torch.float64 else 2e-4
        torch.testing.assert_close(quick.log_probabilities, slow.log_probabilities, rtol=0, atol=close)
        beams = torch.randint(0, tokens.size(1), (3, 4), generator=chance)
        lean, usual = quick.state.select(None, beams), slow.state.select(None, beams)
        if step % 4 == 1:  # moved twice, and then put among others
            lean, usual = lean.select(None, beams.flip(1)), usual.select(None, beams.flip(1))
        if step % 4 == 2:
            order = torch.tensor([2, 0, 1])
            lean, usual = lean.select(order, beams), usual.select(order, beams)
        if step == 11:
            one = torch.tensor([1])
            lean = lean.select(torch.tensor([0, 2]), beams[:2]).join(lean.select(one, beams[:1]))
            usual = usual.select(torch.tensor([0, 2]), beams[:2]).join(usual.select(one, beams[:1]))
        tokens = torch.randint(4, 9, (3, 4), generator=chance)

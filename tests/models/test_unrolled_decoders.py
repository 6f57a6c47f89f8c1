"""Decoders whose attention is part of the recurrence: all steps in one loop equal one step after the other."""

from itertools import product

import pytest
import torch
from torch import Tensor

from regard.data.batch import make_batch
from regard.models import EncoderDecoder, attentive, bahdanau
from regard.nn import Recurrent, Site, watching
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection

CELLS = ("lstm", "gru", "gru_cho", "elman")
DECODERS = (
    *({"wiring": wiring, "cell": cell} for wiring, cell in product(("luong", "bahdanau"), CELLS)),
    {"wiring": "luong", "cell": "lstm", "score": "bilinear", "layers": 2},
    {"wiring": "luong", "cell": "gru", "window": 2},
    {"wiring": "bahdanau", "cell": "lstm", "heads": 2, "projections": "learned"},
    {"wiring": "bahdanau", "cell": "lstm", "layers": 2, "residual": True},
    {"wiring": "luong", "cell": "lstm", "layer_norm": True},
)
BATCH = make_batch([[4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8]], [[5, 6, 7], [8, 8, 4, 5, 6], [4]])


def system(*, dropout: float = 0.2, **decoder: object) -> EncoderDecoder:
    torch.manual_seed(0)
    encoder = {"kind": "rnn", "cell": "lstm", "two_way": True, "width": 4}
    section = ModelSection(width=8, layers=1, dropout=dropout, encoder=encoder, decoder={"kind": "rnn", **decoder})
    built = build_system(section, source_vocabulary=9, target_vocabulary=9)
    assert isinstance(built, EncoderDecoder)
    return built.double().train()


def learned(model: EncoderDecoder) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients with the same numbers dropped."""
    torch.manual_seed(1)
    model.zero_grad()
    loss = model.loss(BATCH, smoothing=0.1).sum
    loss.backward()
    return loss.detach(), {
        name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None
    }


def step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attentive, bahdanau):
        monkeypatch.setattr(module, "can_unroll", lambda _: False)


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: "-".join(str(value) for value in decoder.values()))
def test_a_loop_learns_what_steps_learn(decoder: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    model = system(**decoder)
    loss, gradients = learned(model)
    step_by_step(monkeypatch)
    wanted_loss, wanted = learned(model)
    torch.testing.assert_close(loss, wanted_loss)
    torch.testing.assert_close(gradients, wanted)
    assert len(gradients) == len(list(model.parameters()))


@pytest.mark.parametrize("wiring", ["luong", "bahdanau"])
def test_half_precision_stays_near(wiring: str) -> None:
    model = system(wiring=wiring, dropout=0.0).float()  # in half precision others are dropped
    loss, wanted = learned(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half, gradients = learned(model)
    torch.testing.assert_close(half, loss, rtol=0.02, atol=0)
    for name, gradient in gradients.items():
        assert gradient.dtype == torch.float32
        assert (gradient - wanted[name]).norm() <= 0.1 * wanted[name].norm() + 1e-2, name


class Seeing:
    """Watches one site and changes nothing, or sets what passes to 0."""

    def __init__(self, site: Site, factor: float) -> None:
        self.site, self.factor, self.seen = site, factor, list[Tensor]()

    def watches(self, site: Site) -> bool:
        return site == self.site

    def visit(self, site: Site, value: Tensor) -> Tensor:
        assert site == self.site
        self.seen.append(value)
        return value * self.factor


@pytest.mark.parametrize(("wiring", "kind"), list(product(("luong", "bahdanau"), ("cell", "cross"))))
@torch.no_grad()
def test_who_looks_sees_every_step_and_can_change_it(wiring: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = system(wiring=wiring).eval()
    unseen = model.token_log_probabilities(BATCH)
    site = Site("decoder", kind)
    seeing, changing = Seeing(site, 1.0), Seeing(site, 0.0)
    with watching(seeing):
        torch.testing.assert_close(model.token_log_probabilities(BATCH), unseen)
    assert len(seeing.seen) == BATCH.inputs.size(1)
    with watching(changing):
        changed = model.token_log_probabilities(BATCH)
        step_by_step(monkeypatch)
        torch.testing.assert_close(changed, model.token_log_probabilities(BATCH))
    assert (changed - unseen).abs().max() > 1e-3


def test_nobody_looking_takes_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> tuple[Tensor, Tensor]:
        raise AssertionError("a step was taken")

    monkeypatch.setattr(Recurrent, "step", forbidden)
    for wiring in ("luong", "bahdanau"):
        learned(system(wiring=wiring))
    with watching(Seeing(Site("decoder", "cell"), 1.0)), pytest.raises(AssertionError, match="a step was taken"):
        learned(system(wiring="luong"))

"""R-Drop against its equations, with torch's own divergence and the two passes made apart."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.data.batch import Batch, make_batch
from regard.errors import ModelError
from regard.models import System
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from regard.special import FIRST_FREE
from regard.training.objective import Likelihood
from regard.training.rdrop import RDrop, twice
from tests.families import FAMILIES, family

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4])
TARGETS = ([5, 6, 7], [8, 8, 4, 5, 6], [4])


def plain_rdrop(
    log_p: Tensor, batch: Batch, weight: float, smoothing: float, first_label: int = 0
) -> tuple[Tensor, Tensor]:
    """The equations, token after token: the loss, and the mean of both likelihoods."""
    labels = (batch.outputs[batch.mask] - first_label).tolist()
    first, second = log_p[: len(labels)], log_p[len(labels) :]
    total = likelihood = torch.zeros((), dtype=log_p.dtype)
    for place, label in enumerate(labels):
        for said in (first[place], second[place]):
            wanted = functional.one_hot(torch.tensor(label), len(said)).to(said) * (1 - smoothing) + smoothing / len(
                said
            )
            total = total - 0.5 * (wanted * said).sum()
            likelihood = likelihood - 0.5 * said[label]
        forth = functional.kl_div(second[place], first[place], reduction="sum", log_target=True)
        back = functional.kl_div(first[place], second[place], reduction="sum", log_target=True)
        total = total + weight * 0.5 * (forth + back)
    return total, likelihood


@pytest.mark.parametrize("name", ["bahdanau gru", "luong lstm", "transformer pre", "transformer to bahdanau"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradient_follow_the_equations(name: str, smoothing: float) -> None:
    system, batch = family(name, dropout=0.3).train(), make_batch(SOURCES, TARGETS)
    torch.manual_seed(3)
    loss = RDrop(weight=2.5, smoothing=smoothing)(system, batch, step=1)
    loss.sum.backward()
    found = {key: one.grad.clone() for key, one in system.named_parameters() if one.grad is not None}
    system.zero_grad()
    torch.manual_seed(3)
    total, likelihood = plain_rdrop(system.log_distribution(twice(batch)), batch, 2.5, smoothing)
    total.backward()
    torch.testing.assert_close(loss.sum, total, rtol=1e-12, atol=0)
    torch.testing.assert_close(loss.parts["likelihood"], likelihood.detach(), rtol=1e-12, atol=0)
    assert loss.parts["divergence"] > 0.01
    assert loss.count == batch.tokens
    for key, parameter in system.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[key], parameter.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_dropout_it_is_the_likelihood(name: str, smoothing: float) -> None:
    system, batch = family(name).train(), make_batch(SOURCES, TARGETS)
    found = RDrop(weight=5.0, smoothing=smoothing)(system, batch, step=1)
    expected = Likelihood(smoothing=smoothing)(system, batch, step=1)
    torch.testing.assert_close(found.sum, expected.sum, rtol=1e-9, atol=0)
    torch.testing.assert_close(found.parts["likelihood"], expected.parts["likelihood"], rtol=1e-9, atol=0)
    assert float(found.parts["divergence"]) == pytest.approx(0.0, abs=1e-12)
    assert found.count == expected.count


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_distributions_are_those_of_the_outputs(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    log_p = system.log_distribution(batch)
    assert log_p.shape == (batch.tokens, system.vocabulary)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(batch.tokens, dtype=log_p.dtype))
    chosen = log_p.gather(1, batch.outputs[batch.mask].unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(chosen, system.token_log_probabilities(batch)[batch.mask], rtol=0, atol=1e-9)


def labelling(shape: str, *, numbers: bool = False) -> tuple[System, Batch]:
    encoder = {"kind": "rnn"} if shape == "transducer" else {"kind": "transformer", "heads": 2}
    section = ModelSection.model_validate({"shape": shape, "width": 8, "layers": 1, "dropout": 0.3, "encoder": encoder})
    system = build_system(section, source_vocabulary=9, target_vocabulary=9, numbers=numbers)
    batch = make_batch(SOURCES, SOURCES)
    batch = replace(batch, mask=batch.outputs >= FIRST_FREE)
    outputs: Sequence[int] | Tensor = batch.outputs
    if shape == "acceptor":
        outputs = torch.rand(3, 1) if numbers else torch.tensor([[4], [5], [6]])
        batch = replace(batch, outputs=outputs, mask=torch.ones(3, 1, dtype=torch.bool))
    return system, replace(batch, inputs=torch.zeros(3, 0, dtype=torch.long))


@pytest.mark.parametrize("shape", ["acceptor", "transducer", "masked-language-model"])
def test_shapes_that_write_no_sequence_have_it_too(shape: str) -> None:
    system, batch = labelling(shape)
    system.train()
    torch.manual_seed(3)
    loss = RDrop(weight=2.0, smoothing=0.1)(system, batch, step=1)
    torch.manual_seed(3)
    total, likelihood = plain_rdrop(system.log_distribution(twice(batch)), batch, 2.0, 0.1, FIRST_FREE)
    torch.testing.assert_close(loss.sum, total, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(loss.parts["likelihood"], likelihood.detach(), rtol=1e-5, atol=1e-5)
    assert loss.count == batch.tokens
    system.eval()
    expected = Likelihood()(system, batch, step=1)
    torch.testing.assert_close(RDrop(weight=2.0)(system, batch, step=1).sum, expected.sum, rtol=1e-5, atol=1e-5)


def test_numbers_have_no_distribution() -> None:
    system, batch = labelling("acceptor", numbers=True)
    with pytest.raises(ModelError, match=r"Rater gives no distribution over a vocabulary.*leave `training\.objective"):
        RDrop(weight=1.0)(system, batch, step=1)

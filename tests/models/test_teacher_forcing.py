"""Every family: forced scoring equals stepping, rows do not see each other, gradients reach everything."""

import pytest
import torch
from torch import Tensor

from regard.data.batch import Batch, make_batch
from regard.models import EncoderDecoder
from regard.special import END, PAD, START
from tests.families import FAMILIES, family

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4], [])
TARGETS = ([5, 6, 7], [8, 8, 4, 5, 6], [], [4])


def stepped(system: EncoderDecoder, batch: Batch) -> Tensor:
    """log p of each output, read one token at a time: (B, M)."""
    state = system.start(batch.sources)
    columns: list[Tensor] = []
    for item in range(batch.inputs.size(1)):
        step = system.step(batch.inputs[:, item : item + 1], state)
        state = step.state
        columns.append(step.log_probabilities[:, 0].gather(1, batch.outputs[:, item : item + 1]))
    return torch.cat(columns, dim=1)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_forced_scoring_equals_stepping(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    forced = system.token_log_probabilities(batch)
    torch.testing.assert_close(forced[batch.mask], stepped(system, batch)[batch.mask], rtol=0, atol=1e-9)
    assert not forced[~batch.mask].any()
    assert (forced[batch.mask] < 0).all()
    assert forced[batch.mask].std() > 0.3, "the weights are too tame for this test to mean anything"


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_probabilities_sum_to_one_at_each_step(name: str) -> None:
    system = family(name, dtype=torch.float32)
    step = system.step(torch.full((len(SOURCES), 1), START), system.start(make_batch(SOURCES, TARGETS).sources))
    assert step.log_probabilities.shape == (len(SOURCES), 1, system.vocabulary)
    torch.testing.assert_close(step.log_probabilities.exp().sum(-1), torch.ones(len(SOURCES), 1))


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_row_alone_equals_the_row_in_a_batch(name: str) -> None:
    system = family(name)
    together = system.token_log_probabilities(make_batch(SOURCES, TARGETS))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = system.token_log_probabilities(make_batch([source], [target]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=0, atol=1e-9)
        assert len(alone) == len(target) + 1


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_what_stands_in_padding_does_not_matter(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    expected = system.token_log_probabilities(batch)
    source = batch.sources["source"]
    source.ids[~source.mask] = 7
    batch.inputs[~batch.mask] = 6
    batch.outputs[~batch.mask] = 5
    torch.testing.assert_close(system.token_log_probabilities(batch), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_prediction_never_depends_on_later_tokens(name: str) -> None:
    system = family(name)
    one, other = (make_batch([SOURCES[0]], [target]) for target in ([4, 5, 6, 7], [4, 5, 8, 8]))
    first, second = system.token_log_probabilities(one), system.token_log_probabilities(other)
    assert torch.equal(first[:, :2], second[:, :2])
    assert not torch.allclose(first[:, 2:], second[:, 2:])


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_the_source_matters_at_every_item(name: str) -> None:
    system = family(name)
    target = [5, 6, 7]
    base = [4, 5, 6, 7]
    expected = system.token_log_probabilities(make_batch([base], [target]))
    for item in range(len(base)):
        changed = [*base[:item], 8, *base[item + 1 :]]
        other = system.token_log_probabilities(make_batch([changed], [target]))
        assert (other - expected).abs().max() > 1e-6


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_reach_every_parameter(name: str, dropout: float) -> None:
    system = family(name, dropout=dropout).train()
    loss = system.loss(make_batch(SOURCES, TARGETS), smoothing=0.1)
    loss.sum.backward()
    for label, parameter in system.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.abs().max() > 1e-9, label


@pytest.mark.parametrize("name", FAMILIES)
def test_loss_is_the_sum_of_forced_scores(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    plain, smooth = system.loss(batch), system.loss(batch, smoothing=0.1)
    forced = -system.token_log_probabilities(batch).sum()
    torch.testing.assert_close(plain.sum, forced, rtol=0, atol=1e-9)
    torch.testing.assert_close(smooth.parts["likelihood"], forced, rtol=0, atol=1e-9)
    assert plain.count == batch.tokens == sum(len(target) + 1 for target in TARGETS)
    assert not torch.allclose(plain.sum, smooth.sum)
    assert not plain.parts["likelihood"].requires_grad


@pytest.mark.parametrize("name", FAMILIES)
def test_dropout_acts_only_in_training(name: str) -> None:
    system, batch = family(name, dropout=0.4), make_batch(SOURCES, TARGETS)
    assert torch.equal(system.loss(batch).sum, system.loss(batch).sum)
    system.train()
    assert not torch.equal(system.loss(batch).sum, system.loss(batch).sum)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_half_precision_gives_single_precision_probabilities(name: str) -> None:
    system, batch = family(name, dtype=torch.bfloat16), make_batch(SOURCES, TARGETS)
    assert system.token_log_probabilities(batch).dtype == torch.float32
    assert system.step(torch.full((4, 1), START), system.start(batch.sources)).log_probabilities.dtype == torch.float32


def test_start_end_and_padding_stand_where_the_batch_says() -> None:
    batch = make_batch(SOURCES, TARGETS)
    assert batch.inputs[0].tolist() == [START, 5, 6, 7, PAD, PAD]
    assert batch.outputs[0].tolist() == [5, 6, 7, END, PAD, PAD]

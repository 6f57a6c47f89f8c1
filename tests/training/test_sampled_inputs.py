"""Scheduled sampling, against loops that read and write one token at a time."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from regard.data.batch import Batch, Category, make_batch
from regard.errors import ModelError
from regard.models import Decoder, EncoderDecoder, Loss, Memory, NoSource, State, System
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from regard.special import END, PAD, START
from regard.training.decay import LinearDecay, NoTruth
from regard.training.objective import Likelihood
from regard.training.rdrop import RDrop
from regard.training.sampled_inputs import Draw, ScheduledSampling, drawn, mixed_inputs
from tests.families import FAMILIES, family

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4])
TARGETS = ([5, 6, 7], [8, 8, 4, 5, 6], [4])
ROLLED = tuple(name for name in FAMILIES if not family(name).decoder.parallel)
PARALLEL = tuple(name for name in FAMILIES if name not in ROLLED)


@dataclass(frozen=True)
class Share:
    """The same share at every update."""

    value: float

    def share(self, step: int) -> float:
        return self.value


def permitted_best(logits: Tensor) -> int:
    """The likeliest word."""
    ranked = logits.argsort(descending=True).tolist()
    return next(token for token in ranked if token not in (PAD, START, END))


def only(row: int) -> Batch:
    return make_batch([SOURCES[row]], [TARGETS[row]])


def test_decoders_say_how_they_are_mixed() -> None:
    assert "bahdanau gru" in ROLLED
    assert "luong lstm" in ROLLED
    assert "transformer pre" in PARALLEL
    assert "rnn to transformer" in PARALLEL


@pytest.mark.parametrize("name", FAMILIES)
def test_with_the_whole_truth_it_is_teacher_forcing_to_the_last_bit(name: str) -> None:
    system, batch = family(name, dropout=0.3).train(), make_batch(SOURCES, TARGETS)
    torch.manual_seed(5)
    expected = Likelihood(smoothing=0.1)(system, batch, step=3)
    torch.manual_seed(5)
    sampling = ScheduledSampling(inner=Likelihood(smoothing=0.1), decay=Share(1.0))
    found = sampling(system, batch, step=3)
    assert torch.equal(found.sum, expected.sum)
    assert found.count == expected.count == batch.tokens


@pytest.mark.parametrize("name", ROLLED)
def test_without_truth_a_recurrent_decoder_runs_freely(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    found = mixed_inputs(system, batch, 0.0, "best")
    for row in range(len(SOURCES)):
        alone = only(row)
        with torch.no_grad():
            state, token, written = system.start(alone.sources), START, [START]
            for _ in TARGETS[row]:
                step = system.step(torch.tensor([[token]]), state)
                state, token = step.state, permitted_best(step.log_probabilities[0, 0])
                written.append(token)
        assert found[row, : len(written)].tolist() == written
        assert set(found[row, len(written) :].tolist()) <= {PAD}
    loss = ScheduledSampling(inner=Likelihood(), decay=NoTruth(), draw="best")(system, batch, step=1)
    torch.testing.assert_close(loss.sum, system.loss(replace(batch, inputs=found)).sum, rtol=0, atol=0)


@pytest.mark.parametrize("name", PARALLEL)
def test_without_truth_a_parallel_decoder_reads_what_it_says_after_the_truth(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    found = mixed_inputs(system, batch, 0.0, "best")
    for row, target in enumerate(TARGETS):
        alone, wanted = only(row), [START]
        for length in range(len(target)):
            with torch.no_grad():
                state = system.start(alone.sources)
                for token in (START, *target[:length]):
                    step = system.step(torch.tensor([[token]]), state)
                    state = step.state
            wanted.append(permitted_best(step.log_probabilities[0, 0]))
        assert found[row, : len(wanted)].tolist() == wanted
        assert set(found[row, len(wanted) :].tolist()) <= {PAD}


@pytest.mark.parametrize("name", ["bahdanau gru", "luong lstm", "every step"])
def test_the_gradient_is_that_of_reading_and_drawing_in_one_go(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    ScheduledSampling(inner=Likelihood(), decay=NoTruth(), draw="best")(system, batch, step=1).sum.backward()
    found = {key: one.grad.clone() for key, one in system.named_parameters() if one.grad is not None}
    system.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for row in range(len(SOURCES)):
        alone = only(row)
        state, token = system.start(alone.sources), START
        for wanted in (*TARGETS[row], END):
            step = system.step(torch.tensor([[token]]), state)
            total = total - step.log_probabilities[0, 0, wanted]
            state, token = step.state, permitted_best(step.log_probabilities[0, 0])
    total.backward()
    assert found
    for key, parameter in system.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[key], parameter.grad, rtol=0, atol=1e-9)


class Stubborn(Decoder):
    """Says END, and if it may not, one word that no target has."""

    WORD = 9

    def __init__(self, *, parallel: bool) -> None:
        super().__init__()
        self.parallel = parallel

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        return inputs.new_zeros(*inputs.shape, 1, dtype=torch.float32)

    def logits(self, hidden: Tensor) -> Tensor:
        logits = hidden.new_full((*hidden.shape[:-1], 10), -200.0)
        logits[..., END] = 300.0
        logits[..., self.WORD] = 0.0
        return logits

    def start(self, memory: Memory) -> State:
        return memory  # type: ignore[return-value]

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self.hidden(state, tokens), state  # type: ignore[arg-type]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("share", [0.2, 0.75])
@pytest.mark.parametrize("draw", ["sample", "best"])
def test_the_share_of_own_tokens_is_binomial(parallel: bool, share: float, draw: Draw) -> None:
    system = EncoderDecoder(encoder=NoSource(width=1), decoder=Stubborn(parallel=parallel), vocabulary=10)
    rows, longest = 200, 30
    nothing = Category(values=torch.zeros(rows, 0, dtype=torch.long), mask=torch.zeros(rows, 0, dtype=torch.bool))
    targets = [[4 + row % 5] * (row % longest) for row in range(rows)]
    batch = replace(make_batch([[]] * rows, targets), sources={"source": nothing})
    mixed = mixed_inputs(system, batch, share, draw)
    own = mixed != batch.inputs
    assert (mixed[own] == Stubborn.WORD).all()
    assert not own[:, 0].any()
    assert not own[~batch.mask].any()
    places = sum(map(len, targets))
    spread = math.sqrt(places * share * (1 - share))
    assert abs(int(own.sum()) - places * (1 - share)) < 4 * spread
    again = mixed_inputs(system, batch, share, draw)
    assert not torch.equal(mixed, again)


def test_samples_have_the_distribution_of_the_model() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.5, 1.5, -1.0]).expand(20_000, -1)
    counts = torch.bincount(drawn(logits, "sample"), minlength=7)
    assert counts[[PAD, START, END]].tolist() == [0, 0, 0]
    words = [1, 4, 5, 6]
    expected = logits[0, words].softmax(-1)
    spread = (20_000 * expected * (1 - expected)).sqrt()
    assert ((counts[words] - 20_000 * expected).abs() < 4 * spread).all()
    assert logits[0].tolist() == [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, -1.0]


@pytest.mark.parametrize("draw", ["sample", "best"])
def test_logits_that_are_not_finite_give_tokens(draw: Draw) -> None:
    tokens = drawn(torch.full((3, 7), torch.nan), draw)
    assert ((tokens >= 0) & (tokens < 7)).all()


@pytest.mark.parametrize("name", ["bahdanau gru", "transformer pre"])
def test_drawing_is_without_dropout_and_leaves_modes_as_they_were(name: str) -> None:
    system, batch = family(name, dropout=0.5), make_batch(SOURCES, TARGETS)
    expected = mixed_inputs(system.eval(), batch, 0.0, "best")
    system.train()
    system.encoder.eval()
    modes = [module.training for module in system.modules()]
    assert torch.equal(mixed_inputs(system, batch, 0.0, "best"), expected)
    assert [module.training for module in system.modules()] == modes
    assert len(set(modes)) == 2


def test_modes_come_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    system = family("bahdanau gru", dropout=0.5).train()
    monkeypatch.setattr(system, "memory", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mixed_inputs(system, make_batch(SOURCES, TARGETS), 0.0, "best")
    assert all(module.training for module in system.modules())


@pytest.mark.parametrize("name", ["bahdanau gru", "transformer pre"])
def test_what_is_drawn_follows_from_the_generator_of_torch(name: str) -> None:
    system, batch = family(name), make_batch(SOURCES, TARGETS)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(mixed_inputs(system, batch, 0.5, "sample"))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("decoder", [{"kind": "rnn", "wiring": "none"}, {"kind": "transformer", "heads": 2}])
def test_language_models_read_their_own_output_too(decoder: dict[str, object]) -> None:
    section = ModelSection.model_validate(
        {"shape": "language-model", "width": 8, "layers": 1, "dropout": 0.2, "decoder": decoder}
    )
    system = build_system(section, source_vocabulary=9, target_vocabulary=9)
    nothing = Category(values=torch.zeros(3, 0, dtype=torch.long), mask=torch.zeros(3, 0, dtype=torch.bool))
    batch = replace(make_batch([[]] * 3, TARGETS), sources={"source": nothing})
    sampling = ScheduledSampling(inner=Likelihood(smoothing=0.1), decay=LinearDecay(slope=0.01))
    loss = sampling(system, batch, step=60)
    loss.sum.backward()
    assert loss.count == batch.tokens
    assert all(parameter.grad is not None for parameter in system.parameters())


def test_outputs_sources_and_step_reach_what_is_inside() -> None:
    system, batch, seen = family("transformer pre"), make_batch(SOURCES, TARGETS), []

    def inner(system: System, batch: Batch, *, step: int) -> Loss:
        seen.append((batch, step))
        return system.loss(batch)

    ScheduledSampling(inner=inner, decay=NoTruth())(system, batch, step=7)
    ((mixed, step),) = seen
    assert step == 7
    assert mixed.outputs is batch.outputs
    assert mixed.mask is batch.mask
    assert mixed.sources is batch.sources
    assert not torch.equal(mixed.inputs, batch.inputs)


def test_mixed_inputs_are_the_same_in_both_passes_of_rdrop() -> None:
    system, batch = family("bahdanau gru", dropout=0.0), make_batch(SOURCES, TARGETS)
    inner = RDrop(weight=1.0, smoothing=0.1)
    loss = ScheduledSampling(inner=inner, decay=NoTruth())(system, batch, step=1)
    assert float(loss.parts["divergence"]) == pytest.approx(0.0, abs=1e-12)
    assert loss.count == batch.tokens


def test_shapes_without_inputs_are_refused() -> None:
    section = ModelSection.model_validate({"shape": "acceptor", "width": 8, "layers": 1, "encoder": {"kind": "bag"}})
    system = build_system(section, source_vocabulary=9, target_vocabulary=5)
    batch = replace(make_batch(SOURCES, TARGETS), inputs=torch.zeros(3, 0, dtype=torch.long))
    sampling = ScheduledSampling(inner=Likelihood(), decay=NoTruth())
    with pytest.raises(ModelError, match=r"Acceptor reads nothing of its own output.*leave `training\.objective"):
        sampling(system, batch, step=1)


@pytest.mark.parametrize("name", ["bahdanau gru", "luong lstm", "transformer pre"])
def test_half_precision_keeps_every_gradient(name: str) -> None:
    """autocast keeps weights it has cast; those of drawing, which have no gradient, must not be taken again."""
    system, batch = family(name, dtype=torch.float32).train(), make_batch(SOURCES, TARGETS)
    gradients = []
    for decay in (Share(1.0), NoTruth()):
        system.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = ScheduledSampling(inner=Likelihood(), decay=decay)(system, batch, step=1)
        loss.sum.backward()
        gradients.append({key for key, one in system.named_parameters() if one.grad is not None and one.grad.any()})
    assert gradients[0] == gradients[1]
    assert len(gradients[0]) > 10

"""Which parameters learn, and how fast."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import Parameter

from regard.errors import RecipeError
from regard.training import Settings, weights
from regard.training.groups import groups
from tests.toys import toy_system
from tests.training.test_resume import Killed, Log, after_update, assert_same, kill, trainer

NAMES = (
    "encoder.embedding.weight",
    "encoder.positions.added.weight",
    "encoder.layers.0.attention.query.weight",
    "encoder.layers.1.attention.query.weight",
    "encoder.layers.10.attention.query.weight",
    "encoder.norm.weight",
    "decoder.embedding.weight",
    "decoder.network.directions.0.0.inputs.weight",
    "decoder.network.directions.0.1.inputs.weight",
    "decoder.bridge.linear.weight",
    "head.linear.weight",
    "encoder.embedding_norm.weight",
)
PLAIN = Settings(seed=1)
SLOW = 0.5
TABLE: tuple[tuple[Settings, Mapping[str, float | None]], ...] = (
    (PLAIN, dict.fromkeys(NAMES, 1.0)),
    (replace(PLAIN, freeze=("encoder",)), {**dict.fromkeys(NAMES, 1.0), **dict.fromkeys((*NAMES[:6], NAMES[11]))}),
    (replace(PLAIN, freeze=("encoder.layers.1",)), {**dict.fromkeys(NAMES, 1.0), NAMES[3]: None}),
    (
        replace(PLAIN, rates={"encoder": 0.1, "encoder.layers": 0.3, "encoder.layers.1": 2.0, "head": 5.0}),
        {
            **dict.fromkeys(NAMES, 1.0),
            **dict.fromkeys((*NAMES[:6], NAMES[11]), 0.1),
            **dict.fromkeys(NAMES[2:5], 0.3),
            NAMES[3]: 2.0,
            NAMES[10]: 5.0,
        },
    ),
    (
        replace(PLAIN, layer_decay=SLOW),
        {
            NAMES[0]: SLOW**11,
            NAMES[1]: SLOW**11,
            NAMES[2]: SLOW**10,
            NAMES[3]: SLOW**9,
            NAMES[4]: 1.0,
            NAMES[5]: 1.0,
            NAMES[6]: SLOW**2,
            NAMES[7]: SLOW,
            NAMES[8]: 1.0,
            NAMES[9]: 1.0,
            NAMES[10]: 1.0,
            NAMES[11]: SLOW**11,
        },
    ),
    (
        replace(PLAIN, layer_decay=SLOW, freeze=("encoder",), rates={"decoder": 0.1}),
        {
            **dict.fromkeys((*NAMES[:6], NAMES[11])),
            NAMES[6]: 0.1 * SLOW**2,
            NAMES[7]: 0.1 * SLOW,
            NAMES[8]: 0.1,
            NAMES[9]: 0.1,
            NAMES[10]: 1.0,
        },
    ),
)


def named() -> list[tuple[str, Parameter]]:
    return [(name, Parameter(torch.zeros(1))) for name in NAMES]


@pytest.mark.parametrize(("settings", "factors"), TABLE, ids=range(len(TABLE)))
def test_factors_of_every_parameter(settings: Settings, factors: Mapping[str, float | None]) -> None:
    parameters = named()
    found = groups(parameters, settings)
    assert len({group.factor for group in found}) == len(found)
    for group in found:
        assert [id(one) for one in group.parameters] == [id(dict(parameters)[name]) for name in group.names]
        assert list(group.names) == [name for name in NAMES if name in group.names]
    told = {name: group.factor for group in found for name in group.names}
    assert told.keys() == {name for name, factor in factors.items() if factor is not None}
    assert all(math.isclose(factor, factors[name] or 0.0) for name, factor in told.items())


def test_nothing_asked_for_is_one_group_in_the_order_of_the_model() -> None:
    system = toy_system()
    (group,) = groups(system.named_parameters(), PLAIN)
    assert group.factor == 1.0
    assert [id(one) for one in group.parameters] == [id(one) for one in system.parameters()]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            replace(PLAIN, freeze=("encoder.embeding",)),
            "`training.freeze` names 'encoder.embeding', with which no parameter begins; there are encoder.embedding, "
            "encoder.positions, encoder.layers, encoder.norm, encoder.embedding_norm (tied weights have the first of "
            "their names)",
        ),
        (
            replace(PLAIN, rates={"enc": 0.5}),
            "`training.rates` names 'enc', with which no parameter begins; there are encoder, decoder, head (tied "
            "weights have the first of their names)",
        ),
        (
            replace(PLAIN, freeze=("encoder", "decoder", "head")),
            "`training.freeze` freezes every parameter, so that nothing could be learned; leave some out",
        ),
        (
            replace(PLAIN, freeze=("encoder",), rates={"encoder.norm": 0.5}),
            "`training.rates` has a factor for 'encoder.norm', all of which is frozen; leave it out",
        ),
    ],
)
def test_what_has_no_effect_is_refused(settings: Settings, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        groups(named(), settings)
    assert str(caught.value) == message


def test_layers_are_needed_to_decay_over_them() -> None:
    with pytest.raises(
        RecipeError, match=r"`training\.layer_decay` has no effect on a model without layers; leave it out"
    ):
        groups([named()[0]], replace(PLAIN, layer_decay=0.5))


SLOWED = replace(
    PLAIN,
    steps=1,
    learning_rate=0.01,
    warmup=0,
    clip=0.0,
    schedule="constant",
    freeze=("encoder.layers.0.feedforward", "decoder.norm"),
    rates={"decoder.layers": 0.2, "decoder.layers.0.cross": 3.0},
    layer_decay=0.5,
)


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_the_first_step_of_adam_is_as_long_as_the_rate_of_its_group(tmp_path: Path, kind: str) -> None:
    """Its first update is -rate · gradient / (|gradient| + ε), whatever the size of the gradient."""
    settings = SLOWED if kind == "transformer" else replace(SLOWED, freeze=("encoder.network",), rates={"decoder": 0.2})
    made = trainer(tmp_path / "run", settings, Log(), kind=kind)
    system, before = made.system, weights(made.system)
    made.run()
    factors = {name: group.factor for group in groups(system.named_parameters(), settings) for name in group.names}
    assert len(set(factors.values())) >= 3
    for name, parameter in system.named_parameters():
        moved = (parameter.detach() - before[name]).abs().max().item()
        if name in factors:
            assert moved == pytest.approx(settings.learning_rate * factors[name], rel=0.01), name
        else:
            assert torch.equal(parameter, before[name]), name
            assert not parameter.requires_grad


def test_frozen_parameters_have_no_moments_and_never_move(tmp_path: Path) -> None:
    settings = replace(PLAIN, steps=6, weight_decay=0.1, freeze=("encoder", "decoder.embedding"))
    made = trainer(tmp_path / "run", settings, Log())
    before = weights(made.system)
    made.run()
    checkpoint, _ = made.checkpoints.latest()
    assert checkpoint is not None
    frozen = {name for name in before if name.startswith(("encoder.", "decoder.embedding."))}
    moments = {name.partition("/")[0] for name in checkpoint.optimizer}
    assert moments == before.keys() - frozen
    assert all(torch.equal(checkpoint.model[name], before[name]) for name in frozen)
    assert not any(torch.equal(checkpoint.model[name], before[name]) for name in moments)


def test_a_training_with_groups_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = replace(
        PLAIN,
        steps=15,
        learning_rate=0.01,
        save_every=4,
        validate_every=6,
        weight_decay=0.01,
        freeze=("encoder.embedding",),
        rates={"decoder.layers.0.cross": 0.3, "decoder": 2.0},
        layer_decay=0.7,
    )
    log, broken_log = Log(), Log()
    straight = trainer(tmp_path / "straight", settings, log)
    straight.run()
    for step in (3, 7, 13):
        broken = trainer(tmp_path / "broken", settings, broken_log)
        after_update(broken, step, kill)
        with pytest.raises(Killed):
            broken.run()
    resumed = trainer(tmp_path / "broken", settings, broken_log)
    resumed.run()
    assert broken_log.starts[-1].progress.step == 12
    assert broken_log.lines == log.lines
    assert_same(straight, resumed)

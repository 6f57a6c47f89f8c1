"""Every pair of choices that the schema accepts for a Transformer, built from a recipe: it computes, steps, learns."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_model, save_model
from torch import Tensor

from regard.data.batch import Batch, make_batch
from regard.models import EncoderDecoder
from regard.nn import TransformerEncoderLayer, Variant
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from tests.pairwise import Row, pairs, pairwise

POSITIONS = ("none", "sinusoidal", "learned", "relative", "relative_bias", "rotary", "alibi")
SIDE = {
    "positions": POSITIONS,
    "score": ("scaled_dot", "dot", "bilinear", "additive"),
    "activation": ("relu", "gelu", "silu", "swiglu", "geglu"),
    "feedforward_bias": (None, True, False),
    "attention_bias": (True, False),
    "heads": ((1, None), (2, 2), (2, 1), (3, None), (3, 1)),
    "head_width": (None, 2, 10),
    "norm_kind": ("layer", "rms"),
    "embedding_norm": (False, True),
    "embedding_scale": (False, True),
    "norm": ("post", "pre"),
    "layers": (1, 2),
}
CHOICES = {f"{side}.{name}": values for side in ("encoder", "decoder") for name, values in SIDE.items()} | {
    "tie": ("all", "target", "none"),
    "output_bias": (False, True),
}


def section(row: Row) -> ModelSection:
    sides = {}
    for side in ("encoder", "decoder"):
        chosen = {name: row[f"{side}.{name}"] for name in SIDE}
        heads = chosen.pop("heads")
        assert isinstance(heads, tuple)
        sides[side] = {"kind": "transformer", "feedforward": 10, "heads": heads[0], "key_heads": heads[1]} | chosen
    return ModelSection.model_validate(
        {"width": 12, "dropout": 0.0, "tie": row["tie"], "output_bias": row["output_bias"]} | sides
    )


def accepted(row: Row) -> bool:
    try:
        section(row)
    except ValidationError:
        return False
    return True


ROWS = pairwise(CHOICES, accepted)


def built(row: Row, seed: int = 1) -> EncoderDecoder:
    torch.manual_seed(seed)
    system = build_system(section(row), source_vocabulary=9, target_vocabulary=9).double()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    return system.eval()


def batch() -> Batch:
    return make_batch(([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8]), ([5, 6], [8, 8, 4, 5, 6], [4]))


def stepped(system: EncoderDecoder, given: Batch) -> Tensor:
    state = system.start(given.sources)
    columns: list[Tensor] = []
    for item in range(given.inputs.size(1)):
        step = system.step(given.inputs[:, item : item + 1], state)
        state = step.state
        columns.append(step.log_probabilities[:, 0].gather(1, given.outputs[:, item : item + 1]))
    return torch.cat(columns, dim=1)


def test_the_cover_holds_every_pair_that_is_accepted() -> None:
    """What is left out is what the schema refuses: positions inside a product with the additive score, odd heads."""
    held = set().union(*(pairs(row) for row in ROWS))
    wanted = {
        (one, first, other, second)
        for number, one in enumerate(CHOICES)
        for other in list(CHOICES)[number + 1 :]
        for first in CHOICES[one]
        for second in CHOICES[other]
    }
    refused = {
        (f"{side}.positions", name, f"{side}.score", "additive")
        for side in ("encoder", "decoder")
        for name in ("relative", "rotary")
    }
    assert wanted - held == refused


def test_a_cover_leaves_out_nothing_that_is_permitted() -> None:
    rows = pairwise({"a": (1, 2, 3), "b": (1, 2), "c": (1, 2)}, lambda row: row["a"] != row["b"])
    assert all(row["a"] != row["b"] for row in rows)
    assert len(set().union(*(pairs(row) for row in rows))) == 4 + 6 + 4


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_every_accepted_pair_of_choices_works(number: int, tmp_path: Path) -> None:
    """Forced equals stepped, a row alone equals the row in a batch, gradients reach all, weights survive a file."""
    row, given = ROWS[number], batch()
    system = built(row)
    forced = system.token_log_probabilities(given)
    with torch.no_grad():
        torch.testing.assert_close(stepped(system, given)[given.mask], forced[given.mask], rtol=0, atol=1e-9)
        alone = system.token_log_probabilities(make_batch([[8]], [[8, 8, 4, 5, 6]]))
        torch.testing.assert_close(alone[0], forced[1], rtol=0, atol=1e-9)
    system.loss(given).sum.backward()
    for name, parameter in system.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-12, name
    save_model(system, str(tmp_path / "weights.safetensors"))
    other = built(row, seed=2)
    assert not torch.allclose(other.token_log_probabilities(given), forced)
    load_model(other, tmp_path / "weights.safetensors")
    assert torch.equal(other.token_log_probabilities(given), forced)


def test_settings_reach_their_parts() -> None:
    chosen = {
        "width": 12,
        "layers": 3,
        "encoder": {"kind": "transformer", "positions": "relative", "furthest": 5, "layers": 1},
        "decoder": {
            "kind": "transformer",
            "positions": "relative_bias",
            "buckets": 6,
            "furthest": 9,
            "heads": 2,
            "key_heads": 1,
        },
    }
    shapes = {
        name: tuple(parameter.shape)
        for name, parameter in build_system(
            ModelSection.model_validate(chosen), source_vocabulary=9, target_vocabulary=9
        ).named_parameters()
    }
    assert shapes["encoder.layers.0.attention.relative.keys"] == (11, 3)
    assert not any("embedding_norm" in name or name == "decoder.output.bias" for name in shapes)
    assert shapes["decoder.positions.related.weight"] == (6, 2)
    assert shapes["decoder.layers.2.attention.key_value.weight"] == (12, 12)
    assert "encoder.layers.1.attention.query.weight" not in shapes
    learned = ModelSection.model_validate({"encoder": {"kind": "transformer", "positions": "learned", "longest": 77}})
    system = build_system(learned, source_vocabulary=9, target_vocabulary=9)
    assert dict(system.named_parameters())["encoder.positions.added.weight"].shape == (77, 128)
    plain = build_system(ModelSection(), source_vocabulary=9, target_vocabulary=9)
    layer = plain.encoder.get_submodule("layers.0")
    assert isinstance(layer, TransformerEncoderLayer)
    assert layer.attention.score.scale == pytest.approx(32**-0.5)


def test_norms_differ_as_their_equations_say() -> None:
    states = torch.tensor([[1.0, 2.0, 6.0], [-1.0, 0.5, 0.0]], dtype=torch.float64)
    rms = Variant(norm_kind="rms", norm_epsilon=0.25).build_norm(3).double()
    layer = Variant(norm_epsilon=0.25).build_norm(3).double()
    squares = (states**2).mean(-1, keepdim=True)
    torch.testing.assert_close(rms(states), states / (squares + 0.25) ** 0.5, rtol=0, atol=1e-12)
    centred = states - states.mean(-1, keepdim=True)
    variance = (centred**2).mean(-1, keepdim=True)
    torch.testing.assert_close(layer(states), centred / (variance + 0.25) ** 0.5, rtol=0, atol=1e-12)

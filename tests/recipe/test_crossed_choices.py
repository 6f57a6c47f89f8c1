"""Every pair of choices across kinds: a recurrent encoder with a Transformer decoder, the reverse, pictures with both.

Sides of one kind, and the shapes, have covers of their own beside this one.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_model, save_model
from torch import Tensor

from regard.data.batch import Batch, Image, join_sources, make_batch
from regard.models import EncoderDecoder
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from tests.pairwise import Row, pairs, pairwise

WIDTH = 12
CELLS = ("elman", "lstm", "gru", "gru_cho", "multiplicative")
RECURRENT = {"cell": CELLS, "layers": (1, 2), "residual": (False, True), "layer_norm": (False, True)}
WAYS: dict[str, dict[str, Any]] = {
    "one-way": {"two_way": False},
    "two-way": {"two_way": True},
    "reversed": {"two_way": False, "reversed": True},
}
HEADS: dict[str, dict[str, Any]] = {"1": {"heads": 1}, "2": {"heads": 2}, "3 on 1": {"heads": 3, "key_heads": 1}}
TRANSFORMER = {
    "positions": ("none", "sinusoidal", "learned", "relative", "relative_bias", "rotary", "alibi"),
    "waves": (None, "halves"),
    "score": ("scaled_dot", "dot", "bilinear", "additive"),
    "activation": ("relu", "gelu", "silu", "swiglu", "geglu"),
    "norm": ("post", "pre"),
    "norm_kind": ("layer", "rms"),
    "embedding_norm": (False, True),
    "heads": tuple(HEADS),
    "layers": (1, 2),
}
ENCODERS: dict[str, dict[str, tuple[object, ...]]] = {
    "rnn": RECURRENT | {"ways": tuple(WAYS), "width": (None, 4), "pyramid": (False, True), "self_attention": (None, 2)},
    "transformer": TRANSFORMER,
    "convolution": {"layers": (1, 2), "channels": (1, 3), "halvings": (None, 0, 1), "groups": (None, 3)},
}
WIRINGS: dict[str, dict[str, Any]] = {
    "transformed": {"wiring": "transformed"},
    "every step": {"wiring": "every_step"},
    "bahdanau": {"wiring": "bahdanau"},
    "bahdanau, bilinear, learned": {"wiring": "bahdanau", "score": "bilinear", "projections": "learned", "heads": 2},
    "luong, dot, learned": {"wiring": "luong", "score": "dot", "projections": "learned"},
    "luong, split, not fed": {"wiring": "luong", "projections": "split", "input_feeding": False},
    "luong, window": {"wiring": "luong", "window": 1, "score": "bilinear"},
    "luong, window, not fed": {"wiring": "luong", "window": 2, "input_feeding": False, "heads": 2},
    "output, dot": {"wiring": "output", "score": "scaled_dot", "projections": "learned", "heads": 2},
    "output, split": {"wiring": "output", "score": "bilinear", "projections": "split"},
}
DECODERS: dict[str, dict[str, tuple[object, ...]]] = {
    "rnn": RECURRENT | {"wiring": tuple(WIRINGS)},
    "transformer": TRANSFORMER,
}
CROSSED = (("rnn", "transformer"), ("transformer", "rnn"), ("convolution", "rnn"), ("convolution", "transformer"))
TARGETS = ([5, 6], [8, 8, 4, 5, 6], [4])
SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8])
SIZES = ((5, 7), (8, 4), (3, 3))


def choices_of(encoder: str, decoder: str) -> dict[str, tuple[object, ...]]:
    return (
        {f"encoder.{name}": values for name, values in ENCODERS[encoder].items()}
        | {f"decoder.{name}": values for name, values in DECODERS[decoder].items()}
        | {"tie": ("target", "none") if encoder == "convolution" else ("all", "target", "none")}
    )


def section(kinds: tuple[str, str], row: Row) -> ModelSection:
    sides: dict[str, dict[str, Any]] = {}
    for side, kind in zip(("encoder", "decoder"), kinds, strict=True):
        chosen = {name.partition(".")[2]: value for name, value in row.items() if name.startswith(side)}
        if kind == "transformer":
            chosen |= HEADS[str(chosen["heads"])] | {"feedforward": 10}
        if "ways" in chosen:
            chosen |= WAYS[str(chosen.pop("ways"))]
        if "wiring" in chosen:
            chosen |= WIRINGS[str(chosen["wiring"])]
        sides[side] = {"kind": kind, **chosen}
    return ModelSection.model_validate({"width": WIDTH, "dropout": 0.0, "tie": row["tie"], **sides})


def accepted(kinds: tuple[str, str], row: Row) -> bool:
    try:
        section(kinds, row)
    except ValidationError:
        return False
    return True


COVERS = {kinds: pairwise(choices_of(*kinds), partial(accepted, kinds), tries=40) for kinds in CROSSED}
ROWS = [(kinds, row) for kinds, rows in COVERS.items() for row in rows]


def refused(row: Row) -> bool:
    """What no model has together, by the sentences of the schema."""
    if row.get("encoder.pyramid") is True and (row.get("encoder.layers") == 1 or row.get("encoder.residual") is True):
        return True
    for side in ("encoder", "decoder"):
        positions = row.get(f"{side}.positions", "sinusoidal")
        if row.get(f"{side}.residual") is True and row.get(f"{side}.layers") == 1:
            return True
        if row.get(f"{side}.score") == "additive" and positions in ("relative", "rotary"):
            return True
        if row.get(f"{side}.waves") == "halves" and positions != "sinusoidal":
            return True
    return False


@pytest.mark.parametrize("kinds", CROSSED, ids=" to ".join)
def test_the_cover_holds_every_pair_that_is_accepted(kinds: tuple[str, str]) -> None:
    choices = choices_of(*kinds)
    held = set().union(*(pairs(row) for row in COVERS[kinds]))
    missing = {
        (one, first, other, second)
        for number, one in enumerate(choices)
        for other in list(choices)[number + 1 :]
        for first in choices[one]
        for second in choices[other]
    } - held
    assert not {pair for pair in missing if not refused({pair[0]: pair[1], pair[2]: pair[3]})}


def built(kinds: tuple[str, str], row: Row, seed: int = 1) -> EncoderDecoder:
    torch.manual_seed(seed)
    system = build_system(section(kinds, row), source_vocabulary=9, target_vocabulary=9).double()
    assert isinstance(system, EncoderDecoder)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    return system.eval()


def batch_of(kinds: tuple[str, str], row: Row, rows: tuple[int, ...]) -> Batch:
    given = make_batch([SOURCES[index] for index in rows], [TARGETS[index] for index in rows])
    if kinds[0] != "convolution":
        return given
    pictures = []
    for index in rows:
        chance = torch.Generator().manual_seed(index)
        shape = (1, int(str(row["encoder.channels"])), *SIZES[index])
        pixels = torch.randn(shape, generator=chance, dtype=torch.float64)
        pictures.append({"source": Image(pixels=pixels, mask=torch.ones(1, *SIZES[index], dtype=torch.bool))})
    return Batch(sources=join_sources(pictures), inputs=given.inputs, outputs=given.outputs, mask=given.mask)


def stepped(system: EncoderDecoder, given: Batch) -> Tensor:
    state = system.start(given.sources)
    columns: list[Tensor] = []
    for item in range(given.inputs.size(1)):
        step = system.step(given.inputs[:, item : item + 1], state)
        state = step.state
        columns.append(step.log_probabilities[:, 0].gather(1, given.outputs[:, item : item + 1]))
    return torch.cat(columns, dim=1)


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_every_crossing_keeps_its_promises(number: int, tmp_path: Path) -> None:
    """Forced equals stepped, a row alone equals the row in a batch, gradients reach all, weights survive a file."""
    kinds, row = ROWS[number]
    system, given = built(kinds, row), batch_of(kinds, row, (0, 1, 2))
    with torch.no_grad():
        forced = system.token_log_probabilities(given)
        torch.testing.assert_close(stepped(system, given)[given.mask], forced[given.mask], rtol=0, atol=1e-9)
        for index in range(3):
            alone = system.token_log_probabilities(batch_of(kinds, row, (index,)))[0]
            torch.testing.assert_close(forced[index, : len(alone)], alone, rtol=0, atol=1e-9)
    system.loss(given).sum.backward()
    for name, parameter in system.named_parameters():
        assert parameter.grad is not None, (row, name)
        assert parameter.grad.abs().max() > 1e-12, (row, name)
    save_model(system, str(tmp_path / "weights.safetensors"))
    other = built(kinds, row, seed=2)
    with torch.no_grad():
        assert not torch.allclose(other.token_log_probabilities(given), forced)
        load_model(other, tmp_path / "weights.safetensors")
        assert torch.equal(other.token_log_probabilities(given), forced)

"""Recurrent models of all choices that the schema accepts: a cover of pairs, built as a recipe is, in double precision.

Each must score as it steps, not see other rows, reach every parameter, and be the same after saving and loading.
"""

import random
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.data.batch import Batch, make_batch
from regard.models import EncoderDecoder
from regard.recipe import load_recipe
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection

SOURCES = ([4, 5, 6, 7], [8], [5, 5, 4, 6, 7, 8, 4], [])
TARGETS = ([5, 6, 7], [8, 8, 4, 5, 6], [], [4])
CHOICES: dict[str, tuple[object, ...]] = {
    "tie": ("all", "target", "none"),
    "encoder.kind": ("rnn", "rnn two-way", "rnn reversed", "bag", "transformer"),
    "encoder.cell": ("elman", "lstm", "gru", "gru_cho", "multiplicative"),
    "encoder.layers": (1, 2),
    "encoder.residual": (False, True),
    "encoder.pyramid": (False, True),
    "encoder.layer_norm": (False, True),
    "encoder.self_attention": (None, 2),
    "decoder.cell": ("elman", "lstm", "gru", "gru_cho", "multiplicative"),
    "decoder.layers": (1, 2),
    "decoder.residual": (False, True),
    "decoder.layer_norm": (False, True),
    "decoder.wiring": ("bahdanau", "luong", "output", "initial", "transformed", "every_step"),
    "decoder.score": ("dot", "scaled_dot", "bilinear", "additive"),
    "decoder.projections": ("none", "learned", "split"),
    "decoder.heads": (1, 2),
    "decoder.input_feeding": (None, False, True),
    "decoder.window": (None, 2),
}


def section(choice: dict[str, object]) -> ModelSection | None:
    """A model of width 4, or None where the schema refuses."""
    encoder, decoder = (
        {name.split(".")[1]: value for name, value in choice.items() if name.startswith(side)}
        for side in ("encoder", "decoder")
    )
    kind = encoder["kind"]
    if kind in ("bag", "transformer"):
        if any(encoder[name] for name in ("residual", "pyramid", "layer_norm", "self_attention")):
            return None
        encoder = {"kind": kind} | ({"heads": 2, "layers": 1} if kind == "transformer" else {})
    else:
        encoder |= {"kind": "rnn", "two_way": kind == "rnn two-way", "reversed": kind == "rnn reversed"}
    data: dict[str, Any] = {"width": 4, "dropout": 0.0, "tie": choice["tie"], "encoder": encoder}
    try:
        return ModelSection.model_validate(data | {"decoder": {"kind": "rnn", **decoder}})
    except ValidationError:
        return None


FURTHER = 200
Pair = tuple[tuple[str, object], tuple[str, object]]


def pairs_of(choice: dict[str, object]) -> set[Pair]:
    return set(combinations(choice.items(), 2))


def cover() -> list[dict[str, object]]:
    """Accepted choices which together hold every pair that an accepted choice can hold, and some more."""
    chance = random.Random(1)
    names = list(CHOICES)
    wanted = {
        pair
        for one, other in combinations(names, 2)
        for pair in product(((one, value) for value in CHOICES[one]), ((other, value) for value in CHOICES[other]))
    }
    chosen: list[dict[str, object]] = []
    for pair in sorted(wanted, key=repr):
        if pair not in wanted:
            continue
        drawn = ({name: chance.choice(CHOICES[name]) for name in names} | dict(pair) for _ in range(400))
        accepted = [choice for _, choice in zip(range(3), (one for one in drawn if section(one)), strict=False)]
        if accepted:
            best = max(accepted, key=lambda choice: len(pairs_of(choice) & wanted))
            chosen.append(best)
            wanted -= pairs_of(best)
    drawn = ({name: chance.choice(values) for name, values in CHOICES.items()} for _ in range(100 * FURTHER))
    return chosen + [choice for _, choice in zip(range(FURTHER), filter(section, drawn), strict=False)]


COVER = cover()


def system_of(choice: dict[str, object]) -> EncoderDecoder:
    chosen = section(choice)
    assert chosen is not None
    torch.manual_seed(1)
    system = build_system(chosen, source_vocabulary=9, target_vocabulary=9).double()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.6)
    return system.eval()


def stepped(system: EncoderDecoder, batch: Batch) -> Tensor:
    state = system.start(batch.sources)
    columns: list[Tensor] = []
    for item in range(batch.inputs.size(1)):
        step = system.step(batch.inputs[:, item : item + 1], state)
        state = step.state
        columns.append(step.log_probabilities[:, 0].gather(1, batch.outputs[:, item : item + 1]))
    return torch.cat(columns, dim=1)


@pytest.mark.parametrize("part", range(8))
def test_every_accepted_model_keeps_its_promises(part: int, tmp_path: Path) -> None:
    batch = make_batch(SOURCES, TARGETS)
    for index, choice in enumerate(COVER[part::8]):
        system = system_of(choice)
        loss = system.loss(batch)
        loss.sum.backward()
        for label, parameter in system.named_parameters():
            assert parameter.grad is not None, (choice, label)
            assert parameter.grad.abs().max() > 1e-12, (choice, label)
        with torch.no_grad():
            forced = system.token_log_probabilities(batch)
            difference = (forced - stepped(system, batch))[batch.mask].abs().max()
            assert difference < 1e-9, choice
            for row, pair in enumerate(zip(SOURCES, TARGETS, strict=True)):
                alone = system.token_log_probabilities(make_batch([pair[0]], [pair[1]]))[0]
                assert (together := forced[row, : len(alone)]).sub(alone).abs().max() < 1e-9, (choice, together)
            path = tmp_path / f"{index}.safetensors"
            save_file({name: value.contiguous().clone() for name, value in system.state_dict().items()}, path)
            chosen = section(choice)
            assert chosen is not None
            again = build_system(chosen, source_vocabulary=9, target_vocabulary=9).double().eval()
            again.load_state_dict(load_file(path))
            assert torch.equal(again.token_log_probabilities(batch), forced), choice


def test_the_cover_holds_every_choice() -> None:
    for name, values in CHOICES.items():
        for value in values:
            assert any(choice[name] == value for choice in COVER), (name, value)


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_published_recipe_can_be_built(path: Path) -> None:
    recipe = load_recipe(path)
    build_system(
        recipe.model,
        source_vocabulary=9,
        target_vocabulary=9,
        factors=[7] * len(recipe.data.factors),
        attributes=[7] * len(recipe.data.attributes),
    )
    assert recipe.run == f"runs/{path.stem}"
    heading = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert f"regard train recipes/{path.name}" in "\n".join(heading)
    told = " ".join(line.removeprefix("#").strip() for line in heading).lower()
    assert not recipe.training.label_smoothing or "label smoothing" in told

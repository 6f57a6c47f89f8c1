"""Every pair of choices of the shapes that are not plain encoder-decoders: they compute, step, learn, survive files.

Language models, models of attributes, attributes beside a text, factors, acceptors of labels and numbers, transducers
and masked language models, each with every kind of encoder and decoder that the schema accepts for it.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_model, save_model
from torch import Tensor

from regard.data.batch import Batch
from regard.data.collation import Collation, SourceTexts
from regard.models import EncoderDecoder, System
from regard.recipe.build import system_for
from regard.recipe.schema import Recipe
from regard.recipe.texts import Texts, build_collation
from regard.text import LabelTokenizer, NumberTokenizer, WordTokenizer
from tests.pairwise import Row, pairs, pairwise

WORDS = WordTokenizer(words=tuple("abcde"))
TAGS = WordTokenizer(words=tuple("xyz"))
LABELS = LabelTokenizer(labels=tuple("uvw"))
CELLS = ("elman", "lstm", "gru", "gru_cho", "multiplicative")
ENCODERS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "category": {"kind": "category"},
    "bag": {"kind": "bag"},
    "one-way": {"kind": "rnn", "two_way": False},
    "two-way": {"kind": "rnn"},
    "reversed": {"kind": "rnn", "two_way": False, "reversed": True},
    "self-attentive": {"kind": "rnn", "self_attention": 2},
    "transformer": {"kind": "transformer", "heads": 2},
    "bert": {"kind": "transformer", "heads": 2, "positions": "learned", "norm": "post", "embedding_norm": True}
    | {"embedding_scale": False, "activation": "gelu"},
    "t5": {"kind": "transformer", "heads": 2, "positions": "relative_bias", "norm_kind": "rms", "head_width": 6}
    | {"attention_bias": False, "feedforward_bias": False, "activation": "geglu"},
}
DECODERS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "from nothing": {"kind": "rnn", "wiring": "none"},
    "bahdanau": {"kind": "rnn", "wiring": "bahdanau"},
    "luong": {"kind": "rnn", "wiring": "luong"},
    "output": {"kind": "rnn", "wiring": "output"},
    "initial": {"kind": "rnn", "wiring": "initial"},
    "transformed": {"kind": "rnn", "wiring": "transformed"},
    "every_step": {"kind": "rnn", "wiring": "every_step"},
    "transformer": {"kind": "transformer", "heads": 2},
    "gpt": {"kind": "transformer", "heads": 2, "positions": "rotary", "norm_kind": "rms", "activation": "swiglu"},
    "bart": {"kind": "transformer", "heads": 2, "positions": "learned", "embedding_norm": True, "activation": "silu"}
    | {"norm": "post", "embedding_scale": False, "waves": None},
}
ITEMS = tuple(name for name, side in ENCODERS.items() if side["kind"] in ("rnn", "transformer"))
WRITTEN = tuple(name for name in DECODERS if name not in ("none", "from nothing"))
COMMON: dict[str, tuple[object, ...]] = {
    "encoder.cell": CELLS,
    "decoder.cell": (None,),
    "layers": (1, 2),
    "tie": ("target", "none"),
    "factors": (None, "concat", "sum"),
    "attributes": (0, 1, 2),
    "output_bias": (False, True),
}
UNWRITTEN: dict[str, tuple[object, ...]] = {"decoder": ("none",), "tie": ("target",), "output_bias": (False,)}
CHOICES: dict[str, dict[str, tuple[object, ...]]] = {
    "encoder-decoder": COMMON
    | {"encoder": ("bag", *ITEMS), "decoder": WRITTEN, "decoder.cell": CELLS, "tie": ("all", "target", "none")},
    "category": COMMON
    | {"encoder": ("category",), "decoder": WRITTEN, "encoder.cell": (None,), "decoder.cell": CELLS}
    | {"factors": (None,), "attributes": (1, 2)},
    "language-model": COMMON
    | {"encoder": ("none",), "decoder": ("from nothing", "transformer", "gpt", "bart"), "encoder.cell": (None,)}
    | {"decoder.cell": CELLS, "factors": (None,), "attributes": (0,), "tie": ("all", "target", "none")},
    "acceptor": COMMON | UNWRITTEN | {"encoder": ("bag", *ITEMS)},
    "rater": COMMON | UNWRITTEN | {"encoder": ("bag", *ITEMS)},
    "transducer": COMMON | UNWRITTEN | {"encoder": ITEMS, "attributes": (0,)},
    "masked-language-model": COMMON
    | {"encoder": ITEMS, "decoder": ("none",), "attributes": (0,), "output_bias": (False,)},
}
TARGETS = {"rater": ("1.5", "-2", "0"), "acceptor": ("u", "w", "v"), "transducer": ("x y z y", "z", "y x")}
TEXTS = ("a b c d", "e", "b b")
FACTORS = ("x y z x", "y", "z z")
ATTRIBUTES = (("u", "w"), ("", "v"), ("w", ""))


def recipe_of(row: Row) -> Recipe:
    shape = "encoder-decoder" if row["shape"] == "category" else str(row["shape"])
    encoder, decoder = dict(ENCODERS[str(row["encoder"])]), dict(DECODERS[str(row["decoder"])])
    for name, side in (("encoder", encoder), ("decoder", decoder)):
        if side["kind"] == "rnn":
            side["cell"] = row[f"{name}.cell"]
    lone = shape == "language-model" or row["encoder"] == "category"
    columns = [3, 4][: int(str(row["attributes"]))]
    text: dict[str, Any] = {"unit": "word", "shared": lone or shape == "masked-language-model" or row["tie"] == "all"}
    if shape in TARGETS:
        text |= {"shared": False, "target": {"unit": {"acceptor": "label", "rater": "number"}.get(shape, "word")}}
    return Recipe.model_validate(
        {
            "data": {
                "train": "a.tsv",
                "source": None if lone else 0,
                "target": None if shape == "masked-language-model" else 1,
                "factors": [2] if row["factors"] else [],
                "attributes": columns,
            },
            "text": text,
            "model": {
                "shape": "acceptor" if shape == "rater" else shape,
                "width": 8,
                "layers": row["layers"],
                "dropout": 0.0,
                "tie": row["tie"],
                "output_bias": row["output_bias"],
                "encoder": encoder,
                "decoder": decoder,
            }
            | ({"factors": row["factors"]} if row["factors"] else {})
            | ({"factor_width": 3} if row["factors"] == "concat" else {}),
        }
    )


def accepted(shape: str, row: Row) -> bool:
    try:
        recipe_of(row | {"shape": shape})
    except ValidationError:
        return False
    return True


ROWS = [
    row | {"shape": shape} for shape, choices in CHOICES.items() for row in pairwise(choices, partial(accepted, shape))
]


def built(row: Row, seed: int = 1) -> tuple[System, Collation]:
    recipe = recipe_of(row)
    answers = {"acceptor": LABELS, "rater": NumberTokenizer(), "transducer": TAGS}
    texts = Texts(
        source=WORDS,
        target=answers.get(str(row["shape"]), WORDS),
        factors=(TAGS,) * len(recipe.data.factors),
        attributes=(LABELS,) * len(recipe.data.attributes),
    )
    torch.manual_seed(seed)
    system = system_for(recipe, texts).double()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.6)
    return system.eval(), build_collation(recipe, texts)


def batch_of(row: Row, collation: Collation, rows: tuple[int, ...]) -> Batch:
    def line(number: int) -> str:
        source: SourceTexts = collation.source
        columns = [TEXTS[number]] if source.text else []
        columns += [FACTORS[number]] * len(source.factors)
        return "\t".join([*columns, *ATTRIBUTES[number][: len(source.attributes)]])

    targets = TARGETS.get(str(row["shape"]), ("c d", "e a a b e", "b"))
    encoded = [collation.encode(line(number), targets[number]) for number in rows]
    keyed = {name: [one[name] for one in encoded] for name in collation.streams}
    return collation.batch(keyed, [(1, 1, number) for number in rows])


def stepped(system: EncoderDecoder, given: Batch) -> Tensor:
    state = system.start(given.sources)
    columns: list[Tensor] = []
    for item in range(given.inputs.size(1)):
        step = system.step(given.inputs[:, item : item + 1], state)
        state = step.state
        columns.append(step.log_probabilities[:, 0].gather(1, given.outputs[:, item : item + 1]))
    return torch.cat(columns, dim=1)


@pytest.mark.parametrize("shape", CHOICES)
def test_the_cover_holds_every_pair_that_is_accepted(shape: str) -> None:
    """What is left out is what the schema refuses, and told in `refused`."""
    choices = CHOICES[shape]
    names = list(choices)
    held = set().union(*(pairs({name: row[name] for name in names}) for row in ROWS if row["shape"] == shape))
    wanted = {
        (one, first, other, second)
        for number, one in enumerate(names)
        for other in names[number + 1 :]
        for first in choices[one]
        for second in choices[other]
    }
    assert not {pair for pair in wanted - held if not refused(shape, dict((pair[:2], pair[2:])))}


def refused(shape: str, pair: dict[str, object]) -> bool:
    """`initial` hands final states over as they are: those of one-way networks, and one vector of attributes."""
    if pair.get("factors") == "concat" and pair.get("tie") == "all":
        return True
    if pair.get("decoder") != "initial":
        return False
    if shape == "category":
        return pair.get("layers") == 2 or pair.get("decoder.cell") == "lstm"
    return pair.get("encoder", "one-way") not in ("one-way", "reversed") or pair.get("attributes", 0) != 0


def idle(row: Row, name: str) -> bool:
    """Attention to a single attribute has nothing to choose, so what it would choose by does not learn."""
    return (
        row["encoder"] == "category"
        and row["attributes"] == 1
        and any(part in name for part in ("query", ".score.", "around_cross.norm"))
    )


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_every_shape_keeps_its_promises(number: int, tmp_path: Path) -> None:
    """Forced equals stepped, a row alone equals the row in a batch, gradients reach all, weights survive a file."""
    row = ROWS[number]
    system, collation = built(row)
    given = batch_of(row, collation, (0, 1, 2))
    with torch.no_grad():
        forced = system.token_log_probabilities(given)
        assert forced[given.mask].abs().max() > 1e-3
        if isinstance(system, EncoderDecoder):
            torch.testing.assert_close(stepped(system, given)[given.mask], forced[given.mask], rtol=0, atol=1e-9)
        for index in range(3):
            alone = system.token_log_probabilities(batch_of(row, collation, (index,)))[0]
            torch.testing.assert_close(forced[index, : len(alone)], alone, rtol=0, atol=1e-9)
            assert not forced[index, len(alone) :].any()
    system.loss(given).sum.backward()
    for name, parameter in system.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().max()) > 1e-12 or idle(row, name), name
    save_model(system, str(tmp_path / "weights.safetensors"))
    other, _ = built(row, seed=2)
    with torch.no_grad():
        assert not torch.allclose(other.token_log_probabilities(given), forced)
        load_model(other, tmp_path / "weights.safetensors")
        assert torch.equal(other.token_log_probabilities(given), forced)

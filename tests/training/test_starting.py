"""What is taken of other weights: by name, by part, by the text of a row."""

from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import Tensor, nn

from regard.errors import UsageError
from regard.models import System
from regard.nn import Recurrent
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from regard.text import CharacterTokenizer, LabelTokenizer, Tokenizer, WordTokenizer
from regard.training import weights
from regard.training.starting import StartReport, Vocabularies, start_from
from tests.toys import LETTERS

WORDS = WordTokenizer(words=["cat", "dog", "mat"])
OTHERS = WordTokenizer(words=["bird", "mat", "cat", "<s>", "tree"])
NONE = Vocabularies(old={}, new={})


class Named(nn.Module):
    """Parameters with given names and shapes, all drawn."""

    def __init__(self, shapes: Mapping[str, Sequence[int]]) -> None:
        super().__init__()
        for name, shape in shapes.items():
            *path, last = name.split(".")
            module: nn.Module = self
            for part in path:
                if part not in dict(module.named_children()):
                    module.add_module(part, nn.Module())
                module = dict(module.named_children())[part]
            module.register_parameter(last, nn.Parameter(torch.randn(*shape)))


LAYER = {"attention.query.weight": (4, 4), "feedforward.inner.weight": (8, 4), "around_attention.norm.weight": (4,)}


def layered(part: str, layers: int, rows: int, **more: Sequence[int]) -> dict[str, Sequence[int]]:
    """A side of a Transformer without attention to a source."""
    inner = {f"{part}.layers.{n}.{name}": shape for n in range(layers) for name, shape in LAYER.items()}
    return {f"{part}.embedding.weight": (rows, 4), **inner, f"{part}.norm.weight": (4,), **more}


def tensors(shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    return {name: torch.randn(*shape) for name, shape in shapes.items()}


def both(old: Tokenizer, new: Tokenizer) -> Vocabularies:
    parts = ("encoder", "decoder", "head")
    return Vocabularies(old=dict.fromkeys(parts, old), new=dict.fromkeys(parts, new))


def same(*names: str) -> dict[str, str]:
    return dict(zip(names, names, strict=True))


def origins(report: StartReport) -> dict[str, str]:
    return {entry.name: entry.detail for entry in report.taken}


def names(entries: Sequence[object]) -> set[str]:
    return {getattr(entry, "name") for entry in entries}  # noqa: B009


# Parts


def test_a_language_model_starts_the_encoder_of_a_model_without_a_decoder() -> None:
    old = tensors({**layered("decoder", 2, 7), "decoder.output.weight": (7, 4)})
    new = Named({**layered("encoder", 2, 7), "head.linear.weight": (3, 4), "head.linear.bias": (3,)})
    before = weights(new)
    report = start_from(new, old, vocabularies=both(WORDS, WORDS))
    now = weights(new)
    for name in layered("encoder", 2, 7):
        assert torch.equal(now[name], old[name.replace("encoder.", "decoder.")])
    assert torch.equal(now["head.linear.weight"], before["head.linear.weight"])
    assert report.summary() == [
        "taken: 8 tensors of encoder from decoder (136 numbers)",
        "left: decoder.output.weight: this model has none of that name",
        "fresh: head.linear.weight and 1 more of head",
    ]


def test_a_masked_language_model_starts_encoders_directly_and_its_head_stays() -> None:
    old = tensors({**layered("encoder", 2, 7), "head.output.weight": (7, 4)})
    report = start_from(Named(layered("encoder", 2, 7)), old, vocabularies=both(WORDS, WORDS))
    assert origins(report) == same(*layered("encoder", 2, 7))
    assert report.summary()[-1] == "left: head.output.weight: this model has no part that starts from it"


CROSS = {"decoder.layers.0.cross.query.weight": (4, 4), "decoder.layers.0.around_cross.norm.weight": (4,)}


@pytest.mark.parametrize(
    ("part", "there", "taken"),
    [
        (None, "decoder", {f"decoder.{place}": f"decoder.{place}" for place in ("embedding.weight", "norm.weight")}),
        (
            "encoder",
            "decoder",
            {f"encoder.{place}": f"decoder.{place}" for place in ("embedding.weight", "norm.weight")},
        ),
        (None, "encoder", {f"encoder.{place}": f"encoder.{place}" for place in ("embedding.weight", "norm.weight")}),
        (
            "decoder",
            "encoder",
            {f"decoder.{place}": f"encoder.{place}" for place in ("embedding.weight", "norm.weight")},
        ),
    ],
)
def test_an_encoder_decoder_starts_from_a_language_model(part: str, there: str, taken: Mapping[str, str]) -> None:
    new = Named({**layered("encoder", 1, 7), **layered("decoder", 1, 7), **CROSS})
    before, old = weights(new), tensors(layered(there, 1, 7))
    report = start_from(new, old, vocabularies=both(WORDS, WORDS), part=part)
    assert taken.items() <= origins(report).items()
    assert len(report.taken) == 5
    now = weights(new)
    for name, tensor in now.items():
        assert torch.equal(tensor, old[origins(report)[name]] if name in origins(report) else before[name])
    assert names(report.fresh) == now.keys() - origins(report).keys()


def test_only_the_part_that_was_asked_for_starts() -> None:
    shapes = {**layered("encoder", 1, 7), **layered("decoder", 1, 7), **CROSS}
    report = start_from(Named(shapes), tensors(shapes), vocabularies=both(WORDS, WORDS), part="encoder")
    assert origins(report) == same(*layered("encoder", 1, 7))
    assert names(report.left) == {name for name in shapes if name.startswith("decoder.")}


def test_a_part_that_is_not_there_cannot_start() -> None:
    with pytest.raises(UsageError, match="this model has no decoder to start; it has encoder, head"):
        start_from(
            Named({**layered("encoder", 1, 7), "head.linear.weight": (3, 4)}),
            tensors(layered("encoder", 1, 7)),
            vocabularies=NONE,
            part="decoder",
        )


def test_a_one_way_network_starts_the_forward_direction_of_an_encoder() -> None:
    def network(two_way: bool) -> nn.Module:
        made = nn.Module()
        made.add_module(
            "network", Recurrent(part="encoder", input_width=4, width=4, layers=2, cell="gru", two_way=two_way)
        )
        return made

    old, new, inner = nn.Module(), nn.Module(), nn.Module()
    old.add_module("decoder", network(False))
    new.add_module("encoder", inner)
    inner.add_module("encoder", network(True))
    report = start_from(new, weights(old), vocabularies=NONE)
    first = "network.directions.0.0.inputs.weight"
    assert origins(report)[f"encoder.encoder.{first}"] == f"decoder.{first}"
    assert torch.equal(weights(new)[f"encoder.encoder.{first}"], weights(old)[f"decoder.{first}"])
    assert {entry.name: entry.detail for entry in report.left} == {
        "decoder.network.directions.0.1.inputs.weight": "another shape: 12 × 4 there, 12 × 8 here"
    }
    assert all(".directions.1." in name for name in names(report.fresh) if "0.1.inputs.weight" not in name)


def test_an_encoder_inside_another_is_found_from_outside_and_inside() -> None:
    plain, inside = (
        layered("encoder", 1, 7),
        {f"encoder.{name}": shape for name, shape in layered("encoder", 1, 7).items()},
    )
    for one, other in ((plain, inside), (inside, plain)):
        assert len(start_from(Named(one), tensors(other), vocabularies=both(WORDS, WORDS)).taken) == 5


# Rows


def test_rows_are_found_by_their_text() -> None:
    new = Named({"encoder.embedding.weight": (OTHERS.size, 4), "head.linear.weight": (2, 4)})
    before, old = weights(new), tensors({"encoder.embedding.weight": (WORDS.size, 4)})
    report = start_from(new, old, vocabularies=both(WORDS, OTHERS))
    now, table = weights(new)["encoder.embedding.weight"], old["encoder.embedding.weight"]
    # reserved, then bird mat cat <s> tree; there cat dog mat
    expected = [
        *table[:4],
        before["encoder.embedding.weight"][4],
        table[6],
        table[4],
        *before["encoder.embedding.weight"][7:],
    ]
    assert torch.equal(now, torch.stack(expected))
    assert report.summary() == [
        "resized: encoder.embedding.weight, 6 of 9 entries found by their text",
        "fresh: head.linear.weight",
    ]
    assert not report.left


def test_the_same_number_of_other_entries_is_not_the_same_table() -> None:
    old, new = WordTokenizer(words=["a", "b", "c"]), WordTokenizer(words=["c", "a", "b"])
    shapes = {"decoder.embedding.weight": (7, 4), "decoder.output.weight": (7, 4), "decoder.output.bias": (7,)}
    weights_there, model = tensors(shapes), Named(shapes)
    report = start_from(model, weights_there, vocabularies=both(old, new))
    assert names(report.resized) == shapes.keys()
    for name, tensor in weights(model).items():
        assert torch.equal(tensor, weights_there[name][[0, 1, 2, 3, 6, 4, 5]])


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("factor2", "encoder.embedding.factors.1"),
        ("factor1", "encoder.encoder.embedding.factors.0"),
        ("attribute1", "attributes.category.tables.0"),
        ("attribute11", "encoder.tables.10"),
    ],
)
def test_factors_and_attributes_are_found_by_their_text(key: str, table: str) -> None:
    """The part has a text of its own, of the same size, that says nothing of these tables."""
    old, new = LabelTokenizer(labels=["a", "b", "c"]), LabelTokenizer(labels=["c", "a", "z"])
    there, model = tensors({table: (7, 4)}), Named({table: (7, 4)})
    before = weights(model)[table]
    part = table.partition(".")[0]
    report = start_from(
        model, there, vocabularies=Vocabularies(old={part: WORDS, key: old}, new={part: WORDS, key: new})
    )
    assert torch.equal(weights(model)[table], torch.cat((there[table][[0, 1, 2, 3, 6, 4]], before[6:])))
    assert report.summary() == [f"resized: {table}, 6 of 7 entries found by their text"]


def test_spare_rows_follow_the_vocabulary() -> None:
    """A row for a mask, say, that stands after all text."""
    old = tensors({"encoder.embedding.weight": (WORDS.size + 1, 4)})
    new = Named({"encoder.embedding.weight": (OTHERS.size + 1, 4)})
    report = start_from(new, old, vocabularies=both(WORDS, OTHERS))
    assert torch.equal(weights(new)["encoder.embedding.weight"][-1], old["encoder.embedding.weight"][-1])
    assert report.resized[0].detail == "7 of 10 entries found by their text"


def test_a_character_is_not_a_word_and_reserved_rows_alone_are_nothing() -> None:
    old = tensors({**layered("encoder", 1, 7), "head.linear.weight": (7, 4)})
    new = Named({**layered("encoder", 1, 7), "head.linear.weight": (7, 4)})
    before = weights(new)
    report = start_from(
        new,
        old,
        vocabularies=both(WordTokenizer(words=["a", "b", "c"]), CharacterTokenizer(characters=["a", "b", "c"])),
    )
    assert {entry.name: entry.detail for entry in report.left} == dict.fromkeys(
        ("encoder.embedding.weight", "head.linear.weight"), "no entry has the same text"
    )
    assert torch.equal(weights(new)["head.linear.weight"], before["head.linear.weight"])


def test_other_lengths_of_learned_positions_share_the_first() -> None:
    for there, here in ((3, 5), (5, 3)):
        old = tensors({"encoder.positions.added.weight": (there, 4)})
        new = Named({"encoder.positions.added.weight": (here, 4)})
        before = weights(new)["encoder.positions.added.weight"]
        report = start_from(new, old, vocabularies=NONE)
        now = weights(new)["encoder.positions.added.weight"]
        assert torch.equal(now, torch.cat((old["encoder.positions.added.weight"][:3], before[3:])))
        assert report.summary() == [f"resized: encoder.positions.added.weight, the first 3 of {here} positions"]


# Whole systems


def system(seed: int, **settings: object) -> System:
    torch.manual_seed(seed)
    section = ModelSection.model_validate({"width": 16, "layers": 2, **settings})
    return build_system(section, source_vocabulary=12, target_vocabulary=12)


TOY = both(WordTokenizer(words=list(LETTERS)), WordTokenizer(words=list(LETTERS)))
RNN = {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn"}}


@pytest.mark.parametrize("settings", [{}, {"tie": "none"}, {"tie": "all"}, RNN], ids=str)
def test_the_same_model_is_taken_whole(settings: dict[str, object]) -> None:
    old, new = system(1, **settings), system(2, **settings)
    report = start_from(new, weights(old), vocabularies=TOY)
    assert not report.resized + report.left + report.fresh
    now = weights(new)
    assert all(torch.equal(tensor, now[name]) for name, tensor in weights(old).items())


@pytest.mark.parametrize(
    ("tied", "untied", "sources"),
    [
        (
            "target",
            "none",
            same("encoder.embedding.weight", "decoder.embedding.weight")
            | {"decoder.output.weight": "decoder.embedding.weight"},
        ),
        (
            "all",
            "none",
            dict.fromkeys(
                ("encoder.embedding.weight", "decoder.embedding.weight", "decoder.output.weight"),
                "encoder.embedding.weight",
            ),
        ),
        (
            "all",
            "target",
            dict.fromkeys(("encoder.embedding.weight", "decoder.embedding.weight"), "encoder.embedding.weight"),
        ),
        ("none", "all", same("encoder.embedding.weight")),
    ],
)
def test_tied_weights_serve_all_that_were_tied(tied: str, untied: str, sources: Mapping[str, str]) -> None:
    old, new = system(1, tie=tied), system(2, tie=untied)
    report = start_from(new, weights(old), vocabularies=TOY)
    assert not report.fresh
    tables = {
        name: detail
        for name, detail in origins(report).items()
        if "embedding" in name or name == "decoder.output.weight"
    }
    assert tables == sources
    now, there = weights(new), weights(old)
    assert all(torch.equal(now[name], there[other]) for name, other in sources.items())


def test_another_decoder_and_depth_leave_what_does_not_fit() -> None:
    old = system(1, **RNN, tie="none")
    new = system(2, layers=3, encoder={"kind": "rnn"}, decoder={"kind": "transformer"})
    report = start_from(new, weights(old), vocabularies=TOY)
    assert report.summary()[0] == "taken: 17 tensors of encoder (8,256 numbers)"
    assert report.summary()[1] == "taken: 1 tensor of decoder (192 numbers)"
    assert "encoder.network.directions.0.2.inputs.weight" in names(report.fresh)
    assert "decoder.bridge.linear.weight" in names(report.left)


@pytest.mark.parametrize(
    "side", [{"kind": "transformer"}, {"kind": "rnn", "two_way": False}], ids=["transformer", "rnn"]
)
@pytest.mark.parametrize("shape", ["acceptor", "transducer"])
def test_language_models_start_what_labels(shape: str, side: dict[str, object]) -> None:
    """Every tensor of the encoder comes from the plain one, and from the masked one."""
    new, again = (system(3, shape=shape, encoder=side) for _ in range(2))
    writes = {"wiring": "none"} if side["kind"] == "rnn" else {}
    decoder = {"kind": side["kind"], **writes}
    inside = {name for name in weights(new) if name.startswith("encoder.")}
    plain, masked = (
        system(1, shape="language-model", decoder=decoder),
        system(2, shape="masked-language-model", encoder=side),
    )
    report = start_from(new, weights(plain), vocabularies=TOY)
    assert origins(report) == {name: name.replace("encoder.", "decoder.", 1) for name in inside}
    report = start_from(again, weights(masked), vocabularies=TOY)
    assert origins(report) == same(*inside)
    assert torch.equal(weights(again)["encoder.embedding.weight"], weights(masked)["encoder.embedding.weight"])


def test_another_width_is_refused_with_the_first_reasons() -> None:
    new = system(2, width=32)
    with pytest.raises(UsageError) as caught:
        start_from(new, weights(system(1)), vocabularies=TOY)
    assert str(caught.value) == (
        "nothing of these weights fits the model (left: decoder.embedding.weight and 46 more of decoder: another "
        "shape: 12 × 16 there, 12 × 32 here; left: encoder.embedding.weight and 30 more of encoder: another shape: "
        "12 × 16 there, 12 × 32 here). Take the kinds of parts, `model.width` and the unit of text of the run that "
        "they come from, or leave out `model.start_from`"
    )

"""From a recipe to objects: every setting arrives, and nothing else decides."""

from dataclasses import asdict, fields
from pathlib import Path

import pytest
import torch

from regard.data.batch import make_batch
from regard.errors import UsageError
from regard.insight import Reading
from regard.models import BahdanauDecoder, RecurrentEncoder, TransformerDecoder, TransformerEncoder
from regard.recipe import recipe_from
from regard.recipe.build import alignment_reading, build_metrics, build_system, search_options, training_settings
from regard.recipe.schema import (
    EvaluationSection,
    ModelSection,
    SearchSection,
    TrainingSection,
)
from regard.recipe.texts import Texts, load_texts, text_names, train_texts
from regard.search import SearchOptions
from regard.training import Settings

TRANSFORMER = {"kind": "transformer", "heads": 2}
SIDES = [TRANSFORMER, {"kind": "rnn"}, {"kind": "rnn", "cell": "gru_cho"}]


def model_section(**settings: object) -> ModelSection:
    both = {"encoder": TRANSFORMER, "decoder": TRANSFORMER}
    return ModelSection.model_validate({"width": 8, "layers": 1, **both, **settings})


@pytest.mark.parametrize("encoder", [*SIDES, {"kind": "rnn", "two_way": False}], ids=str)
@pytest.mark.parametrize("decoder", SIDES, ids=str)
@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_every_encoder_works_with_every_decoder(encoder: object, decoder: object, tie: str) -> None:
    section = model_section(encoder=encoder, decoder=decoder, tie=tie, layers=2)
    system = build_system(section, source_vocabulary=9, target_vocabulary=9)
    loss = system.loss(make_batch([[4, 5], [6]], [[7], [8, 4, 4]]))
    loss.sum.backward()
    assert all(parameter.grad is not None for parameter in system.parameters())
    assert loss.count == 6
    kinds = {"transformer": (TransformerEncoder, TransformerDecoder), "rnn": (RecurrentEncoder, BahdanauDecoder)}
    assert isinstance(system.encoder, kinds[section.encoder.kind][0])
    assert isinstance(system.decoder, kinds[section.decoder.kind][1])


@pytest.mark.parametrize(("tie", "tables"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_tables_are_one(tie: str, tables: int) -> None:
    system = build_system(model_section(tie=tie), source_vocabulary=30, target_vocabulary=30)
    assert sum(tuple(parameter.shape) == (30, 8) for parameter in system.parameters()) == tables


def test_vocabularies_have_their_own_sizes() -> None:
    system = build_system(model_section(), source_vocabulary=20, target_vocabulary=30)
    shapes = {tuple(parameter.shape) for parameter in system.parameters()}
    assert {(20, 8), (30, 8)} <= shapes
    assert system.vocabulary == 30


def parameters(**settings: object) -> int:
    system = build_system(model_section(**settings), source_vocabulary=9, target_vocabulary=9)
    return sum(parameter.numel() for parameter in system.parameters())


def test_a_transformer_has_as_many_parameters_as_its_equations() -> None:
    d, inner, vocabulary = 8, 20, 9
    attention = 4 * (d * d + d)
    feedforward = d * inner + inner + inner * d + d
    norm = 2 * d
    encoder, decoder = attention + feedforward + 2 * norm, 2 * attention + feedforward + 3 * norm
    side = {**TRANSFORMER, "feedforward": inner}
    expected = 2 * vocabulary * d + 3 * encoder + 2 * decoder
    found = parameters(encoder={**side, "layers": 3, "norm": "post"}, decoder={**side, "norm": "post"}, layers=2)
    assert found == expected
    pre = parameters(encoder={**side, "layers": 3}, decoder=side, layers=2)
    assert pre == expected + 2 * norm  # what runs through is normed once more at the end of each side


def test_the_inner_width_is_twice_the_width_if_left_out() -> None:
    wide = {**TRANSFORMER, "feedforward": 16}
    assert parameters() == parameters(encoder=wide, decoder=wide)


def test_the_same_seed_gives_the_same_weights_and_meta_takes_no_memory() -> None:
    systems = []
    for _ in range(2):
        torch.manual_seed(4)
        systems.append(build_system(model_section(), source_vocabulary=9, target_vocabulary=9))
    one, other = (dict(system.named_parameters()) for system in systems)
    assert all(torch.equal(one[name], other[name]) for name in one)
    with torch.device("meta"):
        empty = build_system(model_section(width=4096), source_vocabulary=10**6, target_vocabulary=10**6)
    assert {parameter.device.type for parameter in empty.parameters()} == {"meta"}


def test_dropout_arrives_everywhere() -> None:
    for kind in SIDES[:2]:
        section = model_section(encoder=kind, decoder=kind, dropout=0.5)
        system = build_system(section, source_vocabulary=9, target_vocabulary=9).train()
        batch = make_batch([[4, 5, 6]], [[7, 8]])
        assert float(system.loss(batch).sum.detach()) != float(system.loss(batch).sum.detach())
        system.eval()
        assert float(system.loss(batch).sum.detach()) == float(system.loss(batch).sum.detach())


SOURCES, TARGETS = ["a b", "b c c"], ["X Y", "Y Z"]


@pytest.mark.parametrize(
    ("settings", "names", "sizes"),
    [
        ({"unit": "word", "shared": True}, ("text",), (10, 10)),
        ({"unit": "word", "shared": False}, ("source", "target"), (7, 7)),
        ({"unit": "word", "shared": False, "minimum_count": 2}, ("source", "target"), (6, 5)),
        ({"unit": "word", "shared": False, "lowercase": True, "size": 6}, ("source", "target"), (6, 6)),
        (
            {"unit": "word", "shared": False, "source": {"unit": "byte"}, "target": {"unit": "word", "size": 5}},
            ("source", "target"),
            (260, 5),
        ),
        ({"unit": "character", "shared": True}, ("text",), (11, 11)),
    ],
    ids=str,
)
def test_vocabularies_are_learned_saved_and_found_again(
    tmp_path: Path, settings: dict[str, object], names: tuple[str, ...], sizes: tuple[int, int]
) -> None:
    recipe = recipe_from({"data": {"train": "x"}, "text": settings, "model": {"tie": "target"}})
    section = recipe.text
    assert text_names(recipe) == names
    texts = train_texts(recipe, SOURCES, TARGETS)
    assert (texts.source.size, texts.target.size) == sizes
    assert (texts.source is texts.target) == section.shared
    texts.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.json" for name in names]
    again = load_texts(recipe, tmp_path)
    assert (again.source is again.target) == section.shared
    for text in (*SOURCES, *TARGETS, "q"):
        assert again.source.encode(text) == texts.source.encode(text)
        assert again.target.encode(text) == texts.target.encode(text)


def test_codes_are_read_from_their_file(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b\nab c</w>\n")
    text = {"unit": "codes", "codes": str(tmp_path / "codes"), "shared": True}
    texts = train_texts(recipe_from({"data": {"train": "x"}, "text": text}), ["abc abd"], ["abc"])
    assert isinstance(texts, Texts)
    assert texts.source.decode(texts.source.encode("abc abd").ids) == "abc abd"


UNLIKE = {
    "steps": 7,
    "epochs": 8,
    "minutes": 9.0,
    "accumulate": 3,
    "lanes": 2,
    "parallel": "fsdp",
    "optimizer": "sgd",
    "learning_rate": 0.5,
    "betas": (0.9, 0.98),
    "momentum": 0.7,
    "weight_decay": 0.3,
    "schedule": "by_epoch",
    "fall": {"factor": 0.4, "after_epochs": 3, "after_validations": 2, "least": 0.1},
    "warmup": 11,
    "clip": 0.25,
    "precision": "bfloat16",
    "moving_average": 0.99,
    "validate_every": 12,
    "save_every": 13,
    "patience": 14,
    "average": 15,
    "freeze": ("encoder.embedding",),
    "rates": {"decoder": 0.5},
    "layer_decay": 0.9,
}


UNLIKE_TOO = {
    **UNLIKE,
    "optimizer": "adam",
    "momentum": 0.0,
    "betas": (0.1, 0.2),
    "schedule": "plateau",
    "fall": {"factor": 0.4, "after_epochs": 5, "after_validations": 4, "least": 0.1},
}
"""Settings that are for other optimisers and schedules."""


@pytest.mark.parametrize("unlike", [UNLIKE, UNLIKE_TOO])
def test_every_setting_of_training_arrives(unlike: dict[str, object]) -> None:
    recipe = recipe_from({"data": {"train": "x"}, "seed": 5, "training": unlike})
    settings = training_settings(recipe)
    names = {field.name for field in fields(Settings)} - {"seed", "log_every"}
    assert names == set(unlike)
    assert {name: asdict(settings)[name] for name in unlike} == unlike
    assert settings.seed == 5
    elsewhere = {
        "batch_tokens",
        "masking",
        "objective",
        "corruption",
        "label_smoothing",
        "select",
        "threads",
        "recompute",
        "compile",
        "tensorboard",
    }
    assert set(TrainingSection.model_fields) == names | elsewhere


def test_every_setting_of_search_arrives() -> None:
    section = SearchSection(beam=3, length_penalty=0.5, max_length=20, max_ratio=1.5, batch_sentences=2)
    expected = SearchOptions(beam=3, length_penalty=0.5, max_length=20, max_ratio=1.5, best=1, stopping="early")
    assert search_options(section) == expected
    assert search_options(section, beam=1).beam == 1
    bounded = search_options(section, max_length=7, max_ratio=None)
    assert (bounded.max_length, bounded.max_ratio) == (7, None)
    assert search_options(section, measured=False).max_ratio is None
    assert (search_options(section, best=9).beam, search_options(section, best=9).best) == (9, 9)
    assert search_options(section, beam=4, best=2).beam == 4
    rules = {"length_formula": "gnmt", "coverage_penalty": 0.3, "min_length": 2, "block_ngrams": 3, "stopping": "exact"}
    groups = {"groups": 2, "diversity": 0.4}
    section = SearchSection(beam=3, **rules, **groups)
    assert search_options(section) == SearchOptions(beam=4, **rules, **groups)
    assert search_options(section, groups=1, diversity=0.0).groups == 1
    drawn = search_options(section, sample=True, best=2)
    assert (drawn.groups, drawn.coverage_penalty, drawn.min_length, drawn.stopping) == (1, 0.0, 2, "exact")
    asked = search_options(section, stochastic=True, length_penalty=0.0)
    assert (asked.stochastic, asked.groups, asked.length_penalty) == (True, 1, 0.0)


@pytest.mark.parametrize("drawn", ["sample", "stochastic"])
def test_what_ranks_outputs_cannot_be_asked_for_with_draws(drawn: str) -> None:
    """A recipe may have it, for its own searches; who asks for it here would get nothing."""
    section = SearchSection(length_penalty=0.7, length_formula="gnmt", coverage_penalty=0.1)
    assert search_options(section, **{drawn: True}).coverage_penalty == 0.0
    with pytest.raises(UsageError, match="length_penalty, groups can have no effect on outputs that are drawn"):
        search_options(section, **{drawn: True}, length_penalty=0.6, groups=2)


def test_metrics_and_reading() -> None:
    section = EvaluationSection.model_validate(
        {"metrics": ["TER", "exact"], "alignment": {"layer": 1, "head": 2, "shift": 1}}
    )
    assert [metric.name for metric in build_metrics(section)] == ["TER", "exact"]
    assert alignment_reading(section) == Reading(layer=1, head=2, shift=1)
    assert alignment_reading(EvaluationSection()) == Reading()

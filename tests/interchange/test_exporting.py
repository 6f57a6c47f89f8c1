"""What is refused, how folders are written, and what they say about themselves."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.errors import ModelError, RegardError, UsageError
from regard.interchange import exporting, import_checkpoint
from regard.interchange.exporting import WRITTEN, export, refuse
from regard.recipe import load_recipe
from regard.recipe.schema import ModelSection
from regard.recipe.texts import Texts
from regard.run.model import Model
from regard.text import train_tokenizer
from tests.interchange.models import pocket_pairs, pocket_texts, random_model

ROOT = Path(__file__).parents[2]
RNN = {"kind": "rnn"}
REFUSED = {
    "huggingface": [
        ({"encoder": RNN}, r"`model\.encoder\.kind` is rnn, and there are only Transformers there"),
        ({"decoder": RNN}, r"`model\.decoder\.kind` is rnn, and there are only Transformers there"),
        ({"encoder": {"kind": "bag"}, "decoder": RNN}, r"kind` is bag.*; `model\.decoder\.kind` is rnn"),
        *(
            ({side: {"positions": name}}, rf"`model\.{side}\.positions` is {name}, and its Marian .* only sinusoidal")
            for side in ("encoder", "decoder")
            for name in ("none", "learned", "relative", "relative_bias", "rotary", "alibi")
        ),
        ({"encoder": {"activation": "swiglu"}}, r"`model\.encoder\.activation` is swiglu, .* only relu, gelu, silu"),
        ({"decoder": {"activation": "gelu"}}, r"`activation` is relu in the encoder and gelu in the decoder, .* one"),
        ({"decoder": {"norm": "post"}}, r"`norm` is pre in the encoder and post in the decoder, .* post on both sides"),
        ({"decoder": {"score": "additive"}}, r"`model\.decoder\.score` is additive, .* \(scaled_dot, dot, bilinear\)"),
        ({"decoder": {"embedding_scale": False}}, r"`embedding_scale` is true on one side only, and its layouts"),
        ({"encoder": {"waves": "halves"}}, r"`waves` differ between encoder and decoder, and its layouts"),
        (
            {side: {"norm_epsilon": 1e-3} for side in ("encoder", "decoder")},
            r"`norm_epsilon` is 0\.001, and its layouts have 1e-05",
        ),
    ],
    "ctranslate2": [
        *(
            ({side: {"norm_kind": "rms"}}, rf"`model\.{side}\.norm_kind` is rms, and only layer norms are exported")
            for side in ("encoder", "decoder")
        ),
        ({"encoder": {"embedding_norm": True}}, r"`model\.encoder\.embedding_norm` is true, and no norm of embeddings"),
        ({"decoder": {"head_width": 3}}, r"decoder\.head_width` is 3, .* shares of `model\.width` \(16 for 4 heads\)"),
        ({"decoder": {"norm_epsilon": 0.25}}, r"`norm_epsilon` is 1e-05 in the encoder and 0\.25 in the decoder"),
        ({"encoder": RNN}, r"`model\.encoder\.kind` is rnn, and there are only Transformers there"),
        ({"decoder": RNN}, r"`model\.decoder\.kind` is rnn, and there are only Transformers there"),
        ({"encoder": {"kind": "bag"}}, r"`model\.encoder\.kind` is bag, and there are only Transformers there"),
        ({"encoder": {"positions": "alibi"}}, r"`model\.encoder\.positions` is alibi, which only decoders have there"),
        ({"encoder": {"score": "additive"}}, r"`model\.encoder\.score` is additive, .* \(scaled_dot, dot, bilinear\)"),
    ],
}


def section(settings: dict[str, dict[str, object]]) -> ModelSection:
    sides = {side: {"kind": "transformer", **settings.get(side, {})} for side in ("encoder", "decoder")}
    return ModelSection.model_validate({"width": 16, **sides})


@pytest.mark.parametrize(("to", "settings", "text"), [(to, *case) for to, cases in REFUSED.items() for case in cases])
def test_what_cannot_go_there_is_refused_with_the_setting(to, settings, text):
    with pytest.raises(ModelError, match=f"this model cannot be exported to {to}: .*{text}"):
        refuse(section(settings), to)


def test_other_shapes_and_activations_are_refused():
    other = section({}).model_copy(update={"shape": "acceptor"})
    with pytest.raises(ModelError, match=r"`model\.shape` is acceptor, and there are only encoder-decoders there"):
        refuse(other, "ctranslate2")
    encoder = section({}).encoder.model_copy(update={"activation": "tanh"})
    with pytest.raises(ModelError, match=r"activation` is tanh, and there are only relu, gelu, silu, swiglu, geglu"):
        refuse(section({}).model_copy(update={"encoder": encoder}), "ctranslate2")


@pytest.mark.parametrize(("setting", "columns"), [("factors", (2,)), ("attributes", (2, 3))])
def test_sources_that_are_not_only_text_are_refused(setting, columns, tmp_path):
    model = random_model()
    data = model.recipe.data.model_copy(update={setting: columns})
    recipe = model.recipe.model_copy(update={"data": data})
    other = Model(recipe=recipe, system=model.system, texts=model.texts, folder=model.folder)
    with pytest.raises(ModelError, match=rf"to ctranslate2: it reads `data\.{setting}`, and there is only text"):
        export(other, tmp_path / "out", to="ctranslate2")
    assert not list(tmp_path.iterdir())


def another_width(model: Model) -> None:
    attention = model.system.encoder.layers[0].attention
    attention.query = nn.Linear(12, 24)


CHANGES = {
    r"other programs have no place for further": lambda model: model.system.register_parameter(
        "further", nn.Parameter(torch.zeros(1))
    ),
    r"its norms are not layer norms": lambda model: setattr(model.system.encoder, "norm", nn.RMSNorm(12)),
    r"its norms have not all the same epsilon": lambda model: setattr(model.system.encoder.norm, "eps", 0.5),
    r"the heads of encoder\.layers\.0\.attention have 24 numbers together, and states have 12": another_width,
    r"only one side multiplies embeddings": lambda model: setattr(model.system.encoder.embedding, "scale", 1.0),
    r"its sinusoids are not those of Marian and Pegasus": lambda model: setattr(
        model.system.encoder.positions, "added", None
    ),
    r"its norms add 0\.001, and those of Marian and Pegasus add 1e-05": lambda model: [
        setattr(part, "eps", 0.001) for part in model.system.modules() if isinstance(part, nn.LayerNorm)
    ],
}


@pytest.mark.parametrize("text", CHANGES)
def test_parts_without_a_place_are_refused(text, tmp_path):
    model = random_model()
    CHANGES[text](model)
    with pytest.raises(ModelError, match=text):
        export(model, tmp_path / "out", to="huggingface")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
@pytest.mark.parametrize("name", ["bahdanau2015", "cho2014", "luong2015_general", "simple_attention", "sutskever2014"])
def test_recurrent_recipes_are_refused(name, to):
    with pytest.raises(ModelError, match=r"kind` is rnn, and there are only Transformers there"):
        refuse(load_recipe(ROOT / "recipes" / f"{name}.yaml").model, to)


def test_the_transformer_of_the_paper_goes_everywhere():
    for to in ("huggingface", "ctranslate2"):
        refuse(load_recipe(ROOT / "recipes" / "vaswani2017_tiny.yaml").model, to)


def test_wrong_calls_are_refused(tmp_path):
    model = random_model()
    with pytest.raises(UsageError, match=r"no export to 'onnx'; choose huggingface or ctranslate2"):
        export(model, tmp_path / "out", to="onnx")
    with pytest.raises(UsageError, match="not quantised; `--quantization` is for ctranslate2"):
        export(model, tmp_path / "out", to="huggingface", quantisation="int8")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UsageError, match=r"needs the package ctranslate2: pip install ctranslate2"):
        export(random_model(), tmp_path / "out", to="ctranslate2")


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
def test_folders_are_written_over_only_when_asked(to, tmp_path):
    folder = tmp_path / "deep" / "out"
    export(random_model(), folder, to=to)
    assert {path.name for path in folder.iterdir()} <= WRITTEN
    before = (folder / "config.json").read_bytes()
    with pytest.raises(
        UsageError, match=r"out: is not empty; choose another folder, or write over it with --overwrite"
    ):
        export(random_model(), folder, to=to)
    (folder / "config.json").write_bytes(b"")
    export(random_model(), folder, to=to, overwrite=True)
    assert (folder / "config.json").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("unit", ["word", "character", "bpe"])
@pytest.mark.parametrize("shared", [True, False])
def test_an_export_comes_back(unit, shared, tmp_path):
    texts = pocket_texts(unit, shared=shared)
    model = random_model(texts=texts, tie="all" if shared else "target", both={"norm": "post"})
    export(model, tmp_path / "out", to="huggingface")
    again = import_checkpoint(tmp_path / "out", tmp_path / "run").model
    pairs = pocket_pairs()[:8]
    for ours, theirs in zip(model.score_many(pairs), again.score_many(pairs), strict=True):
        assert len(ours.pieces) > 2
        assert ours.pieces == theirs.pieces
        assert ours.log_probabilities == pytest.approx(theirs.log_probabilities, abs=1e-4)
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    other = pocket_texts("byte")
    other.save(tmp_path / "out")
    if shared:
        with pytest.raises(ModelError, match=r"regard's own vocabularies beside it have 260 and 260 entries, but the "):
            import_checkpoint(tmp_path / "out", tmp_path / "other")
    (tmp_path / "out" / "config.json").write_text(
        json.dumps(settings | {"architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus"})
    )
    with pytest.raises(
        ModelError, match="the layout is Pegasus, which regard writes for `norm: pre` and does not read"
    ):
        import_checkpoint(tmp_path / "out", tmp_path / "other")


def test_files_of_others_stay(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match=r"holds what no export wrote \(mine\.txt\); choose another folder"):
        export(random_model(), tmp_path, to="huggingface", overwrite=True)
    with pytest.raises(UsageError, match=r"mine\.txt: is a file; choose the name of a folder"):
        export(random_model(), tmp_path / "mine.txt", to="huggingface")
    assert (tmp_path / "mine.txt").read_text() == "x"


def test_an_empty_folder_is_filled(tmp_path):
    export(random_model(), tmp_path, to="huggingface")
    assert (tmp_path / "model.safetensors").exists()


def test_nothing_is_left_of_an_export_that_fails(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    export(random_model(), folder, to="huggingface")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "write_synced", full)
    with pytest.raises(RegardError, match=r"there is no room to write .* bytes"):
        export(random_model(seed=2), folder, to="huggingface", overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def lower() -> Texts:
    tokenizer = train_tokenizer(["The cat sleeps ."], unit="word", size=50, lowercase=True)
    return Texts(tokenizer, tokenizer)


def greedy_model(texts: Texts, seed: int) -> Model:
    model = random_model(texts=texts, seed=seed)
    recipe = model.recipe.model_copy(update={"search": model.recipe.search.model_copy(update={"beam": 1})})
    return Model(recipe=recipe, system=model.system, texts=texts, folder=model.folder)


SENTENCE = "the cat sleeps ."
READMES = {
    "huggingface": (
        pocket_texts("bpe"),
        Texts(pocket_texts("word", shared=False).source, pocket_texts("character").target),
        lower(),
    ),
    "ctranslate2": (
        pocket_texts("bpe"),
        pocket_texts("word", shared=False),
        pocket_texts("character"),
        Texts(pocket_texts("word", shared=False).source, pocket_texts("byte").target),
        lower(),
    ),
}


@pytest.mark.parametrize(("to", "texts"), [(to, texts) for to, cases in READMES.items() for texts in cases])
def test_the_lines_of_the_readme_run(to, texts, tmp_path, monkeypatch, capsys):
    """They print what our greedy search finds."""
    pytest.importorskip("transformers" if to == "huggingface" else to)
    models = (greedy_model(texts, seed) for seed in range(2, 20))
    model = next(one for one in models if (text := one.predict(SENTENCE).text.strip()) and "\ufffd" not in text)
    export(model, tmp_path / "out", to=to)
    _, code, _ = (tmp_path / "out" / "README.md").read_text().split("```")
    monkeypatch.chdir(tmp_path / "out")
    lines: dict[str, object] = {}
    exec(code.removeprefix("python"), lines)
    printed = capsys.readouterr().out.removesuffix("\n")
    wanted = model.predict(SENTENCE).text
    assert printed == (repr([wanted]) if "batch_decode" in code else wanted)

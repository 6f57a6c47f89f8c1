"""What is not imported, and what is said about it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import ModelError, RegardError, UsageError
from regard.interchange import import_checkpoint
from regard.interchange.bert import load_bert
from regard.text import load_tokenizer, train_tokenizer
from tests.interchange.checkpoints import Made, bart, bert, marian, t5

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    folder = tmp_path_factory.mktemp("originals")
    makers = {"marian": marian, "bart": bart, "t5": t5, "bert": bert}
    return {name: make(folder / name) for name, make in makers.items()}


def copied(made: Made, folder: Path) -> Path:
    for path in made.folder.iterdir():
        (folder / path.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def config(**settings: object) -> Change:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    return change


def without(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink() for name in names]


def written(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def renamed(old: str, new: str) -> Change:
    return lambda folder: (folder / old).rename(folder / new)


def tensors(**more: torch.Tensor) -> Change:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        save_file(load_file(path) | {name.replace("__", "."): tensor for name, tensor in more.items()}, path)

    return change


def lacking(name: str) -> Change:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        held = load_file(path)
        del held[name]
        save_file(held, path)

    return change


def edited(name: str, **settings: object) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    return change


def both(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


NORM = "model.encoder.layers.0.final_layer_norm.weight"
REFUSED: list[tuple[str, Change, str]] = [
    ("marian", without("config.json"), "config.json: there is no such file; give the folder of a Transformers"),
    ("marian", written("config.json", "{"), "cannot be read as JSON"),
    ("marian", written("config.json", "[]"), "holds no JSON object"),
    ("marian", config(architectures=["GPT2LMHeadModel"]), "architecture 'GPT2LMHeadModel' and type 'marian' cannot"),
    ("marian", config(model_type="mbart"), "and type 'mbart' cannot become a run; regard imports MarianMTModel"),
    ("marian", config(normalize_before=True), "`normalize_before` is true, which plain Marian and BART"),
    ("marian", config(activation_function="mish"), "`activation_function` is 'mish'; regard has relu, gelu, swish"),
    ("marian", config(d_model="16"), "`d_model` must be a whole number of at least 1, not '16'"),
    ("marian", config(dropout="much"), "`dropout` must be a number, not 'much'"),
    ("marian", config(scale_embedding=1), "`scale_embedding` must be true or false, not 1"),
    ("marian", config(d_model=8), r"should be \(8, 8\) by config.json and is \(16, 16\)"),
    ("marian", config(dropout=2), "no model can be built of these settings: dropout: Input should be less than"),
    ("marian", config(encoder_attention_heads=5), "of these settings: .*width 16 cannot be split into 5 heads of the"),
    ("marian", config(pad_token_id=10**6), "the vocabulary has the id 1000000, but the embeddings have"),
    ("marian", without("model.safetensors"), "there are no weights; `model.safetensors` or its index is needed"),
    ("marian", renamed("model.safetensors", "pytorch_model.bin"), "can run code when they are opened; convert the"),
    ("marian", written("model.safetensors", "x"), "cannot be read as a safetensors file"),
    ("marian", tensors(model__extra=torch.ones(1)), "the tensor model.extra is not known in this layout"),
    ("marian", tensors(a=torch.ones(1), b=torch.ones(1)), "the tensor a and 1 more is not known"),
    ("marian", lacking(NORM), f"the tensor {NORM} is missing, which a model of this config"),
    ("marian", tensors(**{NORM: torch.ones(16, dtype=torch.int8)}), "holds torch.int8; quantised checkpoints are"),
    (
        "marian",
        without("vocab.json"),
        r"the vocabulary is missing \(source.spm, target.spm and vocab.json, or what an export",
    ),
    ("marian", written("vocab.json", '{"<unk>": -1}'), "must hold an id for each piece"),
    ("marian", written("vocab.json", '{"<unk>": 1, "a": 1}'), "an id stands for two pieces"),
    ("marian", written("vocab.json", '{"a": 1}'), "there is no piece <unk>"),
    ("marian", written("source.spm", "x"), "not a sentencepiece model"),
    ("bart", without("tokenizer.json"), r"missing \(tokenizer.json, or vocab.json and merges.txt\)"),
    ("bart", written("tokenizer.json", "{}"), "not a definition that the library tokenizers can use"),
    ("bart", edited("tokenizer.json", decoder=None), "model BPE and decoder none is not known; regard reads"),
    ("t5", without("spiece.model"), r"missing \(spiece.model or tokenizer.json\)"),
    ("t5", config(feed_forward_proj="gated-mish"), "`feed_forward_proj` is 'gated-mish'; regard has relu, gated-gelu"),
]


@pytest.mark.parametrize(("name", "change", "message"), REFUSED)
def test_what_cannot_become_a_run_is_refused(
    originals: dict[str, Made], tmp_path: Path, name: str, change: Change, message: str
) -> None:
    folder = copied(originals[name], tmp_path / "theirs")
    change(folder)
    with pytest.raises(RegardError, match=message):
        import_checkpoint(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (config(num_attention_heads=500), "no model can be built of these settings: heads: Input should be less"),
        (config(num_attention_heads=5), "`hidden_size` 16 cannot be split into 5 heads"),
        (config(is_decoder=True), "`is_decoder` is true; only encoders"),
        (config(position_embedding_type="relative_key"), "`position_embedding_type` is 'relative_key'; regard has"),
        (config(hidden_act="gelu_new"), "`hidden_act` is 'gelu_new'; regard has gelu"),
        (tensors(bert__adapter=torch.ones(1)), "the tensor bert.adapter is not known in this layout"),
        (without("tokenizer.json"), r"the vocabulary is missing \(tokenizer.json or vocab.txt\)"),
        (both(without("tokenizer.json"), written("vocab.txt", "[UNK]\n[SEP]\na\n")), r"has no \[CLS\], which BERT"),
    ],
)
def test_encoders_that_are_refused(originals: dict[str, Made], tmp_path: Path, change: Change, message: str) -> None:
    folder = copied(originals["bert"], tmp_path / "theirs")
    change(folder)
    with pytest.raises(ModelError, match=message):
        load_bert(folder)


def test_no_folder_and_a_folder_that_is_taken(originals: dict[str, Made], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such folder"):
        import_checkpoint(tmp_path / "nothing", tmp_path / "run")
    import_checkpoint(originals["marian"].folder, tmp_path / "run")
    with pytest.raises(UsageError, match="there is a run in this folder already; choose another"):
        import_checkpoint(originals["marian"].folder, tmp_path / "run")


def test_weights_in_several_files(originals: dict[str, Made], tmp_path: Path) -> None:
    folder = copied(originals["t5"], tmp_path / "theirs")
    held = sorted(load_file(folder / "model.safetensors").items())
    (folder / "model.safetensors").unlink()
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, part in zip(names, (held[:9], held[9:]), strict=True):
        save_file(dict(part), folder / name)
    index = folder / "model.safetensors.index.json"
    home = {name: names[place >= 9] for place, (name, _) in enumerate(held)}
    index.write_text(json.dumps({"weight_map": home}))
    one = import_checkpoint(folder, tmp_path / "run").model.score("the cat", "a dog")
    other = import_checkpoint(originals["t5"].folder, tmp_path / "other").model.score("the cat", "a dog")
    assert one == other
    index.write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
    with pytest.raises(ModelError, match="names a file outside of its folder"):
        import_checkpoint(folder, tmp_path / "third")
    index.write_text(json.dumps({"weight_map": []}))
    with pytest.raises(ModelError, match="`weight_map` must say for each tensor"):
        import_checkpoint(folder, tmp_path / "third")


def test_older_vocabulary_files_of_bart(originals: dict[str, Made], tmp_path: Path) -> None:
    folder = copied(originals["bart"], tmp_path / "theirs")
    content = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(content["vocab"]))
    merges = (merge if isinstance(merge, str) else " ".join(merge) for merge in content["merges"])
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    ours = import_checkpoint(folder, tmp_path / "run").model.texts.source
    before = import_checkpoint(originals["bart"].folder, tmp_path / "other").model.texts.source
    for line in ("the cat sees Größe 12", "</s> ✓", " two  spaces "):
        assert ours.encode(line) == before.encode(line)
        assert ours.decode(ours.encode(line).ids) == line
    (folder / "merges.txt").write_text("a\n")
    with pytest.raises(ModelError, match="the library tokenizers cannot use this vocabulary"):
        import_checkpoint(folder, tmp_path / "third")


def test_a_library_that_is_not_there(
    originals: dict[str, Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match=r"which is not installed; install it with `pip install tokenizers`"):
        import_checkpoint(originals["bart"].folder, tmp_path / "run")


def test_an_imported_vocabulary_is_not_learned() -> None:
    with pytest.raises(UsageError, match="unit imported is a vocabulary that came with a model from elsewhere"):
        train_tokenizer(["a"], unit="imported", size=9)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bart", edited("text.json", definition="{}"), "`definition` is none that the library tokenizers can use"),
        ("bart", edited("text.json", prefix=["nowhere"]), "`prefix` holds something that is not in `pieces`"),
        ("t5", written("text.spm", "x"), "the file is not the one that text.json belongs to"),
        (
            "t5",
            both(
                written("text.spm", "x"),
                edited("text.json", sha256="2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
            ),
            "no sentencepiece model that regard can use",
        ),
    ],
)
def test_damaged_tokenizer_files(
    originals: dict[str, Made], tmp_path: Path, name: str, change: Change, message: str
) -> None:
    import_checkpoint(originals[name].folder, tmp_path / "run")
    before = load_tokenizer(tmp_path / "run", "text")
    assert before.encode("the cat").ids
    change(tmp_path / "run")
    with pytest.raises(ModelError, match=message):
        load_tokenizer(tmp_path / "run", "text")

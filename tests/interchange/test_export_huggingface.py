"""What `transformers` says of an exported folder is what our own model says."""

import json
from pathlib import Path

import pytest
import torch

from regard.data.batch import make_batch
from regard.interchange.export_huggingface import half_and_half
from regard.interchange.exporting import export
from regard.nn import sinusoids
from regard.recipe.texts import Texts
from regard.run.model import Model
from regard.special import END, START
from tests.interchange.models import (
    LIMIT,
    Ids,
    logits,
    pocket_texts,
    random_model,
    random_rows,
    searched,
    wide_beam,
    with_other_parts,
)
from tests.toys import toy_sources

transformers = pytest.importorskip("transformers")
from transformers import AutoModelForSeq2SeqLM  # noqa: E402
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding  # noqa: E402

ONE = pocket_texts("character")
TWO = Texts(source=pocket_texts("word", shared=False).source, target=pocket_texts("character").target)
MORE = Texts(source=TWO.target, target=TWO.source)

CASES = {
    "marian, all tied": (ONE, {"tie": "all", "both": {"norm": "post"}}),
    "marian, target tied": (TWO, {"tie": "target", "both": {"norm": "post", "activation": "gelu"}}),
    "marian, none tied": (MORE, {"tie": "none", "both": {"norm": "post", "score": "bilinear", "key_heads": 1}}),
    "marian, of an odd width": (ONE, {"width": 9, "both": {"norm": "post", "heads": 3}}),
    "marian, as published": (ONE, {"tie": "all", "output_bias": True, "both": {"norm": "post", "activation": "silu"}}),
    "marian, other parts": (TWO, {"both": {"norm": "post"}}),
    "pegasus, other parts": (TWO, {"both": {"norm": "pre"}}),
    "pegasus, all tied": (ONE, {"tie": "all", "both": {"norm": "pre"}}),
    "pegasus, more sources": (TWO, {"tie": "target", "both": {"norm": "pre", "score": "dot"}}),
    "pegasus, more targets": (MORE, {"tie": "none", "both": {"norm": "pre", "activation": "gelu"}}),
    "pegasus, other sides": (ONE, {"encoder": {"heads": 3, "layers": 1}, "decoder": {"feedforward": 5}}),
}


def loaded(model: Model, folder: Path) -> object:
    """The model as `transformers` reads it, with nothing missing and nothing left over."""
    export(model, folder, to="huggingface")
    theirs, told = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    return theirs.eval()


def padded(rows: list[Ids]) -> dict[str, torch.Tensor]:
    source = make_batch(rows, rows).sources["source"]
    return {"input_ids": source.ids[..., 0], "attention_mask": source.mask.long()}


def tokens_of(output: list[int]) -> Ids:
    """Without START, END and what follows it."""
    assert output[0] == START
    return tuple(output[1 : output.index(END)] if END in output else output[1:])


@pytest.mark.parametrize("case", CASES)
def test_logits_are_ours(case, tmp_path):
    texts, settings = CASES[case]
    model = random_model(texts=texts, **settings)
    theirs = loaded(with_other_parts(model) if "other parts" in case else model, tmp_path / "out")
    assert theirs.config.model_type == case.split(",")[0]
    rows = random_rows(texts.source.size, 20)
    targets = random_rows(texts.target.size, 20, seed=2)
    batch = make_batch(rows, targets)
    with torch.no_grad():
        said = theirs(**padded(rows), decoder_input_ids=batch.inputs).logits[batch.mask]
    ours = logits(model, rows, targets)[batch.mask]
    size = texts.target.size
    torch.testing.assert_close(said[:, :size], ours, atol=1e-4, rtol=0)
    assert said[:, size:].numel() == 0 or said[:, size:].max() < -1e8


def test_places_of_sines_and_cosines_are_those_of_marian():
    for width in (6, 7):
        theirs = MarianSinusoidalPositionalEmbedding(50, width).create_weight()
        torch.testing.assert_close(sinusoids(torch.arange(50), width).float()[:, half_and_half(width)], theirs)


@pytest.mark.parametrize("case", ["marian, target tied", "pegasus, more sources"])
def test_greedy_search_gives_our_outputs(case, tmp_path):
    texts, settings = CASES[case]
    model = random_model(texts=texts, seed=5, **settings)
    theirs = loaded(model, tmp_path / "out")
    rows = random_rows(texts.source.size, 100)
    ours = [hypothesis.tokens for hypothesis in searched(model, rows, beam=1)]
    outputs = theirs.generate(**padded(rows), num_beams=1, max_new_tokens=LIMIT).tolist()
    assert [tokens_of(output) for output in outputs] == ours
    assert len(set(ours)) >= 10


def test_a_beam_is_theirs_over_our_probabilities(tmp_path):
    texts, settings = CASES["marian, target tied"]
    model = random_model(texts=texts, seed=5, **settings)
    theirs = loaded(model, tmp_path / "out")
    rows = random_rows(texts.source.size, 30)
    found = theirs.generate(**padded(rows), early_stopping="never", return_dict_in_generate=True, output_scores=True)
    for row, output, score in zip(rows, found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
        expected, tokens = wide_beam(model, row, beam=4, forbidden_first=False)
        assert score == pytest.approx(expected, abs=1e-4)
        assert tokens_of(output) == tuple(token for token in tokens if token != END)


def test_a_beam_over_a_trained_model_gives_our_outputs(trained, tmp_path):
    """The two definitions differ only in what goes on when a hypothesis has ended; a sure model does not care."""
    model = trained.model
    theirs = loaded(model, tmp_path / "out")
    sources = toy_sources(100, seed=7)
    rows = [model.texts.source.encode(source).ids for source in sources]
    found = theirs.generate(**padded(rows), num_beams=4, return_dict_in_generate=True, output_scores=True)
    ours = [prediction.outputs[0] for prediction in model.predict_many(sources, beam=4)]
    for output, score, own in zip(found.sequences.tolist(), found.sequences_scores.tolist(), ours, strict=True):
        text = model.texts.target.decode(tokens_of(output))
        assert text == own.text or score == pytest.approx(own.score, abs=1e-4)


def test_settings_of_search_go_along(tmp_path):
    export(random_model(), tmp_path / "out", to="huggingface")
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert settings == {
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "decoder_start_token_id": 2,
        "num_beams": 4,
        "length_penalty": 1.0,
        "early_stopping": False,
        "max_new_tokens": LIMIT,
        "suppress_tokens": [0, 1, 2],
    }


def test_a_saved_copy_says_the_same(tmp_path):
    model = random_model(both={"norm": "post"})
    theirs = loaded(model, tmp_path / "out")
    theirs.save_pretrained(tmp_path / "copy")
    copy = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "copy").eval()
    rows = random_rows(model.texts.source.size, 4)
    inputs = {**padded(rows), "decoder_input_ids": torch.full((4, 1), START)}
    with torch.no_grad():
        torch.testing.assert_close(copy(**inputs).logits, theirs(**inputs).logits)

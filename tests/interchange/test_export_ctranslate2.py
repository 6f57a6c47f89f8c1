"""What CTranslate2 says of an exported folder is what our own model says."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from regard.data.batch import make_batch
from regard.errors import UsageError
from regard.interchange.export_tokenizer import token_names
from regard.interchange.exporting import export
from regard.recipe.texts import Texts
from regard.run.model import Model
from regard.special import END, PAD, START
from tests.interchange.models import (
    LIMIT,
    Ids,
    pocket_texts,
    random_model,
    random_rows,
    searched,
    wide_beam,
    with_other_parts,
)
from tests.toys import toy_sources

ctranslate2 = pytest.importorskip("ctranslate2")

ONE = pocket_texts("character")
TWO = Texts(source=pocket_texts("word", shared=False).source, target=ONE.target)

CASES = {
    "sinusoidal": {"tie": "all"},
    "sinusoidal, post": {"tie": "none", "both": {"norm": "post"}},
    "learned": {"both": {"positions": "learned", "longest": 130, "activation": "gelu", "score": "dot", "key_heads": 1}},
    "none": {"both": {"positions": "none", "norm": "post", "activation": "swiglu", "score": "bilinear"}},
    "relative": {"both": {"positions": "relative", "furthest": 3, "score": "bilinear", "key_heads": 1}},
    "relative, post": {"both": {"positions": "relative", "furthest": 20, "norm": "post", "score": "dot"}},
    "relative_bias": {"both": {"positions": "relative_bias", "furthest": 8, "buckets": 8, "norm": "post"}},
    "rotary": {"tie": "none", "both": {"positions": "rotary", "activation": "swiglu", "key_heads": 1}},
    "gates with biases": {"both": {"activation": "swiglu", "feedforward_bias": True}},
    "silu and geglu": {"encoder": {"activation": "silu"}, "decoder": {"activation": "geglu"}},
    "alibi in the decoder": {"decoder": {"positions": "alibi", "heads": 3}},
    "other parts": {"tie": "none"},
    "other sides": {
        "encoder": {"positions": "rotary", "norm": "post", "heads": 3, "layers": 1, "activation": "gelu"},
        "decoder": {"positions": "relative", "norm": "pre", "activation": "swiglu", "feedforward": 7},
    },
}


class Exported:
    """A folder as CTranslate2 reads it, asked in our ids."""

    def __init__(self, model: Model, folder: Path, quantisation: str | None = None) -> None:
        export(model, folder, to="ctranslate2", quantisation=quantisation)
        self.translator = ctranslate2.Translator(str(folder), intra_threads=1)
        self.source, self.target = token_names(model.texts.source), token_names(model.texts.target)
        self.ids = {name: id_ for id_, name in enumerate(self.target)}

    def scores(self, rows: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        sources, outputs = self.named(rows, self.source), self.named(targets, self.target)
        return [result.log_probs for result in self.translator.score_batch(sources, outputs)]

    def search(self, rows: Sequence[Ids], *, beam: int) -> list[tuple[float, Ids]]:
        """Score and tokens, as the README of the folder says."""
        found = self.translator.translate_batch(
            self.named(rows, self.source),
            beam_size=beam,
            patience=LIMIT,
            return_end_token=True,
            return_scores=True,
            min_decoding_length=0,
            max_decoding_length=LIMIT,
            disable_unk=True,
            suppress_sequences=[[self.target[PAD]], [self.target[START]]],
        )
        return [(one.scores[0], tuple(self.ids[name] for name in one.hypotheses[0])) for one in found]

    @staticmethod
    def named(rows: Sequence[Ids], names: Sequence[str]) -> list[list[str]]:
        return [[names[id_] for id_ in row] for row in rows]


def without_end(tokens: Ids) -> Ids:
    return tuple(token for token in tokens if token != END)


@pytest.mark.parametrize("case", CASES)
def test_log_probabilities_and_greedy_outputs_are_ours(case, tmp_path):
    texts = ONE if case == "sinusoidal" else TWO
    model = random_model(texts=texts, **CASES[case])
    model = with_other_parts(model) if case == "other parts" else model
    theirs = Exported(model, tmp_path / "out")
    rows = random_rows(texts.source.size, 100)
    targets = random_rows(texts.target.size, 100, seed=2)
    with torch.no_grad():
        ours = model.system.token_log_probabilities(make_batch(rows, targets))
    for said, own, target in zip(theirs.scores(rows, targets), ours.tolist(), targets, strict=True):
        assert said == pytest.approx(own[: len(target) + 1], rel=2e-5, abs=1e-4)
    outputs = [hypothesis.tokens for hypothesis in searched(model, rows, beam=1)]
    assert [without_end(tokens) for _, tokens in theirs.search(rows, beam=1)] == outputs
    assert len(set(outputs)) > 1


def test_a_beam_is_theirs_over_our_probabilities(tmp_path):
    model = random_model(texts=TWO)
    rows = random_rows(TWO.source.size, 40)
    for row, (score, tokens) in zip(rows, Exported(model, tmp_path / "out").search(rows, beam=4), strict=True):
        expected, best = wide_beam(model, row, beam=4, forbidden_first=True)
        assert score == pytest.approx(expected, abs=1e-4)
        assert tokens == best


def test_a_beam_over_a_trained_model_gives_our_outputs(trained, tmp_path):
    """The definitions differ in what goes on when a hypothesis has ended; a sure model does not care."""
    model = trained.model
    sources = toy_sources(100, seed=7)
    theirs = Exported(model, tmp_path / "out").search(
        [model.texts.source.encode(source).ids for source in sources], beam=4
    )
    ours = [prediction.outputs[0] for prediction in model.predict_many(sources, beam=4)]
    for (score, tokens), own in zip(theirs, ours, strict=True):
        assert model.texts.target.decode(tokens) == own.text or score == pytest.approx(own.score, abs=1e-4)


def test_positions_reach_as_far_as_the_run_reads(tmp_path):
    model = random_model(texts=TWO)
    rows, targets = random_rows(TWO.source.size, 2, longest=900, seed=4), random_rows(TWO.target.size, 2)
    with torch.no_grad():
        ours = model.system.token_log_probabilities(make_batch(rows, targets))
    for said, own in zip(Exported(model, tmp_path / "out").scores(rows, targets), ours.tolist(), strict=True):
        assert said == pytest.approx(own[: len(said)], abs=1e-4)


def test_quantised_weights_say_nearly_the_same(trained, tmp_path):
    model = trained.model
    rows = [model.texts.source.encode(source).ids for source in toy_sources(50, seed=7)]
    small = Exported(model, tmp_path / "small", "int8").search(rows, beam=1)
    ours = [hypothesis.tokens for hypothesis in searched(model, rows, beam=1)]
    same = sum(without_end(tokens) == own for (_, tokens), own in zip(small, ours, strict=True))
    assert same > 40
    export(model, tmp_path / "whole", to="ctranslate2")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("small", "whole")]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("quantisation", [None, "int8"])
def test_an_export_leaves_the_model_as_it_is(quantisation, tmp_path):
    model = random_model(tie="none")
    before = {name: parameter.clone() for name, parameter in model.system.named_parameters()}
    export(model, tmp_path / "out", to="ctranslate2", quantisation=quantisation)
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.system.named_parameters())


def test_an_unknown_quantisation_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no quantisation 'int3' in CTranslate2; choose int8, int8_float32"):
        export(random_model(), tmp_path / "out", to="ctranslate2", quantisation="int3")
    assert not list(tmp_path.iterdir())

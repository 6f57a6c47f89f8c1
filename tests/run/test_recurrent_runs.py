"""Whole runs of recurrent models whose memory is not the source item by item, or which have no attention at all."""

from pathlib import Path

import pytest
import torch

from regard.data.batch import make_batch
from regard.errors import UsageError
from regard.insight import cross_attention
from regard.recipe import recipe_from
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from regard.run.alignment import source_attention
from regard.run.reporting import model_facts
from regard.run.training import train

ENCODERS = {
    "reversed": {"kind": "rnn", "two_way": False, "reversed": True},
    "pyramid": {"kind": "rnn", "cell": "lstm", "pyramid": True},
    "plain": {"kind": "rnn"},
}


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_attention_is_told_over_the_source_in_its_own_order(name: str) -> None:
    section = ModelSection.model_validate({"width": 4, "encoder": ENCODERS[name], "decoder": {"kind": "rnn"}})
    system = build_system(section, source_vocabulary=9, target_vocabulary=9).eval()
    batch = make_batch([[4, 5, 6, 7], [8]], [[5, 6], [7]])
    for row, (items, length) in enumerate(((5, 3), (2, 2))):
        (told,) = source_attention(system, batch)[row]
        (raw,) = cross_attention(system, batch)[row]
        assert told.shape == (1, length, items)
        torch.testing.assert_close(told.sum(-1), torch.ones(1, length))
        if name == "reversed":
            torch.testing.assert_close(told, raw[..., :items].flip(-1))
        elif name == "pyramid":  # two items share what their position has; the last may stand alone
            expected = [raw[..., item // 2] / (1 if item == items - 1 and items % 2 else 2) for item in range(items)]
            torch.testing.assert_close(told, torch.stack(expected, dim=-1))
        else:
            torch.testing.assert_close(told, raw[..., :items])
            assert not raw[..., items:].any()


@pytest.mark.parametrize(
    ("wiring", "facts"), [("initial", "lstm, 2 layers, wiring initial"), ("luong", "lstm, 2 layers, wiring luong")]
)
def test_a_run_from_data_to_report(wiring: str, facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    letters = "abcdefgh"
    pairs = [(f"{one} {two}", f"{one} {two}".upper()) for one in letters for two in letters if one != two]
    records = (f'{{"source": "{source}", "target": "{target}", "alignment": "0-0 1-1"}}\n' for source, target in pairs)
    (tmp_path / "pairs.jsonl").write_text("".join(records), encoding="utf-8")
    recipe = recipe_from(
        {
            "run": str(tmp_path / "run"),
            "data": {
                "train": str(tmp_path / "pairs.jsonl"),
                "format": "jsonl",
                "source": "source",
                "target": "target",
                "split": 0.1,
            },
            "text": {"unit": "word", "shared": False},
            "model": {
                "width": 8,
                "encoder": {"kind": "rnn", "cell": "lstm", "two_way": False, "reversed": True},
                "decoder": {"kind": "rnn", "cell": "lstm", "wiring": wiring},
            },
            "training": {"steps": 3, "batch_tokens": 64},
            "evaluation": {"resamples": 0},
        }
    )
    trained = train(recipe)
    names = {score.name for score in trained.evaluations["test"].scores}
    assert ("alignment error" in names) is (wiring == "luong")
    told = dict(model_facts(trained.model))
    assert told["Decoder"] == facts
    assert told["Encoder"] == "reversed lstm, 2 layers"
    assert (tmp_path / "run" / "report.html").exists()
    if wiring == "initial":
        assert told["Reading of attention"] == "none: no attention to a source"
        with pytest.raises(
            UsageError, match=r"no attention to a source text to read an alignment from: .*decoder lstm, wiring initial"
        ):
            trained.model.align([("a b", "A B")])
    else:
        (picture,) = trained.model.align([("a b", "A B")])
        assert picture.weights.shape == (2, 2)

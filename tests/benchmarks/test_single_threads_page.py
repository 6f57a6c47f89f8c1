"""The figures of docs/bulk.md are those that were measured."""

import json

import pytest
import single_threads
import torch
from single_threads import ROOT, measured, table, with_table


def test_ratios_are_medians_of_those_within_pairs() -> None:
    figures = {"a model": [[0.9, 1.5], [1.2, 1.7], [0.7, 1.6]]}
    assert table(figures).splitlines()[2:] == ["| a model | 0.90 (0.70 to 1.20) | 1.60 |"]


def test_the_page_says_what_was_measured() -> None:
    page = (ROOT / "docs/bulk.md").read_text(encoding="utf-8")
    figures = json.loads((ROOT / "benchmarks/single_threads.json").read_text())
    assert with_table(page, figures) == page


@pytest.mark.parametrize("name", ["Transformer 4+4, width 128", "LSTM, additive attention, width 128"])
def test_both_kinds_of_model_can_be_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_threads, "PAIRS", 2)
    monkeypatch.setattr(single_threads, "SENTENCES", 1)
    before = torch.get_num_threads()
    try:
        pairs = measured(name)
    finally:
        torch.set_num_threads(before)
    assert len(pairs) == 2
    assert all(ratio > 0 for pair in pairs for ratio in pair)

"""The benchmark of growing lengths runs, and its fits and counts are right where the answer is known."""

import importlib
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def complexity(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("complexity")


@pytest.fixture
def page(complexity: ModuleType) -> ModuleType:
    return importlib.import_module("complexity_page")


@pytest.mark.parametrize("slope", [0.0, 1.0, 1.5, 2.0])
def test_a_power_is_found_exactly(page: ModuleType, slope: float) -> None:
    lengths = [64 * 2**power for power in range(7)]
    fit = page.fitted(lengths, [3e-6 * length**slope for length in lengths])
    assert fit.slope == pytest.approx(slope, abs=1e-12)
    assert fit.error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("count", [5, 6, 7])
def test_slope_and_error_are_those_of_least_squares(page: ModuleType, count: int) -> None:
    noise = np.exp(np.random.default_rng(count).normal(0, 0.1, count))
    lengths = 64.0 * 2.0 ** np.arange(count)
    values = 1e-3 * lengths**1.7 * noise
    used = (count + 1) // 2
    line, covariance = np.polyfit(np.log(lengths[-used:]), np.log(values[-used:]), 1, cov="unscaled")
    rest = np.log(values[-used:]) - np.polyval(line, np.log(lengths[-used:]))
    fit = page.fitted(list(lengths), list(values))
    assert fit.slope == pytest.approx(line[0])
    assert fit.error == pytest.approx(np.sqrt(covariance[0, 0] * (rest**2).sum() / (used - 2)))


def test_the_linear_term_hides_in_the_lower_half_only(page: ModuleType) -> None:
    lengths = [2**power for power in range(5, 19)]
    fit = page.fitted(lengths, [1000 * length + length**2 for length in lengths])
    assert 1.8 < fit.slope < 2


@pytest.mark.parametrize(("value", "label"), [(2.5e-5, "25 µs"), (1e-3, "1 ms"), (0.0123, "12.3 ms"), (1.0, "1 s")])
def test_labels_of_times(page: ModuleType, value: float, label: str) -> None:
    assert page.seconds_label(value) == label


@pytest.mark.parametrize(("value", "label"), [(5e3, "5 kB"), (1e6, "1 MB"), (10.0**9, "1 GB"), (2.53e9, "2.53 GB")])
def test_labels_of_sizes(page: ModuleType, value: float, label: str) -> None:
    assert page.bytes_label(value) == label


def test_the_peak_is_the_most_that_is_held_at_once(complexity: ModuleType) -> None:
    def run() -> None:
        torch.empty(3_000_000, dtype=torch.uint8)
        kept = [torch.empty(1_000_000, dtype=torch.uint8) for _ in range(2)]
        del kept[0]
        torch.empty(500_000, dtype=torch.uint8)

    assert complexity.peak_bytes(run) == pytest.approx(3_000_000, rel=0.01)


@pytest.mark.parametrize(("name", "slope"), [("dot attention, fused", 1.0), ("dot attention, explicit", 2.0)])
def test_memory_of_the_two_paths_of_attention(
    complexity: ModuleType, page: ModuleType, name: str, slope: float
) -> None:
    case = next(case for case in complexity.CASES if case.name == name)
    lengths = [256, 512, 1024]
    fit = page.fitted(lengths, [complexity.peak_bytes(case.make(length)) for length in lengths])
    assert fit.slope == pytest.approx(slope, abs=0.2)


def test_explicit_and_fused_passes_have_the_same_gradients(complexity: ModuleType) -> None:
    found = []
    for explicit in (False, True):
        system = complexity.system_of(complexity.TRANSFORMER, complexity.TRANSFORMER)
        torch.manual_seed(2)
        batch = complexity.make_batch(complexity.rows_of(6), complexity.rows_of(5))
        with complexity.path(explicit=explicit):
            system.loss(batch).sum.backward()
        found.append([parameter.grad for parameter in system.parameters()])
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(*found, strict=True))


def test_all_cases_are_measured_and_shown(
    complexity: ModuleType, page: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(complexity, "SHORTEST", 2)
    monkeypatch.setattr(complexity, "ROUNDS", 1)
    found = complexity.measure([replace(case, longest=8) for case in complexity.CASES], resident=False)
    assert all(figures.lengths == [2, 4, 8] for figures in found)
    assert all(value > 0 for figures in found for value in figures.seconds)
    assert all((value > 0) == (figures.group != "step") for figures in found for value in figures.bytes)
    (tmp_path / "complexity.md").write_text("before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n")
    measures = [asdict(figures) for figures in found]
    page.write_page({"machine": "M", "rows": 2, "width": 64, "minutes": 1, "measures": measures}, tmp_path)
    text = (tmp_path / "complexity.md").read_text()
    assert text.startswith("before\n<!-- figures -->\n")
    assert text.endswith("\n<!-- /figures -->\nafter\n")
    assert "old" not in text
    drawn = "".join(ElementTree.parse(tmp_path / "complexity.svg").getroot().itertext())
    assert all(figures.name in drawn and f"| {figures.name} |" in text for figures in found)


def test_the_page_in_docs_is_that_of_the_figures(complexity: ModuleType, page: ModuleType, tmp_path: Path) -> None:
    """Nobody edits tables by hand, and a new figure comes with a new picture."""
    record = complexity.json.loads(complexity.FIGURES.read_text(encoding="utf-8"))
    before = (complexity.DOCS / "complexity.md").read_text(encoding="utf-8")
    (tmp_path / "complexity.md").write_text(before, encoding="utf-8")
    page.write_page(record, tmp_path)
    assert (tmp_path / "complexity.md").read_text(encoding="utf-8") == before
    drawn = (complexity.DOCS / "complexity.svg").read_text(encoding="utf-8")
    assert (tmp_path / "complexity.svg").read_text(encoding="utf-8") == drawn

"""The benchmarks of growth and of estimates: small sizes are measured and shown, and the arithmetic is by hand."""

import importlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("growth")


@pytest.fixture
def page(growth: ModuleType) -> ModuleType:
    return importlib.import_module("growth_page")


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("estimate")


def test_small_sizes_are_measured_and_shown(
    growth: ModuleType, page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "ROUNDS", 1)
    monkeypatch.setattr(growth, "TOKENS", 64)
    small = {"corpus": 64, "length": 4, "vocabulary": 32, "beam": 1, "width": 8}
    cases = [replace(case, sizes=growth.doubled(small[case.what], 3)) for case in growth.CASES]
    found = growth.measure(cases)
    assert all(value > 0 for one in found for value in one.bytes)
    base = {**growth.BASE, "width": 16, "layers": 1, "vocabulary": 64, "tokens": 64}
    measures = [asdict(one) | {"seconds": [max(value, 1e-6) for value in one.seconds]} for one in found]
    record = {"machine": "M", "minutes": 1, "tokens": 64, "base": growth.base_pass(base), "measures": measures}
    marks = "before\n<!-- figures -->\n<!-- /figures -->\nbetween\n<!-- paper -->\nold\n<!-- /paper -->\nafter\n"
    (tmp_path / "growth.md").write_text(marks, encoding="utf-8")
    page.write_page(json.loads(json.dumps(record)), tmp_path)
    text = (tmp_path / "growth.md").read_text(encoding="utf-8")
    assert "\nold\n" not in text
    assert text.startswith("before\n<!-- figures -->\nMeasured by")
    drawn = "".join(ElementTree.parse(tmp_path / "growth.svg").getroot().itertext())
    assert all(one.name in drawn and f"| {one.name} |" in text for one in found)


def test_operations_of_transformer_base(page: ModuleType) -> None:
    """By hand: 6 · (6 · 12 · 512² + 6 · 16 · 512² + 512 · 37,000); the weights of the products are 63 M."""
    weights = 6 * (4 * 512**2 + 2 * 512 * 2048) + 6 * (8 * 512**2 + 2 * 512 * 2048) + 512 * 37_000
    assert page.operations(512, 6, 37_000) == 6 * weights == 377_905_152


@pytest.mark.parametrize(("seconds", "told"), [(600, "10 minutes"), (43_200, "12 hours"), (864_000, "10 days")])
def test_days(page: ModuleType, seconds: float, told: str) -> None:
    assert page.days(seconds) == told


def test_estimates_are_shown_beside_what_was(estimates: ModuleType, tmp_path: Path) -> None:
    row = {
        "recipe": "tiny",
        "steps": 1200,
        "estimated": {"seconds": 66.0, "memory": 570e6, "trial": 10.2},
        "trained": {"seconds": 60.0, "memory": 600e6},
    }
    assert estimates.told(row) == "| `tiny` | 1,200 | 10 s | 66 s | 60 s | +10% | 570 MB | 600 MB | -5% |"
    assert estimates.told({**row, "recipe": "tiny:bfloat16"}).startswith("| `tiny`, bfloat16 | 1,200 |")
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- figures -->\nold\n<!-- /figures -->\nb\n", encoding="utf-8")
    record = {"machine": "M", "cpu": False, "threads": 2, "seconds": 30.0, "rows": [row]}
    estimates.write_page(record, path)
    text = path.read_text(encoding="utf-8")
    assert "off by 10%; the bound is 20%" in text
    assert text.endswith("\n<!-- /figures -->\nb\n")
    recipes = {name.partition(":")[0] for name in estimates.STEPS}
    assert recipes <= {file.stem for file in (ROOT / "recipes").glob("*.yaml")}

"""The pages of back-translation and scheduled sampling: what they say follows from the figures."""

import random
from typing import Any

import backtranslation
import pytest
import scheduled_sampling

from regard.metrics.spread import spread
from regard.recipe import parse_recipe
from regard.run.grid import parse_grid


def gained(difference: float, low: float) -> dict[str, Any]:
    gain = {"first": 20.0, "other": 20.0 + difference, "difference": difference, "low": low, "high": difference + 1}
    gain |= {"p_value": 0.001, "signature": "s", "count": 1000}
    run = {"scores": {"test": {"BLEU": 25.0}}, "steps": 1200, "minutes": 12.3}
    made = {"lines": 20000, "kept": 19990, "dropped": {"empty outputs": 10}}
    one = {"translated": made, "mixture": {"copies": 4.0, "share": 0.5}, "final": run, "gains": {"BLEU": gain}}
    return {"baseline": run, "reverse": run, "rounds": [one]}


@pytest.mark.parametrize(
    ("difference", "low", "told"), [(3.0, 2.0, ": met"), (1.0, 0.5, ": not met"), (2.0, -0.1, ": not met")]
)
def test_a_gain_is_judged_by_size_and_interval(difference: float, low: float, told: str) -> None:
    page = backtranslation.page(gained(difference, low))
    assert f"its interval above 0{told}." in page
    assert f"| BLEU | 20.00 | {20 + difference:.2f} | +{difference:.2f} | {low:+.2f} to" in page
    assert "19,990 of 20,000 sentences became synthetic pairs; left out: 10 empty outputs." in page


def test_the_recipes_are_recipes() -> None:
    assert parse_recipe(backtranslation.RECIPE, "r").evaluation.tokenize == "none"
    grid = parse_grid([f"training.objective.sampling={','.join(scheduled_sampling.WAYS.values())}"])
    assert len(grid.combinations) == 3
    for name, layers, (encoder, decoder) in scheduled_sampling.MODELS.values():
        text = scheduled_sampling.RECIPE.format(name=name, layers=layers, encoder=encoder, decoder=decoder)
        recipes = [parse_recipe(text, name, one.settings) for one in grid.combinations]
        decays = [recipe.training.objective.sampling for recipe in recipes]
        assert [decay and decay.decay for decay in decays] == [None, "inverse_sigmoid", "always"]


def test_differences_are_taken_on_the_same_seed() -> None:
    def entry(*values: float) -> dict[str, Any]:
        found = spread(values).to_json()
        return {"validation": found, "test": {"BLEU": found, "exact": found}}

    ways = {
        "teacher forcing": entry(50, 60, 70),
        "scheduled sampling": entry(51, 59, 70.5),
        "always sampling": entry(45, 54.9, 65.2),
    }
    record = {"seeds": 3, "models": {"GRU with attention": ways}}
    assert scheduled_sampling.difference(ways, "always sampling").values == pytest.approx((-5, -5.1, -4.8))
    below, unclear = scheduled_sampling.verdicts(record)
    assert below.startswith("GRU with attention: always sampling is clearly below teacher forcing (BLEU -4.967 ±")
    assert "scheduled sampling is not told apart from teacher forcing" in unclear
    page = scheduled_sampling.page(record)
    assert "| teacher forcing | 60.00 ± 24.84 | 60.00 ± 24.84 | 60.00 ± 24.84 |  |" in page


def test_noise_leaves_a_word_and_changes_about_as_many_as_it_says() -> None:
    draw = random.Random(1)
    line = " ".join(f"w{number}" for number in range(20))
    lines = [scheduled_sampling.noisy(line, ["x"], draw).split() for _ in range(500)]
    words = sum(map(len, lines))
    assert words / 10000 == pytest.approx(0.9, abs=0.02)
    assert sum(word == "x" for one in lines for word in one) / words == pytest.approx(0.1, abs=0.02)
    assert all(scheduled_sampling.noisy("a", ["x"], draw) in ("a", "x") for _ in range(100))

"""Objectives and noise in a recipe: what is built of them, and what is refused."""

import re
from pathlib import Path
from typing import Any

import pytest

from regard.data.corruption import Corruption
from regard.errors import RecipeError
from regard.recipe import commented_recipe, dump_recipe, parse_recipe, recipe_from
from regard.recipe.objectives import build_corruption, build_objective
from regard.training.decay import ExponentialDecay, InverseSigmoidDecay, LinearDecay, NoTruth
from regard.training.objective import Likelihood, Objective
from regard.training.rdrop import RDrop
from regard.training.sampled_inputs import ScheduledSampling
from tests.recipe.test_recipe_shapes import (
    ACCEPTOR,
    CATEGORY,
    FACTORED,
    LANGUAGE,
    MASKED,
    PAIRS,
    PICTURES,
    RATER,
    TRANSDUCER,
    changed,
)

PLAIN = Likelihood(smoothing=0.1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, PLAIN),
        ({"rdrop": 2.5}, RDrop(weight=2.5, smoothing=0.1)),
        (
            {"sampling": {"decay": "linear", "slope": 1e-4, "floor": 0.25}},
            ScheduledSampling(inner=PLAIN, decay=LinearDecay(slope=1e-4, floor=0.25)),
        ),
        (
            {"sampling": {"decay": "linear", "slope": 1e-4, "k": 1.5}},
            ScheduledSampling(inner=PLAIN, decay=LinearDecay(slope=1e-4, offset=1.5)),
        ),
        (
            {"sampling": {"decay": "exponential", "k": 0.999, "draw": "best"}},
            ScheduledSampling(inner=PLAIN, decay=ExponentialDecay(base=0.999), draw="best"),
        ),
        (
            {"sampling": {"decay": "inverse_sigmoid", "k": 500}, "rdrop": 1.0},
            ScheduledSampling(inner=RDrop(weight=1.0, smoothing=0.1), decay=InverseSigmoidDecay(k=500.0)),
        ),
        ({"sampling": {"decay": "always"}}, ScheduledSampling(inner=PLAIN, decay=NoTruth())),
    ],
)
def test_objectives_are_built(settings: dict[str, Any], expected: Objective) -> None:
    recipe = recipe_from(changed(PAIRS, {"training.objective": settings}))
    assert build_objective(recipe) == expected
    assert parse_recipe(dump_recipe(recipe), "r") == recipe
    assert parse_recipe(commented_recipe(recipe, heading="r"), "r") == recipe


def test_noise_is_built() -> None:
    assert build_corruption(recipe_from(PAIRS)) is None
    settings = {"drop": 0.1, "swap": 3, "replace": 0.05, "mask": 0.1, "word_dropout": 0.2}
    recipe = recipe_from(changed(PAIRS, {"training.corruption": settings}))
    assert build_corruption(recipe) == Corruption(drop=0.1, swap=3, replace=0.05, mask=0.1, word_dropout=0.2)
    assert parse_recipe(dump_recipe(recipe), "r") == recipe


def test_settings_can_be_given_on_the_command_line() -> None:
    recipe = recipe_from(
        PAIRS, ["training.objective.sampling={decay: exponential, k: 0.99}", "training.corruption.swap=3"]
    )
    assert recipe.training.objective.sampling is not None
    assert recipe.training.objective.sampling.k == 0.99
    assert recipe.training.corruption.swap == 3


def test_a_section_that_is_not_there_can_be_entered() -> None:
    recipe = recipe_from(PAIRS, ["training.objective.sampling.decay=linear", "training.objective.sampling.slope=0.01"])
    assert build_objective(recipe) == ScheduledSampling(inner=PLAIN, decay=LinearDecay(slope=0.01))


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        (LANGUAGE, {"training.objective": {"sampling": {"decay": "always"}, "rdrop": 1}}),
        (LANGUAGE, {"training.corruption": {"word_dropout": 0.3}}),
        (CATEGORY, {"training.corruption": {"word_dropout": 0.3}}),
        (PICTURES, {"training.objective": {"sampling": {"decay": "always"}}}),
        (TRANSDUCER, {"training.objective": {"rdrop": 1}, "training.corruption": {"replace": 0.1, "mask": 0.1}}),
        (MASKED, {"training.objective": {"rdrop": 1}}),
        (ACCEPTOR, {"training.objective": {"rdrop": 1}, "training.corruption": {"drop": 0.1, "swap": 2}}),
        (RATER, {"training.label_smoothing": 0.0, "training.corruption": {"mask": 1.0}}),
        (FACTORED, {"training.corruption": {"drop": 0.1, "swap": 2, "mask": 0.1, "replace": 0.9}}),
    ],
)
def test_what_works_is_accepted(recipe: dict[str, Any], changes: dict[str, Any]) -> None:
    recipe_from(changed(recipe, changes))


SAMPLING = "training.objective"
NOISE = "training.corruption"


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        *(
            (
                recipe,
                {SAMPLING: {"sampling": {"decay": "always"}}},
                "`training.objective.sampling` lets a decoder read its own output, and `shape: "
                f"{recipe['model']['shape']}` has no decoder: leave it out",
            )
            for recipe in (ACCEPTOR, TRANSDUCER, MASKED)
        ),
        (
            RATER,
            {SAMPLING: {"rdrop": 1.0}, "training.label_smoothing": 0.0},
            "`training.objective.rdrop` compares distributions, and a number is none: leave it out",
        ),
        (
            PAIRS,
            {SAMPLING: {"rdrop": 1.0}, "model.dropout": 0.0},
            "`training.objective.rdrop` compares two draws of dropout, and `model.dropout` is 0: raise that, or leave "
            "`rdrop` out",
        ),
        (PAIRS, {SAMPLING: {"rdrop": -1.0}}, "training.objective.rdrop: found -1.0; allowed: a number"),
        *(
            (
                PAIRS,
                {SAMPLING: {"sampling": {"decay": decay, **own, name: 0.5}}},
                f"`{name}` has no effect on `decay: {decay}`: leave it out",
            )
            for decay, own, names in (
                ("always", {}, ("k", "slope", "floor")),
                ("exponential", {"k": 0.9}, ("slope", "floor")),
                ("inverse_sigmoid", {"k": 9}, ("slope", "floor")),
            )
            for name in names
        ),
        (
            PAIRS,
            {SAMPLING: {"sampling": {"decay": "linear"}}},
            "`decay: linear` needs a `slope`; 0.0001 goes from 1 to 0 in 10,000 updates",
        ),
        *(
            (
                PAIRS,
                {SAMPLING: {"sampling": {"decay": "exponential", **own}}},
                f"`decay: exponential` is k^i and needs a `k` below 1, such as 0.9999; found {found}",
            )
            for own, found in (({}, "None"), ({"k": 1.5}, "1.5"))
        ),
        *(
            (
                PAIRS,
                {SAMPLING: {"sampling": {"decay": "inverse_sigmoid", **own}}},
                f"`decay: inverse_sigmoid` needs a `k` of at least 1, such as 500; found {found}",
            )
            for own, found in (({}, "None"), ({"k": 0.5}, "0.5"))
        ),
        (
            PAIRS,
            {SAMPLING: {"sampling": {"decay": "sigmoid"}}},
            "allowed: linear, exponential, inverse_sigmoid or always",
        ),
        (PAIRS, {SAMPLING: {"sampling": {}}}, "training.objective.sampling.decay: missing"),
        (PAIRS, {NOISE: {"drop": 1.0}}, "training.corruption.drop: found 1.0"),
        (PAIRS, {NOISE: {"replace": 0.6, "mask": 0.5}}, "`replace` 0.6 and `mask` 0.5 are more than all together"),
        *(
            (
                recipe,
                {NOISE: {"drop": 0.1}},
                "`training.corruption.drop` acts on the text of a source, and there is none: leave it out",
            )
            for recipe in (LANGUAGE, CATEGORY, PICTURES)
        ),
        (
            LANGUAGE,
            {NOISE: {"swap": 2, "mask": 0.1}},
            "`training.corruption.swap`, `training.corruption.mask` act on the text of a source, and there is none: "
            "leave them out",
        ),
        (
            MASKED,
            {NOISE: {"mask": 0.1}},
            "`training.corruption.mask` acts on the source, which a masked language model is also asked for; what it "
            "hides is set in `training.masking`: leave it out",
        ),
        (
            TRANSDUCER,
            {NOISE: {"drop": 0.1, "swap": 2, "mask": 0.1}},
            "`training.corruption.drop`, `training.corruption.swap` would part words from their tags: leave them out; "
            "`replace` and `mask` work",
        ),
        *(
            (
                recipe,
                {NOISE: {"word_dropout": 0.1}},
                "`training.corruption.word_dropout` is for what a decoder reads, and `shape: "
                f"{recipe['model']['shape']}` has no decoder: leave it out",
            )
            for recipe in (ACCEPTOR, TRANSDUCER, MASKED)
        ),
        (
            PAIRS,
            {NOISE: {"word_dropout": 0.1}, SAMPLING: {"sampling": {"decay": "always"}}},
            "`training.corruption.word_dropout` hides true inputs, and with `sampling.decay: always` there are none: "
            "leave one of them out",
        ),
    ],
)
def test_what_cannot_work_is_refused(recipe: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe_from(changed(recipe, changes))
    assert message in str(caught.value)


def test_the_examples_of_the_page_on_training_work() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    own = [part for part in page.split("\n## ") if part.startswith(("What is learned", "Noise"))]
    blocks = [block for part in own for block in re.findall(r"```yaml\n(.*?)```", part, flags=re.DOTALL)]
    assert len(blocks) == 3
    for block in blocks:
        recipe = parse_recipe(f"data: {{train: a.tsv}}\n{block}", "r")
        assert (build_objective(recipe), build_corruption(recipe)) != (PLAIN, None)

"""What `regard new TASK` writes can be trained as it is, on data of the layout that it tells."""

from pathlib import Path

import pytest

from regard.recipe import load_recipe, new_recipe, tasks
from regard.run.training import train
from tests.pictures import drawn
from tests.toy_shapes import shape_lines
from tests.toys import toy_pairs

SHAPES = {
    "language": "language",
    "tagging": "transducer",
    "classification": "acceptor",
    "rating": "rater",
    "generation": "category",
    "pretraining": "language",
}
SMALL = ("training.steps=2", "training.validate_every=2", "model.width=16", "model.layers=1", "evaluation.resamples=5")


def lines_for(task: str) -> list[str]:
    """Data as the heading of the template describes it."""
    if task == "translation":
        return [f"{source}\t{target}" for source, target in toy_pairs(120)]
    if task == "inflection":
        return [f"{source.replace(' ', '')}\t{target.replace(' ', '')}\tV;PST" for source, target in toy_pairs(120)]
    if task == "captioning":
        return [f"{name}\t{caption} {number}" for number, (name, caption) in enumerate(drawn(Path(), 60))]
    return [line for line in dict.fromkeys(shape_lines(SHAPES[task], 400)) if line][:120]


@pytest.mark.parametrize("task", tasks())
def test_a_template_trains(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"{task}.yaml"
    path.write_text(new_recipe(task), encoding="utf-8")
    named = load_recipe(path).data.train
    assert isinstance(named, str)
    Path(named).write_text("".join(f"{line}\n" for line in lines_for(task)), encoding="utf-8")
    trained = train(load_recipe(path, SMALL))
    assert trained.outcome.progress.step == 2
    assert trained.evaluations["test"].scores
    assert trained.ledger.counts == {}

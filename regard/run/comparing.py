"""Systems beside each other on one test set: run folders, which are asked, and files of outputs, which are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.data import Ledger
from regard.data.example import Example
from regard.data.lines import read_lines
from regard.errors import DataError, UsageError
from regard.metrics import MeteorSources, metric
from regard.metrics.named import OF_LISTS, OF_SOURCES
from regard.metrics.significance import Comparison, Outputs, compare_with_first
from regard.run.folder import RunFolder
from regard.run.joint import load_joint
from regard.run.model import Evaluation, Model
from regard.run.sets import read_set

USUAL = ("BLEU", "chrF", "TER")
"""What files of outputs are compared by, if nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What systems are compared by. What is left out is as in the first run's recipe, whose keys `meteor` has."""

    metrics: tuple[str, ...] = ()
    tokenize: str | None = None
    meteor: Mapping[str, str] = field(default_factory=dict)
    resamples: int = 1000
    trials: int = 1000
    seed: int = 12345


@dataclass(frozen=True, slots=True)
class TestSet:
    """References of each segment, and sources where they are known."""

    __test__ = False

    name: str
    references: Sequence[Sequence[str]]
    examples: Sequence[Example] | None = None


def compare_runs(
    systems: Sequence[str],
    *,
    references: Sequence[str] = (),
    pairs: Sequence[str] = (),
    measures: Measures | None = None,
    beam: int | None = None,
    ledger: Ledger | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[TestSet, list[Comparison]]:
    """Compare systems with the first of them.

    `systems` are run folders, ensembles (`runs/a+runs/b`) or files with an output in each line. Runs answer the sources
    of `pairs`, or of the first run's own test set; files of outputs need `references` (one or more files, a line for
    each segment) or `pairs`. `tell` hears what a run has cut or could not read.
    """
    if len(systems) < 2:
        raise UsageError(f"{len(systems)} system was given: a comparison needs 2 or more")
    measures = measures or Measures()
    models = {name: load_joint(runs) for name in dict.fromkeys(systems) if (runs := runs_of(name))}
    _refuse_without_outputs(models)
    first = next(iter(models.values()), None)
    if first is None and not references:
        raise UsageError("files of outputs are compared by their references: name them with --reference FILE")
    if references and (models or pairs):
        raise UsageError(
            "references stand beside files of outputs only; runs need sources as well: give --pairs FILE instead"
        )
    test = _read_references(references) if first is None else _read_pairs(first, pairs, ledger)
    names = measures.metrics or (first.recipe.evaluation.metrics if first is not None else USUAL)
    if measures.meteor and "METEOR" not in names:
        raise UsageError(
            f"{', '.join(measures.meteor)} can only have an effect on METEOR; ask for --metric METEOR, too"
        )
    if beam is not None and not models:
        raise UsageError(
            f"a beam ({beam}) can only have an effect on runs, and these are files of outputs: leave it out"
        )
    if models and (lists := [name for name in names if name in OF_LISTS]):
        raise UsageError(f"{', '.join(lists)} judge several answers, and runs are compared by one: take another metric")
    tokenize = measures.tokenize or (first.recipe.evaluation.tokenize if first is not None else "13a")
    meteor = {} if first is None else first.recipe.evaluation.meteor.model_dump()
    sources = MeteorSources(**{**meteor, **measures.meteor})
    metrics = [metric(name, tokenize=tokenize, meteor=sources) for name in names]
    outputs = [_outputs(name, models.get(name), test, beam, tell) for name in systems]
    found = []
    for name, own in zip(names, metrics, strict=True):
        found += compare_with_first(
            own,
            outputs,
            _references_for(name, test),
            resamples=measures.resamples,
            trials=measures.trials,
            seed=measures.seed,
        )
    return test, found


def _refuse_without_outputs(models: Mapping[str, Model]) -> None:
    for name, model in models.items():
        if (shape := model.recipe.model.shape) in ("language-model", "masked-language-model"):
            raise UsageError(
                f"{name}: a model of shape {shape} has no outputs to compare with references; `regard evaluate` tells "
                "how well it predicts given texts, with an interval"
            )


def runs_of(system: str) -> list[str]:
    """The run folders of a system: one, or those of an ensemble between plus signs; none for a file of outputs."""
    if Path(system).is_dir():
        return [system]
    runs = system.split("+")
    return runs if not Path(system).exists() and all(Path(run).is_dir() for run in runs) else []


def own_test_set(model: Model) -> tuple[str, ...]:
    """The files of a run's test set: those of its recipe, or what was split off its training data."""
    named = model.recipe.data.test
    if named is not None:
        return (named,) if isinstance(named, str) else tuple(named)
    split_off = RunFolder(model.folder).data / "test.jsonl"
    if not split_off.is_file():
        raise UsageError(f"{model.folder}: the run has no test set any more; give one with --pairs FILE")
    return (str(split_off),)


def read_outputs(path: str) -> list[str]:
    """The lines of a file of outputs; an empty line is an empty output."""
    return list(read_lines(path))


def _read_references(files: Sequence[str]) -> TestSet:
    columns = [read_outputs(file) for file in files]
    for file, column in zip(files, columns, strict=True):
        if len(column) != len(columns[0]):
            raise DataError(
                f"{files[0]} has {len(columns[0]):,} lines and {file} has {len(column):,}: references of a set have a "
                "line for each segment"
            )
    return TestSet(" + ".join(files), [list(texts) for texts in zip(*columns, strict=True)])


def _read_pairs(model: Model, pairs: Sequence[str], ledger: Ledger | None) -> TestSet:
    files = tuple(pairs) or own_test_set(model)
    examples = read_set(model.recipe, files, ledger)
    return TestSet(" + ".join(files), [[example.target] for example in examples], examples)


def _references_for(name: str, test: TestSet) -> Sequence[Sequence[str]]:
    if name in OF_SOURCES and test.examples is not None:
        return [[example.source] for example in test.examples]
    return test.references


def _outputs(name: str, model: Model | None, test: TestSet, beam: int | None, tell: Callable[[str], None]) -> Outputs:
    if model is None:
        return Outputs(name, read_outputs(name))
    assert test.examples is not None
    predictions = tuple(model.predict_many((example.source for example in test.examples), beam=beam))
    for note in Evaluation(tuple(test.examples), (), predictions).notes:
        tell(f"{name}: {note}")
    return Outputs(name, [prediction.text for prediction in predictions])

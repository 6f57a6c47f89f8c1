"""What a finished run shows: `metrics.json`, the model card and `report.html`; `live` writes the latter before that."""

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from regard.files import replace_file
from regard.recipe import dump_recipe
from regard.recipe.describe import describe
from regard.recipe.schema import Recipe
from regard.report import (
    AlignmentPicture,
    CardData,
    Early,
    Facts,
    LogHistory,
    LogSample,
    ReportData,
    Sample,
    SetScore,
    read_log,
    render_card,
    render_report,
)
from regard.run.alignment import gold_links
from regard.run.folder import RunFolder
from regard.run.model import Evaluation, Model
from regard.run.preparation import Prepared
from regard.run.validation import judged_by
from regard.text import Tokenizer
from regard.training import Progress

PICTURES = 6
STAGES = 6
"""Outputs of as many validations are shown for a source."""
PIPELINE = {
    "translation": "translation",
    "inflection": "text2text-generation",
    "language": "text-generation",
    "generation": "text-generation",
    "tagging": "token-classification",
    "classification": "text-classification",
    "rating": "text-classification",
    "captioning": "image-to-text",
    "pretraining": "fill-mask",
}


def write_results(
    folder: RunFolder, model: Model, prepared: Prepared, evaluations: Mapping[str, Evaluation], progress: Progress
) -> None:
    """Write everything that tells how good the model of a run is."""
    folder.write_json(folder.metrics, metrics_record(evaluations))
    report = report_data(folder, model, prepared, evaluations, progress)
    replace_file(folder.report, render_report(report).encode())
    replace_file(folder.card, render_card(card_data(model, report, evaluations, progress)).encode())


def metrics_record(evaluations: Mapping[str, Evaluation]) -> dict[str, object]:
    """`metrics` are the scores on the test set; further sets stand beside them by name."""

    def scores(evaluation: Evaluation) -> dict[str, object]:
        return {score.name: score.to_json() for score in evaluation.scores}

    further = {name: scores(evaluation) for name, evaluation in evaluations.items() if name != "test"}
    return {"format": 1, "metrics": scores(evaluations["test"]), "further": further}


def report_data(
    folder: RunFolder, model: Model, prepared: Prepared, evaluations: Mapping[str, Evaluation], progress: Progress
) -> ReportData:
    """Collect what the page shows."""
    history = read_log(folder.log)
    return ReportData(
        title=f"{model.recipe.task}: {folder.path.name}",
        run=str(folder.path),
        recipe=dump_recipe(model.recipe),
        facts=[*model_facts(model), *start_facts(history)],
        data=[*data_facts(model.recipe, prepared), ("Chosen by", judged_by(model, len(prepared.valid_examples)))],
        findings=prepared.ledger.summary().splitlines(),
        training=history.training,
        validation=history.validation,
        best_step=progress.best_step or None,
        scores=[SetScore(set_name=name, score=score) for name, each in evaluations.items() for score in each.scores],
        samples=samples(evaluations["test"], model.recipe.evaluation.samples),
        alignments=pictures(model, evaluations["test"]),
        notes=notes(evaluations),
        cautions=history.warnings,
        early=early_outputs(history.samples),
    )


def early_outputs(shown: Sequence[LogSample], most: int = STAGES) -> list[Early]:
    """What was written for each source at up to `most` validations, the first and the last among them."""
    by_source: dict[tuple[str, str | None], list[tuple[int, str]]] = {}
    for one in shown:
        by_source.setdefault((one.source, one.reference), []).append((one.step, one.output))
    return [
        Early(source=source, reference=reference, outputs=_spread(outputs, most))
        for (source, reference), outputs in by_source.items()
    ]


def _spread(outputs: Sequence[tuple[int, str]], most: int) -> list[tuple[int, str]]:
    """Some of them, more from the beginning, where outputs change most: 1, 2, 4, 8, … and the last."""
    last = len(outputs) - 1
    if last < most:
        return list(outputs)
    places = {0, *(round(last ** (place / (most - 2))) for place in range(most - 1))}
    return [outputs[place] for place in sorted(places)]


def samples(evaluation: Evaluation, count: int) -> list[Sample]:
    """The first outputs of a set: neither the best nor the worst."""
    return [
        Sample(
            source=example.source,
            reference=example.target,
            output=prediction.text,
            log_probability=prediction.log_probability,
        )
        for example, prediction in zip(evaluation.examples[:count], evaluation.predictions, strict=False)
    ]


def pictures(model: Model, evaluation: Evaluation, count: int = PICTURES) -> list[AlignmentPicture]:
    """Alignments of outputs; gold links are drawn where the output is the reference and they are known."""
    if not model.attends or model.collation.source.text is None:
        return []
    chosen = [
        (example, prediction)
        for example, prediction in zip(evaluation.examples, evaluation.predictions, strict=True)
        if prediction.text.strip() and not prediction.cut_source
    ][:count]
    drawn = model.align([(prediction.source, prediction.text) for _, prediction in chosen])
    return [
        AlignmentPicture(
            source=picture.source,
            target=picture.target,
            weights=picture.weights,
            gold=(
                gold_links(example, model.collation.source.columns(example.source)[0])
                if model.aligns_words and prediction.text == example.target
                else None
            ),
            title=prediction.text,
        )
        for picture, (example, prediction) in zip(drawn, chosen, strict=True)
    ]


def model_facts(model: Model) -> Facts:
    section = model.recipe.model
    return [
        ("Shape", section.shape),
        ("Encoder", describe(section.encoder, section.layers)),
        ("Decoder", describe(section.decoder, section.layers)),
        ("Width", f"{section.width}"),
        ("Parameters", f"{model.parameters:,}"),
        ("Reading of attention", _reading(model)),
    ]


def start_facts(history: LogHistory) -> Facts:
    """The run whose weights this one began with, and what was taken of them."""
    start = history.started_from
    return [] if start is None else [("Started from", "; ".join((Path(start["run"]).name, *start["lines"])))]


def _reading(model: Model) -> str:
    if not model.attends:
        return "none: no attention to a source"
    reading = model.reading
    layer = "last layer" if reading.layer == -1 else f"layer {reading.layer}"
    head = "mean of heads" if reading.head is None else f"head {reading.head}"
    return f"{layer}, {head}, step that {'reads' if reading.shift else 'predicts'} the word"


def data_facts(recipe: Recipe, prepared: Prepared) -> Facts:
    train = recipe.data.train
    files = train if isinstance(train, str) else " + ".join(train)
    what = "pairs" if recipe.data.source is not None and recipe.data.target is not None else "examples"
    sets = [(f"Set “{name}”", f"{len(examples):,} {what}") for name, examples in prepared.tests.items()]
    side = "target" if recipe.data.target is not None else "source"
    tokens = int(prepared.train.lengths(side).sum())
    return [
        ("Files", ", ".join(Path(file).name for file in files.split(" + "))),
        ("Training", f"{len(prepared.train):,} {what}, {tokens:,} {side} tokens"),
        ("Validation", f"{len(prepared.valid):,} {what}"),
        *sets,
    ]


def text_facts(model: Model) -> Facts:
    def told(tokenizer: Tokenizer) -> str:
        return f"{tokenizer.unit}, {tokenizer.size:,} entries"

    texts = model.texts
    if texts.source is texts.target:
        return [("Both sides", told(texts.source))]
    return [("Source", told(texts.source)), ("Target", told(texts.target))]


def notes(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """What was cut or left out, by set."""
    return [f"{name}: {note}" for name, evaluation in evaluations.items() for note in evaluation.notes]


def card_data(model: Model, report: ReportData, evaluations: Mapping[str, Evaluation], progress: Progress) -> CardData:
    recipe = model.recipe
    return CardData(
        name=model.folder.name,
        task=recipe.task,
        run=str(model.folder),
        pipeline_tag=PIPELINE[recipe.task],
        data=report.data,
        model=report.facts,
        text=text_facts(model),
        scores=report.scores,
        minutes=progress.seconds / 60,
        hardware=f"{torch.get_num_threads()} threads, {platform.machine()}, torch {torch.__version__}",
        example=evaluations["test"].examples[0].source,
        limits=report.notes,
        skipped=report.findings,
        recipe=report.recipe,
        cautions=report.cautions,
    )

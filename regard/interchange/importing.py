"""From a checkpoint of Transformers to a run folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regard.errors import UsageError
from regard.files import replace_file
from regard.interchange.bart import read_bart, read_marian
from regard.interchange.bert import Bert, read_bert
from regard.interchange.checkpoint import Checkpoint, Settings
from regard.interchange.parts import Layout, fill
from regard.interchange.rows import Rows, Specials
from regard.interchange.t5 import read_t5
from regard.interchange.text import Foreign, read_bart_text, read_marian_texts, read_t5_text
from regard.models import System
from regard.recipe.build import build_system, system_for
from regard.recipe.schema import DataSection, Recipe, SearchSection, TextSection
from regard.recipe.texts import Texts
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.text import load_tokenizer
from regard.training import weights

ARCHITECTURES: Final[dict[str, tuple[str, Callable[[Checkpoint], Layout]]]] = {
    "MarianMTModel": ("marian", read_marian),
    "BartForConditionalGeneration": ("bart", read_bart),
    "T5ForConditionalGeneration": ("t5", read_t5),
}
PRE_NORM: Final = "PegasusForConditionalGeneration"
MASKED: Final = ("BertForMaskedLM", "BertForPreTraining")
LONGEST: Final = 512
"""Tokens of a text where the positions of a model set no limit."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A run folder that was made, and what is to be known of it."""

    model: Model
    layout: str
    notes: tuple[str, ...]


def import_checkpoint(folder: str | Path, run: str | Path) -> Imported:
    """Make a run folder of a checkpoint of Marian, BART, T5 or BERT layout; nothing in it is run as code."""
    target = RunFolder(Path(run))
    if target.begun:
        raise UsageError(f"{target.path}: there is a run in this folder already; choose another, or delete it first")
    checkpoint = Checkpoint(Path(folder))
    if _architecture(checkpoint.config) in MASKED:
        return _import_bert(checkpoint, target)
    with checkpoint.config.possible():
        layout = _reader(checkpoint.config)(checkpoint)
        texts, source, to = _texts(checkpoint, layout)
        recipe = _recipe(checkpoint, layout, texts, target.path)
    system = build_system(layout.model, source_vocabulary=len(source.foreign), target_vocabulary=len(to.foreign))
    tables = layout.tables
    named = {
        "encoder.embedding.weight": source.take(tables.source),
        "decoder.embedding.weight": to.take(tables.target),
        "decoder.output.weight": to.take(tables.output),
        "decoder.output.bias": to.bias(tables.bias),
    }
    fill(system, layout.tensors | named)
    notes = () if to.own else _notes(layout)
    return _write(target, checkpoint, recipe, texts, system, layout.name, notes)


def _import_bert(checkpoint: Checkpoint, target: RunFolder) -> Imported:
    """A masked language model; its texts are single ones."""
    bert = read_bert(checkpoint)
    if bert.masked is None:
        checkpoint.config.refuse("a masked language model has a head, and there is none among the weights")
    with checkpoint.config.possible():
        recipe = _bert_recipe(checkpoint, bert, target.path)
    texts = Texts(source=bert.tokenizer, target=bert.tokenizer)
    system = system_for(recipe, texts)
    fill(system, dict(bert.masked.named_parameters()))
    notes = ("texts are read as first sentences: the vector of the second of a pair is left out",)
    return _write(target, checkpoint, recipe, texts, system, "BERT", notes)


def _bert_recipe(checkpoint: Checkpoint, bert: Bert, run: Path) -> Recipe:
    config, tied = checkpoint.config, bert.tied
    model = {
        "shape": "masked-language-model",
        "width": config.whole("hidden_size", low=1),
        "dropout": config.number("hidden_dropout_prob", 0.1),
        "encoder": bert.section.model_dump(),
        **({} if tied else {"tie": "none"}),
    }
    data = {"train": (), "target": None, "max_length": bert.longest - 1}
    text = {"unit": "imported", "size": max(5, bert.tokenizer.size)}
    return Recipe.model_validate({"task": "pretraining", "run": str(run), "data": data, "text": text, "model": model})


def _write(
    target: RunFolder,
    checkpoint: Checkpoint,
    recipe: Recipe,
    texts: Texts,
    system: System,
    layout: str,
    notes: tuple[str, ...],
) -> Imported:
    """The run folder; its recipe, without which it is none, comes last."""
    target.create()
    texts.save(target.path)
    target.write_weights(weights(system))
    replace_file(target.card, _card(layout, checkpoint.folder, target.path, notes).encode())
    target.write_recipe(recipe)
    return Imported(model=Model.load(target.path), layout=layout, notes=notes)


def _architecture(config: Settings) -> object:
    named = config.get("architectures")
    return named[0] if isinstance(named, list) and named else None


def _reader(config: Settings) -> Callable[[Checkpoint], Layout]:
    kind, architecture = config.get("model_type"), _architecture(config)
    if architecture is None:
        architecture = next((name for name, (type_, _) in ARCHITECTURES.items() if type_ == kind), None)
    if architecture == PRE_NORM:
        config.refuse(
            "the layout is Pegasus, which regard writes for `norm: pre` and does not read; its exports go one way, so "
            "keep the run that this one came from"
        )
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES or kind != ARCHITECTURES[architecture][0]:
        config.refuse(
            f"a model of architecture {architecture!r} and type {kind!r} cannot become a run; regard imports "
            f"{', '.join((*ARCHITECTURES, *MASKED))} (other encoders of BERT layout: regard.interchange in Python)"
        )
    return ARCHITECTURES[architecture][1]


def _texts(checkpoint: Checkpoint, layout: Layout) -> tuple[Texts, Rows, Rows]:
    """The tokenizers of both sides and the order of their rows."""
    prefix: tuple[str, ...] = ()
    config, tables = checkpoint.config, layout.tables
    own = _own_texts(checkpoint.folder)
    if own is not None:
        sizes = own.source.size, own.target.size
        if sizes != (len(tables.source), len(tables.target)):
            config.refuse(
                f"regard's own vocabularies beside it have {sizes[0]} and {sizes[1]} entries, but the embeddings "
                f"{len(tables.source)} and {len(tables.target)} rows"
            )
        source_rows, target_rows = (Rows(tuple(range(size)), own=True) for size in sizes)
        return own, source_rows, target_rows
    if layout.name == "Marian":
        source, target = read_marian_texts(checkpoint.folder)
    else:
        source = target = (
            read_bart_text(checkpoint.folder) if layout.name == "BART" else read_t5_text(checkpoint.folder)
        )
    if layout.name == "BART":
        first = config.whole("bos_token_id", 0)
        prefix = tuple(piece for piece, id_ in source.ids.items() if id_ == first)
    orders = [
        Rows.order(_specials(config, text, len(table)), len(table))
        for text, table in ((source, tables.source), (target, tables.target))
    ]
    reading = source.tokenizer(orders[0], prefix=prefix)
    writing = reading if source is target else target.tokenizer(orders[1], prefix=prefix)
    return Texts(source=reading, target=writing), orders[0], orders[1]


def _own_texts(folder: Path) -> Texts | None:
    """The tokenizers that an export of regard leaves beside the model: ids are ours already."""
    if (folder / "text.json").is_file():
        both = load_tokenizer(folder, "text")
        return Texts(source=both, target=both)
    if (folder / "source.json").is_file() and (folder / "target.json").is_file():
        return Texts(source=load_tokenizer(folder, "source"), target=load_tokenizer(folder, "target"))
    return None


def _specials(config: Settings, text: Foreign, size: int) -> Specials:
    pad = config.whole("pad_token_id")
    specials = Specials(
        pad=pad,
        unknown=text.unknown_id,
        start=config.whole("decoder_start_token_id", pad),
        end=config.whole("eos_token_id"),
    )
    largest = max(*text.ids.values(), specials.pad, specials.start or 0, specials.end)
    if largest >= size:
        config.refuse(f"the vocabulary has the id {largest}, but the embeddings have {size} rows")
    return specials


def _recipe(checkpoint: Checkpoint, layout: Layout, texts: Texts, run: Path) -> Recipe:
    longest = LONGEST if layout.longest is None else layout.longest - 1
    path = checkpoint.folder / "generation_config.json"
    said = Settings(path) if path.is_file() else checkpoint.config
    usual = SearchSection()
    limit = min(longest, max(usual.max_length, said.whole("max_length", usual.max_length, low=1)))
    return Recipe(
        run=str(run),
        data=DataSection(train=(), max_length=longest),
        text=TextSection(unit="imported", size=max(5, texts.target.size), shared=texts.source is texts.target),
        model=layout.model,
        search=SearchSection(
            beam=said.whole("num_beams", usual.beam, low=1),
            length_penalty=max(0.0, said.number("length_penalty", usual.length_penalty)),
            max_length=limit,
            max_ratio=float(limit),
        ),
    )


def _notes(layout: Layout) -> tuple[str, ...]:
    notes = ["probabilities are those of the checkpoint without its padding, which is never predicted"]
    if layout.tables.tie == "none" and layout.tables.shared:
        notes.append("what the checkpoint shares between source and target is held twice")
    if layout.name == "Marian":
        notes.append("punctuation is read as it is; Transformers mends it where sacremoses is installed")
    return tuple(notes)


def _card(layout: str, folder: Path, run: Path, notes: tuple[str, ...]) -> str:
    listed = "\n".join(f"- {note}" for note in notes)
    return (
        f"# {run.name}\n\nA model of {layout} layout, imported with regard from the checkpoint `{folder.name}`; "
        "it was trained elsewhere, and its licence, data and limits are those of that checkpoint.\n\n"
        f"## What to know\n{listed}\n\n## How to use it\n```\nregard predict {run} < input.txt\n```\n"
    )

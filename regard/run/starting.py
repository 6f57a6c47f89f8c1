"""Beginning a run with what another run has learned: its weights, its tokenizers.

The other folder is read when a run begins, and never again: text files are copied, weights become the run's own.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import nn

from regard.errors import ModelError, UsageError
from regard.recipe.schema import Recipe, SideText, TextSection
from regard.recipe.texts import Texts, text_names
from regard.run.folder import RunFolder
from regard.text import Tokenizer, load_tokenizer
from regard.training.starting import StartReport, Vocabularies, start_from

NAMES = ("text", "source", "target")


def check_start(recipe: Recipe, folder: RunFolder, *, overwrite: bool) -> None:
    """Refuse to begin with a run that is not there, or that is this one; a run that goes on needs no other."""
    if folder.begun and not overwrite:
        return
    for setting, path in (("model.start_from", recipe.model.start_from), ("text.start_from", recipe.text.start_from)):
        if path is None:
            continue
        other = RunFolder(Path(path))
        if other.path.resolve() == folder.path.resolve():
            raise UsageError(f"`{setting}` is the run folder itself ({path}); choose another with run=FOLDER")
        other.read_recipe()
        if setting == "model.start_from":
            other.shapes()


def start_system(system: nn.Module, texts: Texts, recipe: Recipe, folder: RunFolder) -> StartReport | None:
    """Start a system from the run that a recipe names; None where there is none, or where a checkpoint goes on."""
    path = recipe.model.start_from
    if path is None or folder.checkpoints.latest()[0] is not None:
        return None
    other = RunFolder(Path(path))
    other.shapes()
    there = _tokenizers(other.path)
    old = {side: there[side] if side in there else there.get("text") for side in ("source", "target")}
    numbered = {name: load_tokenizer(other.path, name) for name in text_names(other.read_recipe()) if name not in NAMES}
    vocabularies = Vocabularies(
        old=_by_part(old["source"] or old["target"], old["target"] or old["source"]) | numbered,
        new=_by_part(texts.source, texts.target) | _numbered(texts),
    )
    try:
        return start_from(system, other.read_weights(), vocabularies=vocabularies, part=recipe.model.start_part)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def start_texts(recipe: Recipe, learn: Callable[[Recipe], Texts]) -> Texts:
    """The tokenizers of the run that `text.start_from` names; what it has not, `learn` learns.

    That is the other side where `start_side` chooses one and they are not shared, and factors and attributes. A side
    that is taken is learned as bytes, which costs nothing and cannot fail, and then replaced.
    """
    section = recipe.text
    if section.start_from is None:
        return learn(recipe)
    folder = Path(section.start_from)
    there = _tokenizers(folder)
    _check_normal(section, folder)
    sides = (section.start_side,) if section.start_side else ("source", "target")
    if section.shared:
        both = _taken(section, folder, there, section.start_side or "text")
        taken = {"source": both, "target": both}
    else:
        taken = {side: _taken(section, folder, there, side) for side in sides}
    bytes_only = {"shared": False, **dict.fromkeys(taken, SideText(unit="byte"))}
    learned = learn(recipe.model_copy(update={"text": section.model_copy(update=bytes_only)}))
    return replace(learned, source=taken.get("source", learned.source), target=taken.get("target", learned.target))


def _taken(section: TextSection, folder: Path, there: dict[str, Tokenizer], name: str) -> Tokenizer:
    """One tokenizer, read anew: sides with the same one keep it each in a file of their own."""
    file = name if name in there else "text" if "text" in there else ""
    if section.start_side is not None and not file and len(there) == 1:
        file = next(iter(there))
    if not file:
        has = ", ".join(there) or "none"
        raise UsageError(
            f"{folder}: `text.start_from` wants the tokenizer `{name}`, and that run has {has}; set `text.shared` as "
            "it is there, or choose one side with `text.start_side`"
        )
    own = {"source": section.source, "target": section.target}.get(name)
    wanted, tokenizer = own.unit if own else section.unit, load_tokenizer(folder, file)
    if tokenizer.unit != wanted:
        raise UsageError(
            f"{folder}: the tokenizer `{file}` has unit {tokenizer.unit}, and this recipe says {wanted}; say "
            f"{tokenizer.unit} here too, or leave out `text.start_from`"
        )
    return tokenizer


def _check_normal(section: TextSection, folder: Path) -> None:
    """What a tokenizer does before it splits is its own; a recipe that says something else would lie."""
    other = RunFolder(folder).read_recipe().text
    for name, there, here in (
        ("normal", other.normal, section.normal),
        ("lowercase", other.lowercase, section.lowercase),
    ):
        if there != here:
            raise UsageError(
                f"{folder}: its tokenizers have `text.{name}: {_yaml(there)}`, and this recipe says {_yaml(here)}; say "
                f"{_yaml(there)} here too, or leave out `text.start_from`"
            )


def _yaml(value: str | bool) -> str:
    return str(value).lower()


def _tokenizers(folder: Path) -> dict[str, Tokenizer]:
    """Every tokenizer of a run folder, by name."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: there is no such run folder")
    return {name: load_tokenizer(folder, name) for name in NAMES if (folder / f"{name}.json").is_file()}


def _numbered(texts: Texts) -> dict[str, Tokenizer]:
    """The tokenizers of factors and attributes, as their files are called."""
    further = (("factor", texts.factors), ("attribute", texts.attributes))
    return {f"{name}{number}": one for name, all_ in further for number, one in enumerate(all_, start=1)}


def _by_part(source: Tokenizer | None, target: Tokenizer | None) -> dict[str, Tokenizer]:
    """Whose text the rows of each part stand for."""
    by_part = {"encoder": source, "decoder": target, "head": target, "output": source, "bias": source}
    return {part: tokenizer for part, tokenizer in by_part.items() if tokenizer is not None}

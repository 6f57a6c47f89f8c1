"""Write a model for another program: what can go there goes exactly, what cannot is refused with the reason.

The folder appears whole or not at all. Its README says in a few lines of Python how to use it.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.errors import ModelError, UsageError
from regard.files import cannot_write, sync_folder, write_synced
from regard.interchange import export_huggingface
from regard.interchange.export_readme import ctranslate2_readme, huggingface_readme
from regard.interchange.export_tokenizer import token_names, write_tokenizer
from regard.interchange.export_weights import transformer_sides
from regard.recipe.schema import ModelSection, TransformerDecoderSection, TransformerEncoderSection
from regard.run.model import Model

Program = Literal["huggingface", "ctranslate2"]
PROGRAMS: tuple[Program, ...] = ("huggingface", "ctranslate2")
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "huggingface": ("relu", "gelu", "silu"),
    "ctranslate2": ("relu", "gelu", "silu", "swiglu", "geglu"),
}
WRITTEN = {
    "README.md", "config.json", "generation_config.json", "model.safetensors", "model.bin", "tokenizer.json",
    "tokenizer_config.json", "target", "shared_vocabulary.json", "source_vocabulary.json", "target_vocabulary.json",
    "text.json", "text.spm", "source.json", "source.spm", "target.json", "target.spm",
}  # fmt: skip
"""All names that an export may write, and the only ones that it may write over."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Where a model went, in which layout, and what is to be said about it."""

    folder: Path
    layout: str
    notes: tuple[str, ...]


def export(
    model: Model, folder: str | Path, *, to: str, quantisation: str | None = None, overwrite: bool = False
) -> Exported:
    """Write a model into a folder, for `huggingface` or `ctranslate2`."""
    target = Path(folder)
    match to:
        case "huggingface":
            if quantisation is not None:
                raise UsageError("weights for Hugging Face are not quantised; `--quantization` is for ctranslate2")
        case "ctranslate2":
            _need_ctranslate2()
        case _:
            raise UsageError(f"there is no export to {to!r}; choose {' or '.join(PROGRAMS)}")
    if model.recipe.text.reverse_target:
        raise ModelError(f"this model cannot be exported to {to}: it writes from right to left (text.reverse_target)")
    for setting in ("factors", "attributes"):
        if getattr(model.recipe.data, setting):
            raise ModelError(
                f"this model cannot be exported to {to}: it reads `data.{setting}`, and there is only text there"
            )
    refuse(model.recipe.model, to)
    _check_folder(target, overwrite=overwrite)
    waiting = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(waiting, ignore_errors=True)
        waiting.mkdir(parents=True)
        exported = _write_huggingface(model, waiting) if to == "huggingface" else _write(model, waiting, quantisation)
        _put_in_place(waiting, target)
    except OSError as error:
        raise cannot_write(target, sum(p.numel() * 4 for p in model.system.parameters()), error) from error
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    return Exported(folder=target, layout=exported.layout, notes=exported.notes)


def refuse(section: ModelSection, to: str) -> None:
    """ModelError with every setting that the other program does not have."""
    problems = list(_problems(section, to))
    if problems:
        raise ModelError(f"this model cannot be exported to {to}: {'; '.join(problems)}")


def _problems(section: ModelSection, to: str) -> Iterator[str]:
    if str(section.shape) != "encoder-decoder":
        yield f"`model.shape` is {section.shape}, and there are only encoder-decoders there"
        return
    sides: list[TransformerEncoderSection] = []
    for name, side in (("encoder", section.encoder), ("decoder", section.decoder)):
        if not isinstance(side, TransformerEncoderSection | TransformerDecoderSection):
            yield f"`model.{name}.kind` is {side.kind}, and there are only Transformers there"
            continue
        sides.append(side)
        if side.activation not in ACTIVATIONS[to]:
            yield f"`model.{name}.activation` is {side.activation}, and there are only {', '.join(ACTIVATIONS[to])}"
        if side.score == "additive":
            yield f"`model.{name}.score` is additive, and scores there are products (scaled_dot, dot, bilinear)"
        yield from _size_problems(section, name, side)
        if to == "huggingface":
            if side.positions != "sinusoidal":
                yield f"`model.{name}.positions` is {side.positions}, and its Marian and Pegasus have only sinusoidal"
        elif name == "encoder" and side.positions == "alibi":
            yield (
                "`model.encoder.positions` is alibi, which only decoders have there (encoders have none, sinusoidal, "
                "learned, relative, relative_bias and rotary)"
            )
    if len(sides) == 2:
        encoder, decoder = sides
        yield from _pair_problems(encoder, decoder, to)


def _size_problems(section: ModelSection, name: str, side: TransformerEncoderSection) -> Iterator[str]:
    """Parts and sizes that go to neither program."""
    if side.norm_kind != "layer":
        yield f"`model.{name}.norm_kind` is {side.norm_kind}, and only layer norms are exported"
    if side.embedding_norm:
        yield f"`model.{name}.embedding_norm` is true, and no norm of embeddings is exported"
    if side.head_width is not None and side.head_width * side.heads != section.width:
        yield (
            f"`model.{name}.head_width` is {side.head_width}, and heads are exported that are equal shares of "
            f"`model.width` ({section.width} for {side.heads} heads)"
        )


def _pair_problems(encoder: TransformerEncoderSection, decoder: TransformerEncoderSection, to: str) -> Iterator[str]:
    """What both sides must have alike."""
    if encoder.norm_epsilon != decoder.norm_epsilon:
        yield (
            f"`norm_epsilon` is {encoder.norm_epsilon:g} in the encoder and {decoder.norm_epsilon:g} in the decoder, "
            "and there is one for both"
        )
    elif to == "huggingface" and encoder.norm_epsilon != export_huggingface.EPSILON:
        yield f"`norm_epsilon` is {encoder.norm_epsilon:g}, and its layouts have {export_huggingface.EPSILON:g}"
    if to == "huggingface":
        if encoder.norm != decoder.norm:
            yield (
                f"`norm` is {encoder.norm} in the encoder and {decoder.norm} in the decoder, and its layouts have post "
                "on both sides (Marian) or pre on both (Pegasus)"
            )
        if encoder.activation != decoder.activation:
            yield (
                f"`activation` is {encoder.activation} in the encoder and {decoder.activation} in the decoder, and its "
                "layouts have one for both"
            )
        if encoder.embedding_scale != decoder.embedding_scale:
            yield "`embedding_scale` is true on one side only, and its layouts have it on both or on none"
        if (encoder.waves or "interleaved") != (decoder.waves or "interleaved"):
            yield "`waves` differ between encoder and decoder, and its layouts have one kind for both"


def _need_ctranslate2() -> None:
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise UsageError("export to ctranslate2 needs the package ctranslate2: pip install ctranslate2") from error


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    """Files of others are never deleted."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; choose the name of a folder")
    present = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    strange = [name for name in present if name not in WRITTEN]
    if strange:
        raise UsageError(f"{folder}: holds what no export wrote ({', '.join(strange[:3])}); choose another folder")
    if present and not overwrite:
        raise UsageError(f"{folder}: is not empty; choose another folder, or write over it with --overwrite")


def _put_in_place(waiting: Path, target: Path) -> None:
    """Rename a finished folder; an older export goes only when the new one is there."""
    for folder in (waiting, *(path for path in waiting.rglob("*") if path.is_dir())):
        sync_folder(folder)
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.exists():
        target.rename(old)
    try:
        waiting.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _write_huggingface(model: Model, folder: Path) -> Exported:
    recipe, texts = model.recipe, model.texts
    for name, content in export_huggingface.files(transformer_sides(model.system), recipe):
        write_synced(folder / name, content)
    places = {folder: texts.source}
    if texts.target is not texts.source:
        places[folder / "target"] = texts.target
    texts.save(folder)  # by which `regard import` reads them again
    notes: list[str] = []
    written = {
        place: write_tokenizer(tokenizer, longest=export_huggingface.longest(recipe))
        for place, tokenizer in places.items()
    }
    reasons = list(dict.fromkeys(one.reason for one in written.values() if one.reason is not None))
    if reasons:
        notes.append(f"no tokenizer for Hugging Face was written, only regard's own: {'; '.join(reasons)}")
    else:
        for place, one in written.items():
            place.mkdir(exist_ok=True)
            for name, content in one.files.items():
                write_synced(place / name, content)
    layout = export_huggingface.choose_layout(recipe)
    if layout == "pegasus" and recipe.model.tie == "target":
        notes.append("the output is a copy of the target embeddings: Pegasus ties all tables or none")
    readme = huggingface_readme(layout=layout, own=bool(reasons), shared=len(places) == 1, notes=notes)
    write_synced(folder / "README.md", readme.encode())
    return Exported(folder=folder, layout=layout, notes=tuple(notes))


def _write(model: Model, folder: Path, quantisation: str | None) -> Exported:
    from regard.interchange import export_ctranslate2

    texts = model.texts
    source, target = token_names(texts.source), token_names(texts.target)
    export_ctranslate2.write(
        transformer_sides(model.system),
        model.recipe,
        folder,
        source=source,
        target=target,
        quantisation=quantisation,
    )
    texts.save(folder)
    readme = ctranslate2_readme(model.recipe, texts, target)
    write_synced(folder / "README.md", readme.encode())
    return Exported(folder=folder, layout="ctranslate2", notes=())

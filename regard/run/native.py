"""A run searched by the native engine: its file beside the weights, and the search in the engine's terms."""

import hashlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from safetensors.torch import load

from regard.data.batch import Batch, Ids
from regard.engine import Answer, Engine, EngineOptions, EngineReading, EngineRequest, Found, available
from regard.engine.preparation import contained
from regard.engine.prepared import NAME, SETTINGS, WEIGHTS, write_settings
from regard.engine.runtime import WIDEST
from regard.errors import ModelError, RegardError, UsageError
from regard.insight import Reading
from regard.insight.alignment import Weights, check_reading, of_tokens
from regard.models import System
from regard.run.folder import RunFolder
from regard.run.native_constraints import engine_constraint
from regard.run.searching import Searching, Waiting
from regard.search import Constraint, Finished, Hypothesis, Parts, Request, Search, SearchOptions
from regard.search.running import hopeless, nothing_found

if TYPE_CHECKING:
    from regard.run.model import Model

_USUAL: Final = SearchOptions()


class NativeSearch(Waiting):
    """What `regard.search.Search` is, searched by the engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    def step(self) -> list[Finished]:
        """Search everything that waits."""
        by_options: dict[SearchOptions, list[Request]] = {}
        for request in self.taken():
            by_options.setdefault(request.options, []).append(request)
        finished: list[Finished] = []
        for options, requests in by_options.items():
            reasons = [hopeless(request, self._limit(request)) for request in requests]
            finished += [
                Finished(id=request.id, hypotheses=(), reason=reason)
                for request, reason in zip(requests, reasons, strict=True)
                if reason
            ]
            able = [request for request, reason in zip(requests, reasons, strict=True) if not reason]
            asked = [_asked(request, self.engine.target_vocabulary) for request in able]
            answers = self.engine.answer(asked, options=engine_options(options))
            finished += [_finished(request, answer) for request, answer in zip(able, answers, strict=True)]
        return finished

    def _limit(self, request: Request) -> int:
        return request.limit if self.engine.longest is None else min(request.limit, self.engine.longest)


class NativeEngine:
    """An engine file behind a model. It does all that `regard.search` knows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = Engine(path)

    @property
    def quantised(self) -> bool:
        """Whether the weights have 8 bits; else they have 32."""
        return self.engine.quantised

    @property
    def identity(self) -> Mapping[str, str]:
        with self.path.open("rb") as file:
            return {NAME: hashlib.file_digest(file, "sha256").hexdigest()}

    def searching(
        self, options: SearchOptions, *, prefix: tuple[int, ...], constraint: Constraint | None, capacity: int
    ) -> Searching:
        """Itself where it knows all that is asked for, else `Search` with what it says.

        Prefixes and constraints are in requests."""
        del prefix
        del constraint
        if not step_by_step(options):
            return NativeSearch(self.engine)
        from regard.run.native_scorer import NativeScorer

        return Search(NativeScorer(self.engine, options=options, capacity=capacity), capacity=capacity)

    def attention(self, batch: Batch, reading: Reading) -> list[Weights]:
        """One pass of the engine over the pairs of a batch."""
        check_reading(reading, self.engine.attention_heads)
        source = batch.sources["source"]
        assert isinstance(source, Ids)
        pairs = [
            (source.ids[row, source.mask[row], 0].tolist(), batch.inputs[row, batch.mask[row]][1:].tolist())
            for row in range(batch.rows)
        ]
        told = self.engine.attention(pairs, reading=EngineReading(layer=reading.layer, head=reading.head))
        steps = (np.asarray(one.values, dtype=np.float64).reshape(-1, one.items) for one in told)
        return [of_tokens(weights, reading.shift) for weights in steps]


def engine_options(options: SearchOptions) -> EngineOptions:
    """The options that the engine knows."""
    return EngineOptions(
        beam=options.beam,
        best=options.best,
        length_penalty=options.length_penalty,
        length_formula=options.length_formula,
        min_length=options.min_length,
        block_ngrams=options.block_ngrams,
        unknown=options.unknown,
        stopping=options.stopping,
        coverage_penalty=options.coverage_penalty,
        sample=options.sample,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        typical=options.typical,
        seed=options.seed,
    )


def step_by_step(options: SearchOptions) -> bool:
    """Whether a search is more than the engine does by itself."""
    others = any(getattr(options, name) != getattr(_USUAL, name) for name in ("stochastic", "groups", "trace"))
    wide = options.beam > WIDEST and not options.sample
    return others or wide


def _asked(request: Request, vocabulary: int) -> EngineRequest:
    constraint = None if request.constraint is None else engine_constraint(request.constraint, vocabulary=vocabulary)
    source = request.sources["source"]
    ids = source.ids[0, :, 0].tolist() if isinstance(source, Ids) else []
    return EngineRequest(ids=ids, limit=request.limit, prefix=request.prefix, number=request.id, constraint=constraint)


def _finished(request: Request, answer: Answer) -> Finished:
    reason = answer.fault or ("" if answer.found else nothing_found(request))
    hypotheses = tuple(_hypothesis(one, request.options) for one in answer.found)
    return Finished(id=request.id, hypotheses=hypotheses, reason=reason)


def _hypothesis(found: Found, options: SearchOptions) -> Hypothesis:
    likelihood = found.score
    if options.coverage_penalty:
        likelihood = options.score(found.log_probability, len(found.token_log_probabilities))
    return Hypothesis(
        tokens=found.tokens,
        log_probability=found.log_probability,
        score=found.score,
        token_log_probabilities=found.token_log_probabilities,
        complete=found.complete,
        parts=Parts(likelihood=likelihood, coverage=found.coverage),
    )


def of_one_run(model: "Model") -> bool:
    """Whether a model is one run with the weights that training chose, as engines have them."""
    from regard.run.joint import JointModel

    return not (model.averaged or isinstance(model, JointModel))


def is_prepared(model: "Model") -> bool:
    """Whether there is an engine file for the weights that a model has."""
    return of_one_run(model) and (model.folder / NAME).exists()


def with_engine(model: "Model") -> "Model":
    """The same model, searched by the native engine; its file is made beside the weights where it is missing."""
    if not of_one_run(model):
        raise UsageError(
            "the native engine runs one model with the weights that training chose: leave out other runs and averages, "
            "or search with --engine torch"
        )
    native = model.with_recipe(model.recipe)
    native.engine = open_engine(model)
    return native


def made_by_itself(model: "Model") -> bool:
    """Make the engine file that nobody has asked for, in 32 bits: results stay those of torch. False: it cannot be.

    No library, a model that the engine does not know, a folder that cannot be written to, no room: torch searches then,
    as it would have without an engine.
    """
    if not of_one_run(model) or available() or not os.access(model.folder, os.W_OK):
        return False
    try:
        prepare_run(model.system, RunFolder(model.folder), int8=False)
    except RegardError:
        return False
    return True


def prepare_run(system: System, folder: RunFolder, *, int8: bool = True) -> int:
    """Write the engine file of a run beside its weights, whose checksum it carries and this gives."""
    checksum = zlib.crc32(own_weights(system, folder))
    container = contained(system, int8=int8)
    container.settings[WEIGHTS] = checksum
    container.write(folder.path / NAME)
    return checksum


def own_weights(system: System, folder: RunFolder) -> bytes:
    """The file of the weights that a system has.

    Weights that were replaced since the system was loaded, say by a training that goes on, are refused: what is made of
    the system would pass for theirs.
    """
    content = folder.weights.read_bytes()
    stored, own = load(content), dict(system.named_parameters())
    same = stored.keys() == own.keys() and all(
        torch.equal(parameter, stored[name].to(parameter.dtype)) for name, parameter in own.items()
    )
    if not same:
        raise ModelError(f"{folder.weights}: holds other weights than the model; load the run again")
    return content


def prepare_model(model: "Model", *, int8: bool = True) -> str:
    """Write the engine file of a model, and what `regard-runtime` needs; why the latter cannot be, or "".

    A recipe may ask for more than lines of text, or than the engine does by itself; then there is no run away from
    torch.
    """
    folder = RunFolder(model.folder)
    checksum = prepare_run(model.system, folder, int8=int8)
    source, options = model.collation.source, model.options()
    reason = ""
    if source.text is None or source.factors or source.attributes:
        reason = "it reads other things than one text a line"
    elif step_by_step(options):
        reason = "its recipe searches by more than the engine does by itself"
    if reason:
        (folder.path / SETTINGS).unlink(missing_ok=True)
        return reason
    one = model.recipe.one_text
    settings = {
        "source": "text" if one else "source",
        "target": "text" if one else "target",
        "reverse_target": model.recipe.text.reverse_target,
        "tabs": source.tabs,
        "max_source": model.longest_source,
        "beam": options.beam,
        "length_penalty": options.length_penalty,
        "length_formula": options.length_formula,
        "min_length": options.min_length,
        "block_ngrams": options.block_ngrams,
        "stopping": options.stopping,
        "coverage_penalty": options.coverage_penalty,
        "alignment_layer": model.reading.layer if model.attends else None,
        "alignment_head": model.reading.head,
        "alignment_shift": model.reading.shift,
        "aligns_words": model.aligns_words,
        "max_length": options.max_length,
        "max_ratio": options.max_ratio,
        "weights": checksum,
    }
    write_settings(folder.path, settings)
    return ""


def open_engine(model: "Model") -> NativeEngine:
    """The engine of a run; its file is made where there is none, or one of other weights."""
    if reason := available():
        raise ModelError(f"the native engine cannot be used: {reason}")
    folder = RunFolder(model.folder)
    path = folder.path / NAME
    if not path.exists():
        _check_writable(path, "is not there")
        prepare_run(model.system, folder)
        return NativeEngine(path)
    engine = NativeEngine(path)
    fits = engine.engine.target_vocabulary == model.texts.target.size
    if fits and engine.engine.setting(WEIGHTS) == _checksum(folder):
        return engine
    _check_writable(path, "is of other weights")
    if (folder.path / SETTINGS).exists():
        prepare_model(model.with_recipe(folder.read_recipe()), int8=engine.quantised)
    else:
        prepare_run(model.system, folder, int8=engine.quantised)
    return NativeEngine(path)


def _check_writable(path: Path, told: str) -> None:
    if not os.access(path.parent, os.W_OK):
        raise ModelError(
            f"{path}: {told}, and its folder cannot be written to. Prepare the run where it can be (`regard prepare`), "
            "or search with --engine torch"
        )


def _checksum(folder: RunFolder) -> int:
    return zlib.crc32(folder.weights.read_bytes())

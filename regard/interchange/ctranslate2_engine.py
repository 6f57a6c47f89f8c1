"""A run searched by CTranslate2: its weights in 8 bits beside the run, and the search in CTranslate2's terms.

Its definitions are its own (`export_ctranslate2` says how they differ in a beam); what it cannot do by ours is refused.
Greedy search, beams, the plain length penalty, several outputs and limits of length mean the same, up to two things:
forbidden tokens (UNKNOWN, PAD, START) are taken out before the softmax, and outputs may depend on what is searched
beside them.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from regard.data.batch import Batch, Ids
from regard.errors import ModelError, UsageError
from regard.insight import Reading
from regard.interchange.export_huggingface import longest
from regard.interchange.export_tokenizer import token_names
from regard.interchange.exporting import export
from regard.models import EncoderDecoder
from regard.process import cores
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.native import of_one_run, own_weights
from regard.run.searching import Waiting
from regard.run.shards import fingerprint
from regard.search import Constraint, Finished, Hypothesis, Parts, Request, SearchOptions
from regard.special import END, PAD, START

BITS: Final = "int8"
PATIENCE: Final = 4
"""So many times as many hypotheses as the beam is wide are awaited: its own beams end before ours would."""

_USUAL: Final = SearchOptions()
_BEYOND: Final = {
    "sample": "samples",
    "stochastic": "stochastic beams",
    "groups": "diverse beams",
    "coverage_penalty": "a coverage penalty",
    "trace": "traces",
    "min_length": "a least length",
    "block_ngrams": "blocked n-grams",
}


class CTranslate2Engine:
    """An exported model behind a run: as many workers of one thread as there are cores."""

    def __init__(self, model: Model, folder: Path, *, version: str) -> None:
        import ctranslate2

        assert isinstance(model.system, EncoderDecoder), "nothing else is exported"
        try:
            self.translator = ctranslate2.Translator(
                str(folder), device="cpu", compute_type=BITS, inter_threads=cores(), intra_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(
                f"{folder}: CTranslate2 cannot read it ({error}); delete it, and it is made again"
            ) from error
        self.source, self.target = token_names(model.texts.source), token_names(model.texts.target)
        self.ids = {name: id_ for id_, name in enumerate(self.target)}
        self.identity: Mapping[str, str] = {"ctranslate2": f"{version} {BITS}"}
        self.quantised = True
        self.reach = longest(model.recipe)
        self.longest = model.system.longest

    def searching(
        self, options: SearchOptions, *, prefix: tuple[int, ...], constraint: Constraint | None, capacity: int
    ) -> "CTranslate2Search":
        """What searches so, in batches of `capacity`; the rest of what search knows is refused."""
        beyond = [told for name, told in _BEYOND.items() if getattr(options, name) != getattr(_USUAL, name)]
        beyond += ["GNMT's length penalty"] if options.length_formula != "plain" and options.length_penalty else []
        beyond += ["prefixes"] if prefix else []
        beyond += ["constraints"] if constraint is not None else []
        if beyond:
            raise UsageError(
                f"CTranslate2 does not know {' and '.join(beyond)} as defined here: leave that out, or search with "
                "--engine native or torch"
            )
        if options.max_length >= self.reach:
            raise UsageError(
                f"CTranslate2 was given {self.reach} positions, which is too few for outputs of {options.max_length} "
                "tokens (max_length): ask for less, or search with --engine native or torch"
            )
        return CTranslate2Search(self, options, capacity=capacity)

    def attention(self, batch: Batch, reading: Reading) -> None:
        """It is left to torch: what CTranslate2 tells of attention is that of its own outputs only."""


class CTranslate2Search(Waiting):
    """What `regard.search.Search` is, for requests with the same options."""

    def __init__(self, engine: CTranslate2Engine, options: SearchOptions, *, capacity: int) -> None:
        super().__init__()
        self.engine = engine
        self.options = options
        self.capacity = capacity

    def step(self) -> list[Finished]:
        """Search everything that waits; requests with one limit of length go together, all at the same time."""
        by_limit: dict[int, list[Request]] = {}
        for request in self.taken():
            by_limit.setdefault(min(request.limit, self.engine.longest or request.limit), []).append(request)
        running = [(one, result) for limit, some in by_limit.items() for one, result in self._asked(limit, some)]
        return [Finished(id=one.id, hypotheses=tuple(self._hypotheses(result.result()))) for one, result in running]

    def _asked(self, limit: int, requests: Sequence[Request]) -> Iterator[tuple[Request, Any]]:
        engine, options = self.engine, self.options
        results = engine.translator.translate_batch(
            [[engine.source[id_] for id_ in _row(request)] for request in requests],
            beam_size=options.beam,
            num_hypotheses=options.best,
            length_penalty=options.length_penalty,
            patience=PATIENCE if options.beam > 1 else 1,
            return_end_token=True,
            return_scores=True,
            min_decoding_length=0,
            max_decoding_length=limit,
            disable_unk=not options.unknown,
            suppress_sequences=[[engine.target[PAD]], [engine.target[START]]],
            max_batch_size=self.capacity,
            asynchronous=True,
        )
        return zip(requests, results, strict=True)

    def _hypotheses(self, result: Any) -> Iterator[Hypothesis]:
        """Best first; those that the limit cut off only where none came to its end."""
        rows = [[self.engine.ids[name] for name in names] for names in result.hypotheses]
        ended = any(END in row for row in rows)
        for row, value in zip(rows, result.scores, strict=True):
            if ended and END not in row:
                continue
            log_probability = value * len(row) ** self.options.length_penalty
            yield Hypothesis(
                tokens=tuple(id_ for id_ in row if id_ != END),
                log_probability=log_probability,
                score=value,
                token_log_probabilities=(),
                complete=END in row,
                parts=Parts(likelihood=value),
            )


def with_ctranslate2(model: Model) -> Model:
    """The same model, searched by CTranslate2; what it reads is made beside the weights where it is missing.

    Where the folder of the run cannot be written to, it is made for this process alone.
    """
    version = _version()
    if not of_one_run(model):
        raise UsageError(
            "CTranslate2 runs one model with the weights that training chose: leave out other runs and averages, or "
            "search with --engine torch"
        )
    other = model.with_recipe(model.recipe)
    folder = RunFolder(model.folder)
    own_weights(model.system, folder)
    files = {**fingerprint(model.folder), "ctranslate2": f"{version} {BITS}"}
    place = folder.exported / hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    if place.exists():
        other.engine = CTranslate2Engine(model, place, version=version)
    elif os.access(folder.path, os.W_OK):
        export(model, place, to="ctranslate2", quantisation=BITS)
        for older in folder.exports():
            if older != place:
                shutil.rmtree(older, ignore_errors=True)
        other.engine = CTranslate2Engine(model, place, version=version)
    else:
        with tempfile.TemporaryDirectory(prefix="regard-") as passing:
            export(model, Path(passing, "model"), to="ctranslate2", quantisation=BITS)
            other.engine = CTranslate2Engine(model, Path(passing, "model"), version=version)
    return other


def _version() -> str:
    """Of the package; UsageError where it is missing."""
    try:
        import ctranslate2
    except ImportError as error:
        raise UsageError(
            "--engine ctranslate2 needs the package ctranslate2: pip install ctranslate2, or search with "
            "--engine native or torch"
        ) from error
    return str(ctranslate2.__version__)


def _row(request: Request) -> list[int]:
    """The ids of a source without their END, which CTranslate2 adds by itself."""
    source = request.sources["source"]
    assert isinstance(source, Ids), "nothing else is exported"
    return [int(id_) for id_ in source.ids[0, :-1, 0]]

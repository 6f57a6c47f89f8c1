"""The native engine against torch on one run: the same outputs in 32 bits, as good ones in 8, in any batch.

In 32 bits log-probabilities agree within 1e-4, so that a choice between two candidates may fall the other way where
they lie less than twice that apart. Each output that differs is traced: how far apart the candidates were that it
follows from. Where log-probabilities of the same output are further apart, double precision says which of the two is
how wrong.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engines.constrained import constrained
from regard.data.example import Example
from regard.engine import Engine, EngineOptions, EngineRequest
from regard.engine.preparation import prepare
from regard.metrics import metric
from regard.metrics.named import OF_LISTS, OF_SOURCES
from regard.metrics.significance import Outputs, compare_with_first
from regard.run.comparing import own_test_set
from regard.run.model import Model
from regard.run.native import NativeEngine, engine_options
from regard.run.prediction import Output
from regard.run.sets import read_set
from regard.search import Trace
from regard.special import END

CLOSE = 1e-4
"""How far apart log-probabilities may be."""

TIE = 2 * CLOSE
"""Candidates this close may change places: each is known within CLOSE."""

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Difference:
    """An output that is not that of torch, and the closest choice that it follows from."""

    line: int
    score: float
    other_score: float
    closest: float

    @property
    def tie(self) -> bool:
        return self.closest <= TIE


@dataclass(frozen=True, slots=True)
class Apart:
    """An output whose log-probabilities are far apart: how far those of torch and of the engine are from the truth."""

    line: int
    torch: float
    engine: float


def sample(model: Model, files: Sequence[str], count: int | None) -> list[Example]:
    """Pairs of the files, or of the run's own test set: all, or so many, evenly spread."""
    examples = [one for one in read_set(model.recipe, tuple(files) or own_test_set(model)) if one.source.strip()]
    wanted = len(examples) if count is None else min(count, len(examples))
    return [examples[number * len(examples) // wanted] for number in range(wanted)]


def natively(model: Model, path: Path, *, int8: bool) -> Model:
    """The model, searched by an engine file of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prepare(model.system, path, int8=int8)
    native = model.with_recipe(model.recipe)
    native.engine = NativeEngine(path)
    return native


def agreement(model: Model, native: Model, sources: Sequence[str], *, beam: int) -> Json:
    """How many outputs are the same tokens, how far their log-probabilities are apart, and why others differ.

    Where torch is far from the engine, what counts is how far the engine is from double precision.
    """
    both = [[one.outputs[0] for one in each.predict_many(sources, beam=beam)] for each in (model, native)]
    differences, apart, furthest = [], [], 0.0
    for line, (ours, theirs) in enumerate(zip(*both, strict=True)):
        if (ours.pieces, ours.complete) != (theirs.pieces, theirs.complete):
            differences.append(traced(model, sources[line], line, ours, theirs, beam=beam))
            continue
        distance = abs(ours.log_probability - theirs.log_probability)
        if distance > CLOSE:
            apart.append(arbitrated(model, sources[line], line, ours, theirs, beam=beam))
            distance = apart[-1].engine
        furthest = max(furthest, distance)
    return {
        "beam": beam,
        "sentences": len(sources),
        "same": len(sources) - len(differences),
        "log_probability": furthest,
        "apart": [asdict(one) for one in apart],
        "ties": sum(one.tie for one in differences),
        "differences": [asdict(one) for one in differences],
    }


def arbitrated(model: Model, source: str, line: int, ours: Output, theirs: Output, *, beam: int) -> Apart:
    """Search a sentence in double precision; nothing is settled where it writes something else."""
    exact = Model.load(model.folder)
    exact.system.double()
    (found,) = exact.predict_many([source], beam=beam)
    (output,) = found.outputs
    if output.pieces != ours.pieces:
        return Apart(line=line, torch=float("inf"), engine=abs(ours.log_probability - theirs.log_probability))
    truth = output.log_probability
    return Apart(line=line, torch=abs(ours.log_probability - truth), engine=abs(theirs.log_probability - truth))


def traced(model: Model, source: str, line: int, ours: Output, theirs: Output, *, beam: int) -> Difference:
    """Search a sentence again, looking at what was pruned."""
    (found,) = model.predict_many([source], options=model.options(beam=beam, trace=True))
    assert found.trace is not None
    piece = model.texts.target.piece
    closest = min(abs(ours.score - theirs.score), nearest(found.trace, ours.pieces, theirs.pieces, piece))
    return Difference(line=line, score=ours.score, other_score=theirs.score, closest=closest)


def nearest(trace: Trace, ours: Sequence[str], theirs: Sequence[str], piece: Callable[[int], str]) -> float:
    """The smallest distance of candidates by which our path could have been pruned, or theirs kept."""
    taken: dict[int, float] = {}
    pruned: dict[int, float] = {}
    for node in trace.nodes:
        if node.fate == "pruned":
            pruned[node.step] = max(node.total, pruned.get(node.step, node.total))
        else:
            taken[node.step] = min(node.total, taken.get(node.step, node.total))
    distances = [float("inf")]
    for node in trace.nodes:
        path = [piece(token) for token in trace.path(node) if token != END]
        if node.fate == "pruned":
            if path == list(theirs[: len(path)]) and node.step in taken:
                distances.append(taken[node.step] - node.total)
        elif path == list(ours[: len(path)]) and node.step in pruned:
            distances.append(node.total - pruned[node.step])
    return min(abs(distance) for distance in distances)


def quality(model: Model, native: Model, examples: Sequence[Example], *, resamples: int) -> Json:
    """What 8 bits cost by the run's first metric, with a paired test; and how many outputs are the same."""
    known = [name for name in model.recipe.evaluation.metrics if name not in OF_LISTS | OF_SOURCES]
    name = "BLEU" if "BLEU" in known else known[0]
    sources = [one.source for one in examples]
    both = [
        Outputs(told, [one.text for one in each.predict_many(sources)])
        for told, each in (("torch", model), ("native, 8 bits", native))
    ]
    references = [[one.target] for one in examples]
    own = metric(name, tokenize=model.recipe.evaluation.tokenize)
    (found,) = compare_with_first(own, both, references, resamples=resamples, trials=resamples)
    same = sum(one == other for one, other in zip(both[0].texts, both[1].texts, strict=True))
    return {
        "metric": name,
        "same": same,
        **found.to_json(),
        "loss": _loss(found.difference.value, own.higher_is_better),
    }


def _loss(difference: float, higher_is_better: bool) -> float:
    return -difference if higher_is_better else difference


def requests_of(model: Model, sources: Sequence[str]) -> list[EngineRequest]:
    """Sentences as the engine is asked for them."""
    options, longest = model.options(), model.longest_source
    rows = [model.texts.source.encode(source).ids[:longest] for source in sources]
    return [EngineRequest(ids=[*row, END], limit=options.limit(len(row))) for row in rows if row]


def independence(path: Path, requests: Sequence[EngineRequest], options: EngineOptions, *, workers: int) -> Json:
    """Sentences whose outputs are not the same, bit for bit, alone and among others, in each way of searching."""
    engine = Engine(path)
    alone = engine.search(requests, options=options, workers=1, capacity=1)
    order = list(range(len(requests)))
    random.Random(0).shuffle(order)
    ways = {
        "16 together": (range(len(requests)), 1, 16),
        f"{workers} workers, 16 together": (range(len(requests)), workers, 16),
        f"{workers} workers, 48 together, in another order": (order, workers, 48),
    }
    differing: Json = {}
    for told, (places, count, capacity) in ways.items():
        found = engine.search([requests[place] for place in places], options=options, workers=count, capacity=capacity)
        differing[told] = sum(alone[place] != one for place, one in zip(places, found, strict=True))
    return {"sentences": len(requests), "differing": differing}


def held(model: Model, examples: Sequence[Example], work: Path, *, workers: int, resamples: int) -> Json:
    """All of the above for one run."""
    sources = [one.source for one in examples]
    whole = natively(model, work / "engine32.bin", int8=False)
    small = natively(model, work / "engine8.bin", int8=True)
    requests, options = requests_of(model, sources), engine_options(model.options())
    return {
        "float32": [agreement(model, whole, sources, beam=beam) for beam in (1, 5)],
        "constrained": constrained(model, whole, examples),
        "int8": quality(model, small, examples, resamples=resamples),
        "independence": {
            bits: independence(work / f"engine{bits}.bin", requests, options, workers=workers) for bits in ("32", "8")
        },
    }

"""Small models with wildly drawn weights, and texts of the pocket world, for the tests of exports."""

import math
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import torch

from regard.data.batch import make_batch, source_ids
from regard.data.pocket import examples
from regard.nn import sinusoids
from regard.recipe import recipe_from
from regard.recipe.build import build_system
from regard.recipe.texts import Texts
from regard.run.model import Model
from regard.search import Hypothesis, Request, Search, SearchOptions
from regard.special import END, FIRST_FREE, PAD, START, UNKNOWN
from regard.text import train_tokenizer

LIMIT = 12
"""Tokens of an output, END included."""

Ids = tuple[int, ...]


@cache
def pocket_pairs() -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in examples(size=400, seed=3, source="en", target="de").train]


@cache
def pocket_texts(unit: str, *, shared: bool = True, size: int = 400) -> Texts:
    sources, targets = zip(*pocket_pairs(), strict=True)
    if shared:
        both = train_tokenizer([*sources, *targets], unit=unit, size=size)
        return Texts(source=both, target=both)
    source, target = (train_tokenizer(side, unit=unit, size=size) for side in (sources, targets))
    return Texts(source=source, target=target)


def random_model(
    *,
    texts: Texts | None = None,
    encoder: Mapping[str, object] | None = None,
    decoder: Mapping[str, object] | None = None,
    seed: int = 1,
    **settings: object,
) -> Model:
    """A model of width 12 whose outputs differ from source to source; `both` are settings of both sides."""
    texts = texts or pocket_texts("character", shared=False)
    sides = {"kind": "transformer", "heads": 2, "feedforward": 20} | dict(settings.pop("both", {}))
    recipe = recipe_from(
        {
            "data": {"train": "x", "max_length": 100},
            "text": {"unit": "character", "shared": texts.source is texts.target},
            "search": {"max_length": LIMIT, "beam": 4},
            "model": {
                "width": 12,
                "layers": 2,
                "dropout": 0.0,
                "encoder": sides | dict(encoder or {}),
                "decoder": sides | dict(decoder or {}),
                **settings,
            },
        }
    )
    torch.manual_seed(seed)
    system = build_system(recipe.model, source_vocabulary=texts.source.size, target_vocabulary=texts.target.size)
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            parameter.normal_(std=0.8 if "cross" in name else 0.3)  # the source has its say
            if name.endswith("norm.weight"):
                parameter += 1.0
        system.decoder.output.weight[END] *= 3.0  # some outputs end soon
    return Model(recipe=recipe, system=system, texts=texts, folder=Path("none"))


def random_rows(vocabulary: int, count: int, *, longest: int = 9, seed: int = 1) -> list[Ids]:
    """Rows of ids without END."""
    draw = random.Random(seed)
    return [
        tuple(draw.randrange(FIRST_FREE, vocabulary) for _ in range(draw.randint(1, longest))) for _ in range(count)
    ]


def searched(model: Model, rows: Sequence[Ids], *, beam: int) -> list[Hypothesis]:
    """What our search finds."""
    search = Search(model.system)
    options = SearchOptions(beam=beam, max_length=LIMIT, max_ratio=None)
    search.add(
        Request(id=number, sources={"source": source_ids([row])}, items=len(row), options=options)
        for number, row in enumerate(rows)
    )
    found: dict[int, Hypothesis] = {}
    while search.busy:
        found.update((finished.id, finished.hypotheses[0]) for finished in search.step())
    return [found[number] for number in range(len(rows))]


@torch.no_grad()
def logits(model: Model, rows: Sequence[Ids], targets: Sequence[Ids]) -> torch.Tensor:
    """Ours, teacher-forced, after START and each token: (B, M, V)."""
    batch = make_batch(rows, targets)
    memory = model.system.encoder.encode(batch.sources["source"])
    return model.system.decoder.logits(model.system.decoder.hidden(memory, batch.inputs))


def wide_beam(model: Model, row: Ids, *, beam: int, forbidden_first: bool) -> tuple[float, Ids]:
    """Beam search as both other programs define it, from our probabilities: score / length and tokens.

    The best 2 K continuations are looked at: those among the first K that end are results, and the K best others go on.
    At the last step the first K are results, ended or not. `forbidden_first`: what must not come out is taken away
    before the softmax.
    """
    live: list[tuple[float, Ids]] = [(0.0, ())]
    done: list[tuple[float, Ids]] = []
    for step in range(LIMIT):
        said = logits(model, [row] * len(live), [tokens for _, tokens in live])[:, -1]
        forbidden = torch.zeros_like(said)
        forbidden[:, [PAD, UNKNOWN, START]] = -math.inf
        said = (said + forbidden).log_softmax(-1) if forbidden_first else said.log_softmax(-1) + forbidden
        continued = [
            (score + value, (*tokens, token))
            for (score, tokens), values in zip(live, said.tolist(), strict=True)
            for token, value in enumerate(values)
        ]
        best = sorted(continued, reverse=True)[: 2 * beam]
        last = step == LIMIT - 1
        done += [(score / len(tokens), tokens) for score, tokens in best[:beam] if last or tokens[-1] == END]
        live = [(score, tokens) for score, tokens in best if tokens[-1] != END][:beam]
    score, tokens = max(done)
    return score, tokens


def with_other_parts(model: Model) -> Model:
    """The same model with parts that no recipe of ours asks for: a bias of the output, and elsewhere none; embeddings
    as they are; all sines before all cosines."""
    system = model.system
    system.decoder.output.bias = torch.nn.Parameter(torch.randn(model.texts.target.size))
    for layer in (*system.encoder.layers, *system.decoder.layers):
        layer.attention.query.bias = layer.attention.key_value.bias = layer.feedforward.inner.bias = None
    for side in (system.encoder, system.decoder):
        side.embedding.scale = 1.0
        table = sinusoids(torch.arange(1100), side.embedding.width).float()
        side.positions.added.table = torch.cat((table[:, 0::2], table[:, 1::2]), dim=1)
    return model

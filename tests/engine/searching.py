"""Both searches over the same requests, for the tests of the engine."""

import random
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from regard.data.batch import Category, Ids, Sources
from regard.engine import Engine, EngineRequest, Found
from regard.engine.preparation import prepare
from regard.models import Decoder, EncoderDecoder
from regard.models.coverage import Covering
from regard.nn import Variant
from regard.run.native import engine_options
from regard.run.searching import Searching
from regard.search import Finished, Request, Search, SearchOptions
from regard.search.constraints import Lifted
from regard.special import END, FIRST_FREE
from tests.families import (
    bahdanau_decoder,
    family,
    initial_decoder,
    luong_decoder,
    output_decoder,
    recurrent_encoder,
    transformer_decoder,
    transformer_encoder,
)

VOCABULARY = 70
LIMIT = 14
VARIANTS = {  # of encoder and decoder: every choice of a Transformer that the engine knows
    "learned, gelu": (
        Variant(positions="learned", longest=40, activation="gelu", score="bilinear"),
        Variant(positions="learned", longest=30, activation="gelu", key_heads=1),
    ),
    "relative bias, swiglu": (
        Variant(positions="relative_bias", buckets=8, furthest=5, activation="swiglu"),
        Variant(positions="relative_bias", buckets=8, furthest=6, activation="swiglu", score="dot"),
    ),
    "alibi, silu, rms": (
        Variant(positions="alibi", activation="silu", norm_kind="rms", norm_epsilon=1e-4),
        Variant(positions="alibi", activation="relu", embedding_norm=True),
    ),
    "t5": (
        Variant(
            positions="relative_bias", buckets=8, furthest=5, activation="geglu", head_width=6, attention_bias=False
        ),
        Variant(
            positions="relative_bias", buckets=8, furthest=5, activation="geglu", head_width=6, attention_bias=False
        ),
    ),
    "halves": (Variant(waves="halves", key_heads=1), Variant(waves="halves", embedding_norm=True)),
}


def variant(name: str, *, seed: int = 1) -> EncoderDecoder:
    """A Transformer with wildly drawn weights."""
    torch.manual_seed(seed)
    for_encoder, for_decoder = VARIANTS[name]
    encoder = transformer_encoder(VOCABULARY, norm_first=True, variant=for_encoder)
    decoder = transformer_decoder(VOCABULARY, encoder.memory_width, norm_first=False, variant=for_decoder)
    system = EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=VOCABULARY)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    return system.eval()


RECURRENT = (
    "elman, luong without feeding",
    "elman, initial",
    "deep two-way lstm, at the output",
    "gru, at the output, projected",
    "gru, luong",
    "gru_cho, luong, scaled dot",
    "two-way elman, deep bahdanau lstm",
)
"""Cells, directions, depths, scores and wirings that the families have not."""


def recurrent(name: str) -> EncoderDecoder:
    """A recurrent system with wildly drawn weights."""
    torch.manual_seed(1)
    encoder = recurrent_encoder(VOCABULARY, "gru", two_way=False, width=6)
    decoder: Decoder
    match name:
        case "elman, luong without feeding":
            encoder = recurrent_encoder(VOCABULARY, "elman", layers=2)
            decoder = luong_decoder(VOCABULARY, encoder, "elman", feeding=False, score="bilinear")
        case "elman, initial":
            encoder = recurrent_encoder(VOCABULARY, "elman", layers=2, width=6, two_way=False)
            decoder = initial_decoder(VOCABULARY, encoder, "elman", handed=True, layers=2)
        case "deep two-way lstm, at the output":
            encoder = recurrent_encoder(VOCABULARY, "lstm", layers=3, residual=True)
            decoder = output_decoder(VOCABULARY, encoder, "lstm")
        case "gru, at the output, projected":
            decoder = output_decoder(VOCABULARY, encoder, "gru", width=9, score="dot")
        case "gru, luong":
            decoder = luong_decoder(VOCABULARY, encoder, "gru", layers=2)
        case "gru_cho, luong, scaled dot":
            decoder = luong_decoder(VOCABULARY, encoder, "gru_cho", score="scaled_dot")
        case _:
            encoder = recurrent_encoder(VOCABULARY, "elman")
            decoder = bahdanau_decoder(VOCABULARY, encoder, "lstm", layers=2)
    system = EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=VOCABULARY)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    return system.eval()


def system_named(name: str) -> EncoderDecoder:
    if name in RECURRENT:
        return recurrent(name)
    return variant(name) if name in VARIANTS else family(name, vocabulary=VOCABULARY, dtype=torch.float32)


def sentences(count: int, *, seed: int = 1, longest: int = 20) -> list[list[int]]:
    draw = random.Random(seed)
    return [
        [draw.randrange(FIRST_FREE, VOCABULARY) for _ in range(draw.randint(1, longest))] + [END] for _ in range(count)
    ]


def as_source(ids: Sequence[int]) -> Sources:
    if not ids:
        return {"source": Category(values=torch.zeros(1, 0, dtype=torch.long), mask=torch.ones(1, 0, dtype=torch.bool))}
    rows = torch.tensor(ids)[None, :, None]
    return {"source": Ids(ids=rows, mask=torch.ones(1, len(ids), dtype=torch.bool))}


def requests_for(
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefix: tuple[int, ...] = (),
    constraints: Sequence[Lifted | None] = (),
) -> list[Request]:
    """One for each source, with its constraint where there are some."""
    return [
        Request(id=number, sources=as_source(ids), items=len(ids), options=options, prefix=prefix, constraint=one)
        for number, (ids, one) in enumerate(zip(sources, constraints or [None] * len(sources), strict=True))
    ]


def searched(search: Searching, requests: Sequence[Request]) -> list[Finished]:
    """What any search finds."""
    search.add(requests)
    found: dict[int, Finished] = {}
    while search.busy:
        found.update((one.id, one) for one in search.step())
    return [found[request.id] for request in requests]


def torch_search(
    system: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefix: tuple[int, ...] = (),
    constraints: Sequence[Lifted | None] = (),
) -> list[Finished]:
    search = Search(Covering(system) if options.coverage_penalty else system, capacity=5)
    return searched(search, requests_for(sources, options, prefix, constraints))


def opened(system: EncoderDecoder, folder: Path, *, int8: bool = False, kernels: str = "") -> Engine:
    path = folder / f"{'int8' if int8 else 'float'}.bin"
    prepare(system, path, int8=int8)
    return Engine(path, kernels=kernels)


def engine_search(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    *,
    prefix: tuple[int, ...] = (),
    workers: int = 1,
    capacity: int = 5,
) -> list[tuple[Found, ...]]:
    requests = [EngineRequest(ids=ids, limit=len(prefix) + options.limit(len(ids)), prefix=prefix) for ids in sources]
    return engine.search(requests, options=engine_options(options), workers=workers, capacity=capacity)


def assert_same(found: Sequence[tuple[Found, ...]], expected: Sequence[Finished], tolerance: float = 1e-4) -> None:
    """The same tokens in the same order with the same numbers."""
    for ours, theirs in zip(found, expected, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs.hypotheses]
        for one, other in zip(ours, theirs.hypotheses, strict=True):
            assert abs(one.log_probability - other.log_probability) < tolerance
            assert abs(one.score - other.score) < tolerance
            assert abs(one.coverage - other.parts.coverage) < tolerance
            assert one.complete == other.complete
            assert len(one.token_log_probabilities) == len(other.token_log_probabilities)
            pairs = zip(one.token_log_probabilities, other.token_log_probabilities, strict=True)
            assert max((abs(a - b) for a, b in pairs), default=0.0) < tolerance


def quantised_linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b with the rows of x and the columns of W rounded to bytes, in double precision."""
    weight = weight.double()
    scales = weight.abs().amax(1, keepdim=True).float().double() / 127
    weight = torch.where(scales > 0, (weight / scales).round() * scales, 0.0)
    steps = states.double().abs().amax(-1, keepdim=True) / 127
    rounded = torch.where(steps > 0, (states.double() / steps).round() * steps, 0.0)
    product = rounded @ weight.T
    return (product if bias is None else product + bias).float()


class rounding_to_bytes(TorchFunctionMode):  # noqa: N801
    """Within it a system of torch does what the engine does with bytes, in the first step of a search.

    Every linear map is one of bytes, under whatever name it is called. What a decoder looks at, for one row of each
    sentence then, is kept in 16 bits; an encoder looks with all items of a sentence at once.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Collection[type],
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> Any:
        if function is functional.linear:
            return quantised_linear(*arguments, **(named or {}))
        if function in (torch.mm, torch.addmm):  # of what is laid out for search
            *bias, rows, turned = arguments
            made, out = quantised_linear(rows, turned.t(), *bias), (named or {}).get("out")
            return made if out is None else out.copy_(made)
        if function is functional.scaled_dot_product_attention and arguments[0].size(-2) == 1:
            query, *kept = arguments
            arguments = (query, *(one.bfloat16().float() for one in kept))
        return function(*arguments, **(named or {}))

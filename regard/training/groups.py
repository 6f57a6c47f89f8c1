"""Which parameters learn, and how fast: frozen ones, factors by name, and factors by layer.

Names are those of `named_parameters`; a beginning stops at a dot: `encoder.layers.1` is not `encoder.layers.10`. Tied
weights have the first of their names.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch.nn import Parameter

from regard.errors import RecipeError
from regard.training.settings import Settings

_LAYER = re.compile(r"\.(?:layers|network\.directions\.\d+)\.(\d+)\.")
_LOWEST = re.compile(r"\.(?:embedding|embedding_norm|positions)\.")


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that learn at one rate: `factor` times that of the schedule."""

    factor: float
    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]


def groups(named_parameters: Iterable[tuple[str, Parameter]], settings: Settings) -> list[Group]:
    """The parameters that are not frozen, by factor, each group and its members in the order of their names here."""
    named = dict(named_parameters)
    for setting, beginnings in (("freeze", settings.freeze), ("rates", settings.rates)):
        _check(setting, beginnings, named)
    learning = [name for name in named if _longest(name, settings.freeze) is None]
    if not learning:
        raise RecipeError("`training.freeze` freezes every parameter, so that nothing could be learned; leave some out")
    for beginning in settings.rates:
        if not any(_begins(name, beginning) for name in learning):
            raise RecipeError(f"`training.rates` has a factor for {beginning!r}, all of which is frozen; leave it out")
    by_layer = layer_factors(list(named), settings.layer_decay)
    found: dict[float, list[str]] = {}
    for name in learning:
        rated = _longest(name, settings.rates)
        factor = by_layer[name] * (1.0 if rated is None else settings.rates[rated])
        found.setdefault(factor, []).append(name)
    return [Group(factor, tuple(names), tuple(named[name] for name in names)) for factor, names in found.items()]


def layer_factors(names: Sequence[str], decay: float | None) -> dict[str, float]:
    """Factors that fall from the top layer of each part to its embeddings: 1, d, d², … (Howard & Ruder 2018, 3.2).

    Of L layers, layer i (from 0) has d^(L-1-i), embeddings, their norm and learned positions d^L, everything else 1.
    """
    if decay is None:
        return dict.fromkeys(names, 1.0)
    layers = {name: int(match[1]) for name in names if (match := _LAYER.search(name))}
    if not layers:
        raise RecipeError("`training.layer_decay` has no effect on a model without layers; leave it out")
    depth: dict[str, int] = {}
    for name, layer in layers.items():
        part = name.partition(".")[0]
        depth[part] = max(depth.get(part, 0), layer + 1)
    factors: dict[str, float] = {}
    for name in names:
        top = depth.get(name.partition(".")[0], 0)
        below = top - 1 - layers[name] if name in layers else top if _LOWEST.search(name) else 0
        factors[name] = float(decay**below)
    return factors


def _check(setting: str, beginnings: Iterable[str], named: Mapping[str, Parameter]) -> None:
    for beginning in beginnings:
        if any(_begins(name, beginning) for name in named):
            continue
        parts = beginning.split(".")
        while parts and not any(_begins(name, ".".join(parts)) for name in named):
            parts.pop()
        depth, known = len(parts) + 1, ".".join(parts)
        there = dict.fromkeys(".".join(name.split(".")[:depth]) for name in named if not known or _begins(name, known))
        raise RecipeError(
            f"`training.{setting}` names {beginning!r}, with which no parameter begins; there are {', '.join(there)} "
            "(tied weights have the first of their names)"
        )


def _begins(name: str, beginning: str) -> bool:
    return name == beginning or name.startswith(f"{beginning}.")


def _longest(name: str, beginnings: Iterable[str]) -> str | None:
    return max((each for each in beginnings if _begins(name, each)), key=len, default=None)

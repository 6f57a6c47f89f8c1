"""What is learned from a batch, and what noise it has: the settings, and where they cannot work."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from regard.recipe.section import Section

if TYPE_CHECKING:
    from regard.recipe.schema import Recipe

DecayName = Literal["linear", "exponential", "inverse_sigmoid", "always"]
DECAYS: dict[DecayName, tuple[str, ...]] = {
    "linear": ("k", "slope", "floor"),
    "exponential": ("k",),
    "inverse_sigmoid": ("k",),
    "always": (),
}
"""The settings that each decay has."""


class SamplingSection(Section):
    """Scheduled sampling (Bengio et al. 2015): the decoder reads some of its own output in training."""

    decay: DecayName = Field(
        description="The share ε of true inputs at update i. linear: max(floor, k - slope·i); exponential: k^i; "
        "inverse_sigmoid: k / (k + exp(i / k)); always: 0, own outputs only."
    )
    k: float | None = Field(
        None, gt=0, description="linear: the offset, 1 if left out; exponential: below 1; inverse_sigmoid: at least 1."
    )
    slope: float | None = Field(None, gt=0, description="By how much ε falls at each update (linear).")
    floor: float | None = Field(None, ge=0, lt=1, description="The least ε (linear); 0 if left out.")
    draw: Literal["sample", "best"] = Field(
        "sample", description="Own outputs are drawn from the distribution, or are the likeliest."
    )

    @model_validator(mode="after")
    def _decays(self) -> "SamplingSection":
        for name in ("k", "slope", "floor"):
            if getattr(self, name) is not None and name not in DECAYS[self.decay]:
                raise ValueError(f"`{name}` has no effect on `decay: {self.decay}`: leave it out")
        if self.decay == "linear" and self.slope is None:
            raise ValueError("`decay: linear` needs a `slope`; 0.0001 goes from 1 to 0 in 10,000 updates")
        if self.decay == "exponential" and not (self.k and self.k < 1):
            raise ValueError(f"`decay: exponential` is k^i and needs a `k` below 1, such as 0.9999; found {self.k}")
        if self.decay == "inverse_sigmoid" and not (self.k and self.k >= 1):
            raise ValueError(
                f"`decay: inverse_sigmoid` needs a `k` of at least 1, such as 500; found {self.k}. Half of the inputs "
                "are true at update k·ln k"
            )
        return self


class ObjectiveSection(Section):
    """What is learned beside the likelihood of the truth."""

    sampling: SamplingSection | None = Field(
        None, description="Scheduled sampling: own outputs among the inputs of the decoder; null: teacher forcing."
    )
    rdrop: float = Field(
        0.0,
        ge=0,
        description="Weight of the divergence between two draws of dropout (R-Drop); half the α of its paper.",
    )


class CorruptionSection(Section):
    """Noise on training data, drawn anew in each epoch; all but `swap` are probabilities of each token."""

    drop: float = Field(0.0, ge=0, lt=1, description="Tokens of the source that are left out.")
    swap: int = Field(0, ge=0, le=1000, description="How far tokens of the source may move; 0: not at all.")
    replace: float = Field(0.0, ge=0, le=1, description="Tokens of the source that become another one.")
    mask: float = Field(0.0, ge=0, le=1, description="Tokens of the source that are hidden.")
    word_dropout: float = Field(0.0, ge=0, le=1, description="Tokens of the target that the decoder does not read.")

    @property
    def of_source(self) -> tuple[str, ...]:
        """What is done to the source, by names of settings."""
        return tuple(name for name in ("drop", "swap", "replace", "mask") if getattr(self, name))

    @model_validator(mode="after")
    def _shares(self) -> "CorruptionSection":
        if self.replace + self.mask > 1:
            raise ValueError(f"`replace` {self.replace} and `mask` {self.mask} are more than all together")
        return self


def learning_problems(recipe: "Recipe") -> Iterator[str]:
    """Objectives and noise that cannot work with the rest of a recipe, or have no effect there."""
    yield from _objective_problems(recipe)
    yield from _corruption_problems(recipe)


def _objective_problems(recipe: "Recipe") -> Iterator[str]:
    objective, model = recipe.training.objective, recipe.model
    if objective.sampling and model.decoder.kind == "none":
        yield (
            f"`training.objective.sampling` lets a decoder read its own output, and `shape: {model.shape}` has no "
            "decoder: leave it out"
        )
    if objective.rdrop and recipe.text.target is not None and recipe.text.target.unit == "number":
        yield "`training.objective.rdrop` compares distributions, and a number is none: leave it out"
    if objective.rdrop and not model.dropout:
        yield (
            "`training.objective.rdrop` compares two draws of dropout, and `model.dropout` is 0: raise that, or leave "
            "`rdrop` out"
        )


def _corruption_problems(recipe: "Recipe") -> Iterator[str]:
    corruption, model = recipe.training.corruption, recipe.model
    found = corruption.of_source
    named = ", ".join(f"`training.corruption.{name}`" for name in found)
    acts = "act" if len(found) > 1 else "acts"
    if found and not recipe.reads_text:
        yield f"{named} {acts} on the text of a source, and there is none: leave {_them(found)} out"
    elif found and model.shape == "masked-language-model":
        yield (
            f"{named} {acts} on the source, which a masked language model is also asked for; what it hides is set in "
            f"`training.masking`: leave {_them(found)} out"
        )
    moving = tuple(name for name in found if name in ("drop", "swap"))
    if moving and model.shape == "transducer":
        yield (
            f"{', '.join(f'`training.corruption.{name}`' for name in moving)} would part words from their tags: leave "
            f"{_them(moving)} out; `replace` and `mask` work"
        )
    if not corruption.word_dropout:
        return
    sampling = recipe.training.objective.sampling
    if model.decoder.kind == "none":
        yield (
            f"`training.corruption.word_dropout` is for what a decoder reads, and `shape: {model.shape}` has no "
            "decoder: leave it out"
        )
    if sampling and sampling.decay == "always":
        yield (
            "`training.corruption.word_dropout` hides true inputs, and with `sampling.decay: always` there are none: "
            "leave one of them out"
        )


def _them(names: tuple[str, ...]) -> str:
    return "them" if len(names) > 1 else "it"

"""How the parameters are found: the training section of a recipe."""

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from regard.recipe.learning import CorruptionSection, ObjectiveSection
from regard.recipe.section import Section

MetricName = Literal[
    "BLEU", "chrF", "TER", "METEOR", "exact", "accuracy", "edit_distance", "WER", "CER", "span_F1", "bracket_F1",
    "slot_error", "AER", "MRR", "P@1", "P@3", "P@5", "P@10", "pearson", "spearman", "squared_error",
]  # fmt: skip


class MaskingSection(Section):
    """What is hidden of a text (Devlin et al. 2019, 3.1)."""

    share: float = Field(0.15, gt=0, lt=1, description="Share of the items that are asked for.")
    masked: float = Field(0.8, ge=0, le=1, description="Of these, the share that is hidden.")
    replaced: float = Field(0.1, ge=0, le=1, description="Of these, the share that is replaced by another item.")

    @model_validator(mode="after")
    def _shares(self) -> "MaskingSection":
        if self.masked + self.replaced > 1:
            raise ValueError(f"`masked` {self.masked} and `replaced` {self.replaced} are more than all together")
        return self


class FallSection(Section):
    """How the learning rate falls in steps (schedules `by_epoch` and `plateau`)."""

    factor: float = Field(0.5, gt=0, lt=1, description="What the learning rate is multiplied with.")
    after_epochs: int = Field(5, ge=0, description="`by_epoch`: epochs before it falls first; then after each one.")
    after_validations: int = Field(2, ge=1, description="`plateau`: validations in a row without a gain.")
    least: float = Field(0.0, ge=0, le=1, description="Share of the peak below which it does not fall.")


FALLING = {
    "factor": ("by_epoch", "plateau"),
    "after_epochs": ("by_epoch",),
    "after_validations": ("plateau",),
    "least": ("by_epoch", "plateau"),
}
"""Which schedules a setting of `fall` is for."""


class TrainingSection(Section):
    """How the parameters are found."""

    steps: int | None = Field(None, ge=1, description="Optimiser updates; whichever limit comes first ends training.")
    epochs: int | None = Field(None, ge=1, description="Passes over the data.")
    minutes: float | None = Field(None, gt=0, description="Minutes of training, validation included.")
    batch_tokens: int = Field(4096, ge=1, description="Target tokens of a batch (one optimiser update).")
    accumulate: int = Field(1, ge=1, description="Micro-batches that a batch is split into, in each process.")
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp", description="Of several processes each has a copy of the model (ddp) or a share of it (fsdp)."
    )
    optimizer: Literal["adamw", "adam", "sgd"] = Field(
        "adamw", description="The optimiser; `adamw` decays weights apart from the gradient."
    )
    learning_rate: float = Field(1e-3, gt=0, description="The (peak) learning rate.")
    betas: tuple[float, float] = Field((0.9, 0.98), description="Adam's decay rates.")
    momentum: float = Field(0.0, ge=0, lt=1, description="Share of the last change that is made again (sgd).")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay.")
    schedule: Literal["inverse_sqrt", "constant", "linear", "cosine", "by_epoch", "plateau"] = Field(
        "inverse_sqrt",
        description="The learning rate over steps; `linear` and `cosine` reach 0 after `steps`, `by_epoch` and "
        "`plateau` fall as `fall` says.",
    )
    fall: FallSection = Field(
        default_factory=lambda: FallSection(), description="How the learning rate falls (by_epoch, plateau)."
    )
    warmup: int = Field(400, ge=0, description="Steps over which the learning rate rises from 0.")
    clip: float = Field(1.0, ge=0, description="Largest norm of the gradient; 0 for no limit.")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="Probability spread over the vocabulary.")
    validate_every: int | None = Field(None, ge=1, description="Steps between validations; an epoch if left out.")
    save_every: int | None = Field(None, ge=1, description="Steps between checkpoints; each validation if left out.")
    patience: int | None = Field(10, ge=1, description="Validations without a gain before training ends; null: never.")
    select: Literal["loss"] | MetricName = Field("loss", description="What validation is judged by.")
    average: int = Field(1, ge=1, description="Validated checkpoints whose weights are averaged at the end.")
    moving_average: float | None = Field(
        None, gt=0, lt=1, description="Decay of a moving average of the weights, which is then the model."
    )
    threads: Literal["auto"] | Annotated[int, Field(ge=1)] | None = Field(
        None, description="Threads of torch; as many as cores if left out, `auto`: what is fastest, measured."
    )
    lanes: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Parts of a batch that are learned from at the same time, on a thread each or more; 1: all threads "
        "share all products. If left out, what a rule says is faster.",
    )
    precision: Literal["float32", "bfloat16", "float64", "auto"] = Field(
        "float32",
        description="Of products; `bfloat16` keeps weights and sums in single precision, `auto`: what is faster, "
        "measured.",
    )
    recompute: bool = Field(
        False, description="Layers compute again in the backward pass what they would keep: less memory, more time."
    )
    compile: bool = Field(
        False, description="Let torch compile Transformer layers; needs a C++ compiler. Measure first whether it pays."
    )
    tensorboard: bool = Field(False, description="Also write what TensorBoard shows, into the run folder.")
    freeze: tuple[str, ...] = Field(
        (), description="Parameters that stay as they are, by beginnings of names such as encoder.embedding."
    )
    rates: dict[str, float] = Field(
        default_factory=dict,
        description="Factors of the learning rate by beginnings of names; the longest that fits counts.",
    )
    layer_decay: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Factor of the learning rate from each layer to the one below it; embeddings last.",
    )
    masking: MaskingSection = Field(
        default_factory=lambda: MaskingSection(), description="What is hidden (masked language models)."
    )
    objective: ObjectiveSection = Field(
        default_factory=ObjectiveSection, description="What is learned beside the likelihood of the truth."
    )
    corruption: CorruptionSection = Field(
        default_factory=CorruptionSection, description="Noise on training data, drawn anew in each epoch."
    )

    @model_validator(mode="after")
    def _bounded(self) -> "TrainingSection":
        if self.steps is None and self.epochs is None and self.minutes is None and self.patience is None:
            raise ValueError("training would never end: give `steps`, `epochs`, `minutes` or `patience`")
        if self.schedule in ("linear", "cosine") and self.steps is None:
            raise ValueError(f"`schedule: {self.schedule}` falls to 0 at the end: give the number of `steps`")
        if self.compile and self.recompute:
            raise ValueError("`compile` has no effect on layers that `recompute`; choose one of them")
        if (self.lanes or 1) > 1 and (hindrance := self.lanes_hindrance()):
            raise ValueError(f"`lanes: {self.lanes}` cannot be together with {hindrance}; leave one of them out")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"`momentum` is for `optimizer: sgd`; {self.optimizer} has `betas`")
        if self.schedule == "plateau" and self.patience is not None and self.patience <= self.fall.after_validations:
            raise ValueError(
                f"`patience: {self.patience}` ends training before the rate can fall after "
                f"{self.fall.after_validations} validations; give more `patience` or fewer `fall.after_validations`"
            )
        if self.optimizer == "sgd" and self.betas != TrainingSection.model_fields["betas"].default:
            raise ValueError("`betas` has no effect on `optimizer: sgd`, which has `momentum`: leave it out")
        for name, schedules in FALLING.items():
            if self.schedule not in schedules and getattr(self.fall, name) != FallSection.model_fields[name].default:
                raise ValueError(
                    f"`fall.{name}` has no effect on `schedule: {self.schedule}`; it is for {' and '.join(schedules)}"
                )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"`betas` are {self.betas}; each must be at least 0 and below 1")
        for name, factor in self.rates.items():
            if not 0 < factor < math.inf:
                raise ValueError(f"`rates` has the factor {factor:g} for {name!r}; it must be above 0 and finite")
        return self

    def lanes_hindrance(self) -> str:
        """The setting that parts of a batch cannot be learned from at the same time with, or nothing."""
        if self.objective.sampling is not None:
            return "`objective.sampling`"
        return next((f"`{name}: true`" for name in ("recompute", "compile") if getattr(self, name)), "")

"""The encoders and decoders that a recipe can ask for."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from regard.recipe.section import Section

LONGEST = 512
FURTHEST_RELATIVE = 16
FURTHEST_BIAS = 128
BUCKETS = 32
"""Of positions, where a recipe does not say: that of Shaw et al. 2018, and those of T5."""

Cell = Literal["elman", "lstm", "gru", "gru_cho", "multiplicative"]
Score = Literal["scaled_dot", "dot", "bilinear", "additive"]
PositionsName = Literal["none", "sinusoidal", "learned", "relative", "relative_bias", "rotary", "alibi"]


class TransformerEncoderSection(Section):
    """Vaswani et al. 2017, section 3.1."""

    kind: Literal["transformer"] = "transformer"
    layers: int | None = Field(None, ge=1, le=64, description="Layers; `model.layers` if left out.")
    heads: int = Field(4, ge=1, le=128, description="Attention heads; must divide `model.width`.")
    head_width: int | None = Field(None, ge=1, le=4096, description="Width of a head; `model.width` / `heads`.")
    feedforward: int | None = Field(None, ge=1, description="Inner width of the feed-forward part; 2 × width.")
    norm: Literal["post", "pre"] = Field("pre", description="Layer norm after (the paper) or before each part.")
    norm_kind: Literal["layer", "rms"] = Field("layer", description="Layer norm, or without mean and bias (T5).")
    norm_epsilon: float = Field(1e-5, gt=0, lt=1, description="What is added to the variance in a norm.")
    embedding_norm: bool = Field(False, description="A norm of what the first layer reads (BERT, BART).")
    embedding_scale: bool = Field(True, description="Embeddings are multiplied by √width (the paper).")
    positions: PositionsName = Field(
        "sinusoidal",
        description="How order is told: not at all; added to embeddings (sinusoidal, learned); inside attention: "
        "relative (Shaw et al. 2018), relative_bias (T5), rotary, alibi.",
    )
    longest: int | None = Field(
        None, ge=1, description="How many positions are learned (learned only), START or END included; 512."
    )
    furthest: int | None = Field(
        None, ge=1, description="Distance from which on all are one: 16 (relative) or 128 (relative_bias)."
    )
    buckets: int | None = Field(None, ge=2, description="Distances told apart by relative_bias; 32.")
    waves: Literal["interleaved", "halves"] | None = Field(
        None, description="Sinusoidal positions: sines and cosines by turns, or all sines first; interleaved."
    )
    activation: Literal["relu", "gelu", "silu", "swiglu", "geglu"] = Field(
        "relu", description="What is not linear in the feed-forward part; swiglu and geglu are gated."
    )
    feedforward_bias: bool | None = Field(
        None, description="Biases of the feed-forward part; unless the activation is gated."
    )
    feedforward_dropout: float | None = Field(
        None, ge=0, le=0.95, description="Dropout inside the feed-forward part; `model.dropout` if left out."
    )
    score: Score = Field("scaled_dot", description="How a query is compared with a key.")
    key_heads: int | None = Field(
        None, ge=1, le=128, description="Heads of keys and values, each shared by several heads; as many as `heads`."
    )

    attention_bias: bool = Field(True, description="Biases of the projections of queries, keys, values and heads.")

    @model_validator(mode="after")
    def _choices(self) -> "TransformerEncoderSection":
        if self.key_heads is not None and self.heads % self.key_heads:
            raise ValueError(
                f"{self.key_heads} key heads cannot serve {self.heads} heads in equal shares; "
                f"`key_heads` must divide `heads`"
            )
        for name, users in (
            ("longest", ("learned",)),
            ("waves", ("sinusoidal",)),
            ("furthest", ("relative", "relative_bias")),
            ("buckets", ("relative_bias",)),
        ):
            if getattr(self, name) is not None and self.positions not in users:
                raise ValueError(
                    f"`{name}` has no effect on positions {self.positions!r}; it works with {' and '.join(users)}"
                )
        if self.score == "additive" and self.positions in ("relative", "rotary"):
            raise ValueError(
                f"positions {self.positions!r} change the product of query and key, which the additive score does not "
                "make; choose another score, or positions none, sinusoidal, learned, relative_bias or alibi"
            )
        return self


class TransformerDecoderSection(TransformerEncoderSection):
    """Vaswani et al. 2017, section 3.1, the decoder."""

    @property
    def attends(self) -> bool:
        """Whether there is attention to the source."""
        return True


class RecurrentEncoderSection(Section):
    """A recurrent network over the source."""

    kind: Literal["rnn"] = "rnn"
    cell: Cell = Field("gru", description="The recurrent cell; `gru_cho` resets before the product, as in 2014.")
    layers: int | None = Field(None, ge=1, le=64, description="Layers; `model.layers` if left out.")
    width: int | None = Field(
        None, ge=1, le=16384, description="Size of the states of each direction; `model.width` if left out."
    )
    two_way: bool = Field(True, description="Read the source in both directions.")
    reversed: bool = Field(False, description="Read the source from its last item to its first (Sutskever 2014).")
    residual: bool = Field(False, description="From the second layer on, add what a layer reads to what it says.")
    layer_norm: bool = Field(False, description="Layer norm inside the cell (Ba 2016); there is no fused kernel then.")
    pyramid: bool = Field(
        False, description="From the second layer on, read two neighbours as one: half as many states (Chan 2016)."
    )
    self_attention: int | None = Field(
        None, ge=1, le=128, description="Heads of a layer of self-attention over the states; no such layer if left out."
    )

    @model_validator(mode="after")
    def _possible(self) -> "RecurrentEncoderSection":
        if self.reversed and self.two_way:
            raise ValueError("`reversed` has no effect on a network that reads both ways: set `two_way: false`")
        if self.pyramid and self.residual:
            raise ValueError(
                "a layer of a `pyramid` reads two states at once and cannot add them to its own: "
                "leave out `pyramid` or `residual`"
            )
        return self


class BagEncoderSection(Section):
    """A bag of words: the mean of the embeddings, without any order (CBOW)."""

    kind: Literal["bag"] = "bag"


class ConvolutionEncoderSection(Section):
    """Convolution over a picture, whose path is the source (Xu et al. 2015, section 3.1.1)."""

    kind: Literal["convolution"] = "convolution"
    layers: int | None = Field(None, ge=1, le=64, description="Layers; `model.layers` if left out.")
    channels: Literal[1, 3] = Field(3, description="Pictures are read as grey (1) or as red, green and blue (3).")
    halvings: int | None = Field(
        None, ge=0, le=64, description="The first so many layers halve height and width; all if left out."
    )
    groups: int | None = Field(
        None, ge=1, description="Groups of channels that are normalised in each layer; no norm if left out."
    )


class CategoryEncoderSection(Section):
    """One vector for each of the `data.attributes`: what a conditioned language model knows."""

    kind: Literal["category"] = "category"


class NoEncoderSection(Section):
    """Nothing is read: a language model."""

    kind: Literal["none"] = "none"


class NoDecoderSection(Section):
    """Nothing is written item by item: acceptors, transducers and masked language models."""

    kind: Literal["none"] = "none"
    layers: None = Field(None, description="There are none.")

    @property
    def attends(self) -> bool:
        """Whether there is attention to the source."""
        return False


class RecurrentDecoderSection(Section):
    """A recurrent decoder, with attention or without."""

    kind: Literal["rnn"] = "rnn"
    cell: Cell = Field("gru", description="The recurrent cell; `gru_cho` resets before the product, as in 2014.")
    layers: int | None = Field(None, ge=1, le=64, description="Layers; `model.layers` if left out.")
    residual: bool = Field(False, description="From the second layer on, add what a layer reads to what it says.")
    layer_norm: bool = Field(False, description="Layer norm inside the cell (Ba 2016); there is no fused kernel then.")
    wiring: Literal["bahdanau", "luong", "output", "initial", "transformed", "every_step", "none"] = Field(
        "bahdanau",
        description="How the source gets in. With attention: before the recurrence (`bahdanau`), after it (`luong`), "
        "at the `output` only. Without: final states as `initial` ones, `transformed`, or a vector at `every_step`. "
        "`none` is for language models.",
    )
    score: Score = Field("additive", description="How a query is compared with a key; dot needs both of one width.")
    projections: Literal["none", "learned", "split"] = Field(
        "none",
        description="What is compared: states as they are, learned projections of them, or one half of each state of "
        "the encoder as key and the other as value.",
    )
    heads: int = Field(1, ge=1, le=128, description="Attention heads.")
    input_feeding: bool | None = Field(
        None, description="`luong`: what was said last is an input of the next step; true if left out."
    )
    window: int | None = Field(
        None,
        ge=1,
        description="`luong`: attend only so far from a predicted position (local-p); everywhere if left out.",
    )

    @model_validator(mode="after")
    def _possible(self) -> "RecurrentDecoderSection":
        for name in ("input_feeding", "window"):
            if self.wiring != "luong" and getattr(self, name) is not None:
                raise ValueError(f"`{name}` has no effect on `wiring: {self.wiring}`; it belongs to `wiring: luong`")
        for name in ("score", "projections", "heads"):
            if not self.attends and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"`{name}` has no effect on `wiring: {self.wiring}`, which has no attention")
        return self

    @property
    def attends(self) -> bool:
        """Whether there is attention to the source."""
        return self.wiring in ("bahdanau", "luong", "output")


EncoderSection = Annotated[
    TransformerEncoderSection
    | RecurrentEncoderSection
    | BagEncoderSection
    | ConvolutionEncoderSection
    | CategoryEncoderSection
    | NoEncoderSection,
    Field(discriminator="kind"),
]
DecoderSection = Annotated[
    TransformerDecoderSection | RecurrentDecoderSection | NoDecoderSection, Field(discriminator="kind")
]

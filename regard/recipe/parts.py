"""The model section of a recipe: which encoder with which decoder, and what of it cannot be."""

from typing import Any, Literal

from pydantic import Field, model_validator

from regard.recipe.section import Section
from regard.recipe.sides import (
    BUCKETS,
    FURTHEST_BIAS,
    BagEncoderSection,
    CategoryEncoderSection,
    Cell,
    ConvolutionEncoderSection,
    DecoderSection,
    EncoderSection,
    RecurrentDecoderSection,
    RecurrentEncoderSection,
    TransformerDecoderSection,
    TransformerEncoderSection,
)

Shape = Literal["encoder-decoder", "language-model", "acceptor", "transducer", "masked-language-model"]


def _states(layers: int, cell: Cell) -> str:
    return f"{layers} layer{'' if layers == 1 else 's'} of {2 if cell == 'lstm' else 1} part{'s' * (cell == 'lstm')}"


class ModelSection(Section):
    """The parts of p(y | x)."""

    shape: Shape = Field(
        "encoder-decoder",
        description="What goes in and what comes out: n → m (encoder-decoder), 0 → n (language-model), n → 1 "
        "(acceptor), n → n (transducer), or hidden items of the input (masked-language-model).",
    )
    width: int = Field(128, ge=2, le=16384, description="Size of embeddings and hidden states.")
    layers: int = Field(2, ge=1, le=64, description="Layers of each side.")
    dropout: float = Field(0.1, ge=0, le=0.95, description="Dropout of embeddings and hidden states.")
    tie: Literal["all", "target", "none"] = Field(
        "target", description="Embeddings shared: source, target and output (`all`); target and output; none."
    )
    output_bias: bool = Field(False, description="Each output has a bias of its own.")
    factors: Literal["concat", "sum"] = Field(
        "concat", description="How the vectors of a word and its factors become one: side by side, or their sum."
    )
    factor_width: int = Field(16, ge=1, le=16384, description="Size of the vector of a factor (`factors: concat`).")
    encoder: EncoderSection = Field(default_factory=TransformerEncoderSection, description="Reads the source.")
    decoder: DecoderSection = Field(default_factory=TransformerDecoderSection, description="Writes the target.")
    start_from: str | None = Field(
        None, min_length=1, description="A run folder; what fits of its weights is where training begins."
    )
    start_part: Literal["encoder", "decoder"] | None = Field(
        None, description="Start only this part, from that of the same name or the only one there is."
    )

    @model_validator(mode="after")
    def _starts(self) -> "ModelSection":
        if self.start_part is not None and self.start_from is None:
            raise ValueError("`start_part` has no effect without a run folder in `start_from`")
        return self

    @model_validator(mode="before")
    @classmethod
    def _unsaid(cls, values: Any) -> Any:
        """A side that a shape does not have need not be told."""
        if not isinstance(values, dict):
            return values
        shape = values.get("shape", "encoder-decoder")
        missing = {"language-model": "encoder"}.get(shape, None if shape == "encoder-decoder" else "decoder")
        return values if missing is None else {missing: {"kind": "none"}, **values}

    @model_validator(mode="after")
    def _sides(self) -> "ModelSection":
        reads, writes = self.encoder.kind != "none", self.decoder.kind != "none"
        wanted = (self.shape != "language-model", self.shape in ("encoder-decoder", "language-model"))
        for name, there, needed in (("encoder", reads, wanted[0]), ("decoder", writes, wanted[1])):
            if there != needed:
                raise ValueError(
                    f"`shape: {self.shape}` has {'an' if name == 'encoder' else 'a'} {name}; choose a `{name}.kind`"
                    if needed
                    else f"`shape: {self.shape}` has no {name}: leave `{name}` out"
                )
        decoder = self.decoder
        if isinstance(decoder, RecurrentDecoderSection) and (decoder.wiring == "none") == (
            self.shape != "language-model"
        ):
            raise ValueError(
                "`decoder.wiring: none` is for `shape: language-model`, which has no source"
                if decoder.wiring == "none"
                else f"a language model has no source that could get in by `wiring: {decoder.wiring}`; set it to `none`"
            )
        if self.shape in ("transducer", "masked-language-model"):
            encoder = self.encoder
            if encoder.kind not in ("rnn", "transformer"):
                raise ValueError(
                    f"`shape: {self.shape}` needs a state for each item, which `encoder.kind: {encoder.kind}` has not; "
                    "take rnn or transformer"
                )
            if isinstance(encoder, RecurrentEncoderSection) and encoder.pyramid:
                raise ValueError(
                    f"a `pyramid` has fewer states than items, and `shape: {self.shape}` needs one for each"
                )
        return self

    @model_validator(mode="after")
    def _sizes(self) -> "ModelSection":
        for name, side in (("encoder", self.encoder), ("decoder", self.decoder)):
            if not isinstance(side, TransformerEncoderSection):
                continue
            if side.head_width is None and self.width % side.heads:
                raise ValueError(f"width {self.width} cannot be split into {side.heads} heads of the {name}")
            head_width = side.head_width or self.width // side.heads
            if side.positions == "rotary" and head_width % 2:
                raise ValueError(
                    f"rotary positions turn pairs of numbers, but a head of the {name} has {head_width}; "
                    "choose `width` and `heads` so that `width` / `heads` is even, or an even `head_width`"
                )
            if side.positions == "relative_bias":
                _check_buckets(side, name)
        return self

    @property
    def _memory_width(self) -> int:
        """Of the states that an encoder leaves behind."""
        if not isinstance(self.encoder, RecurrentEncoderSection):
            return self.width
        return (self.encoder.width or self.width) * (2 if self.encoder.two_way else 1)

    @model_validator(mode="after")
    def _recurrent(self) -> "ModelSection":
        for name, side in (("encoder", self.encoder), ("decoder", self.decoder)):
            if not isinstance(side, RecurrentEncoderSection | RecurrentDecoderSection):
                continue
            pyramid = isinstance(side, RecurrentEncoderSection) and side.pyramid
            if (side.residual or pyramid) and (side.layers or self.layers) == 1:
                setting = "pyramid" if pyramid else "residual"
                raise ValueError(f"`{setting}` has no effect on a single layer: give the {name} more `layers`")
        if isinstance(self.encoder, RecurrentEncoderSection) and self.encoder.self_attention:
            width = self._memory_width
            if width % self.encoder.self_attention:
                raise ValueError(
                    f"states of width {width} cannot be split into {self.encoder.self_attention} heads "
                    "of the encoder's `self_attention`"
                )
        return self

    @model_validator(mode="after")
    def _convolution(self) -> "ModelSection":
        side = self.encoder
        if not isinstance(side, ConvolutionEncoderSection):
            return self
        layers = side.layers or self.layers
        if side.halvings is not None and side.halvings > layers:
            raise ValueError(f"{layers} layers of the encoder cannot halve a picture {side.halvings} times")
        if side.groups is not None and self.width % side.groups:
            raise ValueError(f"width {self.width} cannot be split into {side.groups} `groups` of the encoder")
        return self

    @model_validator(mode="after")
    def _attends(self) -> "ModelSection":
        """Widths that attention compares must fit; Transformers project theirs."""
        side = self.decoder
        if not isinstance(side, RecurrentDecoderSection) or not side.attends:
            return self
        widths = {"decoder's states": self.width}
        if side.projections != "learned":
            memory = self._memory_width
            if side.projections == "split" and memory % 2:
                raise ValueError(f"states of width {memory} cannot be split into key and value of one width")
            widths["encoder's keys"] = memory // 2 if side.projections == "split" else memory
        for name, width in widths.items():
            if width % side.heads:
                raise ValueError(f"the {name} of width {width} cannot be split into {side.heads} heads")
        if side.score in ("dot", "scaled_dot") and len(set(widths.values())) > 1:
            both = " and the ".join(f"{name} {width}" for name, width in widths.items())
            raise ValueError(
                f"`score: {side.score}` needs one width, but the {both}: take `score: bilinear`, "
                "`projections: learned`, or an encoder with `two_way: false`"
            )
        return self

    @model_validator(mode="after")
    def _begins(self) -> "ModelSection":
        """Final states can be handed over as they are only where both sides have the same."""
        decoder, encoder = self.decoder, self.encoder
        if not isinstance(decoder, RecurrentDecoderSection) or decoder.wiring != "initial":
            return self
        wanted = f"a decoder with `wiring: initial` begins with {_states(decoder.layers or self.layers, decoder.cell)}"
        otherwise = "make them alike, or take `wiring: transformed`, which fits any encoder"
        match encoder:
            case BagEncoderSection() | CategoryEncoderSection():
                offered = _states(1, "gru")
            case RecurrentEncoderSection(two_way=False, self_attention=None):
                if encoder.width not in (None, self.width):
                    raise ValueError(
                        f"{wanted} of width {self.width}, and this encoder's have width {encoder.width}: {otherwise}"
                    )
                offered = _states(encoder.layers or self.layers, encoder.cell)
            case RecurrentEncoderSection(self_attention=None):
                raise ValueError(f"{wanted}, and a two-way encoder ends with two states in each layer: {otherwise}")
            case ConvolutionEncoderSection():
                raise ValueError(f"{wanted}, and a convolution ends with none: {otherwise}")
            case _:
                raise ValueError(f"{wanted}, and an encoder that ends with self-attention has none: {otherwise}")
        if not wanted.endswith(offered):
            raise ValueError(f"{wanted}, and this encoder ends with {offered}: {otherwise}")
        return self


def _check_buckets(side: TransformerEncoderSection, name: str) -> None:
    """Buckets must halve evenly (once for each direction of an encoder, once for single distances) below `furthest`."""
    parts = 2 if name == "decoder" else 4
    buckets, furthest = side.buckets or BUCKETS, side.furthest or FURTHEST_BIAS
    if buckets % parts:
        raise ValueError(f"{buckets} buckets of the {name} cannot be split into {parts} equal parts")
    if furthest <= buckets // parts:
        raise ValueError(
            f"`furthest` {furthest} of the {name} lies within the {buckets // parts} distances with a bucket each; "
            f"raise it above {buckets // parts}, or take fewer `buckets`"
        )

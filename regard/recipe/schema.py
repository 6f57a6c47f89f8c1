"""The schema of a run: every setting, declared and explained once.

A recipe is data: frozen, without code, without paths to import. Unknown keys are errors. Common settings of a section
(`model.layers`, `text.size`) hold for both sides; a side that differs says so in its own block
(`model.encoder.layers`). Sizes that come from data (a vocabulary, the number of rows) are never fields here.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

LONGEST = 512
FURTHEST_RELATIVE = 16
FURTHEST_BIAS = 128
BUCKETS = 32
"""Of positions, where a recipe does not say: that of Shaw et al. 2018, and those of T5."""

Unit = Literal["word", "character", "byte", "bpe", "unigram", "codes", "inflection", "imported"]
Cell = Literal["elman", "lstm", "gru", "gru_cho", "multiplicative"]
Answer = Literal["label", "number"]
Shape = Literal["encoder-decoder", "language-model", "acceptor", "transducer", "masked-language-model"]
MetricName = Literal["BLEU", "chrF", "TER", "exact", "accuracy", "edit_distance", "pearson", "squared_error"]


class Section(BaseModel):
    """A part of a recipe: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class DataSection(Section):
    """Where the examples come from and what happens to lines that cannot be used."""

    train: str | tuple[str, ...] = Field(description="A file of pairs, or two parallel files. Relative to the recipe.")
    valid: str | tuple[str, ...] | None = Field(None, description="Validation data; split off `train` if left out.")
    test: str | tuple[str, ...] | None = Field(None, description="Test data; split off `train` if left out.")
    further: dict[str, str | tuple[str, ...]] = Field(
        default_factory=dict, description="Further test sets, by name; each is judged like `test`."
    )
    format: Literal[
        "auto", "tsv", "jsonl", "parallel", "lines", "sigmorphon2016", "sigmorphon2017", "sigmorphon2023"
    ] = Field("auto", description="How lines are read; `auto` looks at the names and the first lines.")
    source: str | int | None = Field(
        0, description="The source: a column (TSV, from 0) or a key (JSONL); null where there is no source text."
    )
    target: str | int | None = Field(
        1, description="The target: a column (TSV, from 0) or a key (JSONL); null where there is none."
    )
    factors: tuple[str | int, ...] = Field(
        (), description="Columns or keys with an item for each word of the source, such as its part of speech."
    )
    attributes: tuple[str | int, ...] = Field(
        (), description="Columns or keys that say something of the whole example: a topic, a speaker."
    )
    split: float = Field(
        0.05, gt=0, lt=0.5, description="Share of `train` for each of validation and test that is split off."
    )
    bad_lines: Literal["refuse", "skip"] = Field(
        "refuse", description="Lines that cannot be decoded or split into columns: stop, or skip, count and list."
    )
    empty_lines: Literal["refuse", "skip"] = Field("refuse", description="Pairs with an empty side.")
    long_lines: Literal["refuse", "skip", "cut"] = Field("skip", description="Pairs longer than `max_length`.")
    max_length: int = Field(256, ge=1, le=65536, description="Tokens a side may have, without start and end.")

    @model_validator(mode="after")
    def _names(self) -> "DataSection":
        if "test" in self.further:
            raise ValueError("a further set cannot be called `test`, for that is the name of the set in `data.test`")
        return self


class SideText(Section):
    """Text settings of one side, where it differs from the common ones."""

    unit: Unit | Answer = Field(description="What a token is; a target may also be one `label` or `number`.")
    size: int = Field(8000, ge=5, le=1_000_000, description="Vocabulary size; an upper limit for words.")


class TextSection(Section):
    """How characters become ids."""

    unit: Unit = Field(
        "bpe", description="What a token is: word, character, byte, bpe, unigram, codes, inflection, imported."
    )
    size: int = Field(8000, ge=5, le=1_000_000, description="Vocabulary size (bpe, unigram); an upper limit for words.")
    shared: bool = Field(True, description="One vocabulary for both sides.")
    minimum_count: int = Field(1, ge=1, description="Rarer words (or characters) become unknown.")
    normal: Literal["none", "nfc", "nfkc"] = Field("none", description="Unicode normalisation before everything else.")
    lowercase: bool = Field(False, description="Lower-case everything.")
    codes: str | None = Field(None, description="A subword-nmt codes file; only for unit `codes`.")
    dropout: float = Field(0.0, ge=0, lt=1, description="BPE-dropout (bpe, codes) or sampling (unigram) in training.")
    source: SideText | None = Field(None, description="Settings of the source side, where they differ.")
    target: SideText | None = Field(None, description="Settings of the target side, where they differ.")
    start_from: str | None = Field(
        None, min_length=1, description="A run folder whose tokenizers are taken, instead of learning them."
    )
    start_side: Literal["source", "target"] | None = Field(
        None, description="Take only this side from there; the other is learned."
    )

    @model_validator(mode="after")
    def _consistent(self) -> "TextSection":
        if self.shared and (self.source or self.target):
            raise ValueError("`shared: true` leaves no room for `source` or `target` settings; set `shared: false`")
        if self.start_side is not None and (self.start_from is None or self.shared):
            raise ValueError(
                "`start_side` chooses one of two tokenizers of `start_from`: give that, and `shared: false`"
            )
        units = {self.unit, *(side.unit for side in (self.source, self.target) if side)}
        if ("codes" in units) != (self.codes is not None):
            raise ValueError("unit `codes` needs the path of a codes file in `codes`, and no other unit uses one")
        if self.dropout and not units & {"bpe", "unigram", "codes"}:
            raise ValueError(f"`dropout` has no effect on unit {self.unit!r}; it works with bpe, unigram and codes")
        if self.source and self.source.unit in ("label", "number"):
            raise ValueError(
                f"unit `{self.source.unit}` is for targets; a topic or a speaker stands in `data.attributes`"
            )
        if (self.target.unit if self.target else self.unit) == "inflection":
            raise ValueError(
                "unit `inflection` is for the source side only: set `shared: false`, `source.unit: inflection`, and "
                "another `unit` for the target"
            )
        return self


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
    TransformerEncoderSection | RecurrentEncoderSection | BagEncoderSection | CategoryEncoderSection | NoEncoderSection,
    Field(discriminator="kind"),
]
DecoderSection = Annotated[
    TransformerDecoderSection | RecurrentDecoderSection | NoDecoderSection, Field(discriminator="kind")
]


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
            width = 2 * self.width if self.encoder.two_way else self.width
            if width % self.encoder.self_attention:
                raise ValueError(
                    f"states of width {width} cannot be split into {self.encoder.self_attention} heads "
                    "of the encoder's `self_attention`"
                )
        return self

    @model_validator(mode="after")
    def _attends(self) -> "ModelSection":
        """Widths that attention compares must fit; Transformers project theirs."""
        side = self.decoder
        if not isinstance(side, RecurrentDecoderSection) or not side.attends:
            return self
        widths = {"decoder's states": self.width}
        if side.projections != "learned":
            two_way = isinstance(self.encoder, RecurrentEncoderSection) and self.encoder.two_way
            memory = 2 * self.width if two_way else self.width
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
                offered = _states(encoder.layers or self.layers, encoder.cell)
            case RecurrentEncoderSection(self_attention=None):
                raise ValueError(f"{wanted}, and a two-way encoder ends with two states in each layer: {otherwise}")
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


class TrainingSection(Section):
    """How the parameters are found."""

    steps: int | None = Field(None, ge=1, description="Optimiser updates; whichever limit comes first ends training.")
    epochs: int | None = Field(None, ge=1, description="Passes over the data.")
    minutes: float | None = Field(None, gt=0, description="Minutes of training, validation included.")
    batch_tokens: int = Field(4096, ge=1, description="Target tokens of a batch (one optimiser update).")
    accumulate: int = Field(1, ge=1, description="Micro-batches that a batch is split into.")
    optimizer: Literal["adam"] = Field("adam", description="The optimiser.")
    learning_rate: float = Field(1e-3, gt=0, description="The (peak) learning rate.")
    betas: tuple[float, float] = Field((0.9, 0.98), description="Adam's decay rates.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay.")
    schedule: Literal["inverse_sqrt", "constant"] = Field("inverse_sqrt", description="The learning rate over steps.")
    warmup: int = Field(400, ge=0, description="Steps over which the learning rate rises from 0.")
    clip: float = Field(1.0, ge=0, description="Largest norm of the gradient; 0 for no limit.")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="Probability spread over the vocabulary.")
    validate_every: int | None = Field(None, ge=1, description="Steps between validations; an epoch if left out.")
    save_every: int | None = Field(None, ge=1, description="Steps between checkpoints; each validation if left out.")
    patience: int | None = Field(10, ge=1, description="Validations without a gain before training ends; null: never.")
    select: Literal["loss"] | MetricName = Field("loss", description="What validation is judged by.")
    average: int = Field(1, ge=1, description="Validated checkpoints whose weights are averaged at the end.")
    threads: int | None = Field(None, ge=1, description="Threads of torch; as many as cores if left out.")
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

    @model_validator(mode="after")
    def _bounded(self) -> "TrainingSection":
        if self.steps is None and self.epochs is None and self.minutes is None and self.patience is None:
            raise ValueError("training would never end: give `steps`, `epochs`, `minutes` or `patience`")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"`betas` are {self.betas}; each must be at least 0 and below 1")
        for name, factor in self.rates.items():
            if not 0 < factor < math.inf:
                raise ValueError(f"`rates` has the factor {factor:g} for {name!r}; it must be above 0 and finite")
        return self


class SearchSection(Section):
    """How the best output is found."""

    beam: int = Field(5, ge=1, le=1024, description="Hypotheses kept at each step; 1 is greedy.")
    length_penalty: float = Field(1.0, ge=0, description="Exponent of the length that scores are divided by; 0: none.")
    max_length: int = Field(256, ge=1, description="Tokens an output may have.")
    max_ratio: float = Field(3.0, gt=0, description="Tokens an output may have for each token of the source.")
    batch_sentences: int = Field(64, ge=1, description="Sentences that are searched at once.")


class AlignmentReading(Section):
    """Which attention is read as a word alignment."""

    layer: int = Field(-1, description="Decoder layer, from 0; negative numbers count from the last.")
    head: int | None = Field(None, description="Attention head, from 0; the mean of all if left out.")
    shift: Literal[0, 1] = Field(0, description="0: the step that predicts a word; 1: the step that reads it.")


class EvaluationSection(Section):
    """How good the model is."""

    metrics: tuple[MetricName, ...] = Field(
        ("BLEU", "chrF", "TER"), description="What is measured beside the perplexity; by the shape if left out."
    )
    tokenize: Literal["13a", "none", "intl", "char"] = Field(
        "13a", description="How BLEU splits words: 13a for plain text, none for text that is split already."
    )
    resamples: int = Field(1000, ge=0, description="Bootstrap samples of the 95 % intervals; 0: no intervals.")
    samples: int = Field(8, ge=0, description="Outputs shown in the report.")
    alignment: AlignmentReading = Field(
        default_factory=AlignmentReading, description="Which attention is read as an alignment."
    )


Task = Literal[
    "translation", "inflection", "language", "tagging", "classification", "rating", "generation", "pretraining"
]


class Recipe(Section):
    """A run: what is learned from what, how, and how it is judged."""

    format: Literal[1] = Field(1, description="Version of this layout.")
    task: Task = Field("translation", description="What is learned.")
    run: str = Field("runs/run", min_length=1, description="The run folder. Relative to where the command runs.")
    seed: int = Field(1, ge=0, lt=2**63, description="Every random choice follows from it.")
    data: DataSection = Field(description="Where the examples come from.")
    text: TextSection = Field(default_factory=TextSection, description="How characters become ids.")
    model: ModelSection = Field(default_factory=ModelSection, description="The parts of the model.")
    training: TrainingSection = Field(default_factory=TrainingSection, description="How the parameters are found.")
    search: SearchSection = Field(default_factory=SearchSection, description="How the best output is found.")
    evaluation: EvaluationSection = Field(default_factory=EvaluationSection, description="How good it is.")

    @model_validator(mode="before")
    @classmethod
    def _measured(cls, values: Any) -> Any:
        """What is measured follows from the shape where it is not told."""
        model, text = (values.get(name) if isinstance(values, dict) else None for name in ("model", "text"))
        evaluation = values.get("evaluation", {}) if isinstance(values, dict) else None
        if not isinstance(model, dict) or not isinstance(evaluation, dict) or "metrics" in evaluation:
            return values
        target = text.get("target") if isinstance(text, dict) else None
        number = isinstance(target, dict) and target.get("unit") == "number"
        encoder = model.get("encoder")
        usual: dict[str, tuple[str, ...]] = {
            "language-model": (),
            "masked-language-model": (),
            "acceptor": ("pearson", "squared_error") if number else ("exact",),
            "transducer": ("accuracy", "exact"),
        }
        if isinstance(encoder, dict) and encoder.get("kind") == "category":
            usual["encoder-decoder"] = ()
        metrics = usual.get(str(model.get("shape", "encoder-decoder")))
        return values if metrics is None else {**values, "evaluation": {**evaluation, "metrics": metrics}}

    @model_validator(mode="after")
    def _shaped(self) -> "Recipe":
        for told in shape_problems(self):
            raise ValueError(told)
        return self

    @model_validator(mode="after")
    def _fits(self) -> "Recipe":
        if self.model.tie == "all" and not self.text.shared and self.text.unit != "imported":
            raise ValueError("`model.tie: all` needs one vocabulary: set `text.shared: true`, or `model.tie: target`")
        outputs = max(self.data.max_length, self.search.max_length)
        for name, side, items in (
            ("encoder", self.model.encoder, self.data.max_length + 1),
            ("decoder", self.model.decoder, outputs + 1),
        ):
            if isinstance(side, TransformerEncoderSection) and side.positions == "learned":
                longest = side.longest or LONGEST
                if longest < items:
                    raise ValueError(
                        f"the {name} learns {longest} positions, but its texts may have {items} tokens, START or END "
                        f"included; set `model.{name}.longest: {items}`, or lower `data.max_length`"
                        + (" and `search.max_length`" if name == "decoder" else "")
                    )
        reading, decoder = self.evaluation.alignment, self.model.decoder
        layers = decoder.layers or self.model.layers
        if isinstance(decoder, TransformerDecoderSection) and not -layers <= reading.layer < layers:
            raise ValueError(f"`evaluation.alignment.layer` is {reading.layer}; the decoder has {layers}, from 0")
        heads = 0 if isinstance(decoder, NoDecoderSection) else decoder.heads
        if decoder.attends and reading.head is not None and not 0 <= reading.head < heads:
            raise ValueError(f"`evaluation.alignment.head` is {reading.head}; the decoder has {heads}, from 0")
        return self


def shape_problems(recipe: Recipe) -> Iterator[str]:
    """Where data, text and evaluation do not fit the shape of the model, and how that is mended."""
    data, text, model = recipe.data, recipe.text, recipe.model
    shape, category = model.shape, model.encoder.kind == "category"
    reads = shape != "language-model" and not category
    if reads and data.source is None:
        yield f"`shape: {shape}` reads a source: name it in `data.source`"
    if not reads and data.source is not None:
        what = (
            "`encoder.kind: category` reads `data.attributes` only" if category else f"`shape: {shape}` has no source"
        )
        yield f"{what}: set `data.source: null`"
    if category and not data.attributes:
        yield "`encoder.kind: category` needs something to read: name columns or keys in `data.attributes`"
    if data.attributes and shape in ("language-model", "transducer", "masked-language-model"):
        yield f"`data.attributes` have no place in `shape: {shape}`; they join an encoder-decoder or an acceptor"
    if data.factors and not reads:
        yield "`data.factors` belong to the words of a source, and there is none"
    if (data.target is None) != (shape == "masked-language-model"):
        yield (
            f"`shape: {shape}` learns a target: name it in `data.target`"
            if data.target is None
            else "a masked language model has no target: set `data.target: null`"
        )
    unit = text.target.unit if text.target else text.unit
    if shape == "acceptor" and unit not in ("label", "number"):
        yield (
            f"an acceptor answers with one label or number, not with {unit}s: set `text.shared: false` and "
            "`text.target: {unit: label}` or `{unit: number}`"
        )
    if shape != "acceptor" and unit in ("label", "number"):
        yield f"`text.target.unit: {unit}` is for `shape: acceptor`"
    if shape == "transducer" and (unit != "word" or text.shared):
        yield "a transducer writes an item for each word: set `text.shared: false` and `text.target: {unit: word}`"
    if not (reads and data.target is not None) and not text.shared:
        yield "there is one text only, so there is one vocabulary: set `text.shared: true`"
    if text.dropout and (shape == "transducer" or data.factors):
        yield "`text.dropout` cuts words anew, and tags or factors of words would no longer fit: leave it out"
    if data.long_lines == "cut" and (shape == "transducer" or data.factors):
        yield "`data.long_lines: cut` would cut words from their tags or factors: take skip or refuse"
    if shape in ("language-model", "masked-language-model") and recipe.evaluation.metrics:
        yield f"`shape: {shape}` is judged by its perplexity: leave `evaluation.metrics` out"
    if not recipe.evaluation.metrics and shape == "encoder-decoder" and not category:
        yield "`evaluation.metrics` is empty: name what is measured"
    if recipe.training.select != "loss" and not recipe.evaluation.metrics:
        yield f"`training.select: {recipe.training.select}` needs outputs to judge, and there are none: take `loss`"
    if data.factors and model.factors == "concat":
        if model.factor_width * len(data.factors) >= model.width:
            yield (
                f"{len(data.factors)} factors of `model.factor_width: {model.factor_width}` leave no room for the word "
                f"in `model.width: {model.width}`"
            )
        if model.tie == "all":
            yield "`model.tie: all` needs one width, and words have less beside their factors: take `factors: sum`"
    if (
        data.attributes
        and isinstance(model.decoder, RecurrentDecoderSection)
        and not category
        and model.decoder.wiring == "initial"
    ):
        yield "`decoder.wiring: initial` would not see `data.attributes`: take `transformed` or `every_step`"
    if (
        shape in ("acceptor", "transducer", "masked-language-model")
        and model.tie == "all"
        and shape != "masked-language-model"
    ):
        yield f"`shape: {shape}` has no embeddings of the target to share: leave `model.tie` out"

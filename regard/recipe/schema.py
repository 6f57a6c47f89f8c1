"""The schema of a run: every setting, declared and explained once.

A recipe is data: frozen, without code, without paths to import. Unknown keys are errors. Common settings of a section
(`model.layers`, `text.size`) hold for both sides; a side that differs says so in its own block
(`model.encoder.layers`). Sizes that come from data (a vocabulary, the number of rows) are never fields here.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from regard.recipe.learning import CorruptionSection, ObjectiveSection, SamplingSection
from regard.recipe.parts import ModelSection, Shape
from regard.recipe.section import Section
from regard.recipe.shapes import shape_problems
from regard.recipe.sides import (
    BUCKETS,
    FURTHEST_BIAS,
    FURTHEST_RELATIVE,
    LONGEST,
    BagEncoderSection,
    CategoryEncoderSection,
    Cell,
    ConvolutionEncoderSection,
    DecoderSection,
    EncoderSection,
    NoDecoderSection,
    NoEncoderSection,
    PositionsName,
    RecurrentDecoderSection,
    RecurrentEncoderSection,
    Score,
    TransformerDecoderSection,
    TransformerEncoderSection,
)
from regard.recipe.training import FallSection, MaskingSection, MetricName, TrainingSection

__all__ = [
    "BUCKETS",
    "FURTHEST_BIAS",
    "FURTHEST_RELATIVE",
    "LONGEST",
    "AlignmentReading",
    "Answer",
    "BagEncoderSection",
    "CategoryEncoderSection",
    "Cell",
    "ConvolutionEncoderSection",
    "CorruptionSection",
    "DataSection",
    "DecoderSection",
    "EncoderSection",
    "EvaluationSection",
    "FallSection",
    "MaskingSection",
    "MeteorSection",
    "MetricName",
    "ModelSection",
    "NoDecoderSection",
    "NoEncoderSection",
    "ObjectiveSection",
    "PositionsName",
    "Recipe",
    "RecurrentDecoderSection",
    "RecurrentEncoderSection",
    "SamplingSection",
    "Score",
    "SearchSection",
    "Section",
    "Shape",
    "SideText",
    "Task",
    "TextSection",
    "TrainingSection",
    "TransformerDecoderSection",
    "TransformerEncoderSection",
    "Unit",
]

Unit = Literal["word", "character", "byte", "bpe", "unigram", "codes", "inflection", "imported"]
Answer = Literal["label", "number"]


class DataSection(Section):
    """Where the examples come from and what happens to lines that cannot be used."""

    train: str | tuple[str, ...] = Field(description="A file of pairs, or two parallel files. Relative to the recipe.")
    valid: str | tuple[str, ...] | None = Field(None, description="Validation data; split off `train` if left out.")
    test: str | tuple[str, ...] | None = Field(None, description="Test data; split off `train` if left out.")
    further: dict[str, str | tuple[str, ...]] = Field(
        default_factory=dict, description="Further test sets, by name; each is judged like `test`."
    )
    format: Literal[
        "auto", "tsv", "jsonl", "parallel", "lines", "conllu", "sigmorphon2016", "sigmorphon2017", "sigmorphon2023"
    ] = Field("auto", description="How lines are read; `auto` looks at the names and the first lines.")
    source: str | int | None = Field(
        0,
        description="The source: a column (TSV, from 0), a key (JSONL) or FORM, LEMMA, ... (CoNLL-U); null where there "
        "is none. Paths of pictures are relative to the folder of the data file.",
    )
    target: str | int | None = Field(
        1,
        description="The target: a column (TSV, from 0), a key (JSONL) or UPOS, FEATS, ... (CoNLL-U); null where there "
        "is none.",
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
    reverse_target: bool = Field(
        False, description="Write outputs from their last token to the first; they are told in reading order."
    )
    source: SideText | None = Field(None, description="Settings of the source side, where they differ.")
    target: SideText | None = Field(None, description="Settings of the target side, where they differ.")
    start_from: str | None = Field(
        None, min_length=1, description="A run folder whose tokenizers are taken, instead of learning them."
    )
    start_side: Literal["source", "target"] | None = Field(
        None, description="Take only this side from there; the other is learned, or the same where it is shared."
    )

    @model_validator(mode="before")
    @classmethod
    def _apart(cls, values: Any) -> Any:
        """Who gives a side settings of its own has said that the sides differ."""
        own = isinstance(values, dict) and any(values.get(side) is not None for side in ("source", "target"))
        return {"shared": False, **values} if own else values

    @model_validator(mode="after")
    def _consistent(self) -> "TextSection":
        if self.shared and (self.source or self.target):
            raise ValueError("`shared: true` leaves no room for `source` or `target` settings; set `shared: false`")
        if self.start_side is not None and self.start_from is None:
            raise ValueError("`start_side` chooses one of two tokenizers of `start_from`: give that, too")
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


class SearchSection(Section):
    """How the best output is found."""

    beam: int = Field(5, ge=1, le=1024, description="Hypotheses kept at each step; 1 is greedy.")
    length_penalty: float = Field(1.0, ge=0, description="Exponent of the length that scores are divided by; 0: none.")
    length_formula: Literal["plain", "gnmt"] = Field(
        "plain", description="That length: |y|, or (5 + |y|) / 6 as in GNMT (Wu et al. 2016)."
    )
    coverage_penalty: float = Field(
        0.0, ge=0, description="Weight of the log-coverage of the source by attention (GNMT); 0: none."
    )
    min_length: int = Field(1, ge=1, description="Tokens an output must have, its end included.")
    block_ngrams: int = Field(0, ge=0, description="Outputs do not say so many tokens in a row twice; 0: they may.")
    groups: int = Field(
        1, ge=1, le=1024, description="Groups of a diverse beam (Vijayakumar et al. 2018), which is made a multiple."
    )
    diversity: float = Field(0.5, ge=0, description="Of groups: the cost of a token that a group before has taken.")
    stopping: Literal["exact", "early"] = Field(
        "early", description="A search ends when nothing better is likely to come (early), or when nothing can (exact)."
    )
    max_length: int = Field(256, ge=1, description="Tokens an output may have.")
    max_ratio: float = Field(3.0, gt=0, description="Tokens an output may have for each token of the source.")
    batch_sentences: int = Field(64, ge=1, description="Sentences that are searched at once.")

    @model_validator(mode="after")
    def _possible(self) -> "SearchSection":
        if self.min_length > self.max_length:
            raise ValueError(f"`min_length` is {self.min_length}; it must not be above `max_length`, {self.max_length}")
        if self.groups > 1 and self.diversity == 0:
            raise ValueError(
                f"{self.groups} `groups` with `diversity: 0` would all find the same; set it above 0, or `groups: 1`"
            )
        return self


class AlignmentReading(Section):
    """Which attention is read as a word alignment."""

    layer: int = Field(-1, description="Decoder layer, from 0; negative numbers count from the last.")
    head: int | None = Field(None, description="Attention head, from 0; the mean of all if left out.")
    shift: Literal[0, 1] = Field(0, description="0: the step that predicts a word; 1: the step that reads it.")


class MeteorSection(Section):
    """What METEOR takes for a match, and how it weighs them."""

    version: Literal[
        "2005",
        "1.0",
        "1.0-ranking",
        "1.0-hter",
        "1.3",
        "1.3-adequacy",
        "1.3-hter",
        "1.3-tuning",
        "1.5",
        "1.5-universal",
        "1.5-other",
    ] = Field("1.5", description="Whose parameters; 1.5-other for languages other than English.")
    wordnet: str | None = Field(
        None, min_length=1, description="A folder of WordNet's files, for synonyms. Relative to where the command runs."
    )
    paraphrases: str | None = Field(None, min_length=1, description="A table of paraphrases, as METEOR has them.")


class EvaluationSection(Section):
    """How good the model is."""

    metrics: tuple[MetricName, ...] = Field(
        ("BLEU", "chrF", "TER"), description="What is measured beside the perplexity; by the shape if left out."
    )
    tokenize: Literal["13a", "none", "intl", "char"] = Field(
        "13a", description="How BLEU and METEOR split words: 13a for plain text, none for text that is split already."
    )
    meteor: MeteorSection = Field(default_factory=MeteorSection, description="Which METEOR.")
    resamples: int = Field(1000, ge=0, description="Bootstrap samples of the 95 % intervals; 0: no intervals.")
    samples: int = Field(8, ge=0, description="Outputs shown in the report.")
    alignment: AlignmentReading = Field(
        default_factory=AlignmentReading, description="Which attention is read as an alignment."
    )


Task = Literal[
    "translation",
    "inflection",
    "language",
    "tagging",
    "classification",
    "rating",
    "generation",
    "captioning",
    "pretraining",
]


def _told(section: Any, name: str, default: Any = None) -> Any:
    """A setting of what may be a section, a mapping that becomes one, or something else, which has none."""
    if isinstance(section, Section):
        return getattr(section, name, default)
    return section.get(name, default) if isinstance(section, dict) else default


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

    @property
    def reads_pictures(self) -> bool:
        """Whether sources are paths of pictures."""
        return self.model.encoder.kind == "convolution"

    @property
    def reads_text(self) -> bool:
        """Whether sources are texts."""
        return self.data.source is not None and not self.reads_pictures

    @property
    def one_text(self) -> bool:
        """Whether there is one tokenizer: one vocabulary for both sides, or pictures, which have none."""
        return self.text.shared or self.reads_pictures

    @model_validator(mode="before")
    @classmethod
    def _measured(cls, values: Any) -> Any:
        """What is measured follows from the shape where it is not told."""
        evaluation = _told(values, "evaluation", {}) if isinstance(values, dict) else None
        said = evaluation.model_fields_set if isinstance(evaluation, EvaluationSection) else evaluation
        if not isinstance(evaluation, dict | EvaluationSection) or said is None or "metrics" in said:
            return values
        model, text = _told(values, "model"), _told(values, "text")
        number = _told(_told(text, "target"), "unit") == "number"
        usual: dict[str, tuple[str, ...]] = {
            "language-model": (),
            "masked-language-model": (),
            "acceptor": ("pearson", "squared_error") if number else ("exact",),
            "transducer": ("accuracy", "exact"),
        }
        if _told(_told(model, "encoder"), "kind") == "category":
            usual["encoder-decoder"] = ()
        metrics = usual.get(str(_told(model, "shape", "encoder-decoder")))
        if metrics is None:
            return values
        if isinstance(evaluation, EvaluationSection):
            return {**values, "evaluation": evaluation.model_copy(update={"metrics": metrics})}
        return {**values, "evaluation": {**evaluation, "metrics": metrics}}

    @model_validator(mode="after")
    def _shaped(self) -> "Recipe":
        problems = list(shape_problems(self))
        if problems:
            raise ValueError(". Also: ".join(problems))
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

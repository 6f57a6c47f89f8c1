"""Several runs that write one output together, and a language model that has its say in it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.data.collation import SourceTexts, TextCollation
from regard.data.example import Example
from regard.data.joint import JointCollation, JointSource
from regard.errors import UsageError
from regard.models import Covering, EncoderDecoder, Ensemble, Fusion, Scorer
from regard.models.ensemble import Combine
from regard.recipe.schema import Recipe
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.scoring import PairScore, PairScorer
from regard.run.shards import file_digest, fingerprint
from regard.text import Tokenizer
from regard.training.checkpoints import MODEL

FUSION = 0.2
"""The weight of a language model where none is said."""


class JointModel(Model):
    """An ensemble of models of any architectures that write with one vocabulary, and a language model beside them.

    Each member reads a source in its own way. Settings of search and evaluation, alignments and coverage are those of
    the first: attention belongs to one way of splitting a source. What a language model adds (λ log p_LM, shallow
    fusion) decides what is found, but is no part of log-probabilities and perplexities.
    """

    def __init__(
        self,
        members: Sequence[Model],
        *,
        combine: Combine = "linear",
        weights: Sequence[float] | None = None,
        language_model: Model | None = None,
        fusion: float = FUSION,
    ) -> None:
        if not members:
            raise UsageError("an ensemble has at least one member, and none was given")
        first, *others = members
        super().__init__(recipe=first.recipe, system=first.system, texts=first.texts, folder=first.folder)
        for other in others:
            check_columns(first, other)
        if language_model is not None and language_model.recipe.model.shape != "language-model":
            raise UsageError(
                f"{language_model.folder}: a model of shape {language_model.recipe.model.shape} is no language model; "
                "fuse one of shape language-model, or let this one be a member of the ensemble"
            )
        for other in (*others, *(() if language_model is None else (language_model,))):
            check_vocabulary(first, other)
        self.members = tuple(members)
        self.language_model = language_model
        self.fusion = fusion
        self.ensemble = Ensemble([_writer(one)[0] for one in members], combine=combine, weights=weights)
        self._writer(covering=False)  # what cannot be fused is refused now

    @property
    def parameters(self) -> int:
        models = (*self.members, *(() if self.language_model is None else (self.language_model,)))
        return sum({id(one.system): one.parameters for one in models}.values())

    @property
    def probable(self) -> bool:
        return self.ensemble.combine != "loglinear_raw" or len(self.members) == 1

    @property
    def longest_source(self) -> int:
        return min(one.longest_source for one in self.members)

    def with_recipe(self, recipe: Recipe) -> "JointModel":
        return JointModel(
            (self.members[0].with_recipe(recipe), *self.members[1:]),
            combine=self.ensemble.combine,
            weights=self.ensemble.weights,
            language_model=self.language_model,
            fusion=self.fusion,
        )

    def fitting(self, examples: Sequence[Example]) -> list[Example]:
        kept = list(examples)
        for one in self.members:
            kept = one.fitting(kept)
        return kept

    def score_many(self, pairs: Iterable[tuple[str, str]], *, batch: int = 64) -> Iterator[PairScore]:
        """log p(target | source) of the ensemble, teacher-forced, without what a language model would add."""
        if not self.probable:
            raise UsageError(
                "loglinear_raw gives no probabilities that add up to 1, so there are none to tell; combine by "
                "loglinear or linear"
            )
        collation = self._collation()
        scorer = PairScorer(self.ensemble, collation, collation.target, batch=batch, longest=self.longest_source)
        return scorer.run(pairs)

    def _collation(self) -> JointCollation:
        collations = [_writer(one)[1] for one in self.members]
        return JointCollation(source=JointSource.of([one.source for one in collations]), target=collations[0].target)

    def _writer(self, *, covering: bool) -> tuple[Scorer, TextCollation]:
        scorer, collation = self.ensemble, self._collation()
        if covering:
            first, *others = (_writer(one)[0] for one in self.members)
            scorer = Ensemble([Covering(first), *others], combine=scorer.combine, weights=scorer.weights)
        if self.language_model is None:
            return scorer, collation
        other, own = _writer(self.language_model)
        joint = JointCollation(source=JointSource.of((collation.source, own.source)), target=collation.target)
        return Fusion(scorer, other, weight=self.fusion), joint


def load_joint(
    runs: Sequence[str | Path],
    *,
    combine: Combine = "linear",
    weights: Sequence[float] | None = None,
    language_model: str | Path | None = None,
    fusion: float | None = None,
    average: int | None = None,
) -> Model:
    """Open one run as it is, or several as an ensemble; with `average`, each with the mean of its last checkpoints."""
    if language_model is None and fusion is not None:
        raise UsageError("the weight of fusion is that of a language model: name one as well, or leave it out")
    if len(runs) == 1 and (combine != "linear" or weights is not None):
        raise UsageError("there is one model, and nothing to combine it with: name another, or leave that out")
    members = [Model.load(run, average=average) for run in runs]
    if len(members) == 1 and language_model is None:
        return members[0]
    return JointModel(
        members,
        combine=combine,
        weights=weights,
        language_model=None if language_model is None else Model.load(language_model),
        fusion=FUSION if fusion is None else fusion,
    )


def checksums(model: Model) -> dict[str, str]:
    """What predictions of a model follow from: SHA-256 of every file of its runs, how they are combined, its engine."""
    if not isinstance(model, JointModel):
        steps = (RunFolder(model.folder).checkpoints.path(step) for step in model.averaged)
        means = {f"{path.name}/{MODEL}": file_digest(path / MODEL) for path in steps}
        return fingerprint(model.folder) | means | dict({} if model.engine is None else model.engine.identity)
    runs = {f"member {number}": one for number, one in enumerate(model.members, start=1)}
    said = {"combine": model.ensemble.combine, "weights": " ".join(map(repr, model.ensemble.weights))}
    if model.language_model is not None:
        runs["language model"] = model.language_model
        said["fusion"] = repr(model.fusion)
    return {f"{place}/{name}": one for place, run in runs.items() for name, one in checksums(run).items()} | said


def _writer(model: Model) -> tuple[EncoderDecoder, TextCollation]:
    """The parts of a member, which must write texts."""
    if not isinstance(model.system, EncoderDecoder) or not isinstance(model.collation, TextCollation):
        raise UsageError(
            f"{model.folder}: a model of shape {model.recipe.model.shape} writes no text; ensembles and fusion are of "
            "encoder-decoders and language models"
        )
    return model.system, model.collation


def check_columns(first: Model, other: Model) -> None:
    """Refuse a member that reads other columns of a line."""
    one, another = (_columns(_writer(model)[1].source) for model in (first, other))
    if one != another:
        raise UsageError(
            f"{other.folder}: members of an ensemble read the same lines, and this one reads {another}, {first.folder} "
            f"{one}. Leave it out; a language model is fused, not a member beside models with a source"
        )


def _columns(source: SourceTexts) -> str:
    columns = [
        *(("a text",) if source.text is not None else ()),
        *(("a picture",) if source.pictures is not None else ()),
        *((f"{len(source.factors)} factors",) if source.factors else ()),
        *((f"{len(source.attributes)} attributes",) if source.attributes else ()),
    ]
    return " and ".join(columns) or "no source"


def check_vocabulary(first: Model, other: Model) -> None:
    """Refuse a model whose outputs have another vocabulary, with the first difference, or are written the other way."""
    if first.recipe.text.reverse_target != other.recipe.text.reverse_target:
        raise UsageError(
            f"{other.folder}: of this run and {first.folder} one writes from right to left (text.reverse_target) and "
            "one from left to right, so they cannot write together; `regard rerank` lets one judge what the other wrote"
        )
    one, another = (_writer(model)[1].target for model in (first, other))
    difference = "" if one is another else _difference(one, another)
    if difference:
        raise UsageError(
            f"{other.folder}: its outputs have another vocabulary than those of {first.folder}: {difference}. Train it "
            f"with `text.start_from: {first.folder}` (and `text.start_side: target`, where sources may differ)"
        )


def _difference(one: Tokenizer, other: Tokenizer) -> str:
    """The first id that does not stand for the same bytes; "" where all do."""
    for id_ in range(min(one.size, other.size)):
        if one.surface(id_) != other.surface(id_):
            return f"id {id_} is {other.piece(id_)!r}, and {one.piece(id_)!r} there"
    if one.size != other.size:
        return f"it has {other.size:,} ids, and {one.size:,} there"
    if one.margin != other.margin:
        return f"its unit is {other.unit}, and {one.unit} there"
    return ""

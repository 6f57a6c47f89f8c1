"""Which recipes are trained, what is asked of each, and what others have published for it."""

from dataclasses import dataclass
from typing import Final

LIUM: Final = "Caglayan et al. 2017, README of lium-lst/wmt17-mmt"
WU: Final = "Wu et al. 2021, README of LividWo/Revisit-MMT"
WU_PAPER: Final = "Wu et al. 2021 (quoted, not checked)"
TREVETT: Final = "Trevett, pytorch-seq2seq, chapter 6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure that others report on the same test set with the same scorer, and where."""

    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A recipe and what is asked of it: the mean of `seeds` trainings, each within `limit` minutes.

    `minutes` is about what one training takes on two idle cores.
    """

    recipe: str
    what: str
    minutes: int
    seeds: int = 1
    least: float | None = None
    stretch: float | None = None
    limit: float | None = None
    published: Published | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target language."""
        name = "deen" if self.recipe.startswith("ladder") else self.recipe.split("_")[0]
        return name[:2], name[2:]

    @property
    def raw(self) -> bool:
        """Whether text is as people write it, and not lower-cased and split."""
        return self.recipe.endswith("_raw")


DEFAULT: Final = "ende_tiny_short"
"""The recipe whose way to a good model is drawn over minutes."""

COMPARED: Final = "ende_joeynmt"
"""The one that it is drawn beside."""

GOAL: Final = 39.0
"""BLEU of greedy outputs on validation data; the minutes to it are the figure to push down."""

PLAN: Final = (
    Planned(
        recipe=DEFAULT, what="Transformer 4+4, width 128, 16,000 updates", minutes=45, seeds=3, least=40.3, limit=90,
        published=Published(value=41.02, source=WU),
    ),
    Planned(
        recipe="ende_tiny_long", what="the same with R-Drop", minutes=60, least=41.0, stretch=42, limit=180,
        published=Published(value=41.02, source=WU),
    ),
    Planned(
        recipe="ende_bahdanau", what="GRU 256, attention before the step", minutes=90, least=38.0, stretch=39.0,
        limit=90, published=Published(value=39.0, source=LIUM),
    ),
    Planned(
        recipe="ende_luong", what="GRU 256, attention after the step", minutes=90, least=38.0, stretch=39.0,
        limit=90, published=Published(value=39.0, source=LIUM),
    ),
    Planned(recipe="ende_raw", what="Transformer 4+4 on text as people write it", minutes=45),
    Planned(recipe=COMPARED, what="JoeyNMT's settings for small corpora", minutes=48),
    Planned(
        recipe="enfr_tiny_short", what="Transformer 4+4, width 128, 16,000 updates", minutes=45, stretch=61.0,
        published=Published(value=61.80, source=WU_PAPER),
    ),
    Planned(
        recipe="enfr_tiny_long", what="the same with R-Drop", minutes=60, stretch=61.0,
        published=Published(value=61.80, source=WU_PAPER),
    ),
    Planned(
        recipe="enfr_bahdanau", what="GRU 256, attention before the step", minutes=90, stretch=59.0,
        published=Published(value=59.02, source=LIUM),
    ),
    Planned(
        recipe="enfr_luong", what="GRU 256, attention after the step", minutes=90, stretch=59.0,
        published=Published(value=59.02, source=LIUM),
    ),
    Planned(
        recipe="deen_words", what="Transformer 3+3, width 256, words, 10 epochs", minutes=20, least=36.5,
        published=Published(value=36.52, source=TREVETT),
    ),
    Planned(recipe="deen_bpe", what="the same with subwords, 30 epochs", minutes=60, stretch=42),
    Planned(recipe="ladder_lstm", what="LSTM without attention", minutes=12),
    Planned(recipe="ladder_gru", what="GRU without attention", minutes=12),
    Planned(recipe="ladder_bahdanau", what="GRU, attention before the step", minutes=12),
    Planned(recipe="ladder_luong", what="GRU, attention after the step", minutes=12),
    Planned(recipe="ladder_transformer", what="Transformer", minutes=12),
)  # fmt: skip

LADDER: Final = tuple(row.recipe for row in PLAN if row.recipe.startswith("ladder_"))
WITHOUT: Final = ("ladder_lstm", "ladder_gru")
"""Those of the ladder that have no attention."""


def planned(recipe: str) -> Planned:
    """The row of a recipe."""
    found = next((row for row in PLAN if row.recipe == recipe), None)
    if found is None:
        raise SystemExit(f"no such recipe: {recipe}; there are {', '.join(row.recipe for row in PLAN)}")
    return found

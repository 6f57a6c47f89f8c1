"""The part of `regard predict` that says how outputs are searched, and chosen among what was found."""

from typing import TYPE_CHECKING, Any, Final, cast

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.run.model import Model
    from regard.search import MinimumRisk, Sampling, SearchOptions

SAMPLES: Final = 64
LENGTHS: Final = ("min_length", "max_length", "max_ratio")


def search_for(
    model: "Model", settings: "Sampling", *, beam: int | None, best: int, mbr: str | None, samples: int | None
) -> "tuple[SearchOptions, MinimumRisk | None]":
    """The search, and the risk by which outputs are chosen among what it finds.

    Candidates are the samples; or the outputs of a beam, where a width is given, against samples, where their number
    is, too.
    """
    if mbr is None:
        if samples is not None:
            raise UsageError(
                f"--samples is for --mbr METRIC, which chooses among them; to write samples: --sample --nbest {samples}"
            )
        return model.options(beam=beam, best=best, **settings), None

    from regard.recipe.build import RANKING
    from regard.search import MinimumRisk

    _check(model, settings, beam=beam, samples=samples)
    ranking = frozenset(RANKING)
    given = {name: value for name, value in settings.items() if name not in ("sample", "stochastic")}
    if beam is None:
        options = model.options(best=max(SAMPLES, best) if samples is None else samples, **_drawn(given))
        risk = MinimumRisk(utility=mbr, best=best)
        risk.check(options)
        return options, risk
    references = None
    if samples is not None:
        references = model.options(best=samples, **_drawn({k: v for k, v in given.items() if k not in ranking}))
        given = {name: value for name, value in given.items() if name in (*ranking, *LENGTHS, "block_ngrams")}
    width = max(beam, best)
    options = model.options(beam=width, best=width, **cast("Sampling", given))
    return options, MinimumRisk(utility=mbr, best=best, references=references)


def _check(model: "Model", settings: "Sampling", *, beam: int | None, samples: int | None) -> None:
    """Refuse what does not go with --mbr, in its own words."""
    from regard.models import Labelling
    from regard.search.options import SAMPLING

    if isinstance(model.system, Labelling):
        raise UsageError(
            f"--mbr is for models that write text, and one of shape {model.recipe.model.shape} writes none: leave it "
            "out"
        )
    if settings.get("sample") or settings.get("stochastic"):
        raise UsageError("--mbr draws outputs itself: leave out --sample and --stochastic, and say --samples N")
    if beam is not None and beam < 2:
        raise UsageError("--mbr chooses among the outputs of --beam, and a beam of 1 has one; widen it")
    drawing = beam is None or samples is not None
    idle = [name for name, usual in SAMPLING.items() if not drawing and settings.get(name, usual) != usual]
    if idle:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise UsageError(
            f"{options}: only for samples, and --mbr with --beam draws none; add --samples N, or leave it out"
        )


def _drawn(settings: dict[str, Any]) -> "Sampling":
    return cast("Sampling", {**settings, "sample": True})

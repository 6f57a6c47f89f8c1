"""The part of `regard predict` that says how outputs are searched, and chosen among what was found."""

from typing import TYPE_CHECKING, Any, Final, cast

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.run.model import Model
    from regard.search import MinimumRisk, Sampling, SearchOptions

SAMPLES: Final = 64

RANKED: Final = frozenset({"length_penalty", "length_formula", "coverage_penalty", "groups", "diversity"})
"""Settings of a beam that samples have no use for."""


def search_for(
    model: "Model", settings: "Sampling", *, beam: int | None, best: int, mbr: str | None, samples: int | None
) -> "tuple[SearchOptions, MinimumRisk | None]":
    """The search, and the risk by which outputs are chosen among what it finds.

    Candidates are the samples; or the outputs of a beam, where a width is given, against samples, where their number
    is, too.
    """
    from regard.search import MinimumRisk

    if mbr is None:
        if samples is not None:
            raise UsageError(
                f"--samples is for --mbr METRIC, which chooses among them; to write samples: --sample --nbest {samples}"
            )
        return model.options(beam=beam, best=best, **settings), None
    if settings.get("sample") or settings.get("stochastic"):
        raise UsageError("--mbr draws outputs itself: leave out --sample and --stochastic, and say --samples N")
    given = {name: value for name, value in settings.items() if name not in ("sample", "stochastic")}
    if beam is None:
        options = model.options(best=max(samples or SAMPLES, best), **_drawn(given))
        return options, MinimumRisk(utility=mbr, best=best)
    if beam < 2:
        raise UsageError("--mbr chooses among the outputs of --beam, and a beam of 1 has one; widen it")
    references = None
    if samples is not None:
        references = model.options(best=samples, **_drawn({k: v for k, v in given.items() if k not in RANKED}))
        given = {name: value for name, value in given.items() if name in (*RANKED, "min_length", "block_ngrams")}
    width = max(beam, best)
    options = model.options(beam=width, best=width, **cast("Sampling", given))
    return options, MinimumRisk(utility=mbr, best=best, references=references)


def _drawn(settings: dict[str, Any]) -> "Sampling":
    return cast("Sampling", {**settings, "sample": True})

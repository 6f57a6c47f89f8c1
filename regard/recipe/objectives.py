"""From a recipe to what is learned from a batch, and to the noise on it."""

from regard.data.corruption import Corruption
from regard.recipe.learning import SamplingSection
from regard.recipe.schema import Recipe
from regard.training.decay import Decay, ExponentialDecay, InverseSigmoidDecay, LinearDecay, NoTruth
from regard.training.objective import Likelihood, Objective
from regard.training.rdrop import RDrop
from regard.training.sampled_inputs import ScheduledSampling


def build_objective(recipe: Recipe) -> Objective:
    """What is learned: likelihood, of one pass or of two, from true inputs or from mixed ones."""
    section, smoothing = recipe.training.objective, recipe.training.label_smoothing
    inner: Objective = (
        RDrop(weight=section.rdrop, smoothing=smoothing) if section.rdrop else Likelihood(smoothing=smoothing)
    )
    if section.sampling is None:
        return inner
    return ScheduledSampling(inner=inner, decay=build_decay(section.sampling), draw=section.sampling.draw)


def build_decay(section: SamplingSection) -> Decay:
    """The share of true inputs by updates."""
    match section.decay:
        case "linear":
            assert section.slope is not None
            offset = 1.0 if section.k is None else section.k
            return LinearDecay(slope=section.slope, offset=offset, floor=section.floor or 0.0)
        case "exponential":
            assert section.k is not None
            return ExponentialDecay(base=section.k)
        case "inverse_sigmoid":
            assert section.k is not None
            return InverseSigmoidDecay(k=section.k)
        case "always":
            return NoTruth()


def build_corruption(recipe: Recipe) -> Corruption | None:
    """The noise on training data, where there is any."""
    settings = recipe.training.corruption.model_dump()
    return Corruption(**settings) if any(settings.values()) else None

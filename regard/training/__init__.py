"""How is θ found?"""

from regard.training.checkpoints import Checkpoint, Checkpoints
from regard.training.contracts import Corpus, Outcome, Verdict
from regard.training.events import (
    Ended,
    Event,
    LeftOut,
    Observer,
    Sampled,
    Saved,
    Settled,
    Shown,
    Skipped,
    Started,
    StartedFrom,
    Stepped,
    Validated,
    Warned,
)
from regard.training.health import Health
from regard.training.interrupt import Interrupted
from regard.training.loop import Trainer
from regard.training.objective import Likelihood, Objective
from regard.training.progress import Progress
from regard.training.settings import Fall, Settings, learning_rate
from regard.training.timeleft import TimeLeft
from regard.training.weights import average, load_weights, weights

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Corpus",
    "Ended",
    "Event",
    "Fall",
    "Health",
    "Interrupted",
    "LeftOut",
    "Likelihood",
    "Objective",
    "Observer",
    "Outcome",
    "Progress",
    "Sampled",
    "Saved",
    "Settings",
    "Settled",
    "Shown",
    "Skipped",
    "Started",
    "StartedFrom",
    "Stepped",
    "TimeLeft",
    "Trainer",
    "Validated",
    "Verdict",
    "Warned",
    "average",
    "learning_rate",
    "load_weights",
    "weights",
]

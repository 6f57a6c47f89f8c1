"""How is θ found?"""

from regard.training.checkpoints import Checkpoint, Checkpoints
from regard.training.events import Ended, Event, Observer, Saved, Skipped, Started, StartedFrom, Stepped, Validated
from regard.training.interrupt import Interrupted
from regard.training.loop import Corpus, Outcome, Trainer, Verdict
from regard.training.objective import Likelihood, Objective
from regard.training.progress import Progress
from regard.training.settings import Fall, Settings, learning_rate
from regard.training.weights import average, load_weights, weights

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Corpus",
    "Ended",
    "Event",
    "Fall",
    "Interrupted",
    "Likelihood",
    "Objective",
    "Observer",
    "Outcome",
    "Progress",
    "Saved",
    "Settings",
    "Skipped",
    "Started",
    "StartedFrom",
    "Stepped",
    "Trainer",
    "Validated",
    "Verdict",
    "average",
    "learning_rate",
    "load_weights",
    "weights",
]

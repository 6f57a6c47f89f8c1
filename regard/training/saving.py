"""What of a training is in a checkpoint, and how it is taken up again.

`model` holds the weights as they would be used: those that learn, or their moving average. `optimizer` holds what else
learning goes on from: moments of the optimiser and, beside a moving average, the weights that learn.
"""

from typing import TYPE_CHECKING

from regard.training.checkpoints import Checkpoint
from regard.training.finite import check_finite
from regard.training.meter import Meter
from regard.training.optimizers import load_optimizer_state, optimizer_state
from regard.training.progress import Progress
from regard.training.weights import gather, load_weights, weights

if TYPE_CHECKING:
    from regard.training.loop import Trainer

LEARNING = "learning/"


def snapshot(trainer: "Trainer") -> Checkpoint:
    """Everything that this training goes on from. What cannot be gone on from is refused.

    What is shared out is put together, in the main process only.
    """
    learner, keep = trainer.learner, trainer.processes.main
    learning = gather(weights(learner.system).items(), keep=keep)
    others = gather(optimizer_state(trainer.optimizer, learner.system.named_parameters()).items(), keep=keep)
    model = learning
    if trainer.moving is not None:
        others.update({f"{LEARNING}{name}": tensor for name, tensor in learning.items()})
        model = gather(trainer.moving.values.items(), keep=keep)
    check_finite((*model.items(), *others.items()), trainer.progress.step)
    return Checkpoint(
        step=trainer.progress.step,
        model=model,
        optimizer=others,
        state={"progress": trainer.progress.to_json(), "meter": trainer.meter.to_json()},
    )


def restore(trainer: "Trainer", checkpoint: Checkpoint) -> None:
    """Put a training where its checkpoint was made."""
    model = checkpoint.model
    if trainer.moving is not None:
        trainer.moving.load(model)
        model = {name: checkpoint.optimizer[f"{LEARNING}{name}"] for name in model}
    system = trainer.learner.system
    load_weights(system, model)
    load_optimizer_state(trainer.optimizer, system.named_parameters(), checkpoint.optimizer)
    trainer.meter = Meter.from_json(dict(checkpoint.state["meter"]))
    trainer.progress = Progress.from_json(dict(checkpoint.state["progress"]))

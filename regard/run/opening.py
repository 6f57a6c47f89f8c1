"""The weights a run is opened with: those that training chose, or the mean of checkpoints (Vaswani et al. 2017)."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from regard.errors import ModelError, UsageError
from regard.run.folder import RunFolder
from regard.training import average

Shapes = Mapping[str, tuple[int, ...]]


def chosen_weights(folder: RunFolder, expected: Shapes) -> dict[str, Tensor]:
    """`weights.safetensors`, its shapes checked before it is read."""
    check_shapes(expected, folder.shapes(), folder.weights)
    return folder.read_weights()


def last_steps(folder: RunFolder, count: int) -> tuple[int, ...]:
    """The steps of the last `count` checkpoints of a run, which must have so many."""
    if count < 1:
        raise UsageError(f"the number of checkpoints whose mean is taken must be at least 1, not {count}")
    steps = folder.checkpoints.steps()
    if len(steps) < count:
        has = f"{len(steps)} (step{'' if len(steps) == 1 else 's'} {', '.join(map(str, steps))})" if steps else "none"
        raise UsageError(
            f"{folder.path}: the mean of {count} checkpoints was asked for, and the run has {has}. Ask for fewer; how "
            "many validated ones are kept is `training.average` in the recipe"
        )
    return tuple(steps[-count:])


def mean_weights(folder: RunFolder, steps: tuple[int, ...], expected: Shapes) -> dict[str, Tensor]:
    """The mean of the weights of some checkpoints, all of which must fit."""
    found = []
    for step in steps:
        weights = folder.checkpoints.model(step)
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        check_shapes(expected, shapes, folder.checkpoints.path(step))
        found.append(weights)
    return average(found)


def check_shapes(expected: Shapes, found: Shapes, file: Path) -> None:
    """Refuse weights that do not belong to the recipe, with the first difference."""
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise ModelError(
                f"{file}: does not fit recipe.yaml: {name} should be {expected.get(name, 'absent')} and is "
                f"{found.get(name, 'absent')}. The file and the recipe come from different runs"
            )

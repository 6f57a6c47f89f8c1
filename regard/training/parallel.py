"""The weights that learn: in one process, as copies that add up their gradients, or as shares of one model.

Whichever it is, the gradient is that of the sum over all tokens of all processes, divided by their count. Checkpoints
hold whole tensors under the names of the system, so that a training may change from one way to another when it goes on.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from regard.data.batch import Batch
from regard.errors import UsageError
from regard.models import System
from regard.training.objective import Objective
from regard.training.processes import Processes
from regard.training.settings import Parallel
from regard.training.weights import load_weights, weights, whole


class Learned(NamedTuple):
    """What a micro-batch adds up to, as tensors: a plain tuple, which torch can look into."""

    sum: Tensor
    likelihood: Tensor


class Lesson(nn.Module):
    """An objective as a module, so that what torch does around a forward pass is done around the whole of it."""

    def __init__(self, system: System, objective: Objective) -> None:
        super().__init__()
        self.system = system
        self.objective = objective

    def forward(self, batch: Batch, step: int) -> Learned:
        loss = self.objective(self.system, batch, step=step)
        return Learned(loss.sum, loss.parts["likelihood"])


class Learner:
    """A system that learns by itself."""

    def __init__(self, system: System, objective: Objective) -> None:
        self.system = system
        self.lesson = Lesson(system, objective)
        self.module: nn.Module = self.lesson

    def __call__(self, batch: Batch, step: int) -> Learned:
        learned: Learned = self.module(batch, step)
        return learned

    @cached_property
    def learning(self) -> list[nn.Parameter]:
        """The parameters that learn: the same from the first update on."""
        return [one for one in self.system.parameters() if one.requires_grad]

    def collecting(self, *, last: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        """Around each micro-batch of an update: gradients are summed over processes after the last."""
        return nullcontext()

    def clip(self, limit: float) -> float:
        """The norm of the whole gradient, which is scaled down to `limit` where it is longer."""
        norm = whole(get_total_norm([one.grad for one in self.learning if one.grad is not None]))
        if limit and not float(norm) <= limit:
            clip_grads_with_norm_(self.learning, limit, norm)
        return float(norm)

    def forget(self) -> None:
        """Let go of all gradients."""
        for one in self.learning:
            one.grad = None

    @contextmanager
    def shown(self, system: System, values: Mapping[str, Tensor] | None) -> Iterator[None]:
        """Let a system have the weights that learn, or other ones of their kind, for the length of a block."""
        if values is None:
            yield
            return
        learning = weights(system)
        load_weights(system, values)
        try:
            yield
        finally:
            load_weights(system, learning)


class Copies(Learner):
    """Every process has the whole model, and the gradients are summed while the backward pass goes on."""

    def __init__(self, system: System, objective: Objective) -> None:
        super().__init__(system, objective)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="`broadcast_buffers`", category=FutureWarning)
            self.module = self.copies = DistributedDataParallel(
                self.lesson, broadcast_buffers=False, gradient_as_bucket_view=True, find_unused_parameters=True
            )

    def collecting(self, *, last: bool) -> AbstractContextManager[object]:
        return nullcontext() if last else self.copies.no_sync()


def build_learner(system: System, objective: Objective, processes: Processes, parallel: Parallel) -> Learner:
    """How the weights of a system learn in so many processes."""
    if processes.world == 1:
        if parallel == "fsdp":
            raise UsageError(
                "`training.parallel: fsdp` shares a model out among processes, and there is only one; start several "
                "with --workers or torchrun, or leave it out"
            )
        return Learner(system, objective)
    if parallel == "ddp":
        return Copies(system, objective)
    from regard.training.shares import Shares  # loads a good deal of torch that nothing else needs

    return Shares(system, objective, processes)

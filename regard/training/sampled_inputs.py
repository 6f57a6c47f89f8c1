"""Scheduled sampling: a decoder learns to go on from its own output (Bengio et al. 2015; Mihaylova and Martins 2019).

Shapes: B rows, M target items, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import ModelError
from regard.kernels.draws import generator
from regard.models import Decoder, EncoderDecoder, Loss, Memory, System
from regard.special import END, PAD, START
from regard.training.decay import Decay
from regard.training.objective import Objective

Draw = Literal["sample", "best"]

NEVER_READ = (PAD, START, END)
"""No decoder reads these behind its first token when it is used, so none is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSampling:
    """Each input token is the true one with probability ε_i, and otherwise one that the model says itself.

    Only the inputs change; `inner` then learns from them as it always does. Since no gradient flows through tokens,
    the inputs can be made beforehand, without gradient, and the loss is that of reading and drawing in one go. They
    are drawn as the model is used, without dropout. The outputs, the first input and padding stay as they are.

    A recurrent decoder is rolled out: the token at i follows from the mixed inputs before it. A decoder that reads all
    inputs at once says what it would write at each place after the truth, and reads the mixture in a second pass.
    """

    inner: Objective
    decay: Decay
    draw: Draw = "sample"

    def __call__(self, system: System, batch: Batch, *, step: int) -> Loss:
        share = self.decay.share(step)
        if share < 1.0:
            batch = replace(batch, inputs=mixed_inputs(system, batch, share, self.draw))
        return self.inner(system, batch, step=step)


def mixed_inputs(system: System, batch: Batch, share: float, draw: Draw) -> Tensor:
    """The inputs of a batch, of which a share is true and the others are the system's own: (B, M)."""
    if not isinstance(system, EncoderDecoder):
        raise ModelError(
            f"{type(system).__name__} reads nothing of its own output, so there is nothing to mix: leave "
            "`training.objective.sampling` out"
        )
    own = (
        torch.rand(batch.mask.shape, device=batch.mask.device, generator=generator()) >= share
    ) & batch.mask  # (B, M)
    own[:, 0] = False
    if not own.any():
        return batch.inputs
    decoder = system.decoder
    with torch.no_grad(), as_used(system):
        memory = system.memory(batch.sources)
        mix = in_two_passes if decoder.parallel else step_by_step
        return mix(decoder, memory, batch.inputs, own, draw)


def step_by_step(decoder: Decoder, memory: Memory, inputs: Tensor, own: Tensor, draw: Draw) -> Tensor:
    """Roll out a decoder as far as an own token is wanted; later inputs are the true ones."""
    mixed = inputs.clone()
    state = decoder.start(memory)
    last = int(own.any(0).nonzero().max())
    for item in range(last):
        hidden, state = decoder.step(mixed[:, item : item + 1], state)  # (B, 1, D)
        rows = own[:, item + 1]
        if rows.any():
            mixed[rows, item + 1] = drawn(decoder.logits(hidden[rows, 0]), draw)
    return mixed


def in_two_passes(decoder: Decoder, memory: Memory, inputs: Tensor, own: Tensor, draw: Draw) -> Tensor:
    """What is said after the true inputs stands where an own token is wanted, one place later."""
    hidden = decoder.hidden(memory, inputs)[:, :-1]  # (B, M - 1, D)
    mixed = inputs.clone()
    mixed[own] = drawn(decoder.logits(hidden[own[:, 1:]]), draw)
    return mixed


def drawn(logits: Tensor, draw: Draw) -> Tensor:
    """A token of each distribution, none that is never read: (R, V) → (R,).

    A sample is the first token up to which the sum of probabilities is above a random number: one number for each
    sample, where `torch.multinomial` draws one for each token of the vocabulary, at several times the cost. Logits
    that are not finite give some token, for it is the loss that tells of them.
    """
    words = logits.index_fill(-1, torch.tensor(NEVER_READ, device=logits.device), -torch.inf)
    if draw == "best":
        return words.argmax(-1)
    sums = words.softmax(-1).cumsum(-1, dtype=torch.float64)
    numbers = torch.rand(len(words), 1, dtype=torch.float64, device=words.device, generator=generator()) * sums[:, -1:]
    return torch.searchsorted(sums, numbers, right=True).squeeze(-1).clamp(max=words.size(-1) - 1)


@contextmanager
def as_used(system: System) -> Iterator[None]:
    """Without dropout inside; every module is in the mode it was in afterwards."""
    training = [module for module in system.modules() if module.training]
    system.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True

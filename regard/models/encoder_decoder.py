"""The encoder-decoder: p(y | x) = Π_i p(y_i | y_{<i}, x).

Shapes: B rows, M target items, S sentences, K beams, V vocabulary.
"""

import torch
from torch import Tensor

from regard.data.batch import Batch, Sources
from regard.models.contracts import Decoder, Encoder, Loss, State, Step, System
from regard.nn import smoothed_cross_entropy


class EncoderDecoder(System):
    """Any encoder with any decoder, one source."""

    def __init__(self, *, encoder: Encoder, decoder: Decoder, vocabulary: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.vocabulary = vocabulary

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        """Padding is dropped before the output projection, so that no product is spent on it."""
        memory = self.encoder.encode(batch.sources["source"])
        hidden = self.decoder.hidden(memory, batch.inputs)[batch.mask]  # (R, D)
        total, likelihood = smoothed_cross_entropy(self.decoder.logits(hidden), batch.outputs[batch.mask], smoothing)
        return Loss(sum=total, count=hidden.size(0), parts={"likelihood": likelihood.detach()})

    def start(self, sources: Sources) -> State:
        return self.decoder.start(self.encoder.encode(sources["source"]))

    def step(self, tokens: Tensor, state: State) -> Step:
        hidden, state = self.decoder.step(tokens, state)
        return Step(log_probabilities=_single(self.decoder.logits(hidden)).log_softmax(-1), state=state)

    def token_log_probabilities(self, batch: Batch) -> Tensor:
        """log p(y_i | y_{<i}, x) of given targets, teacher-forced: (B, M), 0 at padding."""
        memory = self.encoder.encode(batch.sources["source"])
        hidden = self.decoder.hidden(memory, batch.inputs)[batch.mask]  # (R, D)
        logits = _single(self.decoder.logits(hidden))
        labels = batch.outputs[batch.mask].unsqueeze(-1)
        chosen = logits.gather(-1, labels).squeeze(-1) - logits.logsumexp(-1)  # (R,)
        return chosen.new_zeros(batch.mask.shape).masked_scatter(batch.mask, chosen)


def _single(logits: Tensor) -> Tensor:
    """Half precision is widened before probabilities are made of it."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))

"""The encoder-decoder: p(y | x) = Π_i p(y_i | y_{<i}, x).

Shapes: B rows, M target items, S sentences, K beams, V vocabulary.
"""

from torch import Tensor

from regard.data.batch import Batch, Sources
from regard.models.contracts import Decoder, Encoder, Joining, Loss, State, Step, System
from regard.models.likelihood import chosen_log_probabilities, likelihood_loss, said
from regard.nn import Projection


class EncoderDecoder(System):
    """Any encoder with any decoder, and attributes beside the source where there are any.

    With an encoder that reads nothing this is a language model, with one that reads a category a conditioned one.
    """

    def __init__(
        self, *, encoder: Encoder, decoder: Decoder, vocabulary: int, attributes: Joining | None = None
    ) -> None:
        super().__init__(encoder=encoder, attributes=attributes)
        self.decoder = decoder
        self.vocabulary = vocabulary

    @property
    def longest(self) -> int | None:
        return self.decoder.longest

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        hidden = self.decoder.hidden(self.memory(batch.sources), batch.inputs)
        return likelihood_loss(hidden, self.decoder.projection, batch, smoothing)

    def token_log_probabilities(self, batch: Batch) -> Tensor:
        """log p(y_i | y_{<i}, x) of given targets, teacher-forced: (B, M), 0 at padding."""
        hidden = self.decoder.hidden(self.memory(batch.sources), batch.inputs)
        return chosen_log_probabilities(hidden, self.decoder.projection, batch)

    def distribution(self, batch: Batch) -> Projection:
        hidden = self.decoder.hidden(self.memory(batch.sources), batch.inputs)
        return self.decoder.projection(hidden[batch.mask])

    def start(self, sources: Sources) -> State:
        return self.decoder.start(self.memory(sources))

    def step(self, tokens: Tensor, state: State) -> Step:
        hidden, state = self.decoder.step(tokens, state)
        return said(self.decoder.said(hidden), state)

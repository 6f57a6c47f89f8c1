"""p(y | x): encoders, decoders, and the shapes built of them."""

from regard.models.contracts import Decoder, Encoder, Loss, Scorer, State, Step, System
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.memory import Memory
from regard.models.recurrent import BahdanauDecoder, RecurrentEncoder
from regard.models.transformer import TransformerDecoder, TransformerEncoder

__all__ = [
    "BahdanauDecoder",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "Loss",
    "Memory",
    "RecurrentEncoder",
    "Scorer",
    "State",
    "Step",
    "System",
    "TransformerDecoder",
    "TransformerEncoder",
]

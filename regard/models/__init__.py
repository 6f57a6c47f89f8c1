"""p(y | x): encoders, decoders, and the shapes built of them."""

from regard.models.attending import Attended, Attending, RecurrentState
from regard.models.attentive import AttentionalVector, AttentiveDecoder, Combine, LocalAttention, SideBySide
from regard.models.bahdanau import BahdanauDecoder
from regard.models.bridge import Bridge, FinalStates, FromNothing, TransformedSummary
from regard.models.category import AttributeJoin, CategoryEncoder, NoSource, join_attributes
from regard.models.context import EveryStepDecoder, InitialStateDecoder
from regard.models.contracts import Decoder, Encoder, Loss, Scorer, State, Step, System
from regard.models.convolution import ConvolutionEncoder
from regard.models.coverage import Covering
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.ensemble import COMBINES, Ensemble
from regard.models.fusion import Fusion
from regard.models.labelling import Acceptor, Labelling, MaskedLanguageModel, Rater, Transducer
from regard.models.memory import Memory
from regard.models.recurrent import BagEncoder, RecurrentEncoder, SelfAttentiveEncoder
from regard.models.transformer import TransformerDecoder, TransformerEncoder

__all__ = [
    "COMBINES",
    "Acceptor",
    "Attended",
    "Attending",
    "AttentionalVector",
    "AttentiveDecoder",
    "AttributeJoin",
    "BagEncoder",
    "BahdanauDecoder",
    "Bridge",
    "CategoryEncoder",
    "Combine",
    "ConvolutionEncoder",
    "Covering",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "Ensemble",
    "EveryStepDecoder",
    "FinalStates",
    "FromNothing",
    "Fusion",
    "InitialStateDecoder",
    "Labelling",
    "LocalAttention",
    "Loss",
    "MaskedLanguageModel",
    "Memory",
    "NoSource",
    "Rater",
    "RecurrentEncoder",
    "RecurrentState",
    "Scorer",
    "SelfAttentiveEncoder",
    "SideBySide",
    "State",
    "Step",
    "System",
    "Transducer",
    "TransformedSummary",
    "TransformerDecoder",
    "TransformerEncoder",
    "join_attributes",
]

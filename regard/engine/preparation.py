"""From a system to an engine file. What the engine does not know is refused, with the reason.

Everything is put in the few terms that the engine has: the matrix of a bilinear score goes into the keys (qᵀ W k =
qᵀ (W k)), networks of additive scores become one matrix for all heads, and halves of a memory are picked by a matrix.
"""

from pathlib import Path

from torch import nn

from regard.engine.attentions import array
from regard.engine.container import Container
from regard.engine.prepared import NAME as NAME
from regard.engine.recurrents import describe_recurrent_decoder, describe_recurrent_encoder
from regard.engine.refusals import refused
from regard.engine.transformers import describe_transformer_decoder, describe_transformer_encoder
from regard.models import EncoderDecoder, RecurrentEncoder, System, TransformerDecoder, TransformerEncoder
from regard.models.category import NoSource
from regard.nn import Embedding


def contained(system: System, *, int8: bool = True) -> Container:
    """All that the engine must know of a system."""
    if not isinstance(system, EncoderDecoder):
        raise refused(f"{type(system).__name__} gives answers and writes no text")
    if system.attributes is not None:
        raise refused("it reads attributes beside its source")
    container = Container(quantised=int8)
    match system.encoder:
        case TransformerEncoder() as encoder:
            describe_embedding(container, "encoder", encoder.embedding)
            describe_transformer_encoder(container, encoder)
        case RecurrentEncoder() as encoder:
            describe_embedding(container, "encoder", encoder.embedding)
            describe_recurrent_encoder(container, encoder)
        case NoSource():
            container.settings["encoder.kind"] = 0
        case other:
            raise refused(f"its encoder is a {type(other).__name__}")
    embedding, output = system.decoder.embedding, system.decoder.output
    assert isinstance(embedding, Embedding)
    assert isinstance(output, nn.Linear)
    describe_embedding(container, "decoder", embedding)
    container.linear("decoder.output", array(output.weight), None if output.bias is None else array(output.bias))
    if isinstance(system.decoder, TransformerDecoder):
        describe_transformer_decoder(container, system.decoder)
    else:
        describe_recurrent_decoder(container, system.decoder)
    return container


def describe_embedding(container: Container, side: str, embedding: Embedding) -> None:
    """The table of one side."""
    if type(embedding) is not Embedding:
        raise refused("its source has factors beside each word")
    container.settings[f"{side}.vocabulary"] = embedding.weight.size(0)
    container.settings[f"{side}.embedding_width"] = embedding.weight.size(1)
    container.settings[f"{side}.embedding_scale"] = embedding.scale
    container.floats(f"{side}.embedding", array(embedding.weight))


def prepare(system: System, path: Path, *, int8: bool = True) -> None:
    """Write the engine file of a system."""
    contained(system, int8=int8).write(path)

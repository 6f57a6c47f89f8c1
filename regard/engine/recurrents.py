"""Recurrent encoders and decoders in the engine's terms."""

from typing import Final

from torch import nn

from regard.engine.attentions import Projection, describe_attention
from regard.engine.container import Container
from regard.engine.refusals import refused
from regard.models import (
    AttentionalVector,
    AttentiveDecoder,
    BahdanauDecoder,
    Decoder,
    EveryStepDecoder,
    FinalStates,
    FromNothing,
    InitialStateDecoder,
    RecurrentEncoder,
    TransformedSummary,
)
from regard.nn import Maxout, Recurrent, RecurrentLayer
from regard.nn.cells import Cell, ElmanCell, GRUCell, LSTMCell

CELLS: Final = ("elman", "lstm", "gru", "gru_cho")
INITIAL, ATTENTIVE, BAHDANAU, EVERY_STEP = range(4)
FINALS, TRANSFORMED, NOTHING = range(3)


def describe_recurrent_encoder(container: Container, encoder: RecurrentEncoder) -> None:
    container.settings["encoder.kind"] = 2
    container.settings["encoder.backwards"] = encoder.backwards
    container.settings["encoder.backward_summary"] = encoder.summary == "backward"
    container.settings["encoder.directions"] = len(encoder.network.directions)
    _describe_network(container, "encoder", encoder.network)


def _describe_network(container: Container, side: str, network: Recurrent) -> None:
    if network.pyramid:
        raise refused("its encoder is a pyramid")
    layers = network.layers()
    cells = {
        _cell_name(layer.cell) for direction in range(len(network.directions)) for layer in network.layers(direction)
    }
    if len(cells) > 1:
        raise refused(f"the layers of its {side} are not alike (cell)")
    container.settings[f"{side}.cell"] = CELLS.index(cells.pop())
    container.settings[f"{side}.width"] = network.width
    container.settings[f"{side}.layers"] = len(layers)
    container.settings[f"{side}.residual"] = network.residual
    for direction in range(len(network.directions)):
        for index, layer in enumerate(network.layers(direction)):
            _describe_layer(container, f"{side}.{('forth', 'back')[direction]}.{index}", layer)


def _cell_name(cell: Cell) -> str:
    norms = [name for name, part in cell.named_modules() if isinstance(part, nn.LayerNorm)]
    if norms:
        raise refused("its cells have layer norms")
    match cell:
        case ElmanCell():
            return "elman"
        case LSTMCell():
            return "lstm"
        case GRUCell():
            return "gru" if cell.reset == "after" else "gru_cho"
        case _:
            raise refused(f"its cells are {type(cell).__name__}s")


def _describe_layer(container: Container, name: str, layer: RecurrentLayer) -> None:
    Projection.of(layer.inputs).write(container, f"{name}.inputs")
    recurrent = Projection.of(layer.cell.recurrent)
    if not isinstance(layer.cell, GRUCell) or layer.cell.reset == "after":
        recurrent.write(container, f"{name}.recurrent")
        return
    assert recurrent.bias is not None
    gates = 2 * layer.cell.width
    Projection(recurrent.weight[:gates], recurrent.bias[:gates]).write(container, f"{name}.gates")
    Projection(recurrent.weight[gates:], recurrent.bias[gates:]).write(container, f"{name}.candidate")


def describe_recurrent_decoder(container: Container, decoder: Decoder) -> None:
    container.settings["decoder.kind"] = 2
    match decoder:
        case InitialStateDecoder():
            container.settings["decoder.wiring"] = INITIAL
            _describe_bridge(container, decoder.bridge)
        case AttentiveDecoder():
            container.settings["decoder.wiring"] = ATTENTIVE
            _describe_bridge(container, decoder.bridge)
            _describe_attentive(container, decoder)
        case BahdanauDecoder():
            container.settings["decoder.wiring"] = BAHDANAU
            _describe_bridge(container, decoder.bridge)
            describe_attention(container, "decoder.cross", _module(decoder.attention))
            Projection.of(decoder.from_context).write(container, "decoder.from_context")
            _describe_maxout(container, decoder.deep)
        case EveryStepDecoder():
            container.settings["decoder.wiring"] = EVERY_STEP
            _describe_bridge(container, decoder.bridge)
            container.settings["decoder.context"] = decoder.context.out_features
            Projection.of(decoder.context).write(container, "decoder.context")
            _describe_maxout(container, decoder.deep)
        case _:
            raise refused(f"its decoder is a {type(decoder).__name__}")
    container.settings["decoder.hidden"] = decoder.output.in_features
    _describe_network(container, "decoder", decoder.network)


def _describe_bridge(container: Container, bridge: nn.Module) -> None:
    match bridge:
        case FinalStates():
            container.settings["decoder.bridge"] = FINALS
        case TransformedSummary():
            container.settings["decoder.bridge"] = TRANSFORMED
            Projection.of(bridge.linear).write(container, "decoder.bridge")
        case FromNothing():
            container.settings["decoder.bridge"] = NOTHING
        case _:
            raise refused(f"its decoder begins with a {type(bridge).__name__}")


def _describe_attentive(container: Container, decoder: AttentiveDecoder) -> None:
    describe_attention(container, "decoder.cross", _module(decoder.attention))
    combine = decoder.combine
    linear = combine.linear if isinstance(combine, AttentionalVector) else combine.project
    container.settings["decoder.feeding"] = decoder.from_fed is not None
    container.settings["decoder.side_by_side"] = not isinstance(combine, AttentionalVector)
    container.settings["decoder.projects"] = isinstance(linear, nn.Linear)
    if isinstance(linear, nn.Linear):
        Projection.of(linear).write(container, "decoder.combine")
    if decoder.from_fed is not None:
        Projection.of(decoder.from_fed).write(container, "decoder.from_fed")


def _describe_maxout(container: Container, deep: Maxout) -> None:
    for index, part in enumerate(deep.parts):
        assert isinstance(part, nn.Linear)
        Projection.of(part).write(container, f"decoder.deep.{index}")


def _module(attention: object) -> nn.Module:
    assert isinstance(attention, nn.Module)
    return attention

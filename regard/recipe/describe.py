"""The parts of a model in a few words."""

from regard.recipe.schema import (
    BagEncoderSection,
    CategoryEncoderSection,
    ConvolutionEncoderSection,
    DecoderSection,
    EncoderSection,
    NoDecoderSection,
    NoEncoderSection,
    RecurrentDecoderSection,
    RecurrentEncoderSection,
)


def describe(side: EncoderSection | DecoderSection, common: int | None = None) -> str:
    """A side of a model; `common` is the number of layers where the side has none of its own."""

    def layers(own: int | None) -> str:
        count = own or common
        return "" if count is None else f", {count} layer{'s' * (count != 1)}"

    match side:
        case NoEncoderSection() | NoDecoderSection():
            return "none"
        case BagEncoderSection():
            return "bag of words"
        case CategoryEncoderSection():
            return "attributes"
        case ConvolutionEncoderSection():
            return f"convolution over {'grey' if side.channels == 1 else 'colour'} pictures{layers(side.layers)}"
        case RecurrentEncoderSection():
            ways = "two-way" if side.two_way else "reversed" if side.reversed else "one-way"
            return f"{ways} {side.cell}{layers(side.layers)}"
        case RecurrentDecoderSection():
            return f"{side.cell}{layers(side.layers)}, wiring {side.wiring}"
        case _:
            return f"{side.kind}{layers(side.layers)}"

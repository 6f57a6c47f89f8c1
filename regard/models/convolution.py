"""A convolutional encoder of pictures.

Shapes: B rows, C channels, h and w height and width of a grid, N positions of the memory, D width.
"""

import torch
from torch import Tensor, nn

from regard.data.batch import Image, Source
from regard.models.contracts import Encoder
from regard.models.memory import Memory, masked_mean, unit_spans
from regard.nn import Site, dropout, visit
from regard.nn.convolution import ConvolutionLayer, Grid, grid_sinusoids


class ConvolutionEncoder(Encoder):
    """A picture as a grid of vectors to attend to (Xu et al. 2015, section 3.1.1), here with their places told.

    The first `halvings` layers halve height and width (all, if it is not said); with `groups` each layer is normalised.
    The memory are the real places of the grid, row by row, and nothing else, so that nothing in it depends on the
    other pictures of a batch. The summary is their mean.
    """

    def __init__(
        self,
        *,
        channels: int,
        width: int,
        layers: int,
        dropout: float,
        halvings: int | None = None,
        groups: int | None = None,
    ) -> None:
        super().__init__()
        if halvings is not None and not 0 <= halvings <= layers:
            raise ValueError(f"{layers} layers cannot halve a picture {halvings} times")
        halved = layers if halvings is None else halvings
        self.channels = channels
        self.dropout = dropout
        self.memory_width = self.summary_width = width
        self.layers = nn.ModuleList(
            ConvolutionLayer(
                channels=width if layer else channels, width=width, stride=2 if layer < halved else 1, groups=groups
            )
            for layer in range(layers)
        )

    def encode(self, source: Source) -> Memory:
        assert isinstance(source, Image)
        assert source.pixels.size(1) == self.channels, "a picture with more or fewer channels than the first layer"
        grid = self.grid(source)
        height, width = grid.mask.shape[1:]
        places = grid_sinusoids(height, width, self.memory_width).to(grid.states)  # (h, w, D)
        states, mask = compact((grid.states.movedim(1, -1) + places).flatten(1, 2), grid.mask.flatten(1))
        states = dropout(visit(Site("encoder", "embedding"), states), self.dropout, self.training)
        return Memory(states=states, mask=mask, summary=masked_mean(states, mask), spans=unit_spans(mask))

    def grid(self, source: Image) -> Grid:
        """The last layer, still as a picture: (B, D, h, w)."""
        first = self.layers[0]
        assert isinstance(first, ConvolutionLayer)
        pixels = source.pixels.to(first.convolution.weight).masked_fill(~source.mask.unsqueeze(1), 0.0)
        grid = Grid(states=pixels, mask=source.mask)
        for layer in self.layers:
            grid = layer(grid)
        return grid


def compact(states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The real positions of each row moved to its front, in their order: (B, N, D), (B, N) → (B, N', D), (B, N')."""
    if bool(mask.all()):
        return states, mask
    longest = int(mask.sum(1).max()) if len(mask) else 0
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]
    rows = torch.arange(len(mask), device=mask.device).unsqueeze(1)
    return states[rows, order], mask[rows, order]

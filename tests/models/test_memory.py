"""What encoders leave behind, and how memories are selected, joined and padded."""

import pytest
import torch

from regard.data.batch import source_ids
from regard.models import Memory, RecurrentEncoder
from regard.models.memory import lengthen, masked_mean, unit_spans
from regard.nn import Embedding, embedding_table
from tests.families import recurrent_encoder, transformer_encoder


def memory(lengths: list[int], *, layers: int = 0) -> Memory:
    items = max(lengths)
    mask = torch.arange(items) < torch.tensor(lengths).unsqueeze(1)
    return Memory(
        states=torch.randn(len(lengths), items, 3) * mask.unsqueeze(-1),
        mask=mask,
        summary=torch.randn(len(lengths), 2),
        spans=unit_spans(mask),
        layers=tuple(torch.randn(len(lengths), 4) for _ in range(layers)) if layers else None,
    )


def same(one: Memory, other: Memory) -> bool:
    plain = all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("mask", "summary"))
    real = torch.equal(one.states[one.mask], other.states[other.mask])
    spans = torch.equal(one.spans[one.mask], other.spans[other.mask])
    if one.layers is None or other.layers is None:
        return plain and real and spans and one.layers is other.layers
    pairs = zip(one.layers, other.layers, strict=True)
    return plain and real and spans and all(torch.equal(first, second) for first, second in pairs)


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize(("first", "second"), [([3, 1], [5]), ([4], [2, 1]), ([2], [2])])
def test_joined_memories_hold_the_rows_of_both(layers: int, first: list[int], second: list[int]) -> None:
    one, other = memory(first, layers=layers), memory(second, layers=layers)
    both = one.join(other)
    assert both.mask.sum(1).tolist() == first + second
    assert both.states.shape == (len(first + second), max(first + second), 3)
    for offset, part in ((0, one), (len(first), other)):
        rows = torch.arange(offset, offset + len(part.mask))
        taken = both.select(rows)
        items = part.mask.size(1)
        assert not taken.mask[:, items:].any()
        cut = Memory(
            states=taken.states[:, :items],
            mask=taken.mask[:, :items],
            summary=taken.summary,
            spans=taken.spans[:, :items],
            layers=taken.layers,
        )
        assert same(cut, part)


def test_selected_rows_come_in_the_order_asked_for() -> None:
    whole = memory([3, 1, 2], layers=1)
    taken = whole.select(torch.tensor([2, 0, 2]))
    assert taken.mask.sum(1).tolist() == [2, 3, 2]
    assert torch.equal(taken.summary[0], whole.summary[2])
    assert torch.equal(taken.states[1], whole.states[0])
    assert taken.layers is not None
    assert whole.layers is not None
    assert torch.equal(taken.layers[0][2], whole.layers[0][2])


def test_memories_with_and_without_layers_do_not_join() -> None:
    with pytest.raises(AssertionError, match="only one of two memories has layers"):
        memory([2], layers=1).join(memory([2]))


@pytest.mark.parametrize(
    ("dim", "front", "expected"),
    [
        (1, False, [[1, 2, 0, 0], [3, 4, 0, 0]]),
        (1, True, [[0, 0, 1, 2], [0, 0, 3, 4]]),
        (0, False, [[1, 2], [3, 4], [0, 0], [0, 0]]),
        (0, True, [[0, 0], [0, 0], [1, 2], [3, 4]]),
    ],
)
def test_lengthen_pads_one_axis(dim: int, front: bool, expected: list[list[int]]) -> None:
    rows = torch.tensor([[1, 2], [3, 4]])
    assert lengthen(rows, 4, dim=dim, front=front).tolist() == expected
    assert lengthen(rows, 2, dim=dim, front=front) is rows


def test_lengthen_keeps_types_and_never_cuts() -> None:
    assert lengthen(torch.tensor([[True]]), 2).tolist() == [[True, False]]
    with pytest.raises(AssertionError, match="3 items do not fit in 2"):
        lengthen(torch.ones(1, 3), 2)


def test_mean_of_real_positions() -> None:
    states = torch.tensor([[[1.0], [3.0], [99.0]], [[5.0], [99.0], [99.0]], [[7.0], [7.0], [7.0]]])
    mask = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    assert masked_mean(states, mask).flatten().tolist() == [2.0, 5.0, 0.0]


def test_unit_spans() -> None:
    assert unit_spans(torch.ones(2, 3, dtype=torch.bool)).tolist() == [[[0, 1], [1, 2], [2, 3]]] * 2


@torch.no_grad()
def test_summary_of_a_transformer_is_the_mean_of_its_states() -> None:
    encoder = transformer_encoder(9, norm_first=True).eval()
    encoded = encoder.encode(source_ids([[4, 5, 6], [7]]))
    assert encoded.summary.shape == (2, encoder.summary_width)
    torch.testing.assert_close(encoded.summary[1], encoded.states[1, :2].mean(0))
    torch.testing.assert_close(encoded.summary[0], encoded.states[0].mean(0))


@pytest.mark.parametrize("cell", ["gru", "gru_cho"])
@torch.no_grad()
def test_summary_of_a_recurrent_encoder_is_where_each_direction_ends(cell: str) -> None:
    assert cell in ("gru", "gru_cho")
    for layers, wanted in ((1, "backward"), (2, "all")):
        encoder = recurrent_encoder(9, "gru" if cell == "gru" else "gru_cho", layers=layers).eval()
        encoded = encoder.encode(source_ids([[4, 5, 6], [7]]))
        assert encoded.states.shape == (2, 4, encoder.memory_width)
        backward = encoded.states[:, 0, 5:]
        forward = torch.stack((encoded.states[0, 3, :5], encoded.states[1, 1, :5]))
        expected = backward if wanted == "backward" else torch.cat((forward, backward), dim=-1)
        assert torch.equal(encoded.summary, expected)
        assert encoded.summary.size(1) == encoder.summary_width


def one_way(summary: str) -> RecurrentEncoder:
    return RecurrentEncoder(
        embedding=Embedding(weight=embedding_table(9, 8), scaled=False),
        width=5,
        layers=1,
        two_way=False,
        cell="gru",
        dropout=0.0,
        summary="backward" if summary == "backward" else "all",
    )


@torch.no_grad()
def test_a_one_way_encoder_sums_up_with_its_last_state() -> None:
    encoder = one_way("all").eval()
    encoded = encoder.encode(source_ids([[4, 5, 6], [7]]))
    assert encoder.memory_width == encoder.summary_width == 5
    assert torch.equal(encoded.summary, torch.stack((encoded.states[0, 3], encoded.states[1, 1])))


def test_a_one_way_encoder_has_no_backward_state() -> None:
    with pytest.raises(ValueError, match="a one-way encoder has no backward state to sum up with"):
        one_way("backward")

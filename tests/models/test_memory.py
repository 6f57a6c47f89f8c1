"""What encoders leave behind, and how memories are selected, joined and padded."""

import pytest
import torch

from regard.data.batch import Ids, source_ids
from regard.models import FinalStates, Memory, RecurrentEncoder
from regard.models.memory import lengthen, masked_mean, over_source, unit_spans
from regard.nn import CellName, StateSize
from regard.special import END
from tests.families import bag_encoder, recurrent_encoder, self_attentive_encoder, transformer_encoder


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


@pytest.mark.parametrize("cell", ["elman", "lstm", "gru", "gru_cho", "multiplicative"])
@torch.no_grad()
def test_summary_of_a_recurrent_encoder_is_where_each_direction_ends(cell: CellName) -> None:
    for layers, wanted in ((1, "backward"), (2, "all")):
        encoder = recurrent_encoder(9, cell, layers=layers).eval()
        encoded = encoder.encode(source_ids([[4, 5, 6], [7]]))
        assert encoded.states.shape == (2, 4, encoder.memory_width)
        backward = encoded.states[:, 0, 5:]
        forward = torch.stack((encoded.states[0, 3, :5], encoded.states[1, 1, :5]))
        expected = backward if wanted == "backward" else torch.cat((forward, backward), dim=-1)
        assert torch.equal(encoded.summary, expected)
        assert encoded.summary.size(1) == encoder.summary_width


@torch.no_grad()
def test_a_one_way_encoder_sums_up_with_its_last_state() -> None:
    encoder = recurrent_encoder(9, "gru", two_way=False).eval()
    encoded = encoder.encode(source_ids([[4, 5, 6], [7]]))
    assert encoder.memory_width == encoder.summary_width == 5
    assert torch.equal(encoded.summary, torch.stack((encoded.states[0, 3], encoded.states[1, 1])))


def test_what_a_network_cannot_do_is_refused() -> None:
    one, two = (recurrent_encoder(9, "gru", two_way=both) for both in (False, True))
    with pytest.raises(ValueError, match="a one-way encoder has no backward state to sum up with"):
        RecurrentEncoder(embedding=one.embedding, network=one.network, dropout=0.0, summary="backward")
    with pytest.raises(ValueError, match="a two-way encoder reads from both ends already"):
        RecurrentEncoder(embedding=two.embedding, network=two.network, dropout=0.0, backwards=True)


def test_final_states_are_handed_over_only_where_they_fit() -> None:
    encoder = recurrent_encoder(9, "lstm", layers=2, two_way=False)
    assert encoder.finals == StateSize(layers=2, parts=2, width=5)
    with pytest.raises(ValueError, match=r"begins with .*width=6\), and the encoder ends with .*width=5\)"):
        FinalStates(offered=encoder.finals, wanted=StateSize(layers=2, parts=2, width=6))


@pytest.mark.parametrize("cell", ["elman", "lstm", "gru_cho"])
@torch.no_grad()
def test_a_reversed_source_is_read_from_its_end(cell: CellName) -> None:
    """The same as reading what another program has turned round; spans say where each item stood."""
    forward = recurrent_encoder(9, cell, layers=2, two_way=False).eval()
    backward = RecurrentEncoder(embedding=forward.embedding, network=forward.network, dropout=0.0, backwards=True)
    rows = [[4, 5, 6, 7], [8, 4], [5]]
    read = backward.eval().encode(source_ids(rows))
    for row, ids in enumerate(rows):
        turned = torch.tensor([[END, *reversed(ids)]])
        alone = forward.encode(Ids(ids=turned.unsqueeze(-1), mask=torch.ones_like(turned, dtype=torch.bool)))
        items = len(ids) + 1
        torch.testing.assert_close(read.states[row, :items], alone.states[0])
        torch.testing.assert_close(read.summary[row], alone.summary[0])
        assert read.layers is not None
        assert alone.layers is not None
        for one, other in zip(read.layers, alone.layers, strict=True):
            torch.testing.assert_close(one[row], other[0])
        assert read.spans[row, :items].tolist() == [[item, item + 1] for item in reversed(range(items))]


@torch.no_grad()
def test_a_pyramid_halves_the_memory_and_says_what_each_position_stands_for() -> None:
    encoder = recurrent_encoder(9, "lstm", layers=3, pyramid=True).double().eval()
    rows = [[4, 5, 6, 7, 8], [8, 4], [], [4, 5, 6, 7, 8, 4, 5, 6]]
    read = encoder.encode(source_ids(rows))  # END is an item, too: 6, 3, 1 and 9 items
    assert read.mask.sum(1).tolist() == [2, 1, 1, 3]
    spans = [[[0, 4], [4, 6]], [[0, 3]], [[0, 1]], [[0, 4], [4, 8], [8, 9]]]
    for row, (ids, expected) in enumerate(zip(rows, spans, strict=True)):
        assert read.spans[row][read.mask[row]].tolist() == expected
        alone = encoder.encode(source_ids([ids]))
        torch.testing.assert_close(read.states[row][read.mask[row]], alone.states[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(read.summary[row], alone.summary[0], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_layer_of_a_pyramid_reads_two_states_of_the_layer_below() -> None:
    """Chan et al. 2016, equation 5: h_i^j = RNN(h_{i-1}^j, [h_{2i}^{j-1}; h_{2i+1}^{j-1}])."""
    encoder = recurrent_encoder(9, "elman", layers=2, two_way=False, pyramid=True).double().eval()
    below, above = encoder.network.layers()
    ids = [4, 5, 6, 7, END]
    states = below.steps(encoder.embedding(torch.tensor([ids])), None, torch.zeros(1, 1, 5).double()).outputs[0]
    read = [torch.cat(pair) for pair in ((states[0], states[1]), (states[2], states[3]))]
    read.append(torch.cat((states[4], torch.zeros(5).double())))
    expected = above.steps(torch.stack(read).unsqueeze(0), None, torch.zeros(1, 1, 5).double()).outputs
    torch.testing.assert_close(encoder.encode(source_ids([ids[:-1]])).states, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_bag_of_words_is_the_mean_of_its_embeddings_in_any_order() -> None:
    encoder = bag_encoder(9).eval()
    read = encoder.encode(source_ids([[4, 5, 6], [6, 4, 5], [7]]))
    rows = encoder.embedding.weight[torch.tensor([4, 5, 6, END])]
    torch.testing.assert_close(read.summary[0], rows.mean(0))
    torch.testing.assert_close(read.summary[0], read.summary[1])
    torch.testing.assert_close(read.states[0], rows)
    assert read.layers is not None
    assert torch.equal(read.layers[0][:, 0], read.summary)


@torch.no_grad()
def test_self_attention_over_recurrent_states() -> None:
    encoder = self_attentive_encoder(9).double().eval()
    source = source_ids([[4, 5, 6], [7]])
    read, below = encoder.encode(source), encoder.encoder.encode(source)
    for row, items in ((0, 4), (1, 2)):
        states = below.states[row : row + 1, :items]
        context = encoder.attention.attend(states, encoder.attention.prepare(states), None)
        expected = torch.nn.functional.layer_norm(states + context, (10,), encoder.norm.weight, encoder.norm.bias)[0]
        torch.testing.assert_close(read.states[row, :items], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(read.summary[row], expected.mean(0), rtol=0, atol=1e-12)
    assert read.layers is None
    assert encoder.finals is None


def test_weights_over_a_memory_as_weights_over_its_source() -> None:
    spans = torch.tensor([[[0, 2], [2, 3], [0, 1]], [[1, 2], [0, 1], [0, 0]]])
    mask = torch.tensor([[True, True, False], [True, True, False]])
    weights = torch.tensor([[[0.8, 0.2, 0.0]], [[0.7, 0.3, 0.0]]])
    expected = torch.tensor([[[0.4, 0.4, 0.2]], [[0.3, 0.7, 0.0]]])
    torch.testing.assert_close(over_source(weights, spans, mask, 3), expected)
    heads = weights.unsqueeze(1).expand(-1, 2, -1, -1)
    torch.testing.assert_close(over_source(heads, spans, mask, 3), expected.unsqueeze(1).expand(-1, 2, -1, -1))


def test_what_stands_for_no_item_gives_its_weight_to_none() -> None:
    spans = torch.tensor([[[0, 0], [0, 1], [1, 2]]])
    weights = torch.tensor([[[0.5, 0.2, 0.3]]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    torch.testing.assert_close(over_source(weights, spans, mask, 2), torch.tensor([[[0.2, 0.3]]]))
    assert over_source(weights[..., :0], spans[:, :0], mask[:, :0], 2).tolist() == [[[0.0, 0.0]]]

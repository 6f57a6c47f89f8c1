"""Attributes, attributes beside a text, and no source."""

from dataclasses import replace

import pytest
import torch

from regard.data.batch import Category, source_ids
from regard.insight import capture, intervene
from regard.insight.intervene import replace as put
from regard.models import AttributeJoin, CategoryEncoder, Memory, NoSource, TransformedSummary, join_attributes
from regard.models.memory import masked_mean, over_source, unit_spans
from regard.nn import Site, StateSize, embedding_table
from tests.families import bag_encoder

SITE = Site("encoder", "embedding")
VALUES = Category(
    values=torch.tensor([[1, 2], [3, 1], [2, 4], [1, 1]]),
    mask=torch.tensor([[True, True], [True, False], [False, True], [False, False]]),
)
NOTHING = Category(values=torch.zeros(3, 0, dtype=torch.long), mask=torch.zeros(3, 0, dtype=torch.bool))


def category_encoder(*, width: int = 4, dropout: float = 0.0) -> CategoryEncoder:
    return CategoryEncoder(tables=[embedding_table(4, width), embedding_table(5, width)], dropout=dropout).eval()


def test_the_summary_is_the_sum_of_the_known_attributes() -> None:
    encoder = category_encoder()
    first, second = encoder.tables
    memory = encoder.encode(VALUES)
    torch.testing.assert_close(memory.summary[0], first[1] + second[2])
    torch.testing.assert_close(memory.summary[1], first[3])
    torch.testing.assert_close(memory.summary[2], second[4])
    assert not memory.summary[3].any()
    torch.testing.assert_close(memory.states[2], torch.stack((first[2], second[4])))
    assert torch.equal(memory.mask, VALUES.mask)
    assert torch.equal(memory.spans, unit_spans(VALUES.mask))
    assert encoder.finals == StateSize(layers=1, parts=1, width=4)
    assert memory.layers is not None
    assert torch.equal(memory.layers[0], memory.summary.unsqueeze(1))


def test_attributes_pass_the_site_of_embeddings() -> None:
    encoder = category_encoder()
    with capture(parts=["encoder"]) as captured:
        memory = encoder.encode(VALUES)
    assert torch.equal(captured.values[SITE], memory.states)
    with intervene({SITE: put(torch.ones(4))}):
        changed = encoder.encode(VALUES)
    assert changed.summary.tolist() == [[2.0] * 4, [1.0] * 4, [1.0] * 4, [0.0] * 4]


def test_dropout_of_attributes_acts_only_in_training() -> None:
    encoder = category_encoder(width=64, dropout=0.5)
    plain = encoder.encode(VALUES).states
    assert torch.equal(plain, encoder.encode(VALUES).states)
    dropped = encoder.train().encode(VALUES).states
    assert 0.3 < ((dropped == 0) & (plain != 0)).float().mean() < 0.7


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ([], "there are no attributes to encode; what reads nothing is NoSource"),
        ([3, 4], r"the tables of all attributes must have one width, and these have \[3, 4\]"),
    ],
)
def test_tables_that_cannot_work_are_refused(widths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CategoryEncoder(tables=[embedding_table(4, width) for width in widths], dropout=0.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_no_source_leaves_nothing_to_attend_to_and_a_learned_beginning(dtype: torch.dtype) -> None:
    encoder = NoSource(width=5).to(dtype)
    memory = encoder.encode(NOTHING)
    assert memory.states.shape == (3, 0, 5)
    assert memory.states.dtype == memory.summary.dtype == dtype
    assert memory.mask.shape == (3, 0)
    assert memory.spans.shape == (3, 0, 2)
    assert memory.layers is None
    assert not list(encoder.parameters())
    assert not encoder.state_dict()
    bridge = TransformedSummary(summary_width=encoder.summary_width, wanted=StateSize(layers=2, parts=1, width=3))
    start = bridge.to(dtype).start(memory)
    expected = torch.tanh(bridge.linear.weight[:, 0] + bridge.linear.bias)
    torch.testing.assert_close(start.flatten(1), expected.expand(3, -1))
    joined = memory.join(memory.select(torch.tensor([2])))
    assert joined.states.shape == (4, 0, 5)
    assert joined.summary.tolist() == [[1.0]] * 4


@pytest.mark.parametrize(
    ("encoder", "source", "message"),
    [
        (category_encoder(), NOTHING, "a source with more or fewer attributes than tables"),
        (NoSource(width=3), VALUES, "a source with attributes for a model that reads none"),
    ],
)
def test_sources_of_another_kind_are_not_read(
    encoder: CategoryEncoder | NoSource, source: Category, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        encoder.encode(source)


def text() -> Memory:
    return bag_encoder(9).eval().encode(source_ids([[4, 5], [6], [], [7, 8, 4]]))


@pytest.mark.parametrize("width", [8, 3])
def test_attributes_stand_in_front_of_a_text(width: int) -> None:
    category, memory = category_encoder(width=width), text()
    join = AttributeJoin(category, 8).eval()
    joined, own = join(memory, VALUES), category.encode(VALUES)
    weight = torch.eye(8) if width == 8 else join.project.weight
    torch.testing.assert_close(joined.states[:, :2], own.states @ weight.T)
    assert torch.equal(joined.states[:, 2:], memory.states)
    assert torch.equal(joined.mask, torch.cat((VALUES.mask, memory.mask), dim=1))
    torch.testing.assert_close(joined.summary, torch.cat((memory.summary, own.summary @ weight.T), dim=1))
    assert joined.summary.size(1) == join.summary_width(8)
    assert joined.layers is memory.layers
    assert not joined.spans[:, :2].any()
    assert torch.equal(joined.spans[:, 2:], memory.spans)
    torch.testing.assert_close(joined.summary[:, :8], masked_mean(memory.states, memory.mask))


def test_weight_on_an_attribute_goes_to_no_word() -> None:
    joined = AttributeJoin(category_encoder(width=8), 8)(text(), VALUES)
    weights = joined.mask.float() / joined.mask.sum(1, keepdim=True)
    words = over_source(weights.unsqueeze(1), joined.spans, joined.mask, 4).squeeze(1)
    torch.testing.assert_close(words, weights[:, 2:])
    torch.testing.assert_close(words.sum(1), torch.tensor([3 / 5, 2 / 3, 1 / 2, 1.0]))


def test_text_and_attributes_are_seen_apart() -> None:
    encoder, join = bag_encoder(9).eval(), AttributeJoin(category_encoder(width=3), 8).eval()
    source = source_ids([[4, 5], [6], [], [7, 8, 4]])
    with capture(parts=["encoder"]) as captured:
        memory = join(encoder.encode(source), VALUES)
    assert torch.equal(captured.values[SITE], memory.states[:, 2:])
    assert captured.values[replace(SITE, layer=1)].shape == (4, 2, 3)


def test_joining_nothing_changes_nothing() -> None:
    memory = text()
    nothing = Memory(
        states=memory.states[:, :0], mask=memory.mask[:, :0], summary=memory.summary[:, :0], spans=memory.spans[:, :0]
    )
    joined = join_attributes(memory, nothing)
    assert torch.equal(joined.states, memory.states)
    assert torch.equal(joined.summary, memory.summary)
    assert torch.equal(joined.spans, memory.spans)

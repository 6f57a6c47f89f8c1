"""Rows of ids as padded tensors, and named sources joined into one batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batch import (
    Category,
    Frames,
    Ids,
    Image,
    Source,
    Sources,
    join_sources,
    make_batch,
    pad,
    source_ids,
)
from regard.special import END, PAD, START

ROWS = st.lists(st.lists(st.integers(4, 99), max_size=6), max_size=5)


@given(rows=ROWS, before=st.sampled_from([None, START]), after=st.sampled_from([None, END]))
def test_padding_can_be_undone(rows: list[list[int]], before: int | None, after: int | None) -> None:
    ids, mask = pad(rows, before=before, after=after)
    rows = [[*([] if before is None else [before]), *row, *([] if after is None else [after])] for row in rows]
    assert ids.dtype == torch.int64
    assert mask.dtype == torch.bool
    assert ids.shape == mask.shape == (len(rows), max(map(len, rows), default=0))
    assert [row[real].tolist() for row, real in zip(ids, mask, strict=True)] == rows
    assert (ids[~mask] == PAD).all()
    assert all(real[: len(row)].all() for row, real in zip(rows, mask, strict=True))


def test_rows_may_be_arrays_and_are_copied() -> None:
    row = np.array([5, 6], dtype=np.uint16)
    ids, _ = pad([row, [7]])
    row[0] = 9
    assert ids.tolist() == [[5, 6], [7, PAD]]


def test_a_source_ends_with_end_and_is_never_empty() -> None:
    source = source_ids([[5, 6], [], np.array([7])])
    assert source.ids.shape == (3, 3, 1)
    assert source.ids[..., 0].tolist() == [[5, 6, END], [END, PAD, PAD], [7, END, PAD]]
    assert source.mask.tolist() == [[True] * 3, [True, False, False], [True, True, False]]


def test_a_batch_of_nothing_is_empty() -> None:
    batch = make_batch([], [])
    assert batch.inputs.shape == batch.outputs.shape == (0, 0)
    assert batch.tokens == batch.rows == 0


@pytest.mark.parametrize("as_array", [False, True])
def test_a_batch_holds_what_is_read_and_what_is_predicted(as_array: bool) -> None:
    sources, targets = [[5], [6, 7]], [[8, 9], []]
    batch = (
        make_batch([np.array(row, dtype=np.int32) for row in sources], [np.array(row, np.int32) for row in targets])
        if as_array
        else make_batch(sources, targets)
    )
    assert batch.inputs.tolist() == [[START, 8, 9], [START, PAD, PAD]]
    assert batch.outputs.tolist() == [[8, 9, END], [END, PAD, PAD]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert (batch.rows, batch.tokens) == (2, 4)
    source = batch.sources["source"]
    assert isinstance(source, Ids)
    assert source.ids[..., 0].tolist() == [[5, END, PAD], [6, 7, END]]


def ids(rows: int, items: int) -> Source:
    return Ids(ids=torch.randint(1, 9, (rows, items, 2)), mask=torch.ones(rows, items, dtype=torch.bool))


def frames(rows: int, items: int) -> Source:
    return Frames(frames=torch.randn(rows, items, 3), mask=torch.ones(rows, items, dtype=torch.bool))


def image(rows: int, items: int) -> Source:
    return Image(
        pixels=torch.randn(rows, 3, items, 7 - items), mask=torch.ones(rows, items, 7 - items, dtype=torch.bool)
    )


def category(rows: int, items: int) -> Source:
    return Category(values=torch.randint(1, 9, (rows, 2)), mask=torch.ones(rows, 2, dtype=torch.bool))


def content(source: Source) -> torch.Tensor:
    match source:
        case Ids():
            return source.ids
        case Frames():
            return source.frames
        case Image():
            return source.pixels
        case Category():
            return source.values


@pytest.mark.parametrize("make", [ids, frames, image, category])
def test_joined_sources_hold_the_rows_of_all(make: type) -> None:
    parts = [make(2, 3), make(1, 5), make(3, 1)]
    joined = join_sources([{"source": part} for part in parts])["source"]
    assert type(joined) is type(parts[0])
    start = 0
    for part in parts:
        rows = slice(start, start + len(part.mask))
        box = tuple(slice(0, size) for size in content(part).shape[1:])
        mask_box = tuple(slice(0, size) for size in part.mask.shape[1:])
        assert torch.equal(content(joined)[(rows, *box)], content(part))
        assert torch.equal(joined.mask[(rows, *mask_box)], part.mask)
        assert joined.mask[rows].sum() == part.mask.sum()
        assert content(joined)[rows].count_nonzero() == content(part).count_nonzero()
        start = rows.stop
    assert len(joined.mask) == len(content(joined)) == start
    assert content(joined).dtype == content(parts[0]).dtype


def test_every_name_is_joined() -> None:
    batches: list[Sources] = [
        {"source": ids(1, 2), "topic": category(1, 0)},
        {"source": ids(1, 4), "topic": category(1, 0)},
    ]
    joined = join_sources(batches)
    assert set(joined) == {"source", "topic"}
    assert joined["source"].mask.tolist() == [[True, True, False, False], [True] * 4]
    assert len(joined["topic"].mask) == 2


def test_one_batch_is_passed_on_as_it_is() -> None:
    only = {"source": ids(2, 3)}
    assert join_sources([only]) is only


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"source": ids(1, 2)}, {"source": frames(1, 2)}, "sources of other kinds do not join"),
        ({"source": ids(1, 2)}, {"source": ids(1, 2), "topic": category(1, 0)}, "batches with other sources"),
        ({"source": ids(1, 2), "topic": category(1, 0)}, {"source": ids(1, 2)}, "batches with other sources"),
        (
            {"source": ids(1, 2)},
            {"source": Ids(ids=torch.ones(1, 2, 3, dtype=torch.long), mask=torch.ones(1, 2, dtype=torch.bool))},
            r"axis 2 differs: \[2, 3\]",
        ),
    ],
)
def test_nothing_is_dropped_or_made_up_in_a_join(first: Sources, second: Sources, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        join_sources([first, second])


def test_categories_join_row_by_row_even_without_any_attribute() -> None:
    known = torch.tensor([[True, False]])
    one, other = (Category(values=torch.tensor([[value, value]]), mask=known) for value in (3, 4))
    joined = join_sources([{"source": one}, {"source": other}])["source"]
    assert isinstance(joined, Category)
    assert joined.values.tolist() == [[3, 3], [4, 4]]
    assert joined.mask.tolist() == [[True, False]] * 2
    nothing = Category(values=torch.zeros(2, 0, dtype=torch.long), mask=torch.zeros(2, 0, dtype=torch.bool))
    joined = join_sources([{"source": nothing}] * 3)["source"]
    assert isinstance(joined, Category)
    assert joined.values.shape == joined.mask.shape == (6, 0)
    assert joined.values.dtype == torch.long
    assert joined.mask.dtype == torch.bool

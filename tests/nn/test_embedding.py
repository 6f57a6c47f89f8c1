"""Embeddings: the table, its scale, its sharing."""

import math
from typing import Literal

import pytest
import torch

from regard.errors import ModelError
from regard.nn import Embedding, FactoredEmbedding, embedding_table
from regard.special import PAD


def test_a_fresh_table_has_variance_one_over_width_and_no_padding() -> None:
    table = embedding_table(2000, 16)
    assert not table[PAD].any()
    assert table[PAD + 1 :].std().item() == pytest.approx(0.25, rel=0.02)
    assert table.requires_grad


@pytest.mark.parametrize(("scaled", "scale"), [(True, math.sqrt(6)), (False, 1.0)])
def test_lookup_and_scale(scaled: bool, scale: float) -> None:
    table = embedding_table(10, 6)
    embedding = Embedding(weight=table, scaled=scaled)
    assert embedding.width == 6
    vectors = embedding(torch.tensor([[3, 9], [4, 3]]))
    torch.testing.assert_close(vectors[1, 1], table[3] * scale)
    torch.testing.assert_close(vectors[0, 1], table[9] * scale)


def test_a_table_may_be_shared() -> None:
    table = embedding_table(10, 6)
    one, other = Embedding(weight=table, scaled=True), Embedding(weight=table, scaled=False)
    (one(torch.tensor([4])).sum() + other(torch.tensor([5])).sum()).backward()
    assert table.grad is not None
    assert table.grad.any(dim=1).nonzero().flatten().tolist() == [4, 5]


def test_items_of_a_plain_table_have_one_factor() -> None:
    embedding = Embedding(weight=embedding_table(10, 6), scaled=True)
    ids = torch.tensor([[[3], [9]], [[4], [3]]])
    assert torch.equal(embedding.items(ids), embedding(ids[..., 0]))
    assert [name for name, _ in embedding.named_parameters()] == ["weight"]
    with pytest.raises(ModelError, match="each item of this source has 2 factors, and the model knows 1; give the col"):
        embedding.items(torch.zeros(1, 3, 2, dtype=torch.long))


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("combine", "widths", "width"), [("concat", (4, 3, 1), 8), ("sum", (5, 5, 5), 5)])
def test_factors_are_put_together(
    combine: Literal["concat", "sum"], widths: tuple[int, ...], width: int, scaled: bool
) -> None:
    word, *factors = (embedding_table(size, one) for size, one in zip((10, 7, 6), widths, strict=True))
    embedding = FactoredEmbedding(weight=word, factors=factors, combine=combine, scaled=scaled)
    assert embedding.width == width
    assert [name for name, _ in embedding.named_parameters()] == ["weight", "factors.0", "factors.1"]
    ids = torch.stack([torch.randint(size, (2, 4)) for size in (10, 7, 6)], dim=-1)
    vectors = embedding.items(ids)
    scale = math.sqrt(width) if scaled else 1.0
    for row in range(2):
        for item in range(4):
            parts = [table[ids[row, item, factor]] for factor, table in enumerate((word, *factors))]
            expected = torch.cat(parts) if combine == "concat" else parts[0] + parts[1] + parts[2]
            torch.testing.assert_close(vectors[row, item], expected * scale)
    with pytest.raises(ModelError, match="each item of this source has 1 factors, and the model knows 3"):
        embedding.items(ids[..., :1])


def test_vectors_of_different_widths_are_not_summed() -> None:
    with pytest.raises(ValueError, match=r"must have one width, and these have \[4, 3\]"):
        FactoredEmbedding(weight=embedding_table(9, 4), factors=[embedding_table(9, 3)], combine="sum", scaled=False)

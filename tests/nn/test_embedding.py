"""Embeddings: the table, its scale, its sharing."""

import math

import pytest
import torch

from regard.nn import Embedding, embedding_table
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

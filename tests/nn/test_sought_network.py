"""Recurrent networks under search: a table of all tokens and shared parents give what steps give."""

from itertools import product

import pytest
import torch

from regard.nn import Embedding, Recurrent
from regard.nn.embedding import embedding_table
from regard.nn.sites import Site, watching
from regard.nn.sought import Sought, SoughtNetwork

WORDS, WIDTH, READ = 9, 4, 3


def network_of(cell: str, layers: int) -> Recurrent:
    torch.manual_seed(layers)
    return Recurrent(part="decoder", input_width=5, width=WIDTH, layers=layers, cell=cell, residual=layers > 1).eval()


@pytest.mark.parametrize(("cell", "layers"), list(product(("elman", "lstm", "gru", "gru_cho"), (1, 2))))
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@torch.no_grad()
def test_steps_over_tokens_equal_those_over_their_vectors(
    cell: str, layers: int, reads: bool, kind: torch.dtype
) -> None:
    network = network_of(cell, layers).to(kind)
    vectors, reading = torch.randn(WORDS, 5, dtype=kind), torch.randn(network.blocks * WIDTH, READ, dtype=kind)
    sought = SoughtNetwork(network, vectors, *([reading] if reads else []))
    grid = torch.randn(3, 2, layers, network.size.parts, WIDTH, dtype=kind)
    read = torch.randn(3, 2, READ, dtype=kind)
    moves = (None, torch.tensor([[0, 0], [1, 1], [1, 0]]), torch.tensor([[1, 1, 1], [0, 1, 0], [0, 0, 0]]))
    close = {"rtol": 0, "atol": 1e-9 if kind is torch.float64 else 3e-6}
    for beams in moves:
        tokens = torch.randint(WORDS, (3, 2 if beams is None else beams.size(1)))
        outputs, new = sought.step(tokens, grid, beams, *([read] if reads else []))
        rows = torch.arange(3).unsqueeze(1)
        chosen, given = (grid, read) if beams is None else (grid[rows, beams], read[rows, beams])
        products = network.products(vectors[tokens])
        wanted, after = network.step(products + given @ reading.t() if reads else products, chosen)
        torch.testing.assert_close(outputs, wanted, **close)
        torch.testing.assert_close(new, after, **close)


@torch.no_grad()
def test_a_token_that_is_not_there_is_told_by_torch() -> None:
    network = network_of("lstm", 1)
    sought = SoughtNetwork(network, torch.randn(WORDS, 5))
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        sought.step(torch.tensor([[WORDS]]), torch.zeros(1, 1, 1, 2, WIDTH), None)


class Nobody:
    def watches(self, site: Site) -> bool:
        return False

    def visit(self, site: Site, value: torch.Tensor) -> torch.Tensor:
        raise AssertionError(f"nothing was wanted at {site}")


def test_the_table_is_made_for_many_rows_and_only_while_nobody_learns_or_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, embedding = network_of("lstm", 1), Embedding(weight=embedding_table(WORDS, 5), scaled=False)
    whole = torch.nn.ModuleList((network, embedding)).eval()
    sought = Sought()

    def get(rows: int = 32) -> SoughtNetwork | None:
        return sought.get(whole, network, embedding, rows)

    with torch.no_grad():
        assert get(31) is None
        made = get()
        assert made is not None
        assert get() is made
        assert get(31) is None, "whatever was asked before"
        with watching(Nobody()):
            assert get() is None
        with torch.enable_grad():
            assert get() is None
        whole.train()
        assert get() is None
        whole.eval()
        embedding.weight.mul_(2)
        assert get() not in (made, None), "other weights, another table"
        monkeypatch.setattr("regard.nn.sought.LARGEST", WORDS * 4 * WIDTH - 1)
        assert get() is None
        monkeypatch.undo()
        again = get()
        assert again is not None
        sought.forget()
        assert get() not in (again, None)

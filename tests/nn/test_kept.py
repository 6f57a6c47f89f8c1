"""What is laid out for search: equal to the module, and made anew whenever a parameter is another."""

import copy
import pickle

import pytest
import torch
from torch import nn

from regard.nn.kept import Kept, Product, is_fixed


def change_in_place(module: nn.Linear) -> None:
    with torch.no_grad():
        module.weight.mul_(2.0)


def train_a_step(module: nn.Linear) -> None:
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1, foreach=True)
    module(torch.ones(1, 3)).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def load(module: nn.Linear) -> None:
    module.load_state_dict({name: one + 1 for name, one in module.state_dict().items()})


def assign(module: nn.Linear) -> None:
    module.load_state_dict({name: one + 1 for name, one in module.state_dict().items()}, assign=True)


def replace_a_parameter(module: nn.Linear) -> None:
    module.bias = nn.Parameter(torch.ones(2))


def swap_data(module: nn.Linear) -> None:
    module.weight.data = module.weight.detach() + 1


def in_inference_mode(module: nn.Linear) -> None:
    with torch.inference_mode():
        module.weight.add_(1.0)


def take_the_bias_away(module: nn.Linear) -> None:
    module.bias = None  # type: ignore[assignment]


CHANGES = (
    take_the_bias_away,
    change_in_place,
    train_a_step,
    load,
    assign,
    replace_a_parameter,
    swap_data,
    in_inference_mode,
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_parameters_is_seen(change: object) -> None:
    module, kept = nn.Linear(3, 2), Kept[Product]()
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    first = kept.get(module, lambda: Product.of(module))
    assert kept.get(module, lambda: Product.of(module)) is first
    assert callable(change)
    change(module)
    with torch.no_grad():
        torch.testing.assert_close(kept.get(module, lambda: Product.of(module))(rows), module(rows))
        assert not torch.allclose(first(rows), module(rows))


def test_what_comes_where_there_was_nothing_is_seen() -> None:
    module, kept = nn.Linear(3, 2, bias=False), Kept[Product]()
    assert kept.get(module, lambda: Product.of(module)).bias is None
    module.bias = nn.Parameter(torch.ones(2))
    assert kept.get(module, lambda: Product.of(module)).bias is not None


def test_a_change_of_a_buffer_is_seen() -> None:
    module, kept, made = nn.Linear(3, 2), Kept[int](), list[int]()
    module.register_buffer("mask", torch.ones(2))

    def make() -> int:
        made.append(0)
        return len(made)

    assert kept.get(module, make) == kept.get(module, make) == 1
    assert isinstance(module.mask, torch.Tensor)
    module.mask.zero_()
    assert kept.get(module, make) == 2


def test_parameters_whose_changes_nobody_counts_are_never_kept() -> None:
    with torch.inference_mode():
        module = nn.Linear(3, 2)
        kept, rows = Kept[Product](), torch.ones(1, 3)
        kept.get(module, lambda: Product.of(module))
        module.weight.mul_(0.5)
        torch.testing.assert_close(kept.get(module, lambda: Product.of(module))(rows), module(rows))


def test_files_and_copies_know_nothing_of_it() -> None:
    module, kept = nn.Linear(3, 2), Kept[Product]()
    before = len(pickle.dumps(kept))
    kept.get(module, lambda: Product.of(module))
    assert len(pickle.dumps(kept)) == before


def test_a_module_inside_that_is_another_is_seen() -> None:
    whole, kept = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Kept[float]()
    made: list[float] = []

    def make() -> float:
        made.append(0.0)
        return 0.0

    for _ in range(2):
        kept.get(whole, make)
    assert len(made) == 1
    whole[0] = nn.Linear(2, 2)
    kept.get(whole, make)
    assert len(made) == 2
    kept.forget()
    kept.get(whole, make)
    assert len(made) == 3


def test_a_copy_of_a_module_keeps_nothing() -> None:
    module, kept = nn.Linear(3, 2), Kept[Product]()
    first = kept.get(module, lambda: Product.of(module))
    assert copy.deepcopy(kept).get(module, lambda: Product.of(module)) is not first


@pytest.mark.parametrize("bias", [True, False])
def test_several_maps_are_one(bias: bool) -> None:
    first, second = nn.Linear(3, 2, bias=bias), nn.Linear(3, 4, bias=bias)
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        joined = Product.of(first, second, scales=(0.5, 1.0))
        torch.testing.assert_close(joined(rows), torch.cat((first(rows) * 0.5, second(rows)), dim=1))
        torch.testing.assert_close(joined.part(2, 6)(rows), second(rows))
        room = torch.zeros(5, 4)
        joined.part(2, 6)(rows, out=room)
        torch.testing.assert_close(room, second(rows))


def test_who_learns_or_narrows_numbers_uses_the_parameters_themselves() -> None:
    module = nn.Linear(2, 2).eval()
    assert not is_fixed(module)
    with torch.no_grad():
        assert is_fixed(module)
        with torch.autocast("cpu", torch.bfloat16):
            assert not is_fixed(module)
        assert not is_fixed(module.train())

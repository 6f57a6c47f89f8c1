"""Parts of a layer in one call against the same kernels one by one."""

import ctypes
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.kernels import parts
from regard.kernels.calls import Kind, call_all, has_half
from regard.kernels.structures import Product
from regard.nn import TransformerDecoderLayer, TransformerEncoderLayer, transformer
from regard.nn.feedforward import FeedForward
from regard.nn.sites import Site, watching

HALF = torch.bfloat16
WHOLE = ("fed_whole", "attended_within_whole", "attended_whole")
NAMES = ("fed", "attended_within", "attended")


@pytest.fixture(autouse=True)
def half(built: ctypes.CDLL) -> None:
    """Only where the processor has products of bfloat16."""
    if not has_half():
        pytest.skip("no products of bfloat16 here")


def layers(width: int, heads: int, inner: int, dropout: float) -> tuple[nn.Module, TransformerDecoderLayer]:
    torch.manual_seed(width + heads)
    sizes = {"width": width, "heads": heads, "inner": inner, "norm_first": False, "dropout": dropout, "layer": 0}
    encoder, decoder = TransformerEncoderLayer(**sizes), TransformerDecoderLayer(memory_width=width, **sizes)
    for parameter in (*encoder.parameters(), *decoder.parameters()):
        nn.init.normal_(parameter, std=0.3 if parameter.dim() == 1 else width**-0.5)
    return encoder.train(), decoder.train()


def learn(both: tuple[nn.Module, TransformerDecoderLayer], states: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """A pass through both layers, and back; what came out, and the gradient of what went in."""
    encoder, decoder = both
    mask = torch.ones(states.shape[:2], dtype=torch.bool)
    mask[0, 2:] = False
    read, wanted = states.clone().requires_grad_(), target.clone().requires_grad_()
    for parameter in (*encoder.parameters(), *decoder.parameters()):
        parameter.grad = None
    torch.manual_seed(7)
    with torch.autocast("cpu", dtype=HALF):
        memory = encoder(read, mask[:, None, None, :])
        out = decoder(wanted, decoder.prepare(memory), mask[:, None, None, :])
    (out.float() * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
    assert read.grad is not None
    assert wanted.grad is not None
    return out.detach(), torch.cat((read.grad.flatten(), wanted.grad.flatten()))


def gradients(both: tuple[nn.Module, nn.Module]) -> dict[str, Tensor]:
    return {
        f"{number}.{name}": parameter.grad.clone()
        for number, one in enumerate(both)
        for name, parameter in one.named_parameters()
        if parameter.grad is not None
    }


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each part was one call."""
    counts = dict.fromkeys(NAMES, 0)

    def counting(name: str, usual: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*given: object) -> Tensor:
            counts[name] += 1
            return usual(*given)

        return call

    for name in NAMES:
        monkeypatch.setattr(parts, name, counting(name, getattr(parts, name)))
    return counts


def close(one: Tensor, other: Tensor) -> bool:
    """As close as rounding to bfloat16 lets gradients be."""
    return bool((one - other).abs().max() <= 0.02 * other.abs().max())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(
    ("width", "heads", "inner"), [(128, 4, 256), (24, 3, 40), (64, 1, 7), (32, 2, 96)], ids=lambda size: str(size)
)
def test_parts_in_one_call_are_the_kernels_one_by_one(
    monkeypatch: pytest.MonkeyPatch, counted: dict[str, int], width: int, heads: int, inner: int, dropout: float
) -> None:
    both = layers(width, heads, inner, dropout)
    states, target = torch.randn(3, 9, width), torch.randn(3, 6, width)
    out, of_inputs = learn(both, states, target)
    found = gradients(both)
    assert counted == {"fed": 2, "attended_within": 2, "attended": 1}
    for name in WHOLE:
        monkeypatch.setattr(transformer, name, lambda *_, **__: None)
    other, of_other = learn(both, states, target)
    assert torch.equal(out, other)
    assert close(of_inputs, of_other)
    assert found.keys() == (apart := gradients(both)).keys()
    assert all(close(found[name], apart[name]) for name in apart), [
        (name, float((found[name] - apart[name]).abs().max() / apart[name].abs().max())) for name in apart
    ]


def test_results_do_not_depend_on_threads() -> None:
    both = layers(128, 4, 256, 0.1)
    states, target, before = torch.randn(40, 13, 128), torch.randn(40, 12, 128), torch.get_num_threads()
    seen = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            seen.append((*learn(both, states, target), gradients(both)))
    finally:
        torch.set_num_threads(before)
    (out, of_inputs, found), (other, of_other, apart) = seen
    assert torch.equal(out, other)
    assert torch.equal(of_inputs, of_other)
    assert all(torch.equal(found[name], apart[name]) for name in apart)


@pytest.mark.parametrize("learning", ["norm", "bias", "query.weight", "key_value", "output", "inner.weight", "nothing"])
def test_what_does_not_learn_gets_no_gradient(counted: dict[str, int], learning: str) -> None:
    both = layers(32, 2, 48, 0.1)
    states, target = torch.randn(3, 5, 32), torch.randn(3, 6, 32)
    _, whole = learn(both, states, target)
    every = gradients(both)
    for module in both:
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(learning in name)
    _, again = learn(both, states, target)
    some = gradients(both)
    assert set(some) == {name for name in every if learning in name}
    assert all(torch.equal(some[name], every[name]) for name in some)
    assert torch.equal(again, whole)
    assert counted["fed"] == 4


def test_other_layers_are_left_to_others(counted: dict[str, int]) -> None:
    states, target = torch.randn(2, 5, 32), torch.randn(2, 6, 32)
    encoder, decoder = layers(32, 2, 48, 0.1)
    hook = decoder.feedforward.outer.register_forward_hook(lambda *_: None)
    decoder.cross.output.register_forward_hook(lambda *_: None)  # type: ignore[union-attr]
    learn((encoder, decoder), states, target)
    assert counted == {"fed": 1, "attended_within": 2, "attended": 0}
    hook.remove()
    sizes = {"width": 32, "heads": 2, "inner": 48, "dropout": 0.1, "layer": 0}
    first = TransformerEncoderLayer(norm_first=True, **sizes).train()
    gelu = TransformerDecoderLayer(
        memory_width=32, norm_first=False, variant=transformer.Variant(activation="gelu", norm_kind="rms"), **sizes
    ).train()
    before = dict(counted)
    learn((first, gelu), states, target)
    assert counted == before


class Louder(FeedForward):
    """Does more than its class says."""

    def inside(self, states: Tensor) -> Tensor:
        return 2 * super().inside(states)


class Adapter(nn.Module):
    """In the place of a feed-forward part, with no more of it than a layer asks for."""

    def __init__(self, usual: FeedForward) -> None:
        super().__init__()
        self.outer = usual.outer
        self.inner = usual.inner

    def inside(self, states: Tensor) -> Tensor:
        return torch.tanh(self.inner(states))


@pytest.mark.parametrize("kind", ["louder", "adapter"])
def test_other_parts_do_what_they_do(counted: dict[str, int], kind: str) -> None:
    encoder, decoder = layers(32, 2, 48, 0.0)
    states, target = torch.randn(2, 5, 32), torch.randn(2, 6, 32)
    before, _ = learn((encoder, decoder), states, target)
    usual = decoder.feedforward
    if kind == "louder":
        decoder.feedforward = Louder(width=32, inner=48, dropout=0.0)
        decoder.feedforward.load_state_dict(usual.state_dict())
    else:
        decoder.feedforward = Adapter(usual)  # type: ignore[assignment]
    out, _ = learn((encoder, decoder), states, target)
    assert counted["fed"] == 3
    assert not torch.equal(out, before)


def test_a_part_that_does_not_learn_drops_nothing(monkeypatch: pytest.MonkeyPatch, counted: dict[str, int]) -> None:
    both = layers(32, 2, 48, 0.3)
    both[1].feedforward.eval()
    states, target = torch.randn(2, 5, 32), torch.randn(2, 6, 32)
    out, _ = learn(both, states, target)
    assert counted["fed"] == 1
    for name in WHOLE:
        monkeypatch.setattr(transformer, name, lambda *_, **__: None)
    assert torch.equal(out, learn(both, states, target)[0])


@pytest.mark.parametrize("what", ["feedforward", "attention"])
def test_sizes_that_do_not_fit_are_refused(what: str) -> None:
    both = layers(32, 2, 48, 0.1)
    narrow = TransformerEncoderLayer(width=16, heads=2, inner=48, norm_first=False, dropout=0.1, layer=0).train()
    if what == "feedforward":
        both[0].feedforward = narrow.feedforward
    else:
        both[0].attention.output = nn.Linear(32, 16)  # type: ignore[union-attr]
        both[0].around_attention.norm = nn.LayerNorm(16)  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match=r"shape|size"):
        learn(both, torch.randn(2, 5, 32), torch.randn(2, 6, 32))


class Onlooker:
    """Looks at the feed-forward part of the encoder and at cross-attention."""

    def watches(self, site: Site) -> bool:
        return (site.part, site.kind) in (("encoder", "ffn"), ("decoder", "cross"))

    def visit(self, site: Site, value: Tensor) -> Tensor:
        return value


def test_who_looks_gets_the_layer_in_its_parts(counted: dict[str, int]) -> None:
    both = layers(32, 2, 48, 0.0)
    states, target = torch.randn(2, 5, 32), torch.randn(2, 6, 32)
    with watching(Onlooker()):
        learn(both, states, target)
    assert counted == {"fed": 1, "attended_within": 2, "attended": 0}


def test_a_call_without_memory_is_told() -> None:
    wide = 1 << 25  # squared, more than any machine has
    with pytest.raises(MemoryError, match="not enough memory for a kernel"):
        call_all((Kind.PRODUCT, Product(1, wide, wide, True, True, True, False, None, None, None, None)), numbers=1)

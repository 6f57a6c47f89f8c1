"""Recurrences over given inputs, as training runs them: what does not wait for the step before is done for all at once.

In a loop of M steps y_t = W x_t every step adds a gradient as large as W to the others'. Here W takes no part in the
graph of a step; the inputs x_t and the gradients of the y_t are kept, and the gradient of W is one product after the
loop. The same holds for the values of an attention. What is computed is that of `Recurrent.step` and `Attention.attend`
up to the order of sums; who looks at a site takes the way of these.

Shapes: M steps, B rows, N values, I input width, O output width, D state width, G blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.kernels.calls import serves
from regard.kernels.products import Laid, in_half, narrowed, product_gradients, widened
from regard.nn.cells import Cell, ElmanCell, GRUCell, LSTMCell

At = TypeVar("At", contravariant=True)
"""What tells one step from others: its number, or what is read in it."""

Parts = tuple[Tensor, ...]
"""The parts of a state (B, D), as the cell has them."""


class Linear(Protocol[At]):
    """y_t = b_t + Σ_k W_k x_kt."""

    def __call__(self, step: At, *inputs: Tensor) -> Tensor: ...


class MakeLinear(Protocol[At]):
    """Of bases, one for each step, and weights (O, I_k)."""

    def __call__(self, bases: Tensor, *weights: Tensor) -> Linear[At]: ...


class LoopLinear:
    """y_t = b_t + Σ_k W_k x_kt for M steps; `bases` are the b_t (M, B, O), each W_k is (O, I_k).

    In half precision, where there are kernels for it, weights are laid out once for all steps and what is not a product
    stays in single precision: torch would prepare each product anew for each number of rows.
    """

    def __init__(self, bases: Tensor, *weights: Tensor) -> None:
        self._seen: tuple[list[Tensor], ...] = tuple([] for _ in weights)
        self._lays_out = self.lays_out(*weights)
        given = widened(bases) if self._lays_out else narrowed(bases)
        self._bases = _Deferred.apply(self._seen, self._lays_out, given, *weights)  # type: ignore[no-untyped-call]
        self._keeps = torch.is_grad_enabled()
        plain = [weight.detach() for weight in weights]
        if self._lays_out:
            self._laid = [Laid(weight.contiguous()) for weight in plain]
        else:
            self._weights = [narrowed(weight).t().contiguous() for weight in plain]

    @staticmethod
    def lays_out(*weights: Tensor) -> bool:
        """Whether weights are laid out once."""
        return in_half() and serves(*(weight.detach().contiguous() for weight in weights))

    def __call__(self, step: int, *inputs: Tensor) -> Tensor:
        """Inputs x_kt (B, I_k) → (B, O)."""
        total: Tensor = self._bases[step]
        if self._keeps:
            for given, seen in zip(inputs, self._seen, strict=True):
                seen.append(given.detach())
        if self._lays_out:
            return _LaidStep.apply(self._laid, total, *inputs) if inputs else total  # type: ignore[no-untyped-call]
        for given, weight in zip(inputs, self._weights, strict=True):
            total = torch.addmm(total, given, weight)
        return total


class _LaidStep(torch.autograd.Function):
    """b + Σ_k W_k x_k for one step, in single precision: b (B, O), x_k (B, I_k). What weights learn is deferred."""

    @staticmethod
    def forward(ctx: Any, laid: Sequence[Laid], base: Tensor, *inputs: Tensor) -> Tensor:
        ctx.laid, ctx.inputs = laid, [(given.shape, given.dtype) for given in inputs]
        total = base.clone(memory_format=torch.contiguous_format)
        for given, weight in zip(inputs, laid, strict=True):
            plain = given if given.dtype is torch.bfloat16 else given.to(torch.float32)
            weight.forward.multiply(plain.contiguous(), total, adds=True)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient, found = gradient.contiguous(), list[Tensor | None]()
        for (shape, kind), weight, needed in zip(ctx.inputs, ctx.laid, ctx.needs_input_grad[2:], strict=True):
            found.append(weight.backward.multiply(gradient, gradient.new_empty(shape)).to(kind) if needed else None)
        return None, gradient, *found


class _Deferred(torch.autograd.Function):
    """Hands the bases out one by one; takes their gradients, which are those of the y_t, and makes that of each W."""

    @staticmethod
    def forward(
        ctx: Any, seen: tuple[list[Tensor], ...], natively: bool, bases: Tensor, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.seen, ctx.natively, ctx.types = seen, natively, [weight.dtype for weight in weights]
        return bases.unbind(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *_, learns_bases = ctx.needs_input_grad[:3]
        of_bases = torch.stack(gradients)  # (M, B, O)
        across = of_bases.flatten(0, 1)
        errors = across.bfloat16() if ctx.natively else across
        of_weights: list[Tensor | None] = []
        for seen, kind, learns in zip(ctx.seen, ctx.types, ctx.needs_input_grad[3:], strict=True):
            of_weights.append(_of_weight(errors, torch.cat(seen), ctx.natively).to(kind) if learns else None)
        return None, None, of_bases if learns_bases else None, *of_weights


def _of_weight(errors: Tensor, inputs: Tensor, natively: bool) -> Tensor:
    """The gradient of a weight: (R, O), (R, I) → (O, I)."""
    if natively:
        plain = inputs if inputs.dtype is torch.bfloat16 else inputs.to(torch.float32)
        like = plain.new_empty(errors.size(1), inputs.size(1), dtype=torch.float32)
        _, found = product_gradients(errors, plain, like, (False, True))
        assert found is not None
        return found
    return errors.t() @ inputs.to(errors.dtype)


class LoopMean:
    """c_t = Σ_n a_tn v_n for M steps: values (B, N, D)."""

    def __init__(self, values: Tensor, steps: int) -> None:
        self._seen: list[Tensor] = []
        self._values = narrowed(values.detach())
        self._bases = _DeferredMean.apply(self._seen, steps, values)  # type: ignore[no-untyped-call]
        self._keeps = torch.is_grad_enabled()

    def __call__(self, step: int, weights: Tensor) -> Tensor:
        """(B, 1, N) → (B, D)."""
        weights = narrowed(weights)
        if self._keeps:
            self._seen.append(weights.detach())
        return torch.baddbmm(self._bases[step], weights, self._values).squeeze(1)


class _DeferredMean(torch.autograd.Function):
    """Hands out a zero (B, 1, D) for each step; its gradients are those of the c_t, and make that of the values."""

    @staticmethod
    def forward(ctx: Any, seen: list[Tensor], steps: int, values: Tensor) -> tuple[Tensor, ...]:
        ctx.seen, ctx.type = seen, values.dtype
        nothing = values.new_zeros(1)
        return tuple(nothing.expand(values.size(0), 1, values.size(2)) for _ in range(steps))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weights = torch.cat(ctx.seen, dim=1)  # (B, M, N)
        of_contexts = torch.cat(gradients, dim=1)  # (B, M, D)
        return None, None, (weights.transpose(1, 2) @ of_contexts.to(weights.dtype)).to(ctx.type)


class CellLoop(ABC, Generic[At]):
    """The steps of a cell."""

    @abstractmethod
    def step(self, step: At, state: Parts, *read: Tensor) -> Parts:
        """One step; `read` (B, I) is what else is an input of it, where there is such a thing."""


class MakeLoop(Protocol[At]):
    """Of a cell, the products (M, B, G·D) of its inputs, and weights for what else it reads."""

    def __call__(self, cell: Cell, bases: Tensor, *reading: Tensor) -> CellLoop[At]: ...


class ElmanLoop(CellLoop[At]):
    """`ElmanCell`."""

    def __init__(self, linear: MakeLinear[At], cell: ElmanCell, bases: Tensor, *reading: Tensor) -> None:
        self._linear = linear(bases, cell.recurrent.weight, *reading)

    def step(self, step: At, state: Parts, *read: Tensor) -> Parts:
        return (torch.tanh(self._linear(step, state[0], *read)),)


class LSTMLoop(CellLoop[At]):
    """`LSTMCell`."""

    def __init__(self, linear: MakeLinear[At], cell: LSTMCell, bases: Tensor, *reading: Tensor) -> None:
        self._linear = linear(bases, cell.recurrent.weight, *reading)

    def step(self, step: At, state: Parts, *read: Tensor) -> Parts:
        hidden, memory = state
        total = self._linear(step, hidden, *read)
        hidden, memory = _LSTMGates.apply(total, memory.to(total.dtype))  # type: ignore[no-untyped-call]
        return hidden, memory


class GRULoop(CellLoop[At]):
    """`GRUCell` in both readings."""

    def __init__(self, linear: MakeLinear[At], cell: GRUCell, bases: Tensor, *reading: Tensor) -> None:
        self._before = cell.reset == "before"
        self._sizes = 2 * cell.width, cell.width
        gates_weight, candidate_weight = cell.recurrent.weight.split(self._sizes)
        of_gates, of_candidates = bases.split(self._sizes, dim=-1)
        parts = [weight.split(self._sizes) for weight in reading]
        self._gates = linear(of_gates, gates_weight, *(gates for gates, _ in parts))
        to_candidates = [candidates for _, candidates in parts]
        if self._before:
            self._candidates = linear(of_candidates, candidate_weight, *to_candidates)
            return
        self._candidates = linear(of_candidates, *to_candidates)
        bias = cell.recurrent.bias[2 * cell.width :]
        self._products = linear(bias.expand(len(bases), bases.size(1), -1), candidate_weight)

    def step(self, step: At, state: Parts, *read: Tensor) -> Parts:
        (hidden,) = state
        reset, update = torch.sigmoid(self._gates(step, hidden, *read)).chunk(2, dim=-1)
        hidden = hidden.to(reset.dtype)
        if self._before:
            candidate = torch.tanh(self._candidates(step, reset * hidden, *read))
            return (torch.lerp(hidden, candidate, update),)
        candidate = torch.tanh(torch.addcmul(self._candidates(step, *read), reset, self._products(step, hidden)))
        return (torch.lerp(candidate, hidden, update),)


class _LSTMGates(torch.autograd.Function):
    """i, f, o = σ(·), g = tanh(·), c' = f ∘ c + i ∘ g, h' = o ∘ tanh(c'): totals (B, 4 D), c (B, D) → h', c'."""

    @staticmethod
    def forward(ctx: Any, totals: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        width = memory.size(-1)
        gates = torch.empty_like(totals)
        into_forget, candidate, out = gates.split((2 * width, width, width), dim=-1)
        torch.sigmoid(totals[:, : 2 * width], out=into_forget)
        torch.tanh(totals[:, 2 * width : 3 * width], out=candidate)
        torch.sigmoid(totals[:, 3 * width :], out=out)
        into, forget = into_forget.chunk(2, dim=-1)
        after = (forget * memory).addcmul_(into, candidate)
        shown = torch.tanh(after)
        ctx.save_for_backward(gates, memory, shown)
        return out * shown, after

    @staticmethod
    def backward(ctx: Any, of_hidden: Tensor, of_after: Tensor) -> tuple[Tensor, Tensor]:
        gates, memory, shown = ctx.saved_tensors
        width = memory.size(-1)
        into, forget, candidate, out = gates.chunk(4, dim=-1)
        of_memory = torch.ops.aten.tanh_backward(of_hidden * out, shown).add_(of_after)
        of_totals = torch.empty_like(gates)
        of_into, of_forget, of_candidate, of_out = of_totals.chunk(4, dim=-1)
        torch.mul(of_memory, candidate, out=of_into)
        torch.mul(of_memory, memory, out=of_forget)
        pair = of_totals[:, : 2 * width]
        torch.ops.aten.sigmoid_backward.grad_input(pair, gates[:, : 2 * width], grad_input=pair)
        torch.ops.aten.tanh_backward.grad_input(of_memory * into, candidate, grad_input=of_candidate)
        torch.ops.aten.sigmoid_backward.grad_input(of_hidden * shown, out, grad_input=of_out)
        return of_totals, of_memory.mul_(forget)


def can_loop(cell: Cell) -> bool:
    """Whether there is a loop for a cell: not with layer norms, and not for the multiplicative one."""
    normed = any(isinstance(child, nn.LayerNorm) for child in cell.children())
    return isinstance(cell, LSTMCell | GRUCell | ElmanCell) and not normed


def cell_loop(linear: MakeLinear[At], cell: Cell, bases: Tensor, *reading: Tensor) -> CellLoop[At]:
    """The loop of a cell over the products (M, B, G·D) of its inputs with all biases that can be added to them."""
    match cell:
        case LSTMCell():
            return LSTMLoop(linear, cell, bases, *reading)
        case GRUCell():
            return GRULoop(linear, cell, bases, *reading)
        case ElmanCell():
            return ElmanLoop(linear, cell, bases, *reading)
        case _:
            raise AssertionError(f"{type(cell).__name__} has no loop")


def added_bias(cell: Cell) -> Tensor:
    """What of the recurrent bias (G·D) can be added to the products of the inputs."""
    bias = cell.recurrent.bias
    if isinstance(cell, GRUCell) and cell.reset == "after":  # the gate acts on the candidate's
        return torch.cat((bias[: 2 * cell.width], torch.zeros_like(bias[2 * cell.width :])))
    return bias

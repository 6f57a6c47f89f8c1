"""Products with weights that stand beside a kernel, in the precision that is asked for.

Where products are to be made in a narrower one (torch.autocast), kernels read and write their results as they are, and
compute in single precision. What torch.autocast does for a product, is done here for a product inside a kernel's
function, and for its backward pass, of which autocast knows nothing.

In bfloat16 products are native where the processor has instructions for them: factors are narrowed on their way into
the cache, and nothing is made anew for every number of rows.

Shapes: R rows, I inputs, O outputs.
"""

import ctypes
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.kernels.calls import checked, has_half, is_plain, library, serves, threads
from regard.kernels.structures import Product, Turned


def narrowed(tensor: Tensor) -> Tensor:
    """In the precision that products are made in."""
    kind = tensor.device.type
    return tensor.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else tensor


def widened(tensor: Tensor) -> Tensor:
    """In single precision, or a wider one."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def in_half() -> bool:
    """Whether products are to be made in half precision, and there are kernels for that. Who compiles, transforms
    functions or goes forward through derivatives is left to torch."""
    if not torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0:
        return False
    return has_half()


def factor(tensor: Tensor) -> Tensor:
    """As `product` and `product_gradients` take it: kernels of products narrow what they read by themselves."""
    return tensor if in_half() else narrowed(tensor)


def projects(states: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether a projection is one for `projected`."""
    if not in_half() or not serves(weight, *(() if bias is None else (bias,))) or not serves(states, narrow=True):
        return False
    return weight.dim() == 2 and states.size(-1) == weight.size(1) and (bias is None or bias.shape == weight.shape[:1])


def projected(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b in half precision: (..., I) → (..., O)."""
    return _Projected.apply(states, weight, bias)  # type: ignore[no-untyped-call]


def product(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b of factors that kernels serve, in the precision that products are made in."""
    return _product(inputs, weight, bias) if in_half() else functional.linear(inputs, weight, bias)


def product_gradients(
    errors: Tensor, inputs: Tensor, weight: Tensor, needed: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Of x Wᵀ, for inputs (as narrow as they are) and weight (wide), from that of the result: (R, O)."""
    of_inputs, of_weight, _ = linear_gradients(errors, inputs, weight, (*needed, False))
    return of_inputs, of_weight


def linear_gradients(
    errors: Tensor, inputs: Tensor, weight: Tensor, needed: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Of x Wᵀ + b, for inputs (as narrow as they are), weight and bias (wide), from that of the result: (R, O)."""
    if errors.dtype is torch.bfloat16 and weight.dtype is torch.float32:
        return _gradients(errors, inputs, weight, needed)
    of_inputs = errors.mm(weight).view_as(inputs) if needed[0] else None
    of_weight = widened(errors.t().mm(inputs.view(-1, inputs.size(-1)))) if needed[1] else None
    of_bias = widened(errors).sum(0) if needed[2] else None
    return of_inputs, of_weight, of_bias


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out = inputs.new_empty(*inputs.shape[:-1], len(weight), dtype=torch.bfloat16)
    multiply(inputs, weight, bias, out, turned=True)
    return out


def _gradients(
    errors: Tensor, inputs: Tensor, weight: Tensor, needed: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """For inputs, weight and bias, in the precision of each."""
    of_inputs = torch.empty_like(inputs) if needed[0] else None
    of_weight = torch.empty_like(weight) if needed[1] else None
    of_bias = weight.new_empty(len(weight)) if needed[2] else None
    if of_inputs is not None:
        multiply(errors, weight, None, of_inputs, turned=False)
    if of_weight is not None or of_bias is not None:
        asked = asked_turned(errors, inputs, of_weight, of_bias)
        checked(library().regard_turned_product(ctypes.byref(asked), threads(errors.numel())))
    return of_inputs, of_weight, of_bias


def multiply(inputs: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, *, turned: bool) -> None:
    """`asked_product`, made at once."""
    asked = asked_product(inputs, weight, bias, out, turned=turned)
    checked(library().regard_product(ctypes.byref(asked), threads(out.numel())))


def asked_product(
    inputs: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, *, turned: bool, adds: bool = False
) -> Product:
    """x Wᵀ + b into `out`, or where the weight is not `turned` x W; `adds`: to what is there, in single precision."""
    inner, columns = inputs.size(-1), out.size(-1)
    narrow = (inputs.dtype is torch.bfloat16, out.dtype is torch.bfloat16)
    places = (inputs.data_ptr(), weight.data_ptr(), None if bias is None else bias.data_ptr(), out.data_ptr())
    return Product(inputs.numel() // inner, inner, columns, turned, *narrow, adds, *places)


class Packed:
    """A weight (O, I) that one product after the other is made with: x Wᵀ, and where it is not `turned` e W."""

    def __init__(self, weight: Tensor, *, turned: bool) -> None:
        (outputs, inputs), self._turned = weight.shape, turned
        self._inner, self._columns = (inputs, outputs) if turned else (outputs, inputs)
        asked = self._asked(0, weight, 0, (False, False), adds=False)
        words = library().regard_packed_room(ctypes.byref(asked))
        self._words = torch.empty(words, dtype=torch.int32, device="cpu")
        library().regard_pack(ctypes.byref(asked), self._words.data_ptr())

    def multiply(self, factor: Tensor, out: Tensor, *, bias: Tensor | None = None, adds: bool = False) -> Tensor:
        """Rows of either precision (R, ·) into `out` (R, ·), or added to what is there, in single precision."""
        if factor.shape != (len(out), self._inner) or out.shape[1:] != (self._columns,):
            raise ValueError(f"{tuple(factor.shape)} into {tuple(out.shape)} is no product of this weight")
        if not len(out):
            return out
        for one in (factor, out, *(() if bias is None else (bias,))):
            if not is_plain(one) or one.dtype not in (torch.float32, torch.bfloat16):
                raise ValueError("factor, bias and product must be plain, in single precision or bfloat16")
        if (adds and out.dtype is not torch.float32) or (bias is not None and bias.dtype is not torch.float32):
            raise ValueError("a bias, and what is added to, must be in single precision")
        if bias is not None and bias.shape != (self._columns,):
            raise ValueError(f"a bias of {tuple(bias.shape)} is none for {self._columns} columns")
        narrow = (factor.dtype is torch.bfloat16, out.dtype is torch.bfloat16)
        asked = self._asked(len(out), factor, out.data_ptr(), narrow, adds=adds)
        asked.packed, asked.bias = self._words.data_ptr(), None if bias is None else bias.data_ptr()
        checked(library().regard_product(ctypes.byref(asked), threads(out.numel())))
        return out

    def _asked(self, rows: int, given: Tensor, out: int, narrow: tuple[bool, bool], *, adds: bool) -> Product:
        place = given.data_ptr()
        return Product(rows, self._inner, self._columns, self._turned, *narrow, adds, place, place, None, out)


class Laid:
    """A weight (O, I) laid out for x Wᵀ, and when it is asked for, for e W: until then it must stay as it is."""

    def __init__(self, weight: Tensor) -> None:
        self._weight, self._version = weight, weight._version
        self.forward = Packed(weight, turned=True)

    @cached_property
    def backward(self) -> Packed:
        if self._weight._version != self._version:
            raise RuntimeError("a weight that gradients are made with has been changed in place since it was used")
        return Packed(self._weight, turned=False)


def asked_turned(errors: Tensor, inputs: Tensor, of_weight: Tensor | None, of_bias: Tensor | None) -> Turned:
    """Eᵀ x and the sums of E, from errors in half precision, into what there is of gradients."""
    outputs, width = errors.size(-1), inputs.size(-1)
    if errors.numel() * width != inputs.numel() * outputs:
        raise ValueError(f"errors {tuple(errors.shape)} are not of as many rows as inputs {tuple(inputs.shape)}")
    places = (None if one is None else one.data_ptr() for one in (errors, inputs, of_weight, of_bias))
    return Turned(errors.numel() // outputs, width, outputs, inputs.dtype is torch.bfloat16, *places)


class _Projected(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return _product(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, errors: Tensor) -> tuple[Tensor | None, ...]:
        states, weight = ctx.saved_tensors
        return _gradients(errors.contiguous(), states, weight, ctx.needs_input_grad)

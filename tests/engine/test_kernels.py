"""Every set of kernels that works here against plain numpy: the portable one, and whatever the processor has."""

import ctypes
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.engine.container import packed_bytes, packed_floats
from regard.engine.library import kernels_here

ACTIVATIONS = {
    0: lambda x: x,
    1: lambda x: np.maximum(x, 0),
    2: lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    3: lambda x: x / (1 + np.exp(-x)),
    4: np.tanh,
    5: lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def at(array):
    return ctypes.c_void_p(array.ctypes.data)


def long(number):
    return ctypes.c_int64(number)


def products(library, kernels, rows, weights):
    """Σ (q + 128) w - 128 Σ w of bytes."""
    count, inputs = rows.shape
    packed = packed_bytes(weights.astype(np.float32))
    stride = -(-inputs // 4) * 4
    shifted = np.full((max(count, 1), stride), 128, dtype=np.uint8)
    shifted[:count, :inputs] = rows.astype(np.int16) + 128
    out = np.full((count, len(weights)), -1, dtype=np.int32)
    panels, shift = packed.panels, packed.shift
    assert (
        library.regard_try_int8(
            kernels,
            at(shifted),
            long(count),
            long(stride),
            at(panels),
            at(shift),
            long(inputs),
            long(len(weights)),
            at(out),
        )
        == 0
    )
    return out


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_byte_products_are_exact_in_every_set(library, data):
    """The extremes are what saturates kernels that add up 16-bit products of bytes."""
    size = st.integers(1, 140)
    count, inputs, outputs = data.draw(st.integers(0, 40)), data.draw(size), data.draw(size)
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    if data.draw(st.booleans()):
        rows = draw.integers(-127, 128, (count, inputs))
        weights = draw.integers(-127, 128, (outputs, inputs))
    else:
        rows, weights = draw.choice([-127, 127], (count, inputs)), draw.choice([-127, 127], (outputs, inputs))
    weights[:, 0] = 127  # so that the scale is 1 and bytes stay what they are
    expected = rows @ weights.T
    for kernels in kernels_here():
        np.testing.assert_array_equal(products(library, kernels.encode(), rows, weights), expected)


@pytest.mark.parametrize(("count", "inputs", "outputs"), [(1, 1, 1), (7, 512, 65), (0, 3, 3), (13, 2048, 64)])
def test_byte_products_of_certain_sizes(library, kernels, count, inputs, outputs):
    draw = np.random.default_rng(3)
    rows, weights = draw.choice([-127, 127], (count, inputs)), draw.choice([-127, 127], (outputs, inputs))
    weights[:, 0] = 127
    np.testing.assert_array_equal(products(library, kernels, rows, weights), rows @ weights.T)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("count", "inputs", "outputs"), [(1, 1, 1), (5, 33, 70), (6, 128, 64), (13, 7, 129), (0, 4, 4)]
)
def test_float_products_with_everything_that_is_fused(library, kernels, activation, count, inputs, outputs):
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(count, inputs)).astype(np.float32)
    weights = draw.normal(size=(outputs, inputs)).astype(np.float32)
    bias = np.zeros(-(-outputs // 64) * 64, dtype=np.float32)
    bias[:outputs] = draw.normal(size=outputs)
    residual = draw.normal(size=(count, outputs)).astype(np.float32)
    out = np.empty((count, outputs), dtype=np.float32)
    panels = packed_floats(weights)
    assert (
        library.regard_try_product(
            kernels,
            at(rows),
            long(count),
            at(panels),
            at(bias),
            long(inputs),
            long(outputs),
            activation,
            at(residual),
            at(out),
        )
        == 0
    )
    whole = rows.astype(np.float64) @ weights.astype(np.float64).T + bias[:outputs]
    expected = ACTIVATIONS[activation](whole) if count else whole
    np.testing.assert_allclose(out, expected + residual, rtol=1e-5, atol=2e-5)


def test_a_row_comes_out_the_same_in_any_number_of_rows(library, kernels):
    draw = np.random.default_rng(1)
    rows, weights = (draw.normal(size=size).astype(np.float32) for size in ((13, 96), (70, 96)))
    bias, panels = np.zeros(128, dtype=np.float32), packed_floats(weights)

    def product(part):
        out = np.empty((len(part), 70), dtype=np.float32)
        library.regard_try_product(
            kernels, at(part), long(len(part)), at(panels), at(bias), long(96), long(70), 0, None, at(out)
        )
        return out

    together = product(rows)
    for row in range(13):
        np.testing.assert_array_equal(product(rows[row : row + 1].copy())[0], together[row])


@pytest.mark.parametrize("width", [1, 3, 16, 31, 64, 257])
def test_quantised_rows(library, kernels, width):
    """The largest of a row becomes ±127, a row of zeros stays zeros, and what is not finite is not rounded away."""
    draw = np.random.default_rng(2)
    values = (draw.normal(size=(5, width)) * 10).astype(np.float32)
    values[3] = 0
    values[4, width // 2] = np.nan
    stride = -(-width // 64) * 64
    out, scales = np.zeros((5, stride), dtype=np.uint8), np.zeros(5, dtype=np.float32)
    library.regard_try_quantise(kernels, at(values), long(5), long(width), at(out), long(stride), at(scales))
    whole = out[:4, :width].astype(np.float64) - 128
    np.testing.assert_allclose(scales[:3], np.abs(values[:3]).max(axis=1) / 127, rtol=1e-6)
    assert (np.abs(whole * scales[:4, None] - values[:4]) <= scales[:4, None] * 0.501).all()
    assert np.abs(whole[:3]).max(axis=1).tolist() == [127] * 3
    assert not whole[3].any()
    assert np.isnan(scales[4])


@pytest.mark.parametrize("width", [1, 5, 16, 40, 128])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms_with_their_bytes(library, kernels, width, kind):
    draw = np.random.default_rng(4)
    values = (draw.normal(size=(3, width)) * 3 + 1).astype(np.float32)
    gain, bias = (draw.normal(size=width).astype(np.float32) for _ in range(2))
    out, scales = np.empty_like(values), np.zeros(3, dtype=np.float32)
    stride = -(-width // 64) * 64
    whole = np.zeros((3, stride), dtype=np.uint8)
    library.regard_try_norm(
        kernels, at(values), long(3), long(width), at(gain), at(bias) if kind == "layer" else None,
        ctypes.c_float(1e-5), at(out), at(whole), long(stride), at(scales),
    )  # fmt: skip
    exact = values.astype(np.float64)
    if kind == "layer":
        apart = exact - exact.mean(axis=1, keepdims=True)
        expected = apart / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5) * gain + bias
    else:
        expected = exact / np.sqrt((exact**2).mean(axis=1, keepdims=True) + 1e-5) * gain
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose((whole[:, :width] - 128.0) * scales[:, None], out, atol=scales.max() * 0.51)


@pytest.mark.parametrize("outputs", [1, 9, 64, 200])
@pytest.mark.parametrize("candidates", [1, 5])
def test_the_output_projection_keeps_the_best_and_the_sum(library, kernels, outputs, candidates):
    draw = np.random.default_rng(5)
    rows, weights = (draw.normal(size=size).astype(np.float32) for size in ((4, 24), (outputs, 24)))
    bias, panels = np.zeros(-(-outputs // 64) * 64, dtype=np.float32), packed_floats(weights)
    forbidden, wanted = np.array([0, 2], dtype=np.int32), outputs // 2
    tokens = np.zeros((4, candidates), dtype=np.int32)
    logits, about = np.zeros((4, candidates), dtype=np.float32), np.zeros((4, 3), dtype=np.float32)
    library.regard_try_project(
        kernels, at(rows), long(4), at(panels), at(bias), long(24), long(outputs), candidates, at(forbidden), 2, wanted,
        at(tokens), at(logits), at(about),
    )  # fmt: skip
    expected = rows.astype(np.float64) @ weights.astype(np.float64).T
    np.testing.assert_allclose(about[:, 0] + np.log(about[:, 1]), np.log(np.exp(expected).sum(1)), rtol=1e-5)
    np.testing.assert_allclose(about[:, 2], expected[:, wanted], rtol=1e-4, atol=1e-5)
    for row in range(4):
        allowed = [token for token in np.argsort(-expected[row], kind="stable").tolist() if token not in (0, 2)]
        found = [token for token in tokens[row].tolist() if token >= 0]
        assert found == allowed[:candidates]
        np.testing.assert_allclose(logits[row, : len(found)], expected[row, found], rtol=1e-4, atol=1e-5)


def test_of_equal_logits_the_lower_token_comes_first(library, kernels):
    rows, panels = np.ones((1, 1), dtype=np.float32), packed_floats(np.ones((130, 1), dtype=np.float32))
    tokens, logits = np.zeros((1, 3), dtype=np.int32), np.zeros((1, 3), dtype=np.float32)
    bias, about = np.zeros(192, dtype=np.float32), np.zeros((1, 3), dtype=np.float32)
    library.regard_try_project(
        kernels, at(rows), long(1), at(panels), at(bias), long(1), long(130), 3, None, 0, -1, at(tokens), at(logits),
        at(about),
    )  # fmt: skip
    assert tokens.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("temperature", [1.0, 0.01, 3.0])
def test_weights_that_samples_are_drawn_by(library, kernels, temperature):
    draw = np.random.default_rng(3)
    logits = (draw.normal(size=5 * 64) * 4).astype(np.float32)
    logits[[7, 70, 319]] = -np.inf
    largest, about, weights, sums = np.zeros(5, np.float32), np.zeros(2), np.zeros(5 * 64), np.zeros(5)
    library.regard_try_weigh(
        kernels, at(logits), long(5), ctypes.c_double(temperature), at(largest), at(about), at(weights), at(sums)
    )
    assert largest.tolist() == logits.reshape(5, 64).max(1).tolist()
    total = np.log(np.exp(logits.astype(np.float64)).sum())
    assert about[0] + np.log(about[1]) == pytest.approx(total, rel=1e-6)
    said = (logits.astype(np.float64) - (about[0] + np.log(about[1]))).astype(np.float32).astype(np.float64)
    expected = np.exp((said - said.max()) / temperature)
    np.testing.assert_allclose(weights, expected, rtol=1e-14, atol=1e-300)
    assert weights.max() == 1.0
    np.testing.assert_allclose(sums, expected.reshape(5, 64).sum(1), rtol=1e-13)


@pytest.mark.parametrize("activation", [number for number in ACTIVATIONS if number])
def test_functions_over_their_range(library, kernels, activation):
    values = np.concatenate([np.linspace(-30, 30, 5001), np.linspace(-1e-3, 1e-3, 101)]).astype(np.float32)
    expected = ACTIVATIONS[activation](values.astype(np.float64))
    out = values.copy()
    library.regard_try_activate(kernels, at(out), long(len(out)), activation)
    np.testing.assert_allclose(out, expected, rtol=3e-6, atol=3e-6)
    nothing = np.full(3, np.nan, dtype=np.float32)
    library.regard_try_activate(kernels, at(nothing), long(3), activation)
    assert np.isnan(nothing).all()

"""What kernels fuse or rearrange for speed, in every set that works here, against plain numpy."""

import ctypes

import numpy as np
import pytest

from regard.engine.container import packed_bytes

SIZES = [(1, 512, 128), (5, 130, 64), (6, 512, 70), (7, 512, 128), (14, 300, 129), (24, 600, 64), (25, 200, 64)]
"""Rows, inputs, outputs: one tile, a few that take a panel in parts, and more."""


def at(array):
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def long(number):
    return ctypes.c_int64(number)


def product(library, kernels, rows, scales, packed, bias, outputs, *, activation=0, residual=None):
    count, inputs = rows.shape
    stride = -(-inputs // 4) * 4
    shifted = np.full((count, stride), 128, dtype=np.uint8)
    shifted[:, :inputs] = rows + 128
    out = np.full((count, outputs), np.nan, dtype=np.float32)
    assert not library.regard_try_bytes(
        kernels, at(shifted), long(count), long(stride), at(scales), at(packed.panels), at(packed.scales),
        at(packed.shift), at(bias), long(inputs), long(outputs), activation, at(residual), at(out),
    )  # fmt: skip
    return out


@pytest.mark.parametrize("activation", [0, 1, 4])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(("count", "inputs", "outputs"), SIZES)
def test_byte_products_with_everything_that_is_fused(library, kernels, count, inputs, outputs, adds, activation):
    draw = np.random.default_rng(7)
    rows = draw.integers(-127, 128, (count, inputs))
    scales = draw.uniform(1e-4, 1e-3, count).astype(np.float32)
    packed = packed_bytes(draw.normal(size=(outputs, inputs)).astype(np.float32))
    bias = np.zeros(-(-outputs // 64) * 64, dtype=np.float32)
    bias[:outputs] = draw.normal(size=outputs)
    residual = draw.normal(size=(count, outputs)).astype(np.float32) if adds else None
    out = product(library, kernels, rows, scales, packed, bias, outputs, activation=activation, residual=residual)
    whole = packed.panels.transpose(0, 2, 1, 3).reshape(len(bias), -1)[:outputs, :inputs].astype(np.int64)
    values = (rows @ whole.T) * (scales[:, None].astype(np.float64) * packed.scales[:outputs]) + bias[:outputs]
    expected = {0: lambda x: x, 1: lambda x: np.maximum(x, 0), 4: np.tanh}[activation](values)
    np.testing.assert_allclose(out, expected if residual is None else expected + residual, rtol=1e-5, atol=1e-5)
    for row in (0, count - 1):
        alone = product(
            library, kernels, rows[row : row + 1], scales[row : row + 1].copy(), packed, bias, outputs,
            activation=activation, residual=None if residual is None else residual[row : row + 1].copy(),
        )  # fmt: skip
        np.testing.assert_array_equal(alone[0], out[row])


def test_what_is_no_number_is_not_rectified_away(library, kernels):
    packed = packed_bytes(np.ones((64, 4), dtype=np.float32))
    scales, bias = np.array([np.nan], dtype=np.float32), np.zeros(64, dtype=np.float32)
    rows = np.ones((1, 4), dtype=np.int64)
    assert np.isnan(product(library, kernels, rows, scales, packed, bias, 64, activation=1)).all()


def attended(library, kernels, query, keys, values, energy):
    items, heads, width = keys.shape
    room = [np.zeros(size, dtype=np.float32) for size in (keys.size, items + 16, width)]
    weights, out = np.zeros(items, dtype=np.float32), np.zeros((heads, width), dtype=np.float32)
    assert not library.regard_try_additive(
        kernels, at(query), at(keys), at(values), at(energy), long(heads), long(width), long(items),
        *map(at, room), at(weights), at(out),
    )  # fmt: skip
    return weights, out


@pytest.mark.parametrize("size", [0.1, 3.0, 15.0, 60.0])
@pytest.mark.parametrize(("items", "heads", "width"), [(1, 1, 16), (14, 1, 512), (5, 2, 37), (19, 4, 8)])
def test_additive_scores(library, kernels, items, heads, width, size):
    """Where numbers are too large for their exponentials to be multiplied, too."""
    draw = np.random.default_rng(8)
    query, energy = (draw.normal(size=(heads, width)).astype(np.float32) for _ in range(2))
    keys, values = (draw.normal(size=(items, heads, width)).astype(np.float32) for _ in range(2))
    query *= size
    keys *= size
    weights, out = attended(library, kernels, query, keys, values, energy)
    sums = query.astype(np.float64) + keys
    scores = (np.tanh(sums) * energy).sum(2)  # (items, heads)
    expected = np.exp(scores - scores.max(0))
    expected /= expected.sum(0)
    np.testing.assert_allclose(weights, expected.mean(1), rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(out, np.einsum("ih,ihw->hw", expected, values), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("where", ["query", "key"])
def test_additive_scores_of_what_is_no_number(library, kernels, where):
    query, energy = np.ones((1, 20), dtype=np.float32), np.ones((1, 20), dtype=np.float32)
    keys = np.ones((6, 1, 20), dtype=np.float32)
    (query if where == "query" else keys)[..., 7] = np.nan
    weights, _ = attended(library, kernels, query, keys, keys, energy)
    assert np.isnan(weights).all()


def test_long_short_term_memory_over_its_range(library, kernels):
    draw = np.random.default_rng(9)
    width = 1003
    total = (draw.normal(size=(4, width)) * draw.choice([0.01, 1, 10, 80], (4, width))).astype(np.float32)
    memory = (draw.normal(size=width) * 5).astype(np.float32)
    state, held = (np.empty(width, dtype=np.float32) for _ in range(2))
    assert not library.regard_try_lstm(kernels, at(total), at(memory), long(width), at(state), at(held))
    into, forget, candidate, out = total.astype(np.float64)
    with np.errstate(over="ignore"):
        gates = [1 / (1 + np.exp(-gate)) for gate in (into, forget, out)]
    expected = gates[1] * memory + gates[0] * np.tanh(candidate)
    np.testing.assert_allclose(held, expected, rtol=1e-6, atol=3e-7)
    np.testing.assert_allclose(state, gates[2] * np.tanh(expected), rtol=1e-6, atol=5e-7)
    total[:] = np.nan
    library.regard_try_lstm(kernels, at(total), at(memory), long(width), at(state), at(held))
    assert np.isnan(state).all()


def halved(values):
    """The upper halves of floats, rounded to the nearest and of two as near to the even one."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("rows", [1, 5, 7])
@pytest.mark.parametrize(
    ("heads", "key_heads", "width", "items"),
    [(8, 8, 64, 14), (4, 4, 32, 16), (2, 1, 48, 17), (5, 5, 7, 1), (6, 2, 16, 33)],
)
def test_attention_to_keys_and_values_in_pairs(library, kernels, rows, heads, key_heads, width, items):
    draw = np.random.default_rng(11)
    queries = draw.normal(size=(rows, heads, width)).astype(np.float32)
    keys, values = draw.normal(size=(2, items, key_heads, width)).astype(np.float32)
    out, past = np.full_like(queries, np.nan), np.full_like(queries[0], np.nan)
    assert not library.regard_try_pairs(
        kernels, at(queries), long(rows), at(keys), at(values), long(heads), long(key_heads), long(width), long(items),
        ctypes.c_float(0.3), at(out), at(past),
    )  # fmt: skip
    group = np.arange(heads) * key_heads // heads
    scores = 0.3 * np.einsum("rhw,nhw->rhn", queries, halved(keys)[:, group].astype(np.float64))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("rhn,nhw->rhw", weights, halved(values)[:, group].astype(np.float64))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(past, expected[0], rtol=1e-5, atol=1e-6)


def test_what_is_no_number_stays_none_in_pairs(library, kernels):
    """Whatever bits it has: a damaged model must be found out."""
    values = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7FC00000], dtype=np.uint32).view(np.float32)
    keys, queries = np.zeros_like(values), np.zeros_like(values)
    out, past = np.zeros_like(values), np.zeros_like(values)
    assert not library.regard_try_pairs(
        kernels, at(queries), long(1), at(keys), at(values), long(1), long(1), long(4), long(1),
        ctypes.c_float(1), at(out), at(past),
    )  # fmt: skip
    assert np.isnan(out).all()
    assert np.isnan(past).all()


def test_the_ends_of_what_16_bits_hold(library, kernels):
    """Infinities stay, what is too large for 16 bits becomes one, the smallest numbers are rounded, ties go to even."""
    bits = [0x7F800000, 0xFF800000, 0x7F7F8000, 0x7F7F7FFF, 0xFF7FFFFF, 0x00000001, 0x00018000, 0x80007FFF, 0x007FFFFF]
    bits += [0x3F808000, 0x3F818000, 0x3F808001, 0xBF817FFF, 0x80000000, 0x00000000]
    values = np.array(bits, dtype=np.uint32).view(np.float32)
    keys, queries = np.zeros_like(values), np.zeros_like(values)
    out, past = np.zeros_like(values), np.zeros_like(values)
    assert not library.regard_try_pairs(
        kernels, at(queries), long(1), at(keys), at(values), long(1), long(1), long(len(bits)), long(1),
        ctypes.c_float(1), at(out), at(past),
    )  # fmt: skip
    expected = halved(values)
    assert np.isinf(expected[:5]).tolist() == [True, True, True, False, True]
    np.testing.assert_allclose(out, expected, rtol=3e-7, atol=1e-44)
    np.testing.assert_array_equal(past, out)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("wrong", [0, -1, -(2**62)])
def test_attention_of_nothing_is_refused(library, kernels, place, wrong):
    values = np.zeros(4, dtype=np.float32)
    rows, *sizes = (wrong if number == place else one for number, one in enumerate((1, 1, 1, 4, 1)))
    status = library.regard_try_pairs(
        kernels, at(values), long(rows), at(values), at(values), *map(long, sizes), ctypes.c_float(1), at(values),
        at(values),
    )  # fmt: skip
    assert status == 1


def test_more_items_than_there_is_memory_for_are_no_crash(library, kernels):
    values = np.zeros(4, dtype=np.float32)
    status = library.regard_try_pairs(
        kernels, at(values), long(1), at(values), at(values), long(1), long(1), long(4), long(1 << 60),
        ctypes.c_float(1), at(values), at(values),
    )  # fmt: skip
    assert status in (2, 3)

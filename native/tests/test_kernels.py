"""Each kernel against float32 NumPy, on every backend: the tile kernels on emulated tiles where there are none.

Operands are rounded to bfloat16 first, so what is compared is the arithmetic: sums in another order (1e-5), and
results rounded to bfloat16 (half a step is 2^-9, so 2e-3 relative to the length of all).
"""

from __future__ import annotations

import numpy as np
import pytest
from reference import gelu, layer_norm, softmax

from conftest import Floats, bf16, relative_error

EXACT = 1e-5
ROUNDED = 3e-3


def normal(random: np.random.Generator, *shape: int, scale: float = 1.0) -> Floats:
    return bf16((random.standard_normal(shape) * scale).astype(np.float32))


@pytest.mark.parametrize("rows", [1, 2, 11, 12, 13, 16, 17, 24, 25, 31, 32, 33, 47, 96])
def test_products_of_any_number_of_rows(kernels, backend: str, random, rows: int) -> None:
    a, weight = normal(random, rows, 64), normal(random, 96, 64)
    bias, addend = normal(random, 96), normal(random, rows, 96)
    product = a @ weight.T + bias
    found = kernels.linear(backend, a, weight, bias, "plain_float", addend)
    assert relative_error(found, product) < EXACT
    assert (
        relative_error(kernels.linear(backend, a, weight, bias, "add_float", addend), product + addend)
        < EXACT
    )


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 32), (384, 64), (1536, 384), (96, 70), (5120, 33)])
def test_products_of_any_width(kernels, backend: str, random, inputs: int, outputs: int) -> None:
    a, weight = normal(random, 5, inputs), normal(random, outputs, inputs)
    bias, addend = normal(random, outputs), np.zeros((5, outputs), np.float32)
    product = a @ weight.T + bias
    assert relative_error(kernels.linear(backend, a, weight, bias, "plain_float", addend), product) < EXACT


def test_products_leave_rounded_or_through_the_activation(kernels, backend: str, random) -> None:
    a, weight = normal(random, 40, 64), normal(random, 64, 64, scale=0.3)
    bias, addend = normal(random, 64), normal(random, 40, 64)
    product = a @ weight.T + bias
    assert relative_error(kernels.linear(backend, a, weight, bias, "bf16", addend), product) < ROUNDED
    assert (
        relative_error(kernels.linear(backend, a, weight, bias, "gelu_bf16", addend), gelu(product)) < ROUNDED
    )
    found = kernels.linear(backend, a, weight, bias, "gelu_float", addend)
    assert np.abs(found - (gelu(product) + addend)).max() < 5e-4


def in_8_bits(weight: Floats) -> Floats:
    """What a weight in 8 bits stands for: groups of 128 inputs, each with its output's own scale."""
    groups = [weight[:, first : first + 128] for first in range(0, weight.shape[1], 128)]
    scales = [np.maximum(np.abs(group).max(1, keepdims=True) / 127, 1e-30) for group in groups]
    return np.hstack([np.rint(group / scale) * scale for group, scale in zip(groups, scales, strict=True)])


@pytest.mark.parametrize("rows", [1, 2, 11, 12, 13, 24, 25, 96])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 32), (384, 70), (5120, 33)])
def test_products_in_8_bits(kernels, random, rows: int, inputs: int, outputs: int) -> None:
    a, weight = normal(random, rows, inputs), normal(random, outputs, inputs)
    a[:, 3] *= 32  # an outlier takes the digits of its own group and of no other
    a[0, :16] = 0
    weight[1] = 0
    bias = normal(random, outputs)
    found = kernels.quantized_linear(a, weight, bias)
    rows_in_8_bits, product = found[:, :inputs], found[:, inputs:]
    # Half a step is as far as a value moves, zero does not move, and then nothing more is lost.
    for first in range(0, inputs, 128):
        group, moved = a[:, first : first + 128], rows_in_8_bits[:, first : first + 128]
        step = (np.maximum(group.max(1), 0) - np.minimum(group.min(1), 0)) / 255
        assert (np.abs(moved - group).max(1) <= 0.51 * step).all()
    assert (rows_in_8_bits[a == 0] == 0).all()
    assert relative_error(product, rows_in_8_bits @ in_8_bits(weight).T + bias) < EXACT


@pytest.mark.parametrize("values", ["zeros", "positive", "negative", "constant"])
def test_rows_of_one_sign_in_8_bits(kernels, random, values: str) -> None:
    a = np.abs(normal(random, 3, 256)) + 1
    a = {"zeros": 0 * a, "positive": a, "negative": -a, "constant": np.full_like(a, 3)}[values]
    weight = normal(random, 32, 256)
    found = kernels.quantized_linear(a, weight, np.zeros(32, np.float32))[:, :256]
    assert np.abs(found - a).max() <= np.abs(a).max() / 255


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_layer_norm_keeps_its_digits_at_large_means(kernels, random, offset: float) -> None:
    x = (random.standard_normal((7, 384)) + offset).astype(np.float32)
    gain, shift = normal(random, 384), normal(random, 384)
    assert (
        relative_error(kernels.layer_norm(x, gain, shift), layer_norm(x.astype(np.float64), gain, shift))
        < ROUNDED
    )


@pytest.mark.parametrize(("frames", "cuts"), [(1500, 1), (1500, 4), (50, 1), (32, 2), (97, 1)])
def test_encoder_attention(kernels, backend: str, random, frames: int, cuts: int) -> None:
    if backend == "emulated" and frames > 100:
        frames = 300  # scalar tiles are slow
    qkv = normal(random, frames, 3 * 128, scale=1.5)
    expected = []
    for head in range(2):
        q, k, v = (qkv[:, part * 128 + head * 64 :][:, :64] for part in range(3))
        expected.append(softmax(q @ k.T / 8) @ v)
    found = kernels.encoder_attention(backend, qkv, cuts)
    # The weights are rounded as well.
    assert relative_error(found, np.concatenate(expected, axis=1)) < 2 * ROUNDED


@pytest.mark.parametrize("length", [1, 15, 16, 17, 100, 448])
def test_self_attention_of_any_length(kernels, random, length: int) -> None:
    q, keys, values = normal(random, 64, scale=2), normal(random, length, 64), normal(random, length, 64)
    expected = softmax(keys @ q / 8) @ values
    assert relative_error(kernels.self_attention(q, keys, values, 1), expected) < ROUNDED


def test_self_attention_over_tracks_takes_each_position_from_its_own(kernels, random) -> None:
    q, keys, values = normal(random, 64, scale=2), normal(random, 3, 50, 64), normal(random, 3, 50, 64)
    tracks = np.arange(50) % 3
    own_keys, own_values = keys[tracks, np.arange(50)], values[tracks, np.arange(50)]
    found = kernels.self_attention(q, keys.reshape(-1, 64), values.reshape(-1, 64), 3)
    assert relative_error(found, softmax(own_keys @ q / 8) @ own_values) < ROUNDED


@pytest.mark.parametrize("count", [1, 6, 7, 16, 20, 32])
@pytest.mark.parametrize("frames", [1500, 64, 33])
def test_cross_attention_of_any_number_of_queries(
    kernels, backend: str, random, count: int, frames: int
) -> None:
    if backend == "emulated" and frames > 100:
        frames = 300
    queries, x = normal(random, count, 128, scale=0.3), normal(random, frames, 128)
    x[frames // 2] *= 4  # a maximum in the midst, so that what was summed before has to shrink
    found = kernels.cross_attention(backend, queries, x)
    scores = queries @ x.T
    assert relative_error(found[:, 128:], scores) < EXACT
    assert relative_error(found[:, :128], softmax(scores) @ x) < 2 * ROUNDED


def test_logits_are_summarized_within_a_range(kernels, random) -> None:
    logits = (random.standard_normal(1003) * 4).astype(np.float32)
    barred = np.where(random.random(1003) < 0.3, -np.inf, 0).astype(np.float32)
    for first, last in ((0, 1003), (17, 900), (500, 501), (3, 3)):
        masked = (logits + barred)[first:last].astype(np.float64)
        most, token, log_sum = kernels.summarize(logits, barred, first, last, 0.5)
        if last == first or np.isinf(masked).all():
            assert most == log_sum == -np.inf
            continue
        assert (most, token) == (masked.max(), first + masked.argmax())
        assert log_sum == pytest.approx(np.log(np.exp(masked * 0.5).sum()), abs=1e-5)


def test_equal_logits_give_the_first_token(kernels) -> None:
    logits = np.zeros(100, np.float32)
    assert kernels.summarize(logits, logits, 5, 100, 1.0)[1] == 5


@pytest.mark.parametrize("count", [1, 2, 6])
def test_the_greatest_logits_come_in_order_and_equal_ones_by_token(kernels, random, count: int) -> None:
    logits = np.round(random.standard_normal(1003) * 4).astype(np.float32)  # with many that are equal
    barred = np.where(random.random(1003) < 0.3, -np.inf, 0).astype(np.float32)
    for first, last in ((0, 1003), (17, 900), (500, 503), (3, 3)):
        masked = (logits + barred)[first:last]
        order = [at for at in np.argsort(-masked, kind="stable") if np.isfinite(masked[at])][:count]
        expected = [(float(masked[at]), first + at) for at in order]
        found = kernels.take_top(logits, barred, first, last, count)
        assert found == [*expected, *[(-np.inf, -1)] * (count - len(expected))]


def test_mass_is_found_where_the_running_sum_passes_it(kernels, random) -> None:
    logits = random.standard_normal(300).astype(np.float32)
    barred = np.where(np.arange(300) % 3 == 0, -np.inf, 0).astype(np.float32)
    weights = np.exp((logits + barred).astype(np.float64) * 2)
    shift = float(np.log(weights.sum()))
    running = np.cumsum(weights / weights.sum())
    for mass in (0.0001, 0.25, 0.5, 0.9999):
        assert kernels.find_mass(logits, barred, 0, 300, 2.0, shift, mass) == int(
            np.searchsorted(running, mass)
        )
    assert kernels.find_mass(logits, barred, 0, 300, 2.0, shift, 1.1) == -1


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_piece_is_done_once_in_every_loop(kernels, threads: int) -> None:
    assert kernels.count_in_threads(threads, 37, 500) == [500] * 37

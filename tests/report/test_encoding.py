"""Weights as bytes, against a naive version."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rela.report.encoding import decode_weights, encode_weights, pack, unpack
from rela.report.results import Weights

SHAPES = arrays.array_shapes(min_dims=4, max_dims=4, min_side=1, max_side=6)
POSITIVE = st.one_of(st.just(0.0), st.floats(0, 1e6, width=32))
ANY = st.one_of(st.just(0.0), st.floats(-1e6, 1e6, width=32))


def naive_encode(head: list[list[float]]) -> tuple[float, list[list[int]]]:
    """One head, weight by weight."""
    numbers = [abs(weight) for row in head for weight in row]
    largest, signed = max(numbers), any(weight < 0 for row in head for weight in row)
    levels = 127 if signed else 255

    def to_byte(weight: float) -> int:
        if weight == 0:
            return 0
        level = max(1, round(levels * math.sqrt(abs(weight) / largest)))
        return 256 - level if weight < 0 else level

    return -largest if signed else largest, [[to_byte(weight) for weight in row] for row in head]


@given(arrays.arrays(np.float32, SHAPES, elements=ANY))
def test_as_the_naive_version(weights: Weights):
    scales, encoded = encode_weights(weights)
    for layer, head in np.ndindex(*weights.shape[:2]):
        scale, values = naive_encode(weights[layer, head].tolist())
        assert scales[layer, head] == scale
        assert encoded[layer, head].tolist() == values


@given(arrays.arrays(np.float32, SHAPES, elements=POSITIVE))
def test_zero_is_exact_and_the_smallest_is_one(weights: Weights):
    scales, encoded = encode_weights(weights)
    assert ((encoded == 0) == (weights == 0)).all()
    assert (encoded[weights == weights.max(axis=(-2, -1), keepdims=True)] % 255 == 0).all()
    decoded = decode_weights(scales, encoded)
    step = np.sqrt(scales.astype(np.float64))[..., None, None] / 255  # of the square root
    off_by = np.abs(np.sqrt(decoded.astype(np.float64)) - np.sqrt(weights.astype(np.float64)))
    # Half a step, and a whole one below the first: what is not zero gets the smallest byte.
    assert (off_by <= np.where(encoded == 1, 1, 0.5) * step * 1.001 + 1e-22).all()


@given(arrays.arrays(np.float32, SHAPES, elements=ANY))
def test_signs_are_kept(weights: Weights):
    scales, encoded = encode_weights(weights)
    decoded = decode_weights(scales, encoded)
    assert not (np.sign(decoded) * np.sign(weights) < 0).any()
    assert ((encoded == 0) == (weights == 0)).all()


def test_the_smallest_number_of_all_is_not_zero():
    weights = np.array([[[[1.0, np.finfo(np.float32).smallest_subnormal, 0.0]]]], np.float32)
    _, encoded = encode_weights(weights)
    assert encoded.ravel().tolist() == [255, 1, 0]


@given(arrays.arrays(np.float32, SHAPES, elements=POSITIVE), arrays.arrays(np.float32, SHAPES, elements=ANY))
def test_packed_and_unpacked(cross: Weights, encoder: Weights):
    kinds = {"encoder": encoder, "cross": cross}
    unpacked = unpack(pack(kinds))
    assert list(unpacked) == ["encoder", "cross"]
    for kind, weights in kinds.items():
        np.testing.assert_array_equal(unpacked[kind], decode_weights(*encode_weights(weights)))


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 0, 4)])
def test_heads_without_weight(shape: tuple[int, ...]):
    scales, encoded = encode_weights(np.zeros(shape, np.float32))
    assert not scales.any()
    assert encoded.shape == shape
    assert not encoded.any()

"""Numbers in few bits: how close they come back, how small they are, and what damaged ones do."""

import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from insitu.errors import DataError
from insitu.federated.coding import BITS, CODINGS, KEPT, decode, encode, pack, rice, unpack

SHAPES = st.sampled_from([(1,), (7,), (3, 5), (4, 1, 1, 9), (2, 3, 3, 2)])
FLOATS = st.floats(-1e3, 1e3, width=32)


@settings(max_examples=60, deadline=None)
@given(SHAPES.flatmap(lambda s: arrays.arrays(np.float32, s, elements=FLOATS)), st.sampled_from(sorted(BITS)))
def test_every_number_comes_back_within_half_a_step_of_its_channel(array, coding):
    back, used = decode(encode(array, coding), array.shape, coding)
    rows = array.reshape(array.shape[0] if array.ndim > 1 else 1, -1).astype(np.float64)
    largest = np.abs(rows).max()
    step = (np.abs(rows).max(1) + largest / 255) / (2 ** (BITS[coding] - 1) - 1)  # a scale is a share in 255ths
    assert (np.abs(back.reshape(rows.shape) - rows) <= step[:, None] / 2 * (1 + 1e-5) + 1e-12).all()
    assert used == len(encode(array, coding))


@settings(max_examples=60, deadline=None)
@given(arrays.arrays(np.float32, st.integers(1, 300), elements=FLOATS))
def test_ternary_keeps_the_largest_with_their_signs(array):
    back, used = decode(encode(array, "ternary"), array.shape, "ternary")
    kept = np.flatnonzero(back)
    assert len(kept) <= max(1, round(len(array) * KEPT)) and used == len(encode(array, "ternary"))
    assert (np.sign(back[kept]) == np.sign(array[kept])).all()
    if len(kept):
        assert np.abs(array[kept]).min() >= np.delete(np.abs(array), kept).max(initial=0)
        np.testing.assert_allclose(np.abs(back[kept]), np.abs(array[kept]).mean(), rtol=1e-4)


def test_ternary_takes_fewer_bytes_than_a_general_compressor():
    array = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    coded = encode(array, "ternary")
    signs = np.sign(decode(coded, array.shape, "ternary")[0]).astype(np.int8)
    packed = lzma.compress(signs.tobytes(), format=lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 9}])
    assert len(coded) < 0.9 * len(packed)
    entropy = 20_000 * (-KEPT * np.log2(KEPT) - (1 - KEPT) * np.log2(1 - KEPT) + KEPT) / 8
    assert len(coded) < 1.06 * entropy + 16


@given(st.lists(st.integers(-8, 7), min_size=1, max_size=50))
def test_packed_numbers_come_back(numbers):
    assert unpack(pack(np.array(numbers), 4), 4, len(numbers)).tolist() == numbers


def test_a_rice_code_is_ones_a_zero_and_the_low_bits():
    assert rice(0, 0) == "0" and rice(3, 0) == "1110" and rice(5, 1) == "110" + "1" and rice(6, 2) == "10" + "01"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(CODINGS))
def test_any_bytes_are_numbers_or_an_error(data, coding):
    try:
        array, used = decode(data, (3, 40), coding)
    except DataError:
        return
    assert array.shape == (3, 40) and np.isfinite(array).all() and used <= len(data)


@pytest.mark.parametrize("coding", CODINGS)
def test_no_change_costs_little_and_stays_none(coding):
    back, _ = decode(encode(np.zeros((4, 9), np.float32), coding), (4, 9), coding)
    assert not back.any()

"""First biases are stored with as few bits as they need, and read back as they were."""

import ctypes

import numpy as np
import pytest

from insitu.codegen.state import pack_bits
from insitu.toolchain.compiler import build_library

NUMBERS = {
    "small": [3, -4, 0, 1, -1],
    "one bit": [0, -1, -1, 0],
    "an odd number of bits": [70_000, -65_536, 5, -70_001, 65_535, 1, 2],
    "the ends of 31 bits": [2**30 - 1, -(2**30), 7],
    "the ends of 32 bits": [2**31 - 1, -(2**31), 0, -5],
}


@pytest.fixture(scope="module")
def unpack():
    kernel = ctypes.CDLL(str(build_library({"none.c": "typedef int none;\n"}, ("unpack_bits",)))).unpack_bits

    def call(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
        found = np.full(count + 1, 77, np.int32)
        kernel(found.ctypes.data_as(ctypes.c_void_p), packed.ctypes.data_as(ctypes.c_void_p), bits, count)
        assert found[-1] == 77  # nothing after the last one
        return found[:-1]

    return call


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_read_back_as_they_were_packed(numbers, unpack):
    array = np.array(numbers, np.int32)
    packed, bits = pack_bits(array)
    np.testing.assert_array_equal(unpack(packed, bits, array.size), array)


@pytest.mark.parametrize("numbers, wanted", [([0, -1], 1), ([1], 2), ([-2], 2), ([-3], 3), ([2**31 - 1], 32)])
def test_no_bit_is_stored_that_is_not_needed(numbers, wanted):
    packed, bits = pack_bits(np.array(numbers, np.int32))
    assert bits == wanted and packed.nbytes == -(-bits * len(numbers) // 8)

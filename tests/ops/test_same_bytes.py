"""Backward kernels of int8 graphs, batch norms of a training step, and sums of rows give the same bytes everywhere:
with vectors and in plain C.
"""

import numpy as np
import pytest

from ..each import each
from .case_library import all_bound, library

BACKWARD = (
    "conv2d_dx", "conv2d_dw", "depthwise2d_dx", "depthwise2d_dw", "linear_dx", "linear_dw", "bias_grad", "mask_grad",
)  # fmt: skip
NORMS = (
    "batch_norm_train", "batch_norm_train_ends", "batch_norm_again", "batch_norm_again_ends", "batch_norm_train_dx",
    "batch_norm_dx_ends",
)  # fmt: skip


def labels() -> list[str]:
    return [label for label in all_bound() if label.partition(":")[0] in (*BACKWARD, *NORMS)]


def same_bytes(label: str, feeds: tuple[np.ndarray, ...]) -> None:
    native, scalar = (_bytes(library(target)[label], feeds) for target in ("native", "scalar"))
    assert native == scalar


def test_vectors_and_plain_c_give_the_same_bytes():
    each(labels(), lambda label: same_bytes(label, all_bound()[label].feeds))


def test_sums_that_round_at_every_step_are_added_in_the_same_order():
    """Numbers of very different magnitude: another order of additions would give other bytes."""

    def claim(label: str) -> None:
        rng = np.random.default_rng(1)
        same_bytes(label, tuple(_uneven(x, rng) for x in all_bound()[label].feeds))

    each(labels(), claim)


ROWS = ("conv_transpose2d", "matmul", "avg_pool2d")  # y += a x, row by row: fused everywhere


@pytest.mark.parametrize("op", ROWS)
def test_rows_added_to_rows_give_the_same_bytes(op):
    rows = tuple(label for label in all_bound() if label.partition(":")[0] in ROWS)
    rng = np.random.default_rng(1)
    for label in rows:
        if label.startswith(f"{op}:"):
            for feeds in (all_bound()[label].feeds, tuple(_uneven(x, rng) for x in all_bound()[label].feeds)):
                same_bytes(label, feeds)


def _uneven(x: np.ndarray, rng) -> np.ndarray:
    """Floats over many orders of magnitude; integers as they are."""
    if x.dtype != np.float32:
        return x
    return (rng.standard_normal(x.shape) * 10.0 ** rng.uniform(-6, 6, x.shape)).astype(np.float32)


def _bytes(device, feeds) -> bytes:
    got = device.predict(*feeds)
    return b"".join(a.tobytes() for a in (got if isinstance(got, tuple) else (got,)))

"""Predictions of many threads cost what those of one thread cost: nothing waits by spinning, nothing is done twice.

CPU time is compared, never the clock on the wall: that depends on who else uses the machine.
"""

from __future__ import annotations

from threading import Thread
from time import process_time

import numpy as np
import pytest

from ..learners import data, learner

CALLS = 1200
MOST = 1.5  # times the CPU time of one thread; 0.9 to 1.2 was measured


def seconds(made, x: np.ndarray, threads: int) -> float:
    """CPU seconds of CALLS predictions, shared by so many threads."""

    def work() -> None:
        for _ in range(CALLS // threads):
            made.predict(x)

    workers, began = [Thread(target=work) for _ in range(threads)], process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return process_time() - began


@pytest.mark.slow  # alone on a machine: threads that share a core with other work take more CPU time each
@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("rows", [1, 64])
def test_threads_predict_in_the_cpu_time_of_one(rows, threads):
    made, x = learner(), data(rows)[0]
    made.predict(x)
    one, many = (min(seconds(made, x, n) for _ in range(3)) for n in (1, threads))
    assert many < MOST * one, f"{threads} threads took {many:.3f} s of CPU time, one took {one:.3f} s"

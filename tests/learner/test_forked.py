"""A forked process goes on with a learner, whatever the threads of its parent were doing."""

import os
import select
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("torch")
if not hasattr(os, "fork"):
    pytest.skip("this system has no fork", allow_module_level=True)

from ..learners import data, learner, state_of

X, Y = (np.tile(a, (8, *[1] * (a.ndim - 1))) for a in data(30))
SECONDS = 20


def forked(job: Callable[[], bytes]) -> bytes:
    """What a job returns in a forked process; fails if it takes longer than anything here may take."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of every fork beside threads
        child = os.fork()
    if not child:
        try:
            os.write(write, job())
        finally:
            os._exit(0)
    os.close(write)
    try:
        assert select.select([read], [], [], SECONDS)[0], "the forked process hangs"
        return os.read(read, 1 << 16)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)


@contextmanager
def held(lock) -> Iterator[None]:
    """Within this block, another thread holds the lock."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def trained(made) -> bytes:
    made.fit(X, Y, epochs=1, rate=0.05, threads=2)
    return state_of(made)


def test_threads_that_added_up_gradients_do_so_in_a_forked_process_too():
    made = learner(batch=8)
    trained(made)
    there = forked(lambda: trained(made))
    assert there == trained(made)


LOCKS = {
    "of changes": lambda made: made._changing,
    "of the state": lambda made: made.device.arenas._door,
    "of an arena": lambda made: made.device.arenas.first.lock,
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_that_another_thread_held_is_free_in_a_forked_process(lock):
    made = learner()
    made.predict(X[:1])
    with held(LOCKS[lock](made)):
        there = forked(lambda: trained(made))
    assert there == trained(made)

"""Several threads on one learner or device get the answers that one thread gets; nothing is freed while in use."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import insitu  # noqa: E402
from insitu.devices.process import open_process  # noqa: E402

from ..learners import data, learner, state_of  # noqa: E402

THREADS = 4


def network() -> nn.Module:
    """Large enough that a call takes longer than starting the next one: calls overlap, even on a busy machine."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)).eval()  # fmt: skip


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).normal(size=(40, 3, 32, 32)).astype(np.float32)


@pytest.fixture
def made():
    return insitu.compile(network(), example=torch.zeros(1, 3, 32, 32), scheme="full", classes=4, precision="float",
                          head_init="uniform")  # fmt: skip


def together(*jobs) -> list:
    """Run these at the same time: they all wait until the last one is ready."""
    ready = threading.Barrier(len(jobs))

    def start(job):
        ready.wait(10)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [f.result(300) for f in [pool.submit(start, job) for job in jobs]]


def test_predictions_of_several_threads_are_those_of_one(made, images):
    want = [made.predict(x[None]).tobytes() for x in images]

    def in_order(start: int):
        return [made.predict(images[i % 40][None]).tobytes() == want[i % 40] for i in range(start, start + 80)]

    assert all(map(all, together(*[partial(in_order, 10 * t) for t in range(THREADS)])))


def test_two_who_fit_take_turns(made, images):
    """The second continues where the first ended: as if they were called one after the other."""

    def fit():
        made.fit(images, np.arange(40) % 4, rate=0.05, schedule="constant", warmup=0)

    first = state_of(made)
    for _ in range(THREADS):
        fit()
    want = state_of(made)
    made.device.load_state(first)
    together(*[fit] * THREADS)
    assert state_of(made) == want


@pytest.mark.parametrize("cache", [True, False])
def test_who_predicts_while_it_learns_sees_whole_epochs(cache):
    x, y = data(60)
    made, known = learner("head"), learner("head")
    seen = {known.predict(x).tobytes()}
    for epoch in range(6):
        known.fit(x, y, epochs=6, start_epoch=epoch, stop_epoch=epoch + 1, rate=0.1, cache=cache)
        seen.add(known.predict(x).tobytes())
    over, found = threading.Event(), []

    def learn():
        made.fit(x, y, epochs=6, rate=0.1, cache=cache)
        over.set()

    def look():
        while not over.is_set():
            found.append(made.predict(x).tobytes())

    together(learn, look, look)
    assert found and set(found) <= seen
    assert state_of(made) == state_of(known)


def test_an_interrupted_fit_keeps_every_update_it_made():
    x, y = data(600)
    made, known = learner(), learner()
    known.fit(x, y, epochs=3, stop_epoch=2, rate=0.1)

    def stop(words, done, total):
        if words.startswith("epoch 2") and done == 1200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.fit(x, y, epochs=3, rate=0.1, progress=stop)
    assert state_of(made) == state_of(known)
    made.fit(x, y, epochs=3, start_epoch=1, rate=0.1)  # nothing stayed locked


def test_a_load_waits_until_no_prediction_runs(made, images):
    """Predictions are those of one state or the other, never of half of each."""
    first = state_of(made)
    a = made.predict(images).tobytes()
    made.fit(images, np.arange(40) % 4, rate=0.1)
    second, b = state_of(made), made.predict(images).tobytes()
    over = threading.Event()

    def load():
        for _ in range(30):
            made.device.load_state(first)
            made.device.load_state(second)
        over.set()

    def look():
        found = set()
        while not over.is_set():
            found.add(made.predict(images).tobytes())
        return found

    _, *seen = together(load, look, look)
    assert set().union(*seen) <= {a, b}


@pytest.mark.parametrize("verb", ["predict", "train_step"])
def test_what_a_prepared_call_needs_lives_as_long_as_it_does(verb):
    x, y = data(1)
    inputs = (x,) if verb == "predict" else (x, y.astype(np.int32), np.float32(0.1))
    made = learner()
    want = [o.tobytes() for o in made.device.twin().run(verb, *inputs)]
    device = made.device.twin()
    run, call, state = device.prepared(*inputs, verb=verb), device.bound(verb), weakref.ref(device._state)
    del device, made
    gc.collect()
    assert [o.tobytes() for o in run()] == want
    assert state() is not None
    del run
    gc.collect()
    assert state() is not None and callable(call)  # a bound method keeps it alive, too
    del call
    gc.collect()
    assert state() is None


def test_threads_on_one_line_are_answered_one_after_the_other():
    x, _ = data(20)
    program = learner("head").device.program
    with open_process(program) as device:
        want = [device.predict(one[None]).tobytes() for one in x]

        def all_of_them():
            return [device.predict(one[None]).tobytes() for one in x]

        assert together(*[all_of_them] * THREADS) == [want] * THREADS

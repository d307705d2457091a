"""Readings of a sensor, filtered and normalised as part of the graph."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import firwin, lfilter

import insitu
from insitu import GraphError, Motion
from insitu.codegen import emit_program
from insitu.data.windows import windows
from insitu.devices.host import open_host, open_program
from insitu.devices.rows import Arrival
from insitu.graph import Type, build, check, evaluate, lookup
from insitu.planner import plan

SHAPES = [(1, 32, 3), (1, 3, 32), (1, 1, 32, 3), (1, 32, 1, 3)]


def seen(shape) -> object:
    with build("net") as b:
        return b.graph(lookup("relu")(b.input("x", Type("f32", shape)), name="y"))


def readings(times: int, channels: int = 3) -> np.ndarray:
    rng, t = np.random.default_rng(0), np.arange(times)[:, None] / 50
    return (9.8 + np.sin(2 * np.pi * 2 * t + np.arange(channels)) + rng.normal(0, 0.3, (times, channels))).astype("f4")


@pytest.mark.parametrize(("settings", "taps"), [
    ({"lowpass": 5.0}, firwin(25, 5.0, fs=50)),
    ({"highpass": 1.0, "taps": 51}, np.eye(51)[25] - firwin(51, 1.0, fs=50)),
    ({"highpass": 1.0, "lowpass": 8.0}, firwin(25, 8.0, fs=50) - firwin(25, 1.0, fs=50)),
])  # fmt: skip
def test_filters_are_those_of_scipy(settings, taps):
    motion = Motion(**settings)
    np.testing.assert_allclose(motion.filter, taps, atol=1e-7)
    x = readings(31 + len(taps))
    made = evaluate(motion.applied_to(seen((1, 32, 3))), x[None, :, None])[0]
    want = lfilter(taps, 1, x.astype(np.float64), axis=0)[len(taps) - 1 :]
    np.testing.assert_allclose(made, np.maximum(want, 0), atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_fit_inputs_of_any_layout(shape):
    motion = Motion(mean=(9.0, 10.0, 11.0), std=2.0)
    x = readings(32)
    made = np.squeeze(evaluate(check(motion.applied_to(seen(shape))), x[None, :, None]))
    want = np.maximum((x - np.array([9, 10, 11], np.float32)) / np.float32(2), 0)
    np.testing.assert_array_equal(made, want.T if shape == (1, 3, 32) else want)


def test_readings_arrive_one_by_one_with_the_same_bytes():
    with build("net") as b:
        x = b.input("x", Type("f32", (1, 32, 1, 3)))
        w = b.constant("w", np.random.default_rng(1).normal(0, 1, (4, 5, 1, 3)).astype(np.float32))
        y = lookup("conv2d")(x, w, stride=(2, 1), name="conv")
        graph = Motion(highpass=1.0).applied_to(b.graph(lookup("mean")(y, axes=(1, 2), name="pool")))
    x = readings(56)[:, None]
    made = plan(replace(graph, by_rows="readings"), target="mcu", enough=0)
    arrival = Arrival(open_program(emit_program(made, "net")))
    for reading in x:
        arrival.rows(reading[None])
    whole = open_host(graph).predict(x[None])
    np.testing.assert_array_equal(arrival.end()[0], whole)
    np.testing.assert_allclose(whole, evaluate(graph, x[None]), atol=1e-5)


def test_windows_overlap():
    x = np.arange(20)[:, None]
    assert [w[0, 0] for w in windows(x, 8)] == [0, 4, 8, 12]
    assert [w[0, 0] for w in windows(x, 8, overlap=0.0)] == [0, 8]
    assert windows(x, 30).shape == (0, 30, 1)


def test_what_does_not_fit_is_refused():
    with pytest.raises(GraphError, match="rate / 2"):
        Motion(lowpass=40.0).applied_to(seen((1, 32, 3)))
    with pytest.raises(GraphError, match="2 numbers do not fit 3 channels"):
        Motion(mean=(1.0, 2.0)).applied_to(seen((1, 32, 3)))


# recordings of any length -------------------------------------------------------------------------


def learner(**settings) -> insitu.Learner:
    """Looks at 32 readings of three channels, filtered: it takes 56."""
    rng = np.random.default_rng(1)
    with build("net") as b:
        x = b.input("x", Type("f32", (1, 32, 1, 3)))
        w = b.constant("w", rng.normal(0, 0.5, (6, 5, 1, 3)).astype(np.float32))
        y = lookup("relu")(lookup("conv2d")(x, w, stride=(2, 1), name="conv"), name="r")
        net = b.graph(lookup("mean")(y, axes=(1, 2), name="pool"))
    return insitu.compile(net, classes=["rest", "wave"], precision="float", head_after="pool",
                          transform=Motion(**settings))  # fmt: skip


@pytest.mark.parametrize(("settings", "step"), [({}, 28), ({"overlap": 0.75}, 14), ({"overlap": 0}, 56)])
def test_a_recording_is_cut_into_windows_that_overlap(settings, step):
    made = learner(highpass=1.0, window=32, **settings)
    x = readings(200)
    starts = range(0, 200 - 56 + 1, step)
    want = made.predict(np.stack([x[k : k + 56] for k in starts])[:, :, None])
    np.testing.assert_array_equal(made.predict(x), want)
    np.testing.assert_array_equal(made.predict([x]), want)
    assert len(made.predict(x[:56])) == 1  # one window is a recording, too


def test_recordings_and_their_labels_are_learned_by_windows():
    made = learner(overlap=0.5)  # without a filter
    long, short = readings(150), readings(70) / 8
    found = made.samples([long, short], ["wave", "rest"])
    assert len(found) == 8 + 3 and np.array_equal(found.labels, [1] * 8 + [0] * 3)
    assert made.fit([long, short], ["wave", "rest"], epochs=2).loss
    each = made.samples(np.concatenate([long, short]), ["wave"] * 150 + ["rest"] * 70)
    assert np.array_equal(each.labels, [1] * 8 + [0] * 2)  # those that have readings of both are left out


def test_a_table_is_cut_in_the_same_way(tmp_path):
    x = readings(100)
    np.savetxt(tmp_path / "r.csv", x, delimiter=",")
    made = learner(overlap=0.75)
    np.testing.assert_allclose(made.predict(tmp_path / "r.csv"), made.predict(x), atol=1e-6)
    assert len(made.predict(x)) == 9


def test_the_overlap_is_saved(tmp_path):
    made = insitu.open(learner(overlap=0.75).save(tmp_path / "m.insitu"))
    assert len(made.predict(readings(100))) == 9


def test_a_wrong_window_and_too_short_a_recording_are_told():
    with pytest.raises(GraphError, match="looks at 32 readings, not at 64"):
        learner(window=64)
    with pytest.raises(GraphError, match="overlap must be"):
        learner(overlap=1.0)
    with pytest.raises(insitu.DataError, match="20 readings, a window takes 32"):
        learner().predict(readings(20))
    with pytest.raises(insitu.DataError, match="2 recordings, but 3 labels"):
        learner().samples([readings(40), readings(50)], ["rest", "wave", "rest"])

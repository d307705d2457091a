"""Calibration: ranges over any iterable, in bounded memory, with errors that name the sample."""

import io

import numpy as np
import pytest

from insitu.devices.host import open_host
from insitu.errors import DataError, GraphError
from insitu.quantizer import Ranges, calibrate, fold
from insitu.quantizer.histogram import Histogram
from insitu.toolchain.compiler import NATIVE, QUICK
from tests.quantizer.nets import SHAPE, Net, samples, values


def small():
    net = Net()
    return net.graph(net.op("relu", net.conv(net.input(*SHAPE), 3, name="conv"), name="act"))


def two_inputs():
    net = Net()
    return net.graph(net.op("add", net.input(1, 3, name="a"), net.input(1, 3, name="b"), name="sum"))


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
def test_every_float_value_gets_a_range_within_what_was_seen(method):
    g = small()
    data = samples(g)
    ranges = calibrate(g, data, method=method)
    assert set(ranges) == {"x", "conv", "act"}
    for name in ranges:
        seen = np.stack([values(g, x)[name] for x in data])
        low, high = ranges[name]
        assert min(seen.min(), 0) - 1e-5 <= low < high <= seen.max() + 1e-5


def test_minmax_is_the_lowest_and_highest():
    g = small()
    data = samples(g)
    assert calibrate(g, data, method="minmax")["x"] == (np.min(data), np.max(data))


def test_means_and_extremes_are_a_channel():
    g = small()
    data = np.stack(samples(g))
    ranges = calibrate(g, data)
    assert np.allclose(ranges.means["x"], data.reshape(-1, 4).mean(axis=0), atol=1e-6)
    assert np.array_equal(ranges.channels["x"][1], data.reshape(-1, 4).max(axis=0))
    assert ranges.samples == len(data)


def test_an_outlier_is_left_out_by_percentile_and_mse_but_not_by_minmax():
    g = small()
    data = samples(g, 200)
    data[7][0, 0, 0, 0] = 1000.0
    highs = {m: calibrate(g, data, method=m, percentile=99.9)["x"][1] for m in ("minmax", "percentile")}
    assert highs["minmax"] == 1000.0
    assert highs["percentile"] < 10


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x,  # one array of samples
        lambda x: list(x[:, None]),  # batches of one
        lambda x: [x[:10], x[10:]],  # batches of any size
        lambda x: iter(x),  # a generator of samples
        lambda x: [(a, 3) for a in x],  # pairs with a label
        lambda x: [[a, np.array([3])] for a in x],  # as a torch DataLoader gives them
    ],
)
def test_samples_may_come_in_any_form(form):
    g = small()
    data = np.stack(samples(g, 16))[:, 0]
    assert calibrate(g, form(data), method="minmax").bounds == calibrate(g, data[:, None], method="minmax").bounds


def test_several_inputs_come_as_tuples_with_or_without_a_label():
    g = two_inputs()
    data = samples(g)
    assert calibrate(g, data).bounds == calibrate(g, [(x, 1) for x in data]).bounds


def test_batches_limits_how_many_items_are_read():
    g = small()
    seen = []

    def data():
        for x in samples(g):
            seen.append(1)
            yield x

    assert calibrate(g, data(), batches=5).samples == 5
    assert len(seen) <= 6


def test_progress_is_reported_and_nothing_is_printed(capsys):
    g, calls = small(), []
    calibrate(g, samples(g, 4), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    calibrate(g, samples(g, 4))  # stderr is not a terminal here
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_on_stderr(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    calibrate(small(), samples(small(), 4))
    assert "calibrating" in terminal.getvalue()


def broken(value, index=3):
    data = [x.copy() for x in samples(small(), 6)]
    data[index][0, 1, 2, 3] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (broken(np.nan), "sample 3: has NaN in %x"),
        (broken(np.inf), "sample 3: has an infinity in %x"),
        ([*samples(small(), 2), np.zeros((1, 5, 5, 4))], r"sample 2: has shape \(1, 5, 5, 4\), %x is f32\[1x6x5x4\]"),
        ([np.zeros((0, 6, 5, 4))], "sample 0: has shape"),
        (["no numbers"], "sample 0: has shape"),
        ([np.full(SHAPE, "a")], "sample 0: must be numbers, not <U1"),
        ([], "no samples to calibrate on"),
        (None, "no samples to calibrate on"),
    ],
)
def test_bad_data_are_refused_by_sample(data, message):
    with pytest.raises(DataError, match=message):
        calibrate(small(), data)


def test_inputs_of_different_number_are_refused():
    with pytest.raises(DataError, match="different numbers"):
        calibrate(two_inputs(), [(np.zeros((2, 3)), np.zeros((3, 3)))])
    with pytest.raises(DataError, match="must have 2 inputs, not 3"):
        calibrate(two_inputs(), [(np.zeros((1, 3)),) * 3])


def test_a_sample_on_which_the_model_overflows_is_named():
    net = Net()
    g = net.graph(net.op("exp", net.input(1, 3), name="huge"))
    with (
        np.errstate(over="ignore"),
        pytest.raises(DataError, match="sample 1: gives %huge a number that is not finite"),
    ):
        calibrate(g, [np.zeros((1, 3)), np.full((1, 3), 1e4)])


def test_an_unknown_method_is_refused():
    with pytest.raises(DataError, match="minmax, percentile, mse"):
        calibrate(small(), samples(small()), method="magic")


def test_a_graph_is_calibrated_in_its_inference_form():
    net = Net()
    g = net.graph(net.batch_norm(net.conv(net.input(*SHAPE), 3, name="conv")))
    data = samples(g)
    assert set(calibrate(g, data)) == {"x", "conv"}
    assert calibrate(g, data).bounds == calibrate(fold(g), data).bounds


def test_another_engine_may_run_the_graph():
    g, calls = small(), []

    def engine(x):
        calls.append(x)
        return {n: v for n, v in values(g, x).items() if n != "x"}

    data = samples(g, 5)
    assert calibrate(g, data, run=engine).bounds == calibrate(g, data).bounds
    assert len(calls) == 5


def one_by_one(graph):
    """An engine for several runs at once: each by itself, then all in a row."""

    def engine(*inputs):
        runs = [values(graph, *(x[i : i + 1] for x in inputs)) for i in range(len(inputs[0]))]
        return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}

    return engine


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize("shape", [(1, 7, 5, 3), (1, 40, 30, 1), (1, 9), (1, 1), (1, 300, 2)])
def test_several_runs_at_once_change_no_bit(method, shape):
    net = Net()
    g = net.graph(net.op("relu", net.input(*shape), name="act"))
    rng = np.random.default_rng(3)
    data = [rng.normal(size=shape).astype(np.float32) * 1.1**i for i in range(130)]  # wider and wider
    data[7].flat[0] = 2.0 ** np.ceil(np.log2(np.abs(data[7]).max()))  # on the edge of a histogram
    one, many = (calibrate(g, data, method=method, run=one_by_one(g), at_once=at_once) for at_once in (False, True))
    assert one.bounds == many.bounds and one.samples == many.samples == 130
    for name in one:
        assert np.array_equal(one.means[name], many.means[name])
        assert np.array_equal(one.channels[name], many.channels[name])


def test_a_program_that_is_compiled_quickly_computes_the_same_bits():
    net = Net()
    x = net.op("relu", net.conv(net.input(*SHAPE), 9, name="conv"), name="act")
    x = net.op("max_pool2d", net.depthwise(x, padding=(1, 1, 1, 1)), kernel=(2, 2), stride=(2, 2), name="pool")
    x = net.op("sum", net.op("add", x, x, name="twice"), axes=(1, 2), name="total")
    g = net.graph(net.linear(x, 5))
    quick, usual = open_host(g, keep=True, flags=(NATIVE, QUICK)), open_host(g, keep=True)
    for x in samples(g):
        found, wanted = quick.values(x), usual.values(x)
        assert {name: v.tobytes() for name, v in found.items()} == {name: v.tobytes() for name, v in wanted.items()}


def test_the_sample_that_overflows_is_named_among_several():
    net = Net()
    g = net.graph(net.op("exp", net.input(1, 3), name="huge"))
    data = [np.zeros((1, 3))] * 70 + [np.full((1, 3), 1e4)] + [np.zeros((1, 3))] * 5
    with np.errstate(all="ignore"), pytest.raises(DataError, match="sample 70: gives %huge"):
        calibrate(g, data, run=one_by_one(g), at_once=True)


def test_an_engine_of_a_graph_that_is_not_folded_is_refused():
    net = Net()
    g = net.graph(net.batch_norm(net.conv(net.input(*SHAPE), 3)))
    with pytest.raises(GraphError, match="fold it first"):
        calibrate(g, samples(g), run=lambda x: values(g, x))


def test_an_unseen_value_is_an_error_that_names_it():
    with pytest.raises(GraphError, match="%y"):
        Ranges({"x": (0, 1)})["y"]


def test_a_histogram_that_grows_equals_one_that_started_wide():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=500) * 4.0**k for k in range(5)]
    grown, wide = Histogram(), Histogram()
    for p in parts:
        grown.add(p)
    for p in reversed(parts):
        wide.add(p)
    assert grown.width == wide.width
    assert grown.counts.sum() == wide.counts.sum() == 2500
    # a value on the border of two fine bins may fall on either side of a coarse one
    assert np.abs(np.cumsum(grown.counts) - np.cumsum(wide.counts)).max() <= 2


def test_a_histogram_keeps_zeros_seen_before_anything_else():
    h = Histogram()
    h.add(np.zeros(10))
    h.add(np.ones(1))
    assert h.counts.sum() == 11
    assert h.percentile(90, 0.0, 1.0)[1] < 0.01


@pytest.mark.parametrize("p", [90.0, 99.0, 99.9])
def test_a_percentile_is_numpys_within_two_bins(p):
    x = np.random.default_rng(0).normal(size=100_000)
    h = Histogram()
    h.add(x)
    low, high = h.percentile(p, x.min(), x.max())
    wanted = np.percentile(x, [100 - p, p])
    assert np.abs(np.array([low, high]) - wanted).max() <= 4 * h.width / len(h.counts)


def test_least_squares_is_better_than_the_whole_range():
    x = np.random.default_rng(0).standard_t(3, size=100_000)
    h = Histogram()
    h.add(x)

    def error(low, high):
        s = (high - low) / 255
        return np.mean((np.clip(np.round(x / s), np.round(low / s), np.round(low / s) + 255) * s - x) ** 2)

    assert error(*h.least_squares(x.min(), x.max())) < 0.9 * error(x.min(), x.max())

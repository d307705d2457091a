"""The interface of devices: each test here runs on all of them, and compares with the host's bytes."""

import inspect
from functools import cache

import numpy as np
import pytest

from insitu.codegen import Program, emit_program
from insitu.devices.device import Device, Updates, method_of, train_by_calls
from insitu.devices.host import open_program
from insitu.errors import DataError, DeviceError
from insitu.planner import plan_all
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..training.small_nets import int8_net
from .kinds import CLASSES, KINDS, opened

# samples per update -> how the training graphs are made
WAYS = {"one": {}, "added up": {"accumulate": True}, "at once": {"samples": 2}}
BATCH = {"one": 1, "added up": 3, "at once": 2}
RATES = (0.05, 0.02, 0.0, 0.03)


@cache
def program(way: str = "one", rows: bool = False) -> Program:
    """A small int8 network whose last layer and head are trained."""
    graph = replace_head(int8_net(), None)
    scheme = read_scheme("last:1", [layer for layer in layers(graph) if layer.name != "head"])
    graphs = train_graphs(graph, scheme, Recipe(rows=rows and way != "at once", grad="s16"), **WAYS[way])
    return emit_program(plan_all(graphs, "mcu"))


def samples(count: int = 5):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 5, 6, 3)).astype(np.float32)
    return x, rng.integers(0, 3, count).astype(np.int32)


def updates(way: str = "one") -> Updates:
    """Updates of one sample each; of three samples and then one, with added gradients; of two samples at once."""
    return Updates(samples(), [2, 0, 4, 1], RATES, BATCH[way])


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    if KINDS[request.param].missing:
        pytest.skip(f"{request.param} needs {KINDS[request.param].missing}")
    return request.param


@pytest.fixture
def device(kind):
    with opened(kind, program(rows=kind == "rows")) as found:
        yield found


@pytest.fixture
def host():
    return open_program(program())


def test_a_device_has_every_part_of_the_interface(device):
    wanted = [name for name in vars(Device) if not name.startswith("_")]
    assert len(wanted) > 10 and all(hasattr(device, name) for name in wanted)


@pytest.mark.parametrize("made", CLASSES, ids=lambda made: made.__name__)
def test_every_class_takes_the_arguments_of_the_interface(made):
    for name, method in vars(Device).items():
        if inspect.isfunction(method) and not name.startswith("__"):
            assert list(inspect.signature(getattr(made, name)).parameters) == list(inspect.signature(method).parameters)


def test_it_says_what_it_runs(device, host, kind):
    assert device.info()["state_bytes"] == host.info()["state_bytes"]
    least = program(rows=True).arena_bytes if kind == "rows" else host.info()["arena_bytes"]  # by rows: its own plan
    assert device.info()["arena_bytes"] >= least
    described = {verb: [[v.type for v in part] for part in parts] for verb, parts in device.verbs.items()}
    assert described == {verb: [[v.type for v in part] for part in parts] for verb, parts in host.verbs.items()}


def test_it_predicts_the_bytes_of_the_host(device, host):
    x, _ = samples()
    assert device.predict(x).tobytes() == host.predict(x).tobytes()
    assert device.predict(x[:1]).shape == host.predict(x[:1]).shape


@pytest.mark.parametrize("way", WAYS)
def test_it_learns_the_bytes_of_the_host(kind, way):
    host = open_program(program(way))
    wanted = train_by_calls(host, updates(way))
    with opened(kind, program(way, rows=kind == "rows")) as device:
        found = device.train(updates(way))
        assert found.losses.tobytes() == wanted.losses.tobytes() and np.isfinite(found.losses).all()
        assert [o.tobytes() for o in found.outputs] == [o.tobytes() for o in wanted.outputs]
        assert same_state(device, host)
        assert host.counters().items() <= device.counters().items()


def same_state(device: Device, host: Device) -> bool:
    here, there = host.state(), device.state()
    return here.keys() == there.keys() and all(there[name].tobytes() == here[name].tobytes() for name in here)


def test_updates_in_parts_are_the_updates_in_one(device, host):
    whole = updates()
    for i in range(4):
        device.train(Updates(whole.arrays, whole.order[i : i + 1], whole.rates[i : i + 1]))
    host.train(whole)
    assert same_state(device, host)


def test_samples_may_lie_apart(device, host):
    """One of several views of each sample, as in a cached prefix."""
    x, y = samples()
    views = np.stack([x + 1, x, x - 1], axis=1)
    device.train(Updates((views[:, 1], y), [2, 0, 4], RATES))
    host.train(Updates((x, y), [2, 0, 4], RATES))
    assert same_state(device, host)


def test_a_saved_state_comes_back_and_a_reset_begins_anew(device):
    first = device.save_state()
    device.train(updates())
    learned = device.save_state()
    device.reset()
    assert device.save_state() == first != learned
    device.load_state(learned)
    assert device.save_state() == learned


def test_a_damaged_state_is_an_error_and_changes_nothing(device):
    before = device.save_state()
    with pytest.raises(DataError):
        device.load_state(before[:-1])
    assert device.save_state() == before


def test_persistent_values_can_be_set_by_name(device):
    bias = device.state()["head.bias"]
    device.load_arrays({"head.bias": bias + 1})
    assert (device.state()["head.bias"] == bias + 1).all()


def test_a_function_that_is_not_there_is_an_error_that_names_those_that_are(device):
    with pytest.raises(DataError, match="no 'dance'") as e:
        device.run("dance")
    assert "predict" in e.value.hint and "train_step" in e.value.hint


def test_batches_that_the_program_does_not_take_are_refused(device):
    with pytest.raises(DataError, match="1 samples per update"):
        device.train(Updates(samples(), [0, 1, 2, 3], RATES, batch=2))


def test_who_counts_knows_each_function(device):
    counter = device.counter
    if counter is None:
        pytest.skip("nothing counts instructions here")
    device.train(updates())
    counted = counter.counted()
    assert counted.keys() == {"train_step"} and sum(counted["train_step"].values()) > 1000
    _, layers = counter.measure("predict", samples(1)[0])
    assert counter.counted() == {**counted, "predict": layers}
    assert counter.stack_bytes() > 0


def test_a_closed_device_says_so(kind):
    device = KINDS[kind].open(program(rows=kind == "rows"))
    device.close()
    device.close()
    calls = (
        lambda: device.predict(samples()[0]), lambda: device.train(updates()), device.state,
        device.save_state, device.reset,
    )  # fmt: skip
    for call in calls:
        with pytest.raises(DeviceError, match="is closed"):
            call()


def test_a_program_that_only_predicts_cannot_be_trained():
    with pytest.raises(Exception, match="only predicts"):
        method_of({"predict": ((), ())})

"""The names of a model's layers cannot change what the program does."""

import re

import numpy as np
import pytest
from torch import nn

import insitu
from insitu.codegen import c
from insitu.devices.host import open_host, open_plans
from insitu.graph import build, evaluate, f32, lookup
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.toolchain import sources
from insitu.toolchain.prototypes import signature, type_headers
from insitu.toolchain.sources import kernel_paths
from insitu.training.train import Recipe, train_graphs


class Named(nn.Module):
    """A network for pictures whose first layer has the name that Keras gives it."""

    def __init__(self):
        super().__init__()
        self.conv2d, self.more, self.end = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1), nn.Linear(6, 3)

    def forward(self, x):
        return self.end(self.more(self.conv2d(x).relu()).relu().mean((2, 3)))


@pytest.mark.parametrize("text", ["*/ int x; /*", "*\\ int x; /\\*", "a *\n/ b", "??/", "* / /* */"])
def test_nothing_ends_a_comment_early(text):
    line = c.comment(text)
    assert line.count("*/") == 1 and line.endswith(" */")
    assert "\\" not in line and "\n" not in line and "/*" not in line[2:]


@pytest.mark.parametrize("name", ["null", "NULL", "int32_max", "insitu_x", "eof", "net_arena_bytes"])
def test_a_layer_with_a_name_that_c_knows_computes_the_same(name):
    rng = np.random.default_rng(0)
    with build("g") as b:
        x = b.input("x", f32(1, 6, 6, 2))
        w1 = b.constant("w1", rng.normal(size=(3, 3, 3, 2)).astype(np.float32))
        w2 = b.constant("w2", rng.normal(size=(3, 3, 3, 3)).astype(np.float32))
        y = lookup("conv2d")(lookup("conv2d")(x, w1, name=name), w2, name="y")
    graph = b.graph(y)
    sample = rng.normal(size=(1, 6, 6, 2)).astype(np.float32)
    np.testing.assert_allclose(open_host(graph).predict(sample), evaluate(graph, sample), rtol=1e-4, atol=1e-4)  # type: ignore


def test_every_struct_that_a_kernel_takes_is_a_name_that_no_table_gets():
    known = type_headers(sources.C_FOLDER)
    taken = {w for name in kernel_paths(sources.C_FOLDER) for w in re.findall(r"\w+", signature(name)) if w in known}
    headers = {known[w] for w in taken}
    assert {w for w, header in known.items() if header in headers} <= c.TYPES


def test_a_striped_layer_may_be_named_like_a_struct():
    """A Keras model calls its first convolution conv2d; the shapes of its stripes are a table."""
    x = np.random.default_rng(0).normal(size=(4, 2, 12, 12)).astype(np.float32)
    made = insitu.compile(Named().eval(), data=x, board="stm32f100", scheme="head").deployed
    assert made is not None and made.firmware is not None
    source = "".join(made.program.files.values())
    assert re.search(r"conv2d_shape \*const conv2d_shape_2\[", source)


def test_names_that_look_alike_in_c_stay_apart():
    """Inputs, layers, constants and outputs; one layer is named like a scratch, one constant like a function."""
    rng = np.random.default_rng(0)
    with build("g */ evil") as b:
        x, y = b.input("x.1", f32(1, 4)), b.input("x_1", f32(1, 4))
        w = b.constant("predict", rng.normal(size=(3, 4)).astype(np.float32))
        v = b.constant("a.b", rng.normal(size=(3, 4)).astype(np.float32))
        u = b.constant("a_b", rng.normal(size=(3, 3)).astype(np.float32))
        p = lookup("linear")(x, w, name="scratch:1")
        q = lookup("linear")(y, v, name="scratch_1")
        r = lookup("linear")(lookup("sub")(p, q, name="scratch:0:0"), u, name="out.1")
        s = lookup("relu")(r, name="out_1")
    graph = b.graph(r, s)
    feed = [rng.normal(size=(1, 4)).astype(np.float32) for _ in range(2)]
    for found, wanted in zip(open_host(graph).predict(*feed), evaluate(graph, *feed)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)  # type: ignore
    assert "*/ evil" not in str(graph)


def test_trained_parameters_whose_names_look_alike_in_c_are_trained_apart():
    """The state's fields; layers named `counters` and `a.sum`; and `W` beside `w`, a field beside a macro."""
    rng = np.random.default_rng(0)
    names = {"a.b": "counters", "a_b": "w", "W": "a.b.sum", "a": "rate"}
    with build("g") as b:
        h = b.input("x", f32(1, 4))
        for weight, layer in names.items():
            h = lookup("linear")(h, b.constant(weight, rng.normal(size=(4, 4)).astype(np.float32)), name=layer)
    graph = b.graph(h)
    for accumulate in (False, True):
        scheme = read_scheme("full", layers(graph))
        graphs = train_graphs(graph, scheme, Recipe(loss="mse", clip=64.0), head=None, accumulate=accumulate)
        device = open_plans({verb: plan(g) for verb, g in graphs.items()})
        x, goal = rng.normal(size=(2, 1, 4)).astype(np.float32)
        state, rate = device.state(), np.float32(0.05)
        if accumulate:
            device.run("accumulate", x, goal)
            device.run("apply", rate, np.float32(1))
        else:
            device.run("train_step", x, goal, rate)
        wanted = stepped([graph.constants[n].astype(np.float64) for n in names], x, goal, rate)
        for name, w in zip(names, wanted):
            np.testing.assert_allclose(device.state()[name], w, rtol=1e-4, atol=1e-5)
            assert not np.array_equal(device.state()[name], state[name])


def stepped(weights, x, goal, rate):
    """One step of gradient descent on |y - goal|^2 / 4 through y = x W1' W2' ..., by hand."""
    ends = [x.astype(np.float64)]
    for w in weights:
        ends.append(ends[-1] @ w.T)
    g, found = (ends[-1] - goal) / 2, []
    for w, h in zip(weights[::-1], ends[-2::-1]):
        dw = g.T @ h
        found.append(w - rate * dw * min(1, 64 / np.linalg.norm(dw)))
        g = g @ w
    return found[::-1]


def test_state_that_starts_at_zero_takes_no_flash():
    with build("g") as b:
        x = b.input("x", f32(1, 8))
        w = b.constant("w", np.ones((8, 8), np.float32))
        y = lookup("linear")(x, w, name="y")
    graph = b.graph(y)
    recipes = [Recipe(loss="mse", optimizer=name) for name in ("sgd", "momentum")]
    sizes = []
    for recipe in recipes:
        graphs = train_graphs(graph, read_scheme("full", layers(graph)), recipe, head=None)
        device = open_plans({verb: plan(g) for verb, g in graphs.items()})
        assert all(np.array_equal(a, 0 * a if n != "w" else a * 0 + 1) for n, a in device.state().items())
        sizes.append(device.info()["const_bytes"])
    assert sizes[0] == sizes[1]

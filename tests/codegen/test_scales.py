"""Scales computed from multipliers are the scales, in every bit; if they cannot be computed, they stay a table."""

import ctypes

import numpy as np
import pytest

from insitu.codegen import emit_program
from insitu.codegen.constants import Constants
from insitu.codegen.scales import Layer, derive
from insitu.graph import s8
from insitu.graph.call import Multipliers, Scales, Shares, Struct, Table
from insitu.ops._block import group_shares, weight_shares
from insitu.ops._requant import quantize_multipliers
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.toolchain.compiler import NATIVE, SCALAR, build_library
from insitu.training.train import Recipe, train_graphs

from ..training.small_nets import int8_net

X, Y = 0.0231, 0.0517  # scales that are not float32
WEIGHTS = np.exp(np.random.default_rng(3).uniform(np.log(1e-6), np.log(0.3), 2003)).astype(np.float32).astype(float)
POWERS = np.ldexp(1.0, np.arange(-19, 0)) * 1.0  # mantissas of one: where quotients change their exponent
NEXT = np.nextafter(POWERS.astype(np.float32), np.float32(1)).astype(float)
BEFORE = np.nextafter(POWERS.astype(np.float32), np.float32(0)).astype(float)


def layer_of(weights: np.ndarray, x: float = X, y: float = Y) -> Layer:
    m, shift = quantize_multipliers(x * weights / y)
    return Layer("m", "shift", Multipliers(m, x, y), shift)


class WeightScales(ctypes.Structure):
    _fields_ = [
        ("m", ctypes.c_void_p),
        ("shift", ctypes.c_void_p),
        ("ratio", ctypes.c_int32),
        ("exponent", ctypes.c_int32),
    ]


def source_of(layer: Layer) -> WeightScales:
    fields = layer.fields()
    places = (a.ctypes.data for a in (layer.multipliers.array, layer.shifts))
    return WeightScales(*places, int(fields["ratio"]), int(fields["exponent"]))


@pytest.fixture(scope="module", params=[NATIVE, SCALAR])
def kernels(request):
    names = ("channel_scales_f32", "channel_shares_s16")
    return ctypes.CDLL(str(build_library({"none.c": "typedef int none;\n"}, names, (request.param,))))


def in_c(kernels, layer: Layer, over: float, rest: int, first: int, n: int) -> np.ndarray:
    found = np.zeros(n, np.float32)
    place = found.ctypes.data_as(ctypes.c_void_p)
    kernels.channel_scales_f32(place, ctypes.byref(source_of(layer)), ctypes.c_float(over), rest, first, n)
    return found


@pytest.mark.parametrize("weights", [WEIGHTS, POWERS, NEXT, BEFORE], ids=["many", "powers", "next", "before"])
@pytest.mark.parametrize("x, y", [(X, Y), (Y, X), (0.5, 0.25)])
def test_c_finds_scales_and_what_updates_need_of_them(kernels, weights, x, y):
    layer = layer_of(weights, x, y)
    for wanted in (weights, 1 / weights, 1 / (x * weights)):
        way = derive(Scales(wanted.astype(np.float32)), [layer])
        assert way is not None
        got = in_c(kernels, layer, way.over, way.rest, 3, len(weights) - 3)
        assert got.tobytes() == wanted.astype(np.float32)[3:].tobytes()


def test_c_finds_shares(kernels):
    type = s8(len(WEIGHTS), 1, s=tuple(WEIGHTS), axis=0)
    layer, (table, k) = layer_of(WEIGHTS), weight_shares(type, len(WEIGHTS))
    assert derive(Shares(table, np.array([k])), [layer])
    found = np.zeros(len(WEIGHTS) - 5, np.int16)
    kernels.channel_shares_s16(found.ctypes.data_as(ctypes.c_void_p), ctypes.byref(source_of(layer)), k, 5, found.size)
    np.testing.assert_array_equal(found, table[5:])


def test_shares_of_groups_follow_too():
    type = s8(1, len(WEIGHTS), s=tuple(WEIGHTS), axis=1)
    table, k = group_shares(type, len(WEIGHTS))
    assert derive(Shares(table, k), [layer_of(WEIGHTS)])
    assert derive(Shares(table, k + 1), [layer_of(WEIGHTS)]) is None


@pytest.mark.parametrize(
    "weights",
    [WEIGHTS * (1 + np.linspace(0, 2**-23, len(WEIGHTS))), np.append(WEIGHTS, 1e-40), np.append(WEIGHTS, 1e-12)],
    ids=["no floats", "subnormal", "a multiplier of nought"],
)
def test_what_does_not_follow_stays_a_table(weights):
    layer, wanted = layer_of(weights), Scales(weights.astype(np.float32))
    found = Constants("net")
    found.struct(Struct("requant", m=layer.multipliers, shift=Table(layer.shifts)), "layer")
    assert found.table(wanted, "scales") == "net_scales" and found.source_of(wanted, "scales") == "NULL"


def test_another_layer_is_not_taken_for_it():
    assert derive(Scales(WEIGHTS.astype(np.float32)), [layer_of(WEIGHTS[::-1]), layer_of(WEIGHTS[1:])]) is None


@pytest.mark.parametrize("grad", ["f32", "s16", "s8"])
def test_a_program_for_a_small_machine_has_no_table_of_scales(grad):
    graph = int8_net()
    scheme = read_scheme("full", layers(graph))
    graphs = train_graphs(graph, scheme, Recipe(grad=grad))
    text = {
        target: emit_program({verb: plan(g, target=target) for verb, g in graphs.items()}).files["net_weights.c"]
        for target in ("host", "mcu")
    }
    assert ".channel = NULL" not in text["host"] and ".channel = net" in text["host"]
    assert ".channel = net" not in text["mcu"] and ".scales = &net" in text["mcu"]

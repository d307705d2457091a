"""The gradients of int8 ops, compared with finite differences, in float64, of the same formula without its rounding.

Quantised inputs represent the reals of their types. Outputs within one step of a clamp limit are skipped.
"""

import zlib
from functools import cached_property

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.graph import REGISTRY, Builder, Type, build, evaluate, lookup, s8, type_of
from insitu.ops._functions import real
from insitu.ops._gradients import table_slope
from insitu.ops._tables import unary_table
from insitu.ops.mask import pack_mask
from insitu.training.autodiff import differentiate
from tests.ops.case_library import draw

from .gradients import weighted_sum
from .test_gradients import close

# the 16-bit multipliers of a sum are off by 2^-15
TOLERANCE = 1e-4
# int8 op -> the float op it rounds; None: the same reals
FLOAT = {
    **{op.facts.int8.name: op.name for op in REGISTRY.values() if op.facts.int8},
    **dict.fromkeys(("requantize_s8", "quantize", "dequantize")),
}
ELSEWHERE = {"lut_s8", "softmax_s8", "normalize", "cepstrum"}  # no formula without the rounding, or no gradient


def surrogate_of(op) -> str | None:
    return FLOAT.get(op.name, op.name)


def quantised_cases():
    found = {}
    for op in sorted(REGISTRY.values(), key=lambda o: o.name):
        if not op.has("grad") or op.name in ELSEWHERE or op.name == "merge_channels":
            continue
        for case in op.cases:
            if any(getattr(t, "quant", None) is not None for t in (*case.inputs, case.out)):
                found[f"{op.name}: {case.name}"] = op, case
    return found


class Int8:
    """One case as an int8 graph with gradients, and as a float function of the reals."""

    def __init__(self, label: str):
        self.op, case = quantised_cases()[label]
        rng = np.random.default_rng(zlib.crc32(label.encode()))
        self.arrays = [t if isinstance(t, np.ndarray) else draw(t, rng, self.op.domain) for t in case.inputs]
        self.types = [type_of(t) if isinstance(t, np.ndarray) else t for t in case.inputs]
        self.attrs, self.out = self.op.complete(case.attrs), case.out
        if "mask" in self.op.defaults:
            self.attrs["mask"] = True
        self.reals = [self._real(i) for i in range(len(self.arrays))]
        self.outputs = self._bounds()
        values = self.function(self.reals)
        self.weights = [self._weights(v, lo, hi, step, rng) for v, (lo, hi, step) in zip(values, self.outputs)]

    def _real(self, i: int) -> np.ndarray:
        type = self.types[i]
        if type.dtype == "s32" and type.quant is None:  # a bias: in units of both scales
            return self.arrays[i] * self.types[0].scale * np.array(self.types[1].quant.scale)
        reals = real(self.arrays[i].astype(np.float64), type)
        # of equal maxima, the first one wins
        if self.op.name == "max_pool2d" or self.attrs.get("ties") == "first":
            reals -= 1e-3 * np.arange(reals.size).reshape(reals.shape) / reals.size
        return reals

    def _bounds(self):
        """(lo, hi, step) of each output in real units."""
        values = self._int8_graph()[1]
        found = []
        for y in values:
            if y.type.quant is None:
                found.append((-np.inf, np.inf, 0.0))
            elif y.dtype == "s8":
                lo, hi = self.attrs.get("lo", -128), self.attrs.get("hi", 127)
                exact = surrogate_of(self.op) == self.op.name  # moves elements: nothing is clamped
                ends = (-np.inf, np.inf) if exact else ((e - y.type.zero) * y.type.scale for e in (lo, hi))
                found.append((*ends, y.type.scale))
        return found

    @staticmethod
    def _weights(values, lo, hi, step, rng):
        near = np.minimum(np.abs(values - lo), np.abs(values - hi)) <= 1.01 * step
        return np.where(near, 0, rng.uniform(0.5, 1.5, values.shape)).astype(np.float32)

    def _int8_graph(self):
        builder = Builder(self.op.name)
        with build(builder):
            inputs = [builder.input(f"x{i}", t) for i, t in enumerate(self.types)]
            results = self.op(*inputs, name="y", out=self.out, **self.attrs)
        results = results if isinstance(results, tuple) else (results,)
        return builder, [y for y in results if y.dtype != "u8"], inputs

    def gradients(self):
        builder, results, inputs = self._int8_graph()
        with build(builder):
            reals = [y if y.dtype == "f32" else lookup("dequantize")(y) for y in results]
            loss = weighted_sum(builder, reals, self.weights)
            grads = differentiate(builder, loss, inputs)
        graph = builder.graph(loss, *(grads[v.name] for v in inputs))
        return evaluate(graph, *self.arrays, precision=np.float64)[1:]

    def function(self, reals) -> list[np.ndarray]:
        """The formula without rounding or clamp."""
        if self._float_node is None:
            return list(reals)
        if self.attrs.get("ties") == "even":
            return [self._shared_maximum(*reals)]
        found = self._float_node.rule("eval", *reals)
        return list(found) if isinstance(found, tuple) else [found]

    @cached_property
    def _float_node(self):
        """The float op that this one rounds, on inputs of the same shapes; None for the same reals."""
        if (name := surrogate_of(self.op)) is None:
            return None
        float_op = lookup(name)
        attrs = {k: v for k, v in self.attrs.items() if k in float_op.defaults}
        with build(name) as b:
            results = float_op(*(b.input(f"x{i}", Type("f64", x.shape)) for i, x in enumerate(self.reals)), **attrs)
            return b.graph(*(results if isinstance(results, tuple) else (results,))).nodes[0]

    def _shared_maximum(self, x) -> np.ndarray:
        """The mean of the maxima that are equal as integers: each has the same share in it."""
        axes = self.attrs["axes"]
        near = x > x.max(axis=axes, keepdims=True) - self.types[0].scale / 2
        return np.mean(x, axis=axes, where=near)

    def loss(self, reals) -> float:
        values = self.function(reals)
        limited = [np.minimum(np.maximum(v, lo), hi) for v, (lo, hi, _) in zip(values, self.outputs)]
        return sum(float(np.vdot(v, r)) for v, r in zip(limited, self.weights))

    def finite_difference(self, i: int, step: float) -> np.ndarray:
        found, moved = np.zeros(self.reals[i].shape), self.reals[i].copy()
        reals = [*self.reals[:i], moved, *self.reals[i + 1 :]]
        for at in np.ndindex(found.shape):
            here = moved[at]
            moved[at] = here + step
            above = self.loss(reals)
            moved[at] = here - step
            found[at] = (above - self.loss(reals)) / (2 * step)
            moved[at] = here
        return found


@pytest.mark.parametrize("label", quantised_cases())
def test_gradient_is_the_finite_difference_without_rounding(label):
    case = Int8(label)
    step = 1e-7 if case.op.name in ("max_pool2d", "amax") else 1e-5
    for i, found in enumerate(case.gradients()):
        assert found.dtype == np.float64  # the evaluation's; f32 in a program
        close(found, case.finite_difference(i, step), TOLERANCE)


def test_a_clamped_element_passes_no_gradient():
    x = np.array([[-128, 0, 127]], np.int8)
    with build("clamped") as b:
        v = b.input("x", s8(1, 3, s=0.1))
        y, mask = lookup("requantize_s8")(v, out=s8(s=0.05), mask=True)
        loss = weighted_sum(b, [lookup("dequantize")(y)], [np.ones((1, 3), np.float32)])
        grads = differentiate(b, loss, [v])
        graph = b.graph(mask, grads["x"])
    bits, gradient = evaluate(graph, x)
    np.testing.assert_array_equal(bits, [[0b010]])
    np.testing.assert_array_equal(gradient, [[0, 1, 0]])


def test_mask_rows_start_at_a_byte():
    inside = np.arange(20).reshape(2, 10) % 3 == 0
    np.testing.assert_array_equal(pack_mask(inside), [[0b01001001, 0b10], [0b00100100, 0b01]])


def test_the_slopes_of_a_table_are_near_those_of_the_function():
    x, y = s8(s=0.05, z=3), s8(s=1 / 256, z=-128)
    reals = 0.05 * (np.arange(-128, 128) - 3)
    sigmoid = 1 / (1 + np.exp(-reals))
    slopes = table_slope(unary_table(lambda v: 1 / (1 + np.exp(-v)), x, y), x, y)
    assert np.max(np.abs(slopes - sigmoid * (1 - sigmoid))) < 0.02


def test_the_slopes_of_a_table_are_zero_where_it_is_clamped():
    x, y = s8(s=0.1), s8(s=0.05)
    slopes = table_slope(unary_table(lambda v: v, x, y), x, y)
    np.testing.assert_allclose(slopes[70:187], 1, atol=1e-6)
    assert not slopes[:63].any() and not slopes[193:].any()


def test_given_slopes_are_the_gradient_of_a_table():
    slopes = np.linspace(-1, 1, 256).astype(np.float32)
    x = np.arange(-128, 128, dtype=np.int8)
    with build("table") as b:
        v = b.input("x", s8(256, s=0.1))
        table, slope = b.constant("table", x), b.constant("slope", slopes)
        y = lookup("dequantize")(lookup("lut_s8")(v, table, slope, out=s8(s=0.2)))
        grads = differentiate(b, weighted_sum(b, [y], [np.ones(256, np.float32)]), [v])
        graph = b.graph(grads["x"])
    np.testing.assert_array_equal(evaluate(graph, x), slopes)


def test_softmax_s8_has_the_gradient_of_softmax():
    x = np.random.default_rng(3).integers(-30, 30, (2, 7)).astype(np.int8)
    r = np.random.default_rng(4).uniform(-1, 1, (2, 7)).astype(np.float32)
    with build("softmax") as b:
        v = b.input("x", s8(2, 7, s=0.1))
        loss = weighted_sum(b, [lookup("dequantize")(lookup("softmax_s8")(v))], [r])
        graph = b.graph(differentiate(b, loss, [v])["x"])
    e = np.exp(0.1 * x)
    p = e / e.sum(-1, keepdims=True)
    np.testing.assert_allclose(evaluate(graph, x), p * (r - (r * p).sum(-1, keepdims=True)), atol=0.004)

"""Mathematical functions of a float value, element by element. Activations are in activation.py."""

from __future__ import annotations

import math

import numpy as np

from insitu.graph import Value, building, op
from insitu.graph.op import Grads
from insitu.ops._functions import erf as erf_of
from insitu.ops._gradients import from_input
from insitu.ops._rules import EXTREME, SMALL, same, unary
from insitu.ops._types import Array
from insitu.ops.activation_backward import abs_dx
from insitu.ops.arith import div, mul, neg


def scaled(g: Value, factor: float) -> Value:
    """factor * g, for rules too rare to deserve a kernel."""
    constant = building().constant("factor", np.array(factor, np.float32))
    return mul(g, constant)


exp = op("exp", "y = e^x", cases=SMALL + EXTREME[1:])
exp.infer(same)
exp.emit(unary("exp_f32"))
exp.may(in_place=True, unary=True)


@exp.eval
def _(x: Array) -> Array:
    return np.exp(x)


@exp.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (mul(g, y),)


log = op("log", "y = ln(x), for x > 0", domain=(0.05, 4.0), cases=SMALL)
log.infer(same)
log.emit(unary("log_f32"))
log.may(in_place=True, unary=True)


@log.eval
def _(x: Array) -> Array:
    return np.log(x)


@log.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (div(g, x),)


sqrt = op("sqrt", "y = sqrt(x), for x >= 0", domain=(0.05, 4.0), cases=SMALL)
sqrt.infer(same)
sqrt.emit(unary("sqrt_f32"))
sqrt.may(in_place=True, unary=True)


@sqrt.eval
def _(x: Array) -> Array:
    return np.sqrt(x)


@sqrt.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (scaled(div(g, y), 0.5),)


rsqrt = op("rsqrt", "y = 1 / sqrt(x), for x > 0", domain=(0.05, 4.0), cases=SMALL)
rsqrt.infer(same)
rsqrt.emit(unary("rsqrt_f32"))
rsqrt.may(in_place=True, unary=True)


@rsqrt.eval
def _(x: Array) -> Array:
    return 1 / np.sqrt(x)


@rsqrt.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (scaled(mul(g, div(y, x)), -0.5),)


reciprocal = op("reciprocal", "y = 1 / x", domain=(0.2, 4.0), cases=SMALL)
reciprocal.infer(same)
reciprocal.emit(unary("reciprocal_f32"))
reciprocal.may(in_place=True, unary=True)


@reciprocal.eval
def _(x: Array) -> Array:
    return 1 / x


@reciprocal.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (neg(mul(g, square(y))),)


abs = op("abs", "y = |x|", cases=SMALL)
abs.infer(same)
abs.grad(from_input(abs_dx))
abs.emit(unary("abs_f32"))
abs.may(in_place=True, unary=True)


@abs.eval
def _(x: Array) -> Array:
    return np.abs(x)


square = op("square", "y = x * x", cases=SMALL)
square.infer(same)
square.emit(unary("square_f32"))
square.may(in_place=True, unary=True)


@square.eval
def _(x: Array) -> Array:
    return x * x


@square.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (scaled(mul(g, x), 2.0),)


erf = op("erf", "y = 2 / sqrt(pi) * integral from 0 to x of exp(-t^2) dt", cases=SMALL + EXTREME)
erf.infer(same)
erf.emit(unary("erf_f32"))
erf.may(in_place=True, unary=True)


@erf.eval
def _(x: Array) -> Array:
    return erf_of(x).astype(x.dtype)


@erf.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    bell = exp(neg(square(x)))
    return (scaled(mul(g, bell), 2 / math.sqrt(math.pi)),)

"""Mathematical functions of a float value, element by element. Activations are in activation.py."""

from __future__ import annotations

import math

import numpy as np

from insitu.graph import lookup, op
from insitu.ops._gradients import from_input, scaled
from insitu.ops._rules import EXTREME, SMALL, first, same, unary
from insitu.ops.activation import erf as erf_of


@op
class exp:
    """y = e^x"""

    cases = SMALL + EXTREME[1:]
    infer = same
    emit = unary("exp_f32")
    in_place = first

    def eval(x):
        return np.exp(x)

    def grad(g, y, x):
        return (lookup("mul")(g, y),)


@op
class log:
    """y = ln(x), for x > 0"""

    cases = SMALL
    domain = (0.05, 4.0)
    infer = same
    emit = unary("log_f32")
    in_place = first

    def eval(x):
        return np.log(x)

    def grad(g, y, x):
        return (lookup("div")(g, x),)


@op
class sqrt:
    """y = sqrt(x), for x >= 0"""

    cases = SMALL
    domain = (0.05, 4.0)
    infer = same
    emit = unary("sqrt_f32")
    in_place = first

    def eval(x):
        return np.sqrt(x)

    def grad(g, y, x):
        return (scaled(lookup("div")(g, y), 0.5),)


@op
class rsqrt:
    """y = 1 / sqrt(x), for x > 0"""

    cases = SMALL
    domain = (0.05, 4.0)
    infer = same
    emit = unary("rsqrt_f32")
    in_place = first

    def eval(x):
        return 1 / np.sqrt(x)

    def grad(g, y, x):
        return (scaled(lookup("mul")(g, lookup("div")(y, x)), -0.5),)


@op
class reciprocal:
    """y = 1 / x"""

    cases = SMALL
    domain = (0.2, 4.0)
    infer = same
    emit = unary("reciprocal_f32")
    in_place = first

    def eval(x):
        return 1 / x

    def grad(g, y, x):
        return (neg(lookup("mul")(g, square(y))),)


@op
class neg:
    """y = -x"""

    cases = SMALL
    infer = same
    emit = unary("neg_f32")
    in_place = first

    def eval(x):
        return -x

    def grad(g, y, x):
        return (neg(g),)


@op
class abs:
    """y = |x|"""

    cases = SMALL
    infer = same
    grad = from_input("abs_dx")
    emit = unary("abs_f32")
    in_place = first

    def eval(x):
        return np.abs(x)


@op
class square:
    """y = x * x"""

    cases = SMALL
    infer = same
    emit = unary("square_f32")
    in_place = first

    def eval(x):
        return x * x

    def grad(g, y, x):
        return (scaled(lookup("mul")(g, x), 2.0),)


@op
class erf:
    """y = 2 / sqrt(pi) * integral from 0 to x of exp(-t^2) dt"""

    cases = SMALL + EXTREME
    infer = same
    emit = unary("erf_f32")
    in_place = first

    def eval(x):
        return erf_of(x).astype(x.dtype)

    def grad(g, y, x):
        bell = exp(neg(square(x)))
        return (scaled(lookup("mul")(g, bell), 2 / math.sqrt(math.pi)),)

"""The gradient of a depthwise convolution's input in place of the gradient it comes from, some channels at a time.

The bytes of depthwise2d_dx. Made by the planner where both gradients, side by side, set the peak (planner/over.py).
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, f32, op, s8
from insitu.ops.conv_backward import depthwise2d_dx, depthwise_struct, gathered_dx


@op(kind="any")
class depthwise2d_dx_over:
    """dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v lies on r,q; dx has the shape of g"""

    cases = [
        Case("3x3", (f32(1, 5, 4, 7), s8(3, 3, 7, s=0.02)), {"padding": (1, 1, 1, 1)}),
        Case("5x3, many channels", (f32(2, 4, 3, 35), s8(5, 3, 35, s=np.linspace(0.01, 0.2, 35), axis=2)),
             {"padding": (3, 1, 2, 0)}),
    ]  # fmt: skip

    def infer(g, w, *, padding):
        kh, kw = w.shape[:2]
        if w.dtype != "s8" or g.shape[3] != w.shape[2] or (kh - 1, kw - 1) != (sum(padding[:2]), sum(padding[2:])):
            raise GraphError(f"{g} and {w} with a padding of {padding} do not give an input of the same shape")
        return g

    def eval(g, w, *, padding, node):
        attrs = depthwise2d_dx.complete({"size": g.shape[1:3], "channels": g.shape[3], "padding": padding})
        return depthwise2d_dx.apply("eval", (g, w), attrs, node=node)

    def emit(dx, g, w, *, padding):
        shape = depthwise_struct(g, dx, w.shape[:2], (1, 1), padding, (1, 1))
        return gathered_dx(dx, g, w, shape, over=True)

    def in_place(dx, g, w):
        return 0

    def macs(dx, g, w):
        return g.type.size * w.shape[0] * w.shape[1]

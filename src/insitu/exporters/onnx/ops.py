"""What each op becomes in an ONNX model: one table, OPS, of small functions. An op that is not in it is refused.

int8 ops compute with real numbers between DequantizeLinear and QuantizeLinear, tables are looked up with Gather. Layers
and pooling are in layers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from onnx import TensorProto

from insitu.exporters.onnx.layers import LAYERS
from insitu.exporters.onnx.step import Step, to_first
from insitu.graph import Op
from insitu.ops import activation, arith, layout, norm, quant, reduce, unary
from insitu.ops.layout import pad_value
from insitu.ops.linear import linear
from insitu.ops.normalize import INTEGERS, normalize, table

# functions of one value -------------------------------------------------------------------------------


def each(name: str, **attributes) -> Callable[[Step], None]:
    """A function of each element: the layout does not matter, so the one at hand is kept."""

    def run(s: Step) -> None:
        image = s.has_image()
        s.finish(s.op(name, [s.real(0, image)], **attributes), image)

    return run


def chain(build: Callable[[Step, str], str]) -> Callable[[Step], None]:
    """The same for a function that takes several operators."""

    def run(s: Step) -> None:
        image = s.has_image()
        s.finish(build(s, s.real(0, image)), image)

    return run


def clamp(s: Step, x: str) -> str:
    ends = [s.number(end, word) if abs(end) != inf else "" for end, word in ((s["lo"], "lo"), (s["hi"], "hi"))]
    return s.op("Clip", [x, *ends])


def silu(s: Step, x: str) -> str:
    return s.op("Mul", [x, s.op("Sigmoid", [x], "gate")])


def relu6(s: Step, x: str) -> str:
    return s.op("Clip", [x, s.number(0.0, "lo"), s.number(6.0, "hi")])


def rsqrt(s: Step, x: str) -> str:
    return s.op("Reciprocal", [s.op("Sqrt", [x], "root")])


def prelu(s: Step) -> None:
    slope = s.array(1)
    image = s.has_image() and s.type(0).rank == 4
    shape = (1,) * (s.type(0).rank - slope.ndim) + slope.shape
    wide = slope.reshape(shape)
    name = s.constant(wide.transpose(to_first(4)) if image else wide, "slope")
    s.give(s.op("PRelu", [s.image() if image else s.x(), name]), image)


def attributes_of(name: str, **names: str) -> Callable[[Step], None]:
    """A function whose attributes are ONNX's under other names: ONNX name -> ours."""

    def run(s: Step) -> None:
        image = s.has_image()
        given = {theirs: s[ours] for theirs, ours in names.items()}
        s.give(s.op(name, [s.image() if image else s.x()], **given), image)

    return run


def lookup(s: Step) -> None:
    """lut_s8."""
    image = s.has_image()
    s.give(gather(s, s.image() if image else s.x(), s.array(1), np.array(128, np.int32)), image)


def gather(s: Step, x: str, entries: np.ndarray, start: np.ndarray) -> str:
    """entries[x + start]"""
    wide = s.op("Cast", [x], "wide", to=TensorProto.INT32)
    at = s.op("Add", [wide, s.constant(start, "start")], "at")
    return s.op("Gather", [s.constant(entries.reshape(-1), "table"), at], axis=0)


def normalised(s: Step) -> None:
    """Pixels to int8: one table per channel, laid end to end. Pixels to float: (x - mean) / std."""
    mean, std, rank = s["mean"], s["std"], s.type(0).rank
    along = [-1 if d == s["axis"] % rank else 1 for d in range(rank)]
    if s.int8:
        start = 256 * np.arange(len(mean), dtype=np.int32).reshape(along if len(mean) > 1 else (1,))
        return s.give(gather(s, s.x(), table(mean, std, s.out, s["rounding"]), start))
    real = s.op("Cast", [s.x()], "real", to=TensorProto.FLOAT) if s.type(0).dtype in INTEGERS else s.x()
    if s.type(0).dtype == "s16":
        real = s.op("Mul", [real, s.constant(np.array(s.type(0).scale, np.float32), "unit")], "scaled")
    shift, scale = (s.constant(np.array(v, np.float32).reshape(along), w) for v, w in ((mean, "mean"), (std, "std")))
    return s.give(s.op("Div", [s.op("Sub", [real, shift], "moved"), scale]))


def quantized(s: Step) -> None:
    image = s.has_image()
    s.finish(s.real(0, image), image)


def dequantized(s: Step) -> None:
    """(q - zero) * scale, spelled out unless only linear layers read it: onnxruntime 1.31 moves a transpose or reshape
    behind a DequantizeLinear to its front, adds a QuantizeLinear there, and then refuses the type of that."""
    image = s.has_image()
    readers = [node.op for node in s.emitter.graph.nodes if s.node.output in node.inputs]
    plain = not image and all(op is linear for op in readers)
    s.give(s.real(0) if plain else _spelled_out(s, image), image)


def _spelled_out(s: Step, image: bool) -> str:
    steps = s.op("Cast", [s.image() if image else s.x()], "steps", to=TensorProto.FLOAT)
    above = s.op("Sub", [steps, s.number(s.type(0).zero, "zero")], "above")
    return s.op("Mul", [above, s.number(s.type(0).scale, "scale")])


# two values -------------------------------------------------------------------------------------------


def pair(name: str) -> Callable[[Step], None]:
    """Channels first if both are images or constants of that rank, and one is at hand like that."""

    def run(s: Step) -> None:
        ranks = {s.type(i).rank for i in (0, 1)}
        image = ranks == {4} and (s.has_image(0) or s.has_image(1))
        s.finish(s.op(name, [s.real(0, image), s.real(1, image)], "result" if s.int8 else ""), image)

    return run


# reductions -------------------------------------------------------------------------------------------


def reduction(name: str) -> Callable[[Step], None]:
    def run(s: Step) -> None:
        rank = s.type(0).rank
        axes, keep = [a % rank for a in s["axes"]], bool(s["keepdims"])
        image = s.has_image() and rank == 4 and set(axes) == {1, 2}
        axes = [2, 3] if image else axes
        moves = name == "ReduceMax"
        x = (s.image() if image else s.x()) if moves else s.real(0, image)
        y = s.op(name, [x, s.ints(axes, "axes")], "" if moves or not s.int8 else "mean", keepdims=int(keep))
        return s.give(y, image and keep) if moves else s.finish(y, image and keep)

    return run


def running_sum(s: Step) -> None:
    axis = s.ints([s["axis"] % s.type(0).rank], "axis")
    s.finish(s.op("CumSum", [s.real(0), axis], exclusive=int(s["exclusive"]), reverse=int(s["reverse"])))


def along(name: str) -> Callable[[Step], None]:
    def run(s: Step) -> None:
        s.finish(s.op(name, [s.real(0)], axis=s.node.attrs.get("axis", -1)))

    return run


def layer_norm(s: Step) -> None:
    """LayerNormalization wants a scale; without one it is all ones."""
    shape = s.type(0).shape[s.type(0).rank - s["dims"] :]
    affine = [s.x(i) for i in range(1, s.count)] or [s.constant(np.ones(shape, np.float32), "ones")]
    s.give(s.op("LayerNormalization", [s.x(), *affine], axis=-s["dims"], epsilon=s["epsilon"]))


# layout -----------------------------------------------------------------------------------------------


def reshape(s: Step) -> None:
    s.give(s.op("Reshape", [s.x(), s.ints(s.out.shape, "shape")]))


def transpose(s: Step) -> None:
    """To or from channels first, the tensor may exist already."""
    perm = list(s["perm"])
    if perm == to_first(s.out.rank) and s.has_image() and s.out.rank in (3, 4):
        return s.give(s.image())
    return s.give(s.op("Transpose", [s.x()], perm=perm))


def pad(s: Step) -> None:
    ends = [b for b, _ in s["pads"]] + [a for _, a in s["pads"]]
    fill = s.constant(np.array(pad_value(s.type(0), s["value"]), s.type(0).numpy), "value")
    s.give(s.op("Pad", [s.x(), s.ints(ends, "pads"), fill]))


def concat(s: Step) -> None:
    rank, axis = s.out.rank, s["axis"] % s.out.rank
    image = rank == 4 and any(s.has_image(i) for i in range(s.count))
    parts = [s.image(i) if image else s.x(i) for i in range(s.count)]
    s.give(s.op("Concat", parts, axis=to_first(4).index(axis) if image else axis), image)


def sliced(s: Step) -> None:
    ends = [s.ints(s[word], word) for word in ("starts", "stops")]
    axes = s.ints(range(s.out.rank), "axes")
    s.give(s.op("Slice", [s.x(), *ends, axes, s.ints(s["steps"], "steps")]))


def split(s: Step) -> None:
    """Several results: one node, appended by hand."""
    from onnx import helper

    names = [s.emitter.fresh(v.name) for v in s.node.outputs]
    inputs = [s.x(), s.ints(s["sizes"], "sizes")]
    s.emitter.nodes.append(helper.make_node("Split", inputs, names, names[0], axis=s["axis"] % s.type(0).rank))
    for i, name in enumerate(names):
        s.give(name, i=i)


def resize(s: Step) -> None:
    sizes = s.ints([s.out.shape[0], s.out.shape[3], *s["size"]], "sizes")
    how = {"coordinate_transformation_mode": s["coordinates"], "nearest_mode": s["rounding"], "mode": "nearest"}
    s.give(s.op("Resize", [s.image(), "", "", sizes], **how), image=True)


OPS: dict[Op, Callable[[Step], None]] = {
    activation.relu: each("Relu"), activation.relu6: chain(relu6), activation.clamp: chain(clamp),
    activation.leaky_relu: attributes_of("LeakyRelu", alpha="slope"), activation.sigmoid: each("Sigmoid"),
    activation.tanh: each("Tanh"), activation.hard_sigmoid: attributes_of("HardSigmoid", alpha="alpha", beta="beta"),
    activation.hard_swish: each("HardSwish"), activation.silu: chain(silu),
    activation.gelu: attributes_of("Gelu", approximate="approximate"),
    activation.elu: attributes_of("Elu", alpha="alpha"), activation.softplus: each("Softplus"),
    activation.prelu: prelu, activation.lut_s8: lookup, normalize: normalised,
    arith.neg: each("Neg"), unary.exp: each("Exp"), unary.log: each("Log"), unary.sqrt: each("Sqrt"),
    unary.rsqrt: chain(rsqrt), unary.reciprocal: each("Reciprocal"), unary.abs: each("Abs"), unary.erf: each("Erf"),
    unary.square: chain(lambda s, x: s.op("Mul", [x, x])),
    quant.quantize: quantized, quant.dequantize: dequantized, quant.requantize_s8: quantized,
    arith.add: pair("Add"), arith.add_s8: pair("Add"), arith.sub: pair("Sub"), arith.sub_s8: pair("Sub"),
    arith.mul: pair("Mul"), arith.mul_s8: pair("Mul"), arith.div: pair("Div"),
    reduce.mean: reduction("ReduceMean"), reduce.mean_s8: reduction("ReduceMean"), reduce.sum: reduction("ReduceSum"),
    reduce.amax: reduction("ReduceMax"), reduce.cumsum: running_sum, reduce.cumsum_s8: running_sum,
    norm.softmax: along("Softmax"), norm.softmax_s8: along("Softmax"), norm.log_softmax: along("LogSoftmax"),
    norm.layer_norm: layer_norm,
    layout.reshape: reshape, layout.transpose: transpose, layout.pad: pad, layout.concat: concat,
    layout.slice: sliced, layout.split: split, layout.resize: resize,
    **LAYERS,
}  # fmt: skip

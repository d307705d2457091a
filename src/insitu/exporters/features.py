"""What a sensor's samples become before the first layer, over real numbers: what other formats can say of it.

insitu's programs compute features in integers, row by row, with ops that no other format has. In a file they are
ordinary layers: frames and their spectra are two convolutions with cosines and sines, mel bands and cepstra are 1x1
convolutions, the past of a band is one over the frames, and a filter over time is a depthwise convolution. They have
the same meaning, without the roundings of integers. The file takes sound as f32[n, samples] from -1 to 1, where the
program takes rows of int16; frames of a camera become red, green and blue bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, log

import numpy as np

from insitu.graph import Builder, Graph, Node, Op, Type, Value, evaluate, rewrite
from insitu.graph.fixed import mark_fixed
from insitu.graph.rewrite import Rewriter
from insitu.ops import _sound as tables
from insitu.ops.arith import add, div, mul, sub
from insitu.ops.conv import conv2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import reshape, transpose
from insitu.ops.motion import fir
from insitu.ops.pcen import mel, pcen, smooth
from insitu.ops.pixels import pixels, yuv420
from insitu.ops.sound import cepstrum, log_mel, spectrum
from insitu.ops.unary import exp as exp_op
from insitu.ops.unary import log as log_op
from insitu.ops.unary import sqrt, square

SOUND, PHOTO = "waveform", "photo"  # the inputs of a file, where its program has others
LEAST = 1e-30  # below it, float32 has no logarithm to speak of
Rule = Callable[[Node, Rewriter], Value]


def real_features(graph: Graph) -> Graph:
    """The graph with its features over real numbers; the same graph if it has none."""
    if not has_features(graph):
        return graph
    made = rewrite(graph, _meaning)
    read = {v.name for node in made.nodes for v in node.inputs} | {v.name for v in made.outputs}
    return replace(made, inputs=tuple(v for v in made.inputs if v.name in read))


def real_inputs(graph: Graph, sample: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """What a file takes, for a sample that the program takes."""
    front = next((node for node in graph.nodes if node.op in (spectrum, *CAMERAS)), None)
    if front is None:
        return sample
    if front.op is spectrum:
        return (sample[0].reshape(len(sample[0]), -1).astype(np.float32) / tables.FULL,)
    return (np.asarray(evaluate(replace(graph, outputs=(front.output,)), *sample)),)


def sample_rate(graph: Graph) -> int | None:
    """The samples per second of a graph that takes sound."""
    return next((node.attrs["rate"] for node in graph.nodes if node.op in (log_mel, mel)), None)


def has_features(graph: Graph) -> bool:
    return any(node.op in MEANINGS for node in graph.nodes)


def sound_words(rate: int) -> str:
    return f"a waveform of samples from -1 to 1, {rate:,} per second"


def _meaning(node: Node, rw: Rewriter) -> Value | None:
    rule = MEANINGS.get(node.op)
    return rule(node, rw) if rule else None


def _fixed(builder: Builder, name: str, array: np.ndarray) -> Value:
    """A matrix that no scheme trains."""
    return mark_fixed(builder, builder.constant(name, np.ascontiguousarray(array, np.float32)))


# sound ------------------------------------------------------------------------------------------


def _spectrum(node: Node, rw: Rewriter) -> Value:
    """|sum over n of w[n] x[n] e^(-2 pi i k n / N)| as the length of two convolutions. A window covers whole rows."""
    sounds, rows, hop, _ = node.inputs[0].shape
    x = reshape(rw.builder.input(SOUND, Type("f32", (sounds, rows * hop))), shape=(sounds, rows, hop, 1),
                name=f"{node.name}.rows")  # fmt: skip
    waves = _waves(**node.attrs)
    high = -(-waves.shape[2] // hop)
    waves = np.pad(waves, ((0, 0), (0, 0), (0, high * hop - waves.shape[2]))).reshape(2, -1, high, hop, 1)
    parts = [conv2d(x, _fixed(rw.builder, f"{node.name}.{word}s", w), name=f"{node.name}.{word}")
             for word, w in zip(("cosine", "sine"), waves)]  # fmt: skip
    power = add(*(square(p, name=f"{p.name}.square") for p in parts), name=f"{node.name}.power")
    return reshape(sqrt(power, name=f"{node.name}.root"), shape=node.output.shape, name=node.name)


def _waves(*, window: int, bins: int, shape: str) -> np.ndarray:
    """[2, bins, window]: cosines and sines, times the window."""
    angle = 2 * np.pi / tables.points(window) * np.outer(np.arange(bins), np.arange(window))
    weights = tables.window_table(shape, window) / (1 << tables.WINDOW_BITS)
    return np.stack([np.cos(angle), np.sin(angle)]) * weights


def _bands(node: Node, rw: Rewriter, x: Value, gain: float, bias: float = 0.0) -> Value:
    """gain times the sums of mel triangles, plus bias: f32[n, frames, 1, bands]."""
    weights = tables.mel_weights(*(node.attrs[key] for key in ("bands", "points", "rate", "low", "high")))
    w = _fixed(rw.builder, f"{node.name}.triangles", gain * weights[:, None, None, : x.shape[3]])
    b = _fixed(rw.builder, f"{node.name}.floor", np.full(len(weights), bias))
    return conv2d(x, w, b, name=f"{node.name}.bands")


def _as_channels(node: Node, x: Value) -> Value:
    """f32[n, frames, k, 1] as f32[n, frames, 1, k], which 1x1 convolutions mix."""
    n, frames, k, _ = x.shape
    return reshape(x, shape=(n, frames, 1, k), name=f"{node.name}.channels")


def _as_rows(node: Node, x: Value) -> Value:
    return reshape(x, shape=(*x.shape[:2], x.shape[3], 1), name=node.name)


def _log_mel(node: Node, rw: Rewriter) -> Value:
    x = _as_channels(node, node.inputs[0])
    x = x if node.attrs["power"] == 1 else square(x, name=f"{node.name}.square")
    sums = _bands(node, rw, x, node.attrs["gain"], max(node.attrs["floor"], LEAST))
    return _as_rows(node, log_op(sums, name=f"{node.name}.log"))


def _cepstrum(node: Node, rw: Rewriter) -> Value:
    x, count = _as_channels(node, node.inputs[0]), node.attrs["count"]
    bands = x.shape[3]
    angle = np.pi / bands * np.outer(np.arange(count), np.arange(bands) + 0.5)
    w = _fixed(rw.builder, f"{node.name}.cosines", np.sqrt(2 / bands) * np.cos(angle)[:, None, None])
    return _as_rows(node, conv2d(x, w, name=f"{node.name}.sums"))


def _mel(node: Node, rw: Rewriter) -> Value:
    return _as_rows(node, _bands(node, rw, _as_channels(node, node.inputs[0]), node.attrs.get("gain", 1.0)))


def _smooth(node: Node, rw: Rewriter) -> Value:
    """m[t] = share sum over s of (1 - share)^(t - s) x[s], and all of the first row: a matrix over the frames."""
    frames = node.inputs[0].shape[1]
    share, ages = node.attrs["share"], np.subtract.outer(np.arange(frames), np.arange(frames))
    past = np.where(ages >= 0, share * (1 - share) ** np.maximum(ages, 0), 0)
    past[:, 0] = (1 - share) ** np.arange(frames)
    turned = transpose(node.inputs[0], perm=(0, 2, 3, 1), name=f"{node.name}.turned")
    w = _fixed(rw.builder, f"{node.name}.past", past[:, None, None])
    return transpose(conv2d(turned, w, name=f"{node.name}.sums"), perm=(0, 3, 1, 2), name=node.name)


def _pcen(node: Node, rw: Rewriter) -> Value:
    """(x / (floor + m)^gain + bias)^root - bias^root, with powers as exponentials of logarithms."""
    x, past, a = *node.inputs, node.attrs

    def number(value: float, word: str) -> Value:
        return rw.builder.constant(f"{node.name}.{word}", np.full((1, 1, 1, 1), value, np.float32))

    def power(value: Value, exponent: float, word: str) -> Value:
        scaled = mul(log_op(value, name=f"{node.name}.{word}.log"), number(exponent, f"{word}.exponent"),
                     name=f"{node.name}.{word}.scaled")  # fmt: skip
        return exp_op(scaled, name=f"{node.name}.{word}")

    below = power(add(past, number(max(a["floor"], LEAST), "floor"), name=f"{node.name}.above"), a["gain"], "level")
    ratio = add(div(x, below, name=f"{node.name}.ratio"), number(a["bias"], "bias"), name=f"{node.name}.shifted")
    return sub(power(ratio, a["root"], "rooted"), number(exp(a["root"] * log(a["bias"])), "less"), name=node.name)


# motion and cameras -----------------------------------------------------------------------------


def _fir(node: Node, rw: Rewriter) -> Value:
    taps, (x,) = np.array(node.attrs["taps"], np.float32), node.inputs
    w = np.broadcast_to(taps[:, None, None], (len(taps), 1, x.shape[3]))
    return depthwise2d(x, _fixed(rw.builder, f"{node.name}.taps", w), name=node.name)


def _camera(node: Node, rw: Rewriter) -> Value:
    return rw.builder.input(PHOTO, node.output.type)


CAMERAS = (pixels, yuv420)
MEANINGS: dict[Op, Rule] = {
    spectrum: _spectrum, log_mel: _log_mel, cepstrum: _cepstrum, mel: _mel, smooth: _smooth, pcen: _pcen,
    fir: _fir, **dict.fromkeys(CAMERAS, _camera),
}  # fmt: skip

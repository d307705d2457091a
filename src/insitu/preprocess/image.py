"""From camera pixels to the inputs a network was trained on: size, mean and standard deviation, as part of its graph.

    Transform(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), size=(96, 96))
    Transform(size=(120, 160), crop=(120, 120), format="rgb565")              the bytes of a camera, cropped

The graph then takes u8 pixels [1, H, W, C] of that size (or, without a size, of its own); of a camera with planes
(i420, nv12, nv21), frames [1, 3 H / 2, W, 1]: luma, then the colours. Calibration, training, prediction and the
generated C all apply it. In an int8 graph it is one table of 256 bytes per channel.
"""

from __future__ import annotations

from dataclasses import dataclass

from insitu.errors import GraphError
from insitu.graph import Graph, Node, Type, Value, rewrite
from insitu.graph.graph import Builder
from insitu.ops.layout import reshape, resize, slice, transpose
from insitu.ops.normalize import normalize
from insitu.ops.pixels import CAMERAS, FORMATS, PLANAR, pixels, yuv420
from insitu.ops.quant import quantize
from insitu.preprocess.front import in_front
from insitu.terminal.misspelled import all_spelled
from insitu.terminal.wording import either

PIXELS = 255.0
INPUT = "pixels"


@all_spelled
@dataclass(frozen=True)
class Transform:
    """real = (pixel / 255 - mean) / std, one number or one per channel; `size` is (height, width) of the images."""

    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0
    size: tuple[int, int] | None = None  # resized to the network's own size by nearest neighbour
    crop: tuple[int, int] | None = None  # (height, width) kept in the middle, before resizing
    format: str = "rgb"  # or a camera's: bgr, rgb565, rgb565be, yuyv, uyvy, i420, nv12, nv21

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            numbers = getattr(getattr(self, name), "tolist", lambda: None)()  # of an array
            if numbers is not None:
                object.__setattr__(self, name, tuple(numbers) if isinstance(numbers, list) else numbers)

    @classmethod
    def raw(cls, graph: Graph, size: tuple[int, int] | None = None) -> Transform:
        """For networks whose int8 input is `pixel - 128`."""
        t = graph.inputs[0].type
        if t.dtype != "s8" or t.quant is None:
            raise GraphError(
                f"takes {t}, not int8 pixels",
                where=graph.name,
                hint=either(shell="--mean M --std S", python="Transform(mean=..., std=...)"),
            )
        return cls((128 + t.zero) / PIXELS, 1 / (PIXELS * t.scale), size)

    def applied_to(self, graph: Graph) -> Graph:
        """The graph that takes pixels."""
        if len(graph.inputs) != 1 or graph.inputs[0].type.rank != 4:
            raise GraphError("a transform of images needs a model with one input of rank 4", where=graph.name)
        return in_front(graph, lambda builder: self._made(builder, graph.inputs[0]))

    def _made(self, builder: Builder, old: Value) -> Value:
        """The pixels as the reals, or the int8, of an input."""
        first = old.shape[3] not in (1, 3) and old.shape[1] in (1, 3)
        height, width, channels = _image(old.shape, first)
        x = self._resized(builder, height, width, channels)
        mean, std = (self._scaled(v, channels) for v in (self.mean, self.std))
        made = normalize(x, mean=mean, std=std, name=f"{old.name}.last" if first else old.name, out=old.type)
        return transpose(made, perm=(0, 3, 1, 2), name=old.name) if first else made

    def _resized(self, builder: Builder, height: int, width: int, channels: int) -> Value:
        x = self._cropped(self._coloured(builder, self.size or self.crop or (height, width), channels))
        if x.shape[1:3] == (height, width):
            return x
        return resize(x, size=(height, width), coordinates="half_pixel", rounding="floor", name="resized")

    def _coloured(self, builder: Builder, size: tuple[int, int], channels: int) -> Value:
        """The pixels in the order that the network takes them."""
        if self.format == "rgb":
            return builder.input(INPUT, Type("u8", (1, *size, channels)))
        if self.format not in CAMERAS or channels != 3:
            what = f"pixels of format {self.format!r} do not fit a network with {channels} channels"
            raise GraphError(what, where="Transform", hint=f"rgb, or for three channels {', '.join(CAMERAS[1:])}")
        if self.format in PLANAR:
            return self._planes(builder, *size)
        x = builder.input(INPUT, Type("u8", (1, *size, FORMATS[self.format][0])))
        return pixels(x, format=self.format, name="coloured")

    def _planes(self, builder: Builder, height: int, width: int) -> Value:
        """A frame: all rows of luma, then those of the colours."""
        if height % 2 or width % 2:
            what = f"{self.format} has one colour for a square of four pixels, but images are {height}x{width}"
            raise GraphError(what, where="Transform", hint="an even height and width; a crop cuts the rest off")
        x = builder.input(INPUT, Type("u8", (1, 3 * height // 2, width, 1)))
        if self.format == "i420":  # rows of the colours are half as wide
            x, height, width = (
                reshape(x, shape=(1, 3 * height, width // 2, 1), name="coloured.halves"),
                2 * height,
                width // 2,
            )
            parts = {"luma": height, "u": height // 4, "v": height // 4}
        else:
            parts = {"luma": height, "colours": height // 2}
        planes, top = [], 0
        for name, rows in parts.items():
            stops = (1, top + rows, width, 1)
            planes.append(slice(x, starts=(0, top, 0, 0), stops=stops, steps=(1, 1, 1, 1), name=f"coloured.{name}"))
            top += rows
        return yuv420(*planes, format=self.format, name="coloured")

    def _cropped(self, x: Value) -> Value:
        """The middle of the image."""
        if self.crop is None or self.crop == x.shape[1:3]:
            return x
        (n, h, w, c), (height, width) = x.shape, self.crop
        if not 0 < height <= h or not 0 < width <= w:
            raise GraphError(f"a crop of {height}x{width} does not fit images of {h}x{w}", where="Transform")
        top, left = (h - height) // 2, (w - width) // 2
        stops = (n, top + height, left + width, c)
        return slice(x, starts=(0, top, left, 0), stops=stops, steps=(1, 1, 1, 1), name="cropped")

    def _scaled(self, values: float | tuple[float, ...], channels: int) -> tuple[float, ...]:
        """The values in pixels: one per channel, or one for all if mean and std are single numbers."""
        many = tuple(values) if isinstance(values, tuple | list) else (values,)
        if len(many) not in (1, channels):
            raise GraphError(f"{len(many)} numbers do not fit {channels} channels", where="Transform")
        one = all(len(v) == 1 for v in (self.mean, self.std) if isinstance(v, tuple | list))
        return tuple(float(v) * PIXELS for v in (many if one or len(many) > 1 else many * channels))


def _image(shape: tuple[int, ...], first: bool) -> tuple[int, int, int]:
    _, a, b, c = shape
    return (b, c, a) if first else (a, b, c)


def fuse_transform(graph: Graph) -> Graph:
    """quantize(normalize(pixels)) as one table: the same bytes."""
    return rewrite(graph, _fuse) if any(n.op is normalize for n in graph.nodes) else graph


def _fuse(node: Node, rw):
    if node.op is not quantize:
        return None
    inner = rw.producer(node.inputs[0], normalize)
    if inner is None or inner.inputs[0].dtype != "u8":
        return None
    attrs = {**inner.attrs, "rounding": node.attrs["rounding"]}
    return normalize(*inner.inputs, **attrs, name=node.name, out=node.output.type)

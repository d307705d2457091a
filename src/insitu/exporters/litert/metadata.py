"""LiteRT metadata: class names, columns, the meaning of pixels, and the runtime needed, where Android's libraries look.

The metadata is a flatbuffer of its own (file identifier M001) in a buffer named TFLITE_METADATA. Class names are the
lines of labels.txt, a stored member of a zip archive that is appended to the model. Slots below are the positions of
fields in that schema. The same contents give the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

import flatbuffers

from insitu.errors import DataError
from insitu.exporters.features import sound_words
from insitu.exporters.litert.file import File
from insitu.exporters.written import Options
from insitu.graph import Graph, Type
from insitu.graph.classes import column_words, word
from insitu.graph.file import EPOCH
from insitu.ops.normalize import normalize
from insitu.terminal.wording import either

BUFFER, IDENTIFIER = "TFLITE_METADATA", b"M001"
PARSER, OF_SOUND = "1.0.0", "1.3.0"  # the oldest version of the schema that has what is told, and with sound
OWN = "insitu"  # the name of a buffer for our own importer
LABELS = "labels.txt"
AXIS_LABELS = 2  # the kind of an associated file: one line per element of the last axis
FEATURE, IMAGE, AUDIO = 1, 2, 4  # the kinds of contents
NORMALIZATION = 1  # a kind of processing
COLOURS = {3: 1, 1: 2}  # channels -> RGB, greyscale
PIXELS_INSIDE = "takes bytes 0..255; they are normalised inside the model"


@dataclass(frozen=True)
class Pixels:
    """What a model's input expects of bytes 0..255: (byte - mean) / std, one number or one per channel."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


class Tables:
    """Writes the tables of a flatbuffer, innermost first."""

    def __init__(self):
        self.builder = flatbuffers.Builder(1024)

    def text(self, words: str) -> int:
        return self.builder.CreateString(words)

    def offsets(self, items: Sequence[int]) -> int:
        self.builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.builder.PrependUOffsetTRelative(item)
        return self.builder.EndVector()

    def floats(self, numbers: Sequence[float]) -> int:
        self.builder.StartVector(4, len(numbers), 4)
        for number in reversed(numbers):
            self.builder.PrependFloat32(number)
        return self.builder.EndVector()

    def table(self, slots: dict[int, int], kinds: dict[int, int] | None = None, sizes: dict[int, int] | None = None):
        """A table with offsets, bytes (`kinds`) and unsigned integers (`sizes`) in these slots."""
        self.builder.StartObject(max([*slots, *(kinds or ()), *(sizes or ()), 0]) + 1)
        for slot, offset in slots.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        for slot, number in (kinds or {}).items():
            self.builder.PrependUint8Slot(slot, number, 0)
        for slot, number in (sizes or {}).items():
            self.builder.PrependUint32Slot(slot, number, 0)
        return self.builder.EndObject()

    def finished(self, root: int) -> bytes:
        self.builder.Finish(root, IDENTIFIER)
        return bytes(self.builder.Output())


def pixels_for(graph: Graph, options: Options) -> Pixels | None:
    """What the metadata says of a model's pixels; an error if libraries could not use it."""
    if options.mean is None and options.std is None:
        return None
    t = graph.inputs[0].type
    if t.dtype == "u8":
        raise DataError("mean and std are for models that take floats; this one takes bytes and normalises inside",
                        where=graph.name, hint="leave them out: its Transform has them")  # fmt: skip
    if t.rank != 4 or t.shape[3] not in COLOURS or t.dtype != "f32":
        hint = either(shell="insitu train ... --mean M --std S makes a model that takes bytes in this order",
                      python="compile(..., transform=Transform(mean, std)) takes bytes in this order")  # fmt: skip
        hint = hint if t.rank == 4 else "leave them out: they are for images"
        what = f"Android's libraries want mean and std of float images [1, height, width, 1 or 3], this model takes {t}"
        raise DataError(what, where=graph.name, hint=hint)
    return Pixels(options.mean or (0.0,), options.std or (1.0,))


def add_metadata(file: File, graph: Graph, name: str, pixels: Pixels | None = None, rate: int | None = None) -> None:
    """Describe the model's inputs and outputs, and say which runtime it needs. rate: of the sound that it takes."""
    file.metadata("min_runtime_version", file.min_runtime.encode().ljust(16, b"\0"))
    file.metadata(BUFFER, described(graph, name, pixels, rate))
    file.metadata(OWN, own(graph))


def own(graph: Graph) -> bytes:
    """What insitu.load wants to know about int8 results and pixels (importers/tflite/origin.py)."""
    roundings = {node.attrs["rounding"] for node in graph.nodes if node.op.kind == "int8" and "rounding" in node.attrs}
    pixels = {node.output.name: [node.attrs[k] for k in ("mean", "std", "axis")]
              for node in graph.nodes if node.op is normalize}  # fmt: skip
    found = {"rounding": roundings.pop()} if len(roundings) == 1 else {}
    return json.dumps({**found, **({"pixels": pixels} if pixels else {})}, sort_keys=True).encode()


def described(graph: Graph, name: str, pixels: Pixels | None = None, rate: int | None = None) -> bytes:
    """The metadata flatbuffer of a file with one subgraph."""
    outputs = [v.name for v in graph.outputs]
    return flatbuffer(name, [(v.name, v.type) for v in graph.inputs], outputs, any(graph.classes), pixels,
                      graph.columns, rate)  # fmt: skip


def flatbuffer(
    name: str, inputs: Sequence[tuple[str, Type]], outputs: Sequence[str], labelled: bool,
    pixels: Pixels | None = None, columns: Sequence[str] = (), rate: int | None = None,
) -> bytes:  # fmt: skip
    """The metadata of the first subgraph; if `labelled`, its first output has class names; `columns` are those of its
    first input, `rate` its samples per second."""
    t = Tables()
    taken = [_input(t, word, type, pixels, () if i else columns, rate) for i, (word, type) in enumerate(inputs)]
    given = [_output(t, word, labelled and i == 0) for i, word in enumerate(outputs)]
    subgraph = t.table({0: t.text("main"), 2: t.offsets(taken), 3: t.offsets(given)})
    model = {
        0: t.text(name),
        1: t.text("written by insitu"),
        3: t.offsets([subgraph]),
        7: t.text(OF_SOUND if rate else PARSER),
    }
    return t.finished(t.table(model))


def _input(t: Tables, name: str, type: Type, pixels: Pixels | None, columns: Sequence[str], rate: int | None) -> int:
    slots, told = {0: t.text(name)}, column_words(columns, (type.shape or (0,))[-1])
    if type.rank == 4 and type.shape[3] in COLOURS and (type.dtype == "u8" or pixels):
        size = t.table({}, sizes={0: type.shape[2], 1: type.shape[1]})
        image = t.table({1: size}, {0: COLOURS[type.shape[3]]})
        slots |= {3: t.table({1: image}, {0: IMAGE}), 4: t.offsets([_normalised(t, pixels or Pixels())])}
    if rate:
        sound = t.table({}, sizes={0: rate, 1: 1})  # one channel
        slots |= {1: t.text(sound_words(rate)), 3: t.table({1: sound}, {0: AUDIO})}
    if type.dtype == "u8":
        slots |= {1: t.text(PIXELS_INSIDE)}
    elif told:
        slots |= {1: t.text(told)}
    return t.table(slots)


def _normalised(t: Tables, pixels: Pixels) -> int:
    options = t.table({0: t.floats(pixels.mean), 1: t.floats(pixels.std)})
    return t.table({1: options}, {0: NORMALIZATION})


def _output(t: Tables, name: str, labelled: bool) -> int:
    slots = {0: t.text(name), 3: t.table({1: t.table({})}, {0: FEATURE})}
    if labelled:
        labels = t.table({0: t.text(LABELS), 1: t.text("the names of the classes")}, {2: AXIS_LABELS})
        slots |= {6: t.offsets([labels])}
    return t.table(slots)


def with_labels(data: bytes, classes: tuple[str, ...]) -> bytes:
    """The file with its class names appended, as a zip archive whose member is not compressed."""
    if not any(classes):
        return data
    buffer = io.BytesIO(data)
    lines = "".join(f"{word(classes, k)}\n" for k in range(len(classes)))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as z:
        z.writestr(zipfile.ZipInfo(LABELS, EPOCH), lines)
    return buffer.getvalue()

"""TFLITE_METADATA as Android's task library reads it: an independent reading of the published schema, bytes alone.

The positions of fields and the numbers of enums are those of tflite-support's metadata_schema.fbs and of TensorFlow's
schema.fbs. Nothing of insitu or of the flatbuffers package is used.
"""

from __future__ import annotations

import struct
import zipfile
from io import BytesIO
from types import SimpleNamespace

CONTENT = {1: "feature", 2: "image", 3: "bounding box", 4: "audio"}
COLOURS = {0: "unknown", 1: "rgb", 2: "grayscale"}
FILES = {1: "descriptions", 2: "axis labels", 3: "value labels"}


class Table:
    """A table at a place in a buffer; fields by their position in the schema."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at
        self.fields = at - struct.unpack_from("<i", data, at)[0]

    def _place(self, slot: int) -> int:
        size = struct.unpack_from("<H", self.data, self.fields)[0]
        offset = struct.unpack_from("<H", self.data, self.fields + 4 + 2 * slot)[0] if 4 + 2 * slot < size else 0
        return self.at + offset if offset else 0

    def number(self, slot: int, form: str) -> int:
        place = self._place(slot)
        return struct.unpack_from(form, self.data, place)[0] if place else 0

    def _target(self, slot: int) -> int:
        place = self._place(slot)
        return place + struct.unpack_from("<I", self.data, place)[0] if place else 0

    def table(self, slot: int) -> Table | None:
        target = self._target(slot)
        return Table(self.data, target) if target else None

    def bytes(self, slot: int, form: str = "B") -> tuple:
        target = self._target(slot)
        count = struct.unpack_from("<I", self.data, target)[0] if target else 0
        return struct.unpack_from(f"<{count}{form}", self.data, target + 4) if count else ()

    def text(self, slot: int) -> str:
        return bytes(self.bytes(slot)).decode()

    def tables(self, slot: int) -> list[Table]:
        first = self._target(slot) + 4
        places = [first + 4 * i for i in range(len(self.bytes(slot, "I")))]
        return [Table(self.data, place + struct.unpack_from("<I", self.data, place)[0]) for place in places]


def root(data: bytes, identifier: bytes) -> Table:
    assert data[4:8] == identifier
    return Table(data, struct.unpack_from("<I", data)[0])


def read(file: bytes) -> SimpleNamespace:
    """Inputs and outputs of the first subgraph, as the metadata has them."""
    model = root(file, b"TFL3")
    (at,) = (m.number(1, "<I") for m in model.tables(6) if m.text(0) == "TFLITE_METADATA")
    found = root(bytes(model.tables(4)[at].bytes(0)), b"M001")
    sub = found.tables(3)[0]
    subgraph = model.tables(2)[0]
    counts = len(subgraph.bytes(1, "I")), len(subgraph.bytes(2, "I"))  # the library wants one entry per tensor
    inputs, outputs = ([_tensor(t, file) for t in sub.tables(slot)] for slot in (2, 3))
    assert (len(inputs), len(outputs)) == counts
    return SimpleNamespace(name=found.text(0), parser=found.text(7), inputs=inputs, outputs=outputs)


def _tensor(t: Table, file: bytes) -> SimpleNamespace:
    made = SimpleNamespace(
        name=t.text(0),
        description=t.text(1),
        kind="",
        size=None,
        colours="",
        mean=(),
        std=(),
        labels=[],
        rate=0,
        channels=0,
    )
    content = t.table(3)
    if content is not None:
        made.kind, properties = CONTENT[content.number(0, "<B")], content.table(1)
        if made.kind == "audio" and properties:
            made.rate, made.channels = properties.number(0, "<I"), properties.number(1, "<I")
        size = properties.table(1) if made.kind == "image" and properties else None
        if properties is not None and size is not None:
            made.colours = COLOURS[properties.number(0, "<b")]
            made.size = (size.number(0, "<I"), size.number(1, "<I"))
    for unit in t.tables(4):
        options = unit.table(1)
        if unit.number(0, "<B") == 1 and options is not None:  # NormalizationOptions
            made.mean, made.std = options.bytes(0, "f"), options.bytes(1, "f")
    for one in t.tables(6):
        if FILES[one.number(2, "<b")] == "axis labels":
            with zipfile.ZipFile(BytesIO(file)) as z:
                made.labels = z.read(one.text(0)).decode().splitlines()
    return made

"""An image handed over in pieces, as a camera delivers it, to a program on the host that takes it row by row.

    image = Arrival(device, "predict")
    for piece in camera:                 # any number of rows at a time
        image.rows(piece)
    scores, = image.end()

`device.run` takes whole samples of the same program; a RowsDevice hands them over in pieces itself, as a board's
protocol does (c/device/device.c).
"""

from __future__ import annotations

import ctypes
from threading import Lock

import numpy as np

from insitu.codegen import Program
from insitu.codegen.rows import COMPLAINTS
from insitu.devices.device import Arrays, Trained, Updates, train_by_calls
from insitu.devices.host import HostDevice, argument, fit, open_program, pointer, pointer_to, rounds_of, zip_inputs
from insitu.errors import DataError
from insitu.terminal.wording import option


class Arrival:
    """One image after the other, each from `begin` to `end`. A call out of order is a DataError.

    An image waits in the device's first arena: another call there ends it, as on a board.
    """

    def __init__(self, device: HostDevice, verb: str = "predict"):
        graph = device.program.plans[verb].graph
        if not graph.by_rows:
            raise DataError(f"{verb} takes whole images", hint=f"compile with {option(rows=True)}")
        self.device, self.verb = device, verb
        self.image = next(v for v in graph.inputs if v.name == graph.by_rows)
        self.others = tuple(v for v in graph.inputs if v is not self.image)
        self.outputs = graph.outputs
        self.begin()

    def begin(self) -> None:
        """A new image: a previous one is abandoned."""
        self._call("begin", [])

    def rows(self, piece) -> None:
        """The next rows of the image: rows x width x channels."""
        x = np.ascontiguousarray(piece)
        if x.dtype != self.image.type.numpy or x.shape[1:] != self.image.shape[2:]:
            wanted = "x".join(map(str, ("rows", *self.image.shape[2:])))
            raise DataError(f"rows must be {self.image.dtype}[{wanted}], not {x.dtype}{list(x.shape)}")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise DataError("a row has a number that is not finite", where=f"input {self.image.name}")
        self._call("rows", [ctypes.c_void_p(x.ctypes.data), ctypes.c_int32(len(x))])

    def bytes(self, data: bytes) -> None:
        """The next bytes of the image, independent of where its rows end."""
        self._call("bytes", [ctypes.c_char_p(data), ctypes.c_int32(len(data))])

    def end(self, *inputs) -> tuple[np.ndarray, ...]:
        """All rows have been given: returns the outputs; `inputs` are those other than the image."""
        arrays = [fit(v, x) for v, x in zip_inputs(self.others, inputs)]
        outputs = [np.empty(v.shape, v.type.numpy) for v in self.outputs]
        given = [argument(v, a) for v, a in zip(self.others, arrays)]
        results = [pointer(v, o) for v, o in zip(self.outputs, outputs)]
        self._call("end", [*given, *results], lasting=True)
        return tuple(outputs)

    def _call(self, part: str, arguments: list, lasting: bool = False) -> None:
        device = self.device
        function = getattr(device._library, f"{device.program.prefix}_{self.verb}_{part}")
        function.restype = None if part == "begin" else ctypes.c_int32

        def call(arena: np.ndarray):
            state = [pointer_to(device._state)] if lasting and device.program.state else []
            return function(*state, pointer_to(arena), *arguments)

        changes = lasting and device.routines[self.verb].changes
        code = device.arenas.alone(call) if changes else device.arenas.share_first(call)
        if code:
            raise DataError(COMPLAINTS[code], where=f"{self.verb}_{part}")


class RowsDevice(HostDevice):
    """A host device whose images arrive like a camera's, a few rows at a time."""

    rows = 1  # of a piece

    def __init__(self, program: Program, library: ctypes.CDLL):
        super().__init__(program, library)
        self._whole = Lock()  # one image at a time waits in the first arena

    def run(self, verb: str, *inputs) -> Arrays:
        """Run a function of the program, several times if there are more samples than it takes."""
        routine = self._routine(verb)
        if not self.program.plans[verb].graph.by_rows:
            return super().run(verb, *inputs)
        arrays = [fit(v, x) for v, x in zip_inputs(routine.inputs, inputs)]
        rounds = rounds_of(routine.inputs, arrays)
        each = [[a[i : i + 1] if v.shape else a[0] for v, a in zip(routine.inputs, arrays)] for i in range(rounds)]
        with self._whole:
            found = [self._arrived(Arrival(self, verb), sample) for sample in each]
        return (
            found[0] if rounds == 1 else tuple(np.concatenate(list(map(np.atleast_1d, part))) for part in zip(*found))
        )

    def train(self, updates: Updates) -> Trained:
        return train_by_calls(self, updates)

    def _arrived(self, image: Arrival, sample: list[np.ndarray]) -> Arrays:
        """One image from its first row to its last, with the other inputs."""
        at = self.routines[image.verb].inputs.index(image.image)
        pixels = sample.pop(at)[0]
        for first in range(0, len(pixels), self.rows):
            image.rows(pixels[first : first + self.rows])
        return image.end(*sample)


def open_rows(program: Program) -> RowsDevice:
    """A program that takes rows, and gets them."""
    return open_program(program, kind=RowsDevice)

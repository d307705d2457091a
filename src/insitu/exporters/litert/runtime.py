"""A .tflite file run by LiteRT itself: with the reference kernels, or with those that phones use (XNNPACK).

Only for checks and measurements. With `keep`, every tensor can be read after a run.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

KERNELS = {"reference": OpResolverType.BUILTIN_REF, "XNNPACK": OpResolverType.BUILTIN}
PLAIN = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # a few operators, such as ELU, have no reference kernel


def opened(data: bytes, resolver: OpResolverType, keep: bool) -> Interpreter:
    """A ValueError names an operator that these kernels lack."""
    return Interpreter(
        model_content=data, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=keep,
        num_threads=1,
    )  # fmt: skip


@contextmanager
def silent() -> Iterator[None]:
    """Drops what is written to stderr past Python: LiteRT says there which kernels it has created."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class Runtime:
    """Runs samples one by one. The reference kernels define what a file means; XNNPACK is the default of phones."""

    def __init__(self, data: bytes, kernels: str = "reference", keep: bool = False):
        self.kernels = kernels
        with warnings.catch_warnings(), silent():
            warnings.simplefilter("ignore")  # that keeping every tensor takes memory is known
            try:
                self.interpreter = opened(data, KERNELS[kernels], keep)
            except ValueError:
                self.interpreter = opened(data, PLAIN, keep)
            self.interpreter.allocate_tensors()
        self.inputs = self.interpreter.get_input_details()
        self.outputs = self.interpreter.get_output_details()

    def run(self, *sample: np.ndarray) -> tuple[np.ndarray, ...]:
        """The outputs for one sample, in the file's order."""
        for detail, array in zip(self.inputs, sample):
            self.interpreter.set_tensor(detail["index"], np.asarray(array, order="C"))
        self.interpreter.invoke()
        return tuple(self.interpreter.get_tensor(detail["index"]) for detail in self.outputs)

    def tensor(self, index: int) -> np.ndarray:
        """A tensor of the last run, by its index in the file."""
        return self.interpreter.get_tensor(index)

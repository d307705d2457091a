"""Other runtimes to time ourselves beside. Each is optional: absent ones are left out, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from insitu.errors import needs


def litert_run(path: Path, inputs: list[np.ndarray]) -> Callable[[], object]:
    """A function that runs a .tflite once in LiteRT (XNNPACK, one thread), inputs copied in and the output out."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        raise needs("ai-edge-litert", "tflite", "running LiteRT") from None
    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    places = [d["index"] for d in interpreter.get_input_details()]
    result = interpreter.get_output_details()[0]["index"]

    def run():
        for index, x in zip(places, inputs):
            interpreter.set_tensor(index, x)
        interpreter.invoke()
        return interpreter.get_tensor(result)

    return run

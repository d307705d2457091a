"""Other runtimes to compare our timings with. Each is optional; a missing one is left out and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from insitu.errors import needs


def litert_run(path: Path, inputs: list[np.ndarray]) -> Callable[[], object]:
    """A function that only calls LiteRT's invoke on these inputs (XNNPACK, one thread)."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        raise needs("ai-edge-litert", "tflite", "running LiteRT") from None
    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], x)
    return interpreter.invoke

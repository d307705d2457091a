"""The demo itself: load, quantise, compare, time, and show the memory. It trains nothing yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from insitu.demo.digits import TARGET, digits
from insitu.graph import Graph, evaluate
from insitu.model import Model, load
from insitu.quantizer.fold import fold
from insitu.reports.memory import MemoryMap, memory_map
from insitu.reports.speed import Speed, measure_speed
from insitu.reports.table import size, table

CALIBRATION = 200  # samples that choose the scales


@dataclass(frozen=True)
class Line:
    """One way to run the network."""

    what: str
    accuracy: float
    speed: Speed


@dataclass(frozen=True)
class Demo:
    model: str
    samples: int
    lines: tuple[Line, ...]
    equal: bool  # the C gives numpy's integers, every byte
    int8_map: MemoryMap

    def to_json(self) -> dict:
        return asdict(self)

    def to_text(self) -> str:
        rows = [self._row(line) for line in self.lines]
        same = "equal, every byte" if self.equal else "DIFFERENT: this is a bug"
        return "\n".join(
            [
                f"{self.model}: {self.samples} handwritten digits by people the network has not seen",
                "",
                table(("", "accuracy", "predict", "arena", "constants"), rows),
                "",
                f"int8 in C and in numpy: {same}",
                "",
                self.int8_map.to_text(),
            ]
        )

    @staticmethod
    def _row(line: Line) -> tuple:
        s = line.speed
        cost = f"{1000 * s.predict_ms:.1f} us", size(s.arena_bytes), size(s.const_bytes)
        return (line.what, f"{100 * line.accuracy:.2f} %", *cost)


def run_demo(say: Callable[[str], None] = lambda text: None) -> Demo:
    """Every stage there is; `say` is told what happens."""
    data = digits()
    say(f"loading {TARGET.name}")
    model = load(TARGET)
    say(f"quantising, calibrated on {CALIBRATION} digits")
    made = model.quantize(data.x_train[:CALIBRATION])
    say("running float and int8, in C and in numpy")
    by_numpy = predict_in_numpy(fold(made.graph), data.x_test)
    by_c = np.asarray(made.predict(data.x_test))
    lines = (
        _line("float, generated C", model, np.asarray(model.predict(data.x_test)), data.y_test),
        _line("int8, generated C", made, by_c, data.y_test),
    )
    equal = by_c.dtype == by_numpy.dtype and np.array_equal(by_c, by_numpy)
    return Demo(TARGET.stem, len(data.x_test), lines, bool(equal), memory_map(made.device.plan))


def predict_in_numpy(graph: Graph, x: np.ndarray) -> np.ndarray:
    """What the graph means, sample by sample."""
    return np.concatenate([np.asarray(evaluate(graph, sample[None])) for sample in x])


def _line(what: str, model: Model, scores: np.ndarray, labels: np.ndarray) -> Line:
    accuracy = float(np.mean(scores.argmax(axis=1) == labels))
    return Line(what, accuracy, measure_speed(model.device, {}))

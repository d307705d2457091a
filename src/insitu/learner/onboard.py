"""Training with a board's firmware: open it where it runs, feed it samples, report what came out and what it took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from insitu.data import Samples, as_samples
from insitu.deploy import IN_PLACE
from insitu.deploy.lowering import lowering_rows, lowering_table
from insitu.deploy.manifest import Manifest
from insitu.devices.emulator import EmulatorDevice
from insitu.devices.link import RUN_TIMEOUT, LinkDevice
from insitu.devices.qemu import QemuDevice, open_qemu_folder
from insitu.errors import BoardError, DataError, GraphError
from insitu.firmware import read_image
from insitu.graph import Value
from insitu.learner.course import Course
from insitu.planner.spent import spent_text
from insitu.progress import Report, bar
from insitu.table import pairs, size, table

MEASURED = EmulatorDevice, QemuDevice  # what can count
LAYERS = 8  # of the most expensive, shown as text


@dataclass(eq=False)
class BoardRun:
    """What a run on a board gave."""

    manifest: Manifest
    loss: list[float] = field(default_factory=list)  # mean of each epoch
    accuracy: list[float] = field(default_factory=list)  # share recognised just before it was learned from
    before: float | None = None  # accuracy on test samples, where the data have some
    after: float | None = None
    steps: int = 0  # updates
    batch: int = 1  # samples each
    instructions: dict[str, int] = field(default_factory=dict)  # verb -> of one call
    layers: dict[str, dict[str, int]] = field(default_factory=dict)
    stack_used: int | None = None
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def update_instructions(self) -> int | None:
        """Of one update with all of its samples."""
        if "apply" in self.instructions:
            return self.batch * self.instructions["accumulate"] + self.instructions["apply"]
        return self.instructions.get("train_step")

    def to_json(self) -> dict:
        figures, board = self.manifest.figures, self.manifest.board
        step = self.update_instructions
        return {
            "model": self.manifest.name, "board": board.name, "steps": self.steps, "batch": self.batch,
            "loss": self.loss, "accuracy": self.accuracy, "accuracy_before": self.before, "accuracy_after": self.after,
            **{f"{verb}_instructions": count for verb, count in self.instructions.items()},
            "step_ms": step and board.milliseconds(step), "step_mj": step and board.millijoules(step),
            "stack_used_bytes": self.stack_used,
            **{k: figures.get(k) for k in ("sram_bytes", "flash_bytes", "stack_bytes", "arena_bytes", "state_bytes",
                                           "const_bytes", "sram", "flash", "lowered", "lowering", "in_place")},
            "counters": self.counters, "layers": self.layers,
        }  # fmt: skip

    def to_text(self) -> str:
        figures, board = self.manifest.figures, self.manifest.board
        rows = [(f"epoch {i + 1}", _epoch_words(*pair)) for i, pair in enumerate(zip(self.loss, self.accuracy))]
        if self.after is not None:
            rows.append(("test samples", f"{self.before:.1%} before, {self.after:.1%} after"))
        rows += [(verb, self._cost(verb)) for verb in self.instructions]
        used = f", {self.stack_used:,} B used" if self.stack_used else ""
        rows += [
            ("SRAM", f"{size(figures['sram_bytes'])}: arena {size(figures['arena_bytes'])}, state "
                     f"{size(figures['state_bytes'])}, stack {size(figures.get('stack_bytes') or 0)}{used}"),
            *([("state", IN_PLACE)] if figures.get("in_place") else []),
            ("flash", f"{size(figures['flash_bytes'])}: constants {size(figures['const_bytes'])}"),
            *lowering_rows(spent_text(figures.get("lowered") or {}), figures.get("lowering")),
            ("board", f"{board.title}, {board.core.title} at {board.clock_mhz:g} MHz"),
        ]  # fmt: skip
        return "\n\n".join(filter(None, [pairs(rows), *self._layers(), lowering_table(figures.get("lowering"))]))

    def _cost(self, verb: str) -> str:
        count, board = self.instructions[verb], self.manifest.board
        energy = board.millijoules(count)
        words = f"{count:,} instructions, about {board.milliseconds(count):.1f} ms at one a cycle"
        return words if energy is None else f"{words}, {energy:.2f} mJ"

    def _layers(self) -> list[str]:
        named = next((self.layers[verb] for verb in ("train_step", "accumulate", "predict") if verb in self.layers), {})
        most = sorted(named.items(), key=lambda item: -item[1])[:LAYERS]
        total = sum(named.values()) or 1
        rows = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in most]
        return [table(("most of it", "instructions", "share"), rows)] if rows else []


def _epoch_words(loss: float, accuracy: float) -> str:
    known = "" if np.isnan(accuracy) else f", {accuracy:.1%} recognised before they were learned"
    return f"loss {loss:.4f}{known}"


def open_board(manifest: Manifest, where: str = "emulator", *, limit: int | None = None,
               timeout: float | None = None) -> LinkDevice:  # fmt: skip
    """The device that runs a folder's firmware.

    limit       instructions that a request may take on the emulator
    timeout     seconds that it may take elsewhere
    """
    kind, _, rest = where.partition(":")
    if kind in ("emulator", "qemu") and not manifest.figures["linked"]:
        what = f"a {manifest.board.core.title} is not emulated: this folder has C to compile, no firmware"
        raise BoardError(
            what, where=str(manifest.folder), hint="insitu boards says what is emulated; or --on serial:PORT"
        )
    if kind == "emulator":
        image = read_image(manifest.elf)
        budget = manifest.figures
        return EmulatorDevice(
            image, manifest.board, manifest.interface, manifest.lines,
            sram=budget["sram_budget_bytes"], flash=budget["flash_budget_bytes"], limit=limit,
        )  # fmt: skip
    if kind == "qemu":
        budget = manifest.figures
        sram, flash = budget["sram_budget_bytes"], budget["flash_budget_bytes"]
        return open_qemu_folder(manifest.folder, manifest.board, manifest.interface, sram, flash, timeout=timeout)
    if kind == "serial":
        from insitu.devices.serial import open_serial

        return open_serial(rest, manifest.interface, run_timeout=timeout or RUN_TIMEOUT)
    raise DataError(f"cannot run on {where!r}", hint="emulator, qemu, or serial:PORT")


def run_on(device: LinkDevice, manifest: Manifest, *, data=None, steps: int | None = None, epochs: int = 1,
           rate: float = 0.01, batch: int | None = None, seed: int = 0,
           progress: Report | None = None) -> BoardRun:  # fmt: skip
    """Train on a device as `fit(..., schedule="constant", warmup=0)` does on the host, and measure."""
    lesson = lesson_of(manifest, batch)
    course = Course(epochs, rate, lesson.batch, "constant", 0.0, seed)
    samples, test = _samples(manifest, lesson, data, steps, seed)
    if len(samples) < lesson.together:
        raise DataError(f"{len(samples)} samples do not make a batch of {lesson.together}")
    found = BoardRun(manifest, batch=lesson.batch)
    with bar(progress) as report:
        found.before = _accuracy(device, test, report) if test else None
        for epoch in range(epochs):
            _epoch(device, samples, lesson, course, found, report, epoch)
        found.after = _accuracy(device, test, report) if test else None
    _measure(device, samples, found)
    found.counters = device.counters()
    return found


@dataclass(frozen=True)
class Lesson:
    """How a firmware takes its samples: the verb, the value that says what is right, and how many make an update."""

    verb: str  # train_step, or accumulate where gradients are added up until `apply`
    label: Value
    together: int  # samples that a call takes
    batch: int


def lesson_of(manifest: Manifest, batch: int | None = None) -> Lesson:
    """What this firmware was made for; only where it adds up gradients may a batch be another one."""
    verbs = manifest.interface.verbs
    verb = next((v for v in ("train_step", "accumulate") if v in verbs), None)
    if verb is None:
        raise GraphError("this firmware predicts only: there is nothing to train with", where=manifest.name)
    inputs = verbs[verb][0]
    label = inputs[-2] if verb == "train_step" else inputs[-1]  # a rate comes last
    together = inputs[0].shape[0]
    made_for = together if verb == "train_step" else manifest.batch
    if batch is not None and batch != made_for and verb == "train_step":
        each = "every sample" if made_for == 1 else f"every {made_for} samples"
        raise DataError(f"this firmware updates after {each}", hint=f"insitu compile ... --batch {batch}")
    return Lesson(verb, label, together, batch or made_for)


def _epoch(device, samples: Samples, lesson: Lesson, course: Course, found: BoardRun, report: Report, epoch: int):
    losses, right = [], []
    order, rates = course.order(epoch, len(samples)), course.rates(epoch, len(samples))
    for k, first in enumerate(range(0, len(order) - lesson.together + 1, lesson.batch)):
        chosen = order[first : first + lesson.batch]
        for part, outputs in _update(device, samples, lesson, chosen, rates[k], found):
            losses += [float(outputs[0].reshape(-1)[0])] * len(part)
            if len(outputs) > 1 and samples.labels is not None and lesson.label.dtype == "s32":
                right += (outputs[1].reshape(len(part), -1).argmax(1) == samples.labels[part]).tolist()
        report(f"epoch {epoch + 1}, loss {np.mean(losses[-64:]):.3f}", len(losses), len(samples))
        found.steps += 1
    found.loss.append(float(np.mean(losses)))
    found.accuracy.append(float(np.mean(right)) if right else float("nan"))


def _update(device, samples: Samples, lesson: Lesson, chosen: list[int], rate: float, found: BoardRun):
    """One update with these samples; those of each call, and what it gave."""
    if lesson.verb == "train_step":
        yield chosen, _run(device, found, "train_step", *_sample(samples, lesson.label, chosen), np.float32(rate))
        return
    for i in chosen:
        yield [i], _run(device, found, "accumulate", *_sample(samples, lesson.label, [i]))
    _run(device, found, "apply", np.float32(rate), np.float32(1 / len(chosen)))


def _run(device, found: BoardRun, verb: str, *inputs):
    """Run a verb; the first time, count each of its calls."""
    if not isinstance(device, MEASURED) or verb in found.layers:
        return device.run(verb, *inputs)
    outputs, found.layers[verb] = device.measure(verb, *inputs)
    found.instructions[verb] = sum(found.layers[verb].values())
    return outputs


def _measure(device, samples: Samples, found: BoardRun) -> None:
    _run(device, found, "predict", *(x[:1] for x in samples.inputs))
    if isinstance(device, MEASURED):
        found.stack_used = device.stack_bytes()


def _accuracy(device, test: Samples, report: Report) -> float:
    right = []
    for i in range(len(test)):
        out = device.run("predict", *(x[i : i + 1] for x in test.inputs))[0]
        right.append(int(np.argmax(out)) == int(test.labels[i]))  # type: ignore[index]
        report("test samples", i + 1, len(test))
    return float(np.mean(right))


def _sample(samples: Samples, label: Value, chosen: list[int]) -> Iterator[np.ndarray]:
    """Samples as a call takes them: inputs, then labels or targets (the input itself where there are none)."""
    yield from (x[chosen] for x in samples.inputs)
    if label.dtype == "s32":
        if samples.labels is None:
            raise DataError("the samples have no labels", hint="an .npz with x and y")
        yield samples.labels[chosen].astype(np.int32)
    else:
        target = samples.inputs[0] if samples.labels is None else samples.labels
        yield np.ascontiguousarray(target[chosen], np.float32).reshape(label.shape)


def _samples(manifest: Manifest, lesson: Lesson, data, steps: int | None,
             seed: int) -> tuple[Samples, Samples | None]:  # fmt: skip
    graph = manifest.graph
    if data is None:
        return random_samples(manifest, max(steps or 1, lesson.together), seed), None
    targets = lesson.label.dtype != "s32"
    found = as_samples(data, graph, targets=targets)
    return (found if steps is None else found.head(steps)), _held_out(data, graph, targets)


def _held_out(data, graph, targets: bool) -> Samples | None:
    from insitu.data import read_held_out

    return None if targets or not isinstance(data, str) else read_held_out(data, graph)


def random_samples(manifest: Manifest, count: int, seed: int) -> Samples:
    """Samples that mean nothing, of the right kind: what a step takes hardly depends on them."""
    rng, label = np.random.default_rng(seed), lesson_of(manifest).label
    classes = manifest.interface.verbs["predict"][1][0].shape[-1]
    inputs = tuple(_noise(rng, v, count) for v in manifest.graph.inputs)
    labels = rng.integers(0, classes, count).astype(np.int32) if label.dtype == "s32" else None
    return Samples(inputs, labels)


def _noise(rng, value: Value, count: int) -> np.ndarray:
    shape = (count, *value.shape[1:])
    if value.type.numpy.kind == "f":
        return rng.normal(size=shape).astype(value.type.numpy)
    info = np.iinfo(value.type.numpy)
    return rng.integers(info.min, info.max + 1, shape).astype(value.type.numpy)

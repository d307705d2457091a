"""Training with a board's firmware: open it where it runs, feed it samples, report what came out and what it took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from insitu.data import Samples, as_samples
from insitu.devices.emulator import EmulatorDevice
from insitu.devices.link import RUN_TIMEOUT, LinkDevice
from insitu.devices.manifest import Manifest
from insitu.devices.qemu import QemuDevice, open_qemu_folder
from insitu.errors import BoardError, DataError, GraphError
from insitu.firmware import read_image
from insitu.graph import Value
from insitu.progress import Report, bar
from insitu.reports.table import pairs, size, table

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
    steps: int = 0
    instructions: dict[str, int] = field(default_factory=dict)  # verb -> of one call
    layers: dict[str, dict[str, int]] = field(default_factory=dict)
    stack_used: int | None = None
    counters: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict:
        figures, board = self.manifest.figures, self.manifest.board
        step = self.instructions.get("train_step")
        return {
            "model": self.manifest.name, "board": board.name, "steps": self.steps, "loss": self.loss,
            "accuracy": self.accuracy, "accuracy_before": self.before, "accuracy_after": self.after,
            **{f"{verb}_instructions": count for verb, count in self.instructions.items()},
            "step_ms": step and board.milliseconds(step), "step_mj": step and board.millijoules(step),
            "stack_used_bytes": self.stack_used,
            **{k: figures.get(k) for k in ("sram_bytes", "flash_bytes", "stack_bytes", "arena_bytes", "state_bytes",
                                           "const_bytes", "sram", "flash")},
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
            ("flash", f"{size(figures['flash_bytes'])}: constants {size(figures['const_bytes'])}"),
            ("board", f"{board.title}, {board.core.title} at {board.clock_mhz:g} MHz"),
        ]  # fmt: skip
        return "\n\n".join([pairs(rows), *self._layers()])

    def _cost(self, verb: str) -> str:
        count, board = self.instructions[verb], self.manifest.board
        energy = board.millijoules(count)
        words = f"{count:,} instructions, about {board.milliseconds(count):.1f} ms at one a cycle"
        return words if energy is None else f"{words}, {energy:.2f} mJ"

    def _layers(self) -> list[str]:
        named = self.layers.get("train_step") or self.layers.get("predict") or {}
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
        return open_qemu_folder(manifest, timeout=timeout)
    if kind == "serial":
        from insitu.devices.serial import open_serial

        return open_serial(rest, manifest.interface, run_timeout=timeout or RUN_TIMEOUT)
    raise DataError(f"cannot run on {where!r}", hint="emulator, qemu, or serial:PORT")


def run_on(device: LinkDevice, manifest: Manifest, *, data=None, steps: int | None = None, epochs: int = 1,
           rate: float = 0.01, seed: int = 0, progress: Report | None = None) -> BoardRun:  # fmt: skip
    """Train on a device, an update a sample, and measure."""
    train = manifest.interface.verbs.get("train_step")
    if train is None:
        raise GraphError("this firmware adds up batches or predicts only: there is no train_step", where=manifest.name)
    samples, test = _samples(manifest, data, steps, seed)
    found = BoardRun(manifest)
    with bar(progress) as report:
        found.before = _accuracy(device, test, report) if test else None
        for epoch in range(epochs):
            _epoch(device, samples, train, rate, np.random.default_rng(seed + epoch), found, report, epoch)
        found.after = _accuracy(device, test, report) if test else None
    _measure(device, samples, found)
    found.counters = device.counters()
    return found


def _epoch(device, samples: Samples, train, rate, rng, found: BoardRun, report: Report, epoch: int) -> None:
    losses, right = [], []
    for k, i in enumerate(rng.permutation(len(samples))):
        outputs = _run(device, found, "train_step", *_sample(samples, train[0], int(i)), np.float32(rate))
        losses.append(float(outputs[0].reshape(-1)[0]))
        if len(outputs) > 1 and samples.labels is not None and train[0][-2].dtype == "s32":
            right.append(int(np.argmax(outputs[1])) == int(samples.labels[i]))
        report(f"epoch {epoch + 1}, loss {np.mean(losses[-64:]):.3f}", k + 1, len(samples))
    found.steps += len(losses)
    found.loss.append(float(np.mean(losses)))
    found.accuracy.append(float(np.mean(right)) if right else float("nan"))


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


def _sample(samples: Samples, inputs: tuple[Value, ...], i: int) -> Iterator[np.ndarray]:
    """One sample as the step takes it: inputs, then a label or a target (the input itself where there is none)."""
    yield from (x[i : i + 1] for x in samples.inputs)
    label = inputs[-2]
    if label.dtype == "s32":
        if samples.labels is None:
            raise DataError("the samples have no labels", hint="an .npz with x and y")
        yield np.array([samples.labels[i]], np.int32)
    else:
        target = samples.inputs[0] if samples.labels is None else samples.labels
        yield np.ascontiguousarray(target[i : i + 1], np.float32).reshape(label.shape)


def _samples(manifest: Manifest, data, steps: int | None, seed: int) -> tuple[Samples, Samples | None]:
    graph = manifest.graph
    if data is None:
        return random_samples(manifest, steps or 1, seed), None
    targets = manifest.interface.verbs["train_step"][0][-2].dtype != "s32"
    found = as_samples(data, graph, targets=targets)
    return (found if steps is None else found.head(steps)), _held_out(data, graph, targets)


def _held_out(data, graph, targets: bool) -> Samples | None:
    from insitu.data import read_held_out

    return None if targets or not isinstance(data, str) else read_held_out(data, graph)


def random_samples(manifest: Manifest, count: int, seed: int) -> Samples:
    """Samples that mean nothing, of the right kind: what a step takes hardly depends on them."""
    rng, values = np.random.default_rng(seed), manifest.interface.verbs["train_step"][0]
    classes = manifest.interface.verbs["predict"][1][0].shape[-1]
    inputs = tuple(_noise(rng, v, count) for v in manifest.graph.inputs)
    labels = rng.integers(0, classes, count).astype(np.int32) if values[-2].dtype == "s32" else None
    return Samples(inputs, labels)


def _noise(rng, value: Value, count: int) -> np.ndarray:
    shape = (count, *value.shape[1:])
    if value.type.numpy.kind == "f":
        return rng.normal(size=shape).astype(value.type.numpy)
    info = np.iinfo(value.type.numpy)
    return rng.integers(info.min, info.max + 1, shape).astype(value.type.numpy)

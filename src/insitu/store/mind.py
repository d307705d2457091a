"""A learner's program in parts: encode a sample to its latent, recall outputs from a latent, learn from a latent.

`encode` then `learn` gives the same bytes as training from the sample. If nothing is frozen, the latent is the input
itself. `recaller` follows the learner; `trainee` learns in a bout, so the learner predicts as before until the bout has
passed its guards. Nothing here stores or chooses anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from insitu.devices.device import Arrays, Updates, method_of
from insitu.devices.host import HostDevice, open_plans
from insitu.errors import DeviceError, GraphError
from insitu.graph import Value
from insitu.planner import plan
from insitu.store.drift import sureness
from insitu.terminal.wording import option
from insitu.training.head import HEAD
from insitu.training.living import with_features
from insitu.training.prefix import split

if TYPE_CHECKING:
    from insitu.learner import Learner


HEAD_ROWS = f"{HEAD}.weight", f"{HEAD}.bias"


class Answer(NamedTuple):
    """What the network says of a sample whose label is known."""

    right: bool
    sure: int  # the probability of the label, of 255


class Mind:
    """Three programs on this machine, made from one learner."""

    def __init__(self, learner: Learner):
        here = learner.device
        if not isinstance(here, HostDevice):
            hint = f"a board that was compiled with a store keeps its own: {option(store='64K')}"
            raise DeviceError("this learner runs elsewhere, and keeps no samples here", hint=hint)
        if learner.recipe.loss != "cross_entropy":
            raise GraphError(f"samples are kept by their class, and the loss {learner.recipe.loss} has none")
        graphs, parts = learner.graphs, learner.parts
        found = None if parts and parts.at_once else split(graphs, graphs["predict"].inputs, narrow=True)
        found = found if found and found.by_sample else None
        rest = dict(found.rest if found else graphs)
        self.latents: tuple[Value, ...] = rest["predict"].inputs
        self._features = _features_at(rest["predict"], parts.head if parts else None)
        if self._features is None:
            rest["predict"] = with_features(rest["predict"], parts.head if parts else None)
        self.encoder: HostDevice | None = open_plans({"predict": plan(found.prefix)}) if found else None
        self.recaller: HostDevice = open_plans({verb: plan(g) for verb, g in rest.items()})
        self.trainee: HostDevice = self.recaller.twin()
        self.learner: Learner = learner
        self.model: str = _mark(replace(found.prefix, classes=()) if found else self.latents)
        self.older: str = _mark(found.prefix) if found else self.model  # stores once had the names of classes in it
        self._seen = b""

    @property
    def latent_bytes(self) -> int:
        return sum(v.type.bytes for v in self.latents)

    @property
    def raw_bytes(self) -> int:
        return sum(v.type.bytes for v in self.learner.graphs["predict"].inputs)

    @property
    def features(self) -> int:
        """How many numbers the head reads."""
        outputs = self.recaller.verbs["predict"][1]
        chosen = self.latents[self._features] if self._features is not None else outputs[-1]
        return chosen.type.size

    @property
    def behind(self) -> bool:
        """Has the learner changed since it was last followed?"""
        assert isinstance(self.learner.device, HostDevice)
        return self._seen not in (b"", self.learner.device.content())

    def follow(self) -> bool:
        """Recall as the learner predicts now; returns whether that has changed."""
        device = self.learner.device
        assert isinstance(device, HostDevice)
        content = device.content()
        if content == self._seen:
            return False
        self.recaller.load_arrays(device.state())
        self._seen = content
        return True

    def encode(self, inputs: Arrays) -> list[bytes]:
        """The latent of each sample."""
        arrays = self.encoder.run("predict", *inputs) if self.encoder else inputs
        rows = [np.ascontiguousarray(a).reshape(len(inputs[0]), -1).view(np.uint8) for a in arrays]
        return [row.tobytes() for row in np.concatenate(rows, axis=1)]

    def arrays(self, latents: Sequence[bytes]) -> Arrays:
        """Latents in the form that the programs take."""
        each = sum(v.type.bytes for v in self.latents)
        table = np.frombuffer(b"".join(latents), np.uint8).reshape(len(latents), each)
        found, at = [], 0
        for v in self.latents:
            part = np.ascontiguousarray(table[:, at : at + v.type.bytes])
            found.append(part.view(v.type.numpy).reshape(len(latents), *v.shape[1:]))
            at += v.type.bytes
        return tuple(found)

    def values(self, latents: Sequence[bytes]) -> np.ndarray:
        """Latents as rows of numbers."""
        parts = [np.asarray(a, np.float32).reshape(len(latents), -1) for a in self.arrays(latents)]
        return np.concatenate(parts, axis=1)

    def recall(self, latents: Sequence[bytes], device: HostDevice | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The outputs for these latents, and the features that the head read."""
        arrays = self.arrays(latents)
        outputs = (device or self.recaller).run("predict", *arrays)
        features = arrays[self._features] if self._features is not None else outputs[-1]
        return tuple(np.asarray(a, np.float32).reshape(len(latents), -1) for a in (outputs[0], features))  # type: ignore[return-value]

    def answers(
        self, latents: Sequence[bytes], labels: Sequence[int], device: HostDevice | None = None
    ) -> list[Answer]:
        """Is each of these recognised, and how surely?"""
        if not latents:
            return []
        outputs = self.recall(latents, device)[0]
        right = np.isfinite(outputs).all(1) & (outputs.argmax(1) == np.array(labels))
        return list(map(Answer, right.tolist(), sureness(outputs, labels)))

    def learn(self, latents: Sequence[bytes], labels: Sequence[int], rates: Sequence[float],
              rows: Sequence[int] = ()) -> np.ndarray:  # fmt: skip
        """Updates of the trainee, in this order, each at the rate of its first lesson; returns the losses.

        With `rows`, no other row of the head changes.
        """
        batch = self.learner.batch
        if rows:
            before = self.learner.device.state()
            each = [slice(i, i + batch) for i in range(0, len(latents), batch)]
            return np.concatenate([self._learn_rows(latents[s], labels[s], rates[s], rows, before) for s in each])
        arrays = (*self.arrays(latents), np.array(labels, np.int32))
        return self.trainee.train(Updates(arrays, range(len(latents)), rates[: len(latents) : batch], batch)).losses

    def _learn_rows(self, latents: Sequence[bytes], labels: Sequence[int], rates: Sequence[float],
                    rows: Sequence[int], before: dict[str, np.ndarray]) -> np.ndarray:  # fmt: skip
        """One update; then all other rows, and all other layers, are put back."""
        losses, now = self.learn(latents, labels, rates), self.trainee.state()
        kept = {name: before[name].copy() for name in (before if not self.head_alone else HEAD_ROWS)}
        for part in HEAD_ROWS:
            kept[part][list(rows)] = now[part][list(rows)]
        self.trainee.load_arrays(kept)
        return losses

    @property
    def head_alone(self) -> bool:
        """Is nothing trained but the head?"""
        return set(self.learner.graphs["predict"].state) == set(HEAD_ROWS)

    @property
    def together(self) -> int:
        """How many samples one update must have."""
        return max(method_of(self.trainee.verbs).samples, 1)


def _mark(what: object) -> str:
    return f"{crc32(str(what).encode()):08x}"


def _features_at(graph, head: str | None) -> int | None:
    """Which input of this graph the head reads, if it reads one."""
    node = graph.producer.get(head or "")
    names = [v.name for v in graph.inputs]
    return names.index(node.inputs[0].name) if node is not None and node.inputs[0].name in names else None

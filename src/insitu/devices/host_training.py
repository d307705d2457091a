"""Updates on the host: one C call after the other, with all addresses computed beforehand.

The loops are minimal: on small models Python would take longer than the C. Whole batches are a loop in C
(host_batches.py). Nothing here knows epochs or orders (learner/loop.py); crew.py runs threads over the samples of a
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from insitu.devices.device import Trained, Updates, Values, check_updates, method_of
from insitu.devices.host_batches import Place
from insitu.errors import DataError

if TYPE_CHECKING:
    from insitu.devices.host import HostDevice

SMALL = 64  # bytes of a row, such as a label, below which a copy costs less than the call that makes it


def train_on_host(device: HostDevice, updates: Updates) -> Trained:
    """Make these updates; meanwhile no other caller may use the device."""
    method = method_of(device.verbs)
    check_updates(method, updates)
    order = checked_order(updates, device.verbs[method.verb][0])
    found = method.results(len(order))
    if method.adds_up:
        whole = whole_batches(device, updates)
        at_once(device, updates, order[:whole], found)
        return added_up(device, updates, order, found, whole)
    if method.samples == 1:
        steps(device.bound("train_step"), updates, order, found)
    else:
        at_once(device, updates, order, found)
    return found


def whole_batches(device: HostDevice, updates: Updates) -> int:
    """How many samples, from the first, fill batches that a program which adds up gradients takes at once.

    None if a number of threads is given: they share the samples of a batch, which must give the same bytes for any.
    """
    step = device.verbs.get("train_step") if updates.threads is None else None
    at_once = step is not None and step[0][0].shape[0] == updates.batch
    return len(updates.order) // updates.batch * updates.batch if at_once else 0


def checked_order(updates: Updates, values: Values) -> np.ndarray:
    """The order as an array; an error if an address would be outside the samples, or a sample is not contiguous."""
    order = np.asarray(updates.order, np.int64)
    for a, v in zip(updates.arrays, values):
        if a.dtype != v.type.numpy or a.shape[1:] != v.shape[1:] or not a[:1].flags.c_contiguous:
            raise DataError(f"is {v.type}, but the samples are {a.dtype}{list(a.shape)}", where=f"input {v.name}")
    if len(order) and not 0 <= order.min() <= order.max() < min(map(len, updates.arrays)):
        raise DataError("the order names a sample that does not exist", where="train")
    return order


def steps(call: Callable[..., None], updates: Updates, order: np.ndarray, found: Trained) -> None:
    """One update per sample."""
    inputs = [addresses(a, order) for a in updates.arrays]
    outputs = [addresses(o, np.arange(len(order))) for o in (found.losses, *found.outputs)]
    for arguments in zip(*inputs, updates.rates, *outputs):
        call(*arguments)


def at_once(device: HostDevice, updates: Updates, order: np.ndarray, found: Trained) -> None:
    """All samples of a batch in one call, side by side; they share a loss."""
    if not len(order):
        return
    batch, starts = updates.batch, np.arange(0, len(order), updates.batch)
    inputs = [given(a, order, place) for a, place in zip(updates.arrays, arriving(device))]
    results = [(o.ctypes.data, batch * o.strides[0], 0, 0, 0) for o in (found.losses, *found.outputs)]
    device.train_batches([*(place for place, _ in inputs), *results], updates.rates[: len(starts)], order, batch)
    found.losses[: len(order)] = np.repeat(found.losses[starts], batch)


def arriving(device: HostDevice) -> list[np.ndarray]:
    """The arrays of a step's inputs inside its arena: what is put there, the step need not copy."""
    arena, offsets = device.arenas.first.memory, device.program.plans["train_step"].offsets
    places = [(v, arena[offsets[v.name] :][: v.type.bytes]) for v in device.verbs["train_step"][0] if v.shape]
    return [place.view(v.type.numpy).reshape(v.shape) for v, place in places]


def given(array: np.ndarray, order: np.ndarray, place: np.ndarray) -> tuple[Place, np.ndarray]:
    """Where the rows of each batch are side by side, and the array that they are in.

    Small rows are copied for all batches beforehand, others to their place in the arena when their batch is next.
    """
    size, batch = place.nbytes // len(place), len(place)
    if size > SMALL:
        return (place.ctypes.data, 0, array.ctypes.data, array.strides[0], size), array
    copied = np.ascontiguousarray(array[order])
    return (copied.ctypes.data, batch * size, 0, 0, 0), copied


def added_up(device: HostDevice, updates: Updates, order: np.ndarray, found: Trained, start: int) -> Trained:
    """The gradients of a batch, then one update; from sample `start` on."""
    if start == len(order):
        return found
    crew = device.crew(1 if start else updates.threads)  # a rest is over before threads have a copy of the state
    apply = device.bound("apply")
    inputs = [addresses(a, order[start:]) for a in updates.arrays]
    outputs = [addresses(o, np.arange(start, len(order))) for o in (found.losses, *found.outputs)]
    calls = list(zip(*inputs, *outputs))
    for first, chosen, rate in updates.groups():
        if first >= start:
            crew.accumulate(calls[first - start : first - start + len(chosen)])
            apply(rate, float(np.float32(1 / len(chosen))))
    return Trained(found.losses, found.outputs, crew.threads)


def addresses(array: np.ndarray, rows: np.ndarray) -> Sequence[int]:
    """The addresses of these rows of an array."""
    return (array.ctypes.data + rows * array.strides[0]).tolist()

"""Updates on the host: one C call after the other, with all addresses computed beforehand.

The loops are minimal: on small models Python would take longer than the C. Nothing here knows epochs or orders
(learner/loop.py); crew.py runs threads over the samples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from insitu.devices.device import Trained, Updates, Values, check_updates, method_of
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
    call, starts = device.bound("train_step"), np.arange(0, len(order), updates.batch)
    inputs = (gathered(a, order, place) for a, place in zip(updates.arrays, arriving(device)))
    outputs = (addresses(o, starts) for o in (found.losses, *found.outputs))
    for arguments in zip(*inputs, updates.rates, *outputs):
        call(*arguments)
    found.losses[: len(order)] = np.repeat(found.losses[starts], updates.batch)


def arriving(device: HostDevice) -> list[np.ndarray]:
    """The arrays of a step's inputs inside its arena: what is put there, the step need not copy."""
    arena, offsets = device.arenas.first.memory, device.program.plans["train_step"].offsets
    places = [(v, arena[offsets[v.name] :][: v.type.bytes]) for v in device.verbs["train_step"][0] if v.shape]
    return [place.view(v.type.numpy).reshape(v.shape) for v, place in places]


def gathered(array: np.ndarray, order: np.ndarray, place: np.ndarray) -> Iterator[int]:
    """The addresses of whole batches, one after the other, each with its rows side by side.

    Small rows are copied for all batches beforehand, others to their place when their batch is asked for.
    """
    batch = len(place)
    if array[:1].nbytes <= SMALL:
        copied = array[order]
        yield from addresses(copied, np.arange(0, len(order), batch))
        return
    address, copy = place.ctypes.data, taking(array, place)
    for rows in order.reshape(-1, batch):
        copy(rows)
        yield address


def taking(array: np.ndarray, place: np.ndarray) -> Callable[[np.ndarray], object]:
    """A function that copies rows, which exist, to a place."""
    if array.flags.c_contiguous:
        return lambda rows: array.take(rows, 0, place, "clip")  # "raise" would copy twice
    return lambda rows: place.__setitem__(..., array[rows])


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

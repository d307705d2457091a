"""Updates on the host: one C call after the other, with all addresses computed beforehand.

The loops are minimal: on small models Python would take longer than the C. Nothing here knows epochs or orders
(learner/loop.py); crew.py runs threads over the samples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from insitu.devices.device import Arrays, Method, Trained, Updates, Values, check_updates, method_of
from insitu.errors import DataError

if TYPE_CHECKING:
    from insitu.devices.host import HostDevice


def train_on_host(device: HostDevice, updates: Updates) -> Trained:
    """Make these updates; meanwhile no other caller may use the device."""
    method = method_of(device.verbs)
    check_updates(method, updates)
    order = checked_order(updates, device.verbs[method.verb][0])
    found = method.results(len(order))
    if method.adds_up:
        return added_up(device, updates, order, found)
    if method.samples == 1:
        steps(device.bound("train_step"), updates, order, found)
    else:
        at_once(device.bound("train_step"), method, updates, order, found)
    return found


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


def at_once(call: Callable[..., None], method: Method, updates: Updates, order: np.ndarray, found: Trained) -> None:
    """All samples of a batch in one call, side by side; they share a loss."""
    gathered: Arrays = tuple(np.ascontiguousarray(a[order]) for a in updates.arrays)
    starts = np.arange(0, len(order), method.samples)
    columns = [addresses(a, starts) for a in (*gathered, found.losses, *found.outputs)]
    inputs, outputs = columns[: len(gathered)], columns[len(gathered) :]
    for arguments in zip(*inputs, updates.rates, *outputs):
        call(*arguments)
    found.losses[:] = np.repeat(found.losses[starts], method.samples)


def added_up(device: HostDevice, updates: Updates, order: np.ndarray, found: Trained) -> Trained:
    """The gradients of a batch, then one update."""
    crew, apply = device.crew(updates.threads), device.bound("apply")
    inputs = [addresses(a, order) for a in updates.arrays]
    outputs = [addresses(o, np.arange(len(order))) for o in (found.losses, *found.outputs)]
    calls = list(zip(*inputs, *outputs))
    for first, chosen, rate in updates.groups():
        crew.accumulate(calls[first : first + len(chosen)])
        apply(rate, float(np.float32(1 / len(chosen))))
    return Trained(found.losses, found.outputs, crew.threads)


def addresses(array: np.ndarray, rows: np.ndarray) -> Sequence[int]:
    """The addresses of these rows of an array."""
    return (array.ctypes.data + rows * array.strides[0]).tolist()

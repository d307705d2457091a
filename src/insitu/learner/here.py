"""A program on this machine: planned, compiled, opened, brought to the state of another; and whether a device that
somebody opened runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from insitu.devices.device import Device, Values
from insitu.devices.host import HostDevice, open_plans
from insitu.errors import DataError
from insitu.graph import Graph, Type
from insitu.planner import Plan, plan
from insitu.terminal.progress import stage


def plan_here(graphs: Mapping[str, Graph]) -> dict[str, Plan]:
    with stage("planning for this machine"):
        return {verb: plan(g) for verb, g in graphs.items()}


def open_here(plans: Mapping[str, Plan]) -> HostDevice:
    with stage("compiling for this machine"):
        return open_plans(plans)


def follow(device: HostDevice, other: HostDevice) -> None:
    """Copy the state of another device with the same persistent values: all bytes, if they are in the same order."""
    mine, theirs = device.program.state, other.program.state
    if mine and theirs and mine.fields == theirs.fields:
        device.follow(other)
    else:
        device.load_arrays(other.state())


def lasting_names(device: Device) -> Collection[str]:
    """The names of all persistent values. Here they are known; elsewhere the state is read."""
    if not isinstance(device, HostDevice):
        return device.state().keys()
    return [v.name for v in device.program.state.fields] if device.program.state else []


def checked(device: Device, graphs: Mapping[str, Graph]) -> Device:
    """A device opened by the caller; a DataError if it runs another program than these graphs."""
    if not hasattr(device, "verbs"):
        what = f"cannot run on {device!r:.60}, which is no device"
        raise DataError(what, hint='"host", "emulator", "serial:PORT", or an open device')
    verbs = {verb: (g.inputs, g.outputs) for verb, g in graphs.items()}
    if {verb: types(values) for verb, values in device.verbs.items()} != {v: types(x) for v, x in verbs.items()}:
        raise DataError("this device runs another program", hint="use a device with the learner it was made from")
    return device


def types(values: tuple[Values, Values]) -> tuple[list[Type], list[Type]]:
    """Of inputs and outputs."""
    return [v.type for v in values[0]], [v.type for v in values[1]]

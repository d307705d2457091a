"""Where a learner works: its device and the name of the place, or the folder it was opened from."""

from __future__ import annotations

from dataclasses import dataclass, field

from insitu.deploy.manifest import Manifest
from insitu.devices.device import Device
from insitu.learner.places import HOST, Patience
from insitu.training.train import Recipe


@dataclass(frozen=True, eq=False)
class Site:
    """Without a device it is this machine, whose device is opened when needed."""

    device: Device | None = None
    place: str = HOST  # its name; empty if the caller opened the device
    patience: Patience = field(default_factory=Patience)
    manifest: Manifest | None = None  # of the folder
    recipe: Recipe = field(default_factory=Recipe)  # of a program that comes from a folder
    batch: int = 1

"""A board's folder as a learner: the result of `insitu compile --board ... -o DIR`, trained where it runs.

with open_folder("build", "emulator") as learner:
    learner.fit("samples.npz", schedule="constant", warmup=0)
"""

from __future__ import annotations

from pathlib import Path

from insitu.deploy.manifest import Manifest, read_manifest
from insitu.devices.device import method_of
from insitu.learner.learner import Learner
from insitu.learner.places import Patience, open_in_folder
from insitu.learner.site import Site
from insitu.terminal.misspelled import spelled
from insitu.training.train import Recipe


@spelled
def open_folder(folder: str | Path, on: str = "emulator", *, limit: int | None = None,
                timeout: float | None = None, baud: int | None = None) -> Learner:  # fmt: skip
    """The learner of a folder's firmware: on "emulator", "qemu" or "serial:PORT".

    limit       instructions that a request may take on the emulator
    timeout     seconds that it may take elsewhere
    baud        of a serial line, if it is not the one of the board's profile
    """
    manifest, patience = read_manifest(folder), Patience(limit, timeout, baud)
    device = open_in_folder(manifest, on, patience)
    site = Site(device, on, patience, manifest, Recipe(loss=manifest.loss), _batch(manifest))
    return Learner({verb: manifest.graph_of(verb) for verb in manifest.interface.verbs}, site=site)


def _batch(manifest: Manifest) -> int:
    """The samples per update that it was made for."""
    verbs = manifest.interface.verbs
    if "accumulate" in verbs or "train_step" not in verbs:
        return manifest.batch
    return method_of(verbs).samples

"""The trade-off of a program that was compiled before, from the cache: planning two more programs takes longest.

A row depends on the graphs, the linked image, the limits and on insitu itself. All of them are in the key, so nothing
old is ever shown for something new. Nothing is planned here (tradeoff.py does that).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from insitu.deploy.choices import Choice, checked_choices
from insitu.deploy.deployment import Deployment
from insitu.graph import to_text
from insitu.toolchain.cache import cached, forget, key_of

PACKAGE = Path(__file__).parent.parent

Make = Callable[[Deployment], Deployment]


def remembered(deployed: Deployment, make: Make) -> Deployment:
    """The deployment with its choices, which `make` finds the first time."""
    if deployed.firmware is None or deployed.programs is None:
        return make(deployed)
    path = cached("choices", key(deployed), ".json", lambda path: _write(path, make(deployed)))
    try:
        found = json.loads(path.read_text())
        checked_choices(found)
    except (OSError, ValueError):  # somebody deleted or replaced it since
        forget(path)
        return make(deployed)
    return replace(deployed, choices=tuple(Choice(**each) for each in found))


def key(deployed: Deployment) -> str:
    """Everything that the choices depend on."""
    assert deployed.firmware is not None and deployed.programs is not None
    texts = [to_text(graph) for _, graph in sorted(deployed.programs.graphs.items())]
    settings = repr((deployed.limits, deployed.counts, deployed.program.in_place))
    return key_of(sources(), deployed.firmware.image.data, settings, *texts)


@cache
def sources() -> bytes:
    """A hash of insitu's own Python and C: other versions may plan differently."""
    digest = hashlib.sha256()
    for path in sorted(p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".c", ".h", ".S")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return digest.digest()


def _write(path: Path, deployed: Deployment) -> None:
    path.write_text(json.dumps([choice.to_json() for choice in deployed.choices]))

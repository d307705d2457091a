"""Damage inside zip files: a part is changed and packed again with the right checksum, so that it reaches a loader.

`damaged_parts(data, count, seed)` takes the parts in turn: in a json part, values of fields change; in a text, words
and numbers; any other part is damaged like in tests/mutate.py. `packed` also builds hostile files.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tests.mutate import mutations

DATE = (1980, 1, 1, 0, 0, 0)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 7, 2**31, -(2**31), 2**63, 10**30, -0.5, 1e308, float("nan"), float("inf"),
    "", "..", "../../etc/passwd", "x" * 5000, "torch.ops.aten.relu.default", "keras.layers",
    [], [[]], {}, [None, -1, 3],
)  # fmt: skip

NUMBERS = ("0", "-1", "1", "2", "3", "7", "1000000", str(2**31), str(2**63), "1e400", "nan", "9" * 5000, "-0.5", "")


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), data, method)
    return made.getvalue()


def damaged_parts(data: bytes, count: int, seed: int, spots: Sequence[int] = ()) -> Iterator[bytes]:
    """The same `count` files for the same seed; text, which describes the model, gets two turns of three."""
    parts, rng = unpacked(data), np.random.default_rng([seed, len(data)])
    words = [n for n in parts if n.endswith((".json", ".txt")) and len(parts[n]) > 200]
    others = [n for n in parts if len(parts[n]) > 8 and not n.endswith((".json", ".txt"))]
    for i in range(count):
        group = words if words and (i % 3 or not others) else others
        name = group[i // 3 % len(group)]
        damage = DAMAGES.get(name[name.rfind(".") :], _damage_bytes)
        yield packed({**parts, name: damage(parts[name], rng, i)})


def _damage_bytes(data: bytes, rng: np.random.Generator, i: int) -> bytes:
    *_, last = mutations(data, i % 10 + 1, int(rng.integers(1 << 30)))  # the tenth mutation is of the tenth kind
    return last


def _damage_json(data: bytes, rng: np.random.Generator, i: int) -> bytes:
    tree = json.loads(data)
    for _ in range(int(rng.integers(1, 4))):
        spots = list(_spots(tree))
        if spots:
            node, key = spots[rng.integers(len(spots))]
            CHANGES[int(rng.integers(len(CHANGES)))](node, key, spots, rng)
    return json.dumps(tree).encode()


def _damage_text(data: bytes, rng: np.random.Generator, i: int) -> bytes:
    """Other numbers, words from elsewhere, and lines that are doubled, removed or moved."""
    lines = data.decode().splitlines()
    for _ in range(int(rng.integers(1, 4))):
        at, other = (int(k) for k in rng.integers(len(lines), size=2))
        words = re.findall(r"-?[\d.]+|[%@]?[\w.]+|\W", lines[at])
        k = int(rng.integers(len(words)))
        number = words[k][-1:].isdigit()
        words[k] = str(rng.choice(NUMBERS if number else re.findall(r"[%@]?[\w.]+", lines[other]) or [""]))
        lines[at] = [lines[at], "".join(words), "".join(words), lines[other]][int(rng.integers(4))]
        if rng.integers(6) == 0:
            lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines).encode()


DAMAGES = {".json": _damage_json, ".txt": _damage_text}


def _spots(tree) -> Iterator[tuple[Any, Any]]:
    """Every (object, key) and (list, index)."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(pairs):
        yield tree, key
        yield from _spots(value)


def _replace(node, key, spots, rng) -> None:
    node[key] = VALUES[rng.integers(len(VALUES))]


def _nudge(node, key, spots, rng) -> None:
    """Another number of the same kind; anything that is not a number becomes something else."""
    value = node[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    node[key] = value + int(rng.choice([-2, -1, 1, 2, 1000])) if number else VALUES[rng.integers(len(VALUES))]


def _swap(node, key, spots, rng) -> None:
    """A value from elsewhere in the part; a copy, because json has no cycles."""
    other, name = spots[rng.integers(len(spots))]
    node[key] = json.loads(json.dumps(other[name]))


def _drop(node, key, spots, rng) -> None:
    del node[key]


def _repeat(node, key, spots, rng) -> None:
    if isinstance(node, list):
        node.insert(key, json.loads(json.dumps(node[key])))
    else:
        node[f"{key}_"] = node[key]


CHANGES = (_replace, _nudge, _swap, _drop, _repeat)

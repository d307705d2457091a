"""All records of a life in one .npz file: of this machine's, or of a board's."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.files import write_whole

if TYPE_CHECKING:
    from insitu.devices.living import Living
    from insitu.store.life import Life


def export(life: Life, path: str | Path) -> Path:
    """Latents and raw samples in the types that the program takes, one array per value; labels -1 are not known."""
    store, ids = life.store, sorted(life.store.ledger.records)
    pairs = [(i, one) for i, one in zip(ids, store.fetch(ids)) if one is not None]
    records = [store.ledger.records[i] for i, _ in pairs]
    arrays = {
        "id": np.array([r.id for r in records], np.int64), "label": np.array([r.label for r in records], np.int16),
        "guard": np.array([r.guard for r in records], bool), "worth": np.array([r.worth for r in records], np.uint8),
        "names": np.array([life.word(k) for k in range(life.learner.classes)]),
    }  # fmt: skip
    latents = life.mind.arrays([one for _, one in pairs])
    arrays |= {f"latent_{v.name}": a for v, a in zip(life.mind.latents, latents)}
    if store.shape.raw:
        arrays |= _raw(life, [i for i, _ in pairs])
    return _write(path, arrays)


def export_board(board: Living, path: str | Path) -> Path:
    """The same of a board, which keeps no raw samples."""
    with board.device.lock:
        records, rows = board.records(), board.latents()
    arrays = {
        "id": np.array([r.id for r in records], np.int64), "label": np.array([r.label for r in records], np.int16),
        "guard": np.array([r.guard for r in records], bool), "worth": np.array([r.worth for r in records], np.uint8),
        "names": np.array([name or str(k) for k, name in enumerate(board.names)]),
    }  # fmt: skip
    table, at = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), int(board.life["latent_bytes"])), 0
    for v in board.device.verbs["learn"][0][:-2]:  # then the label and the rate
        part = np.ascontiguousarray(table[:, at : at + v.type.bytes])
        arrays[f"latent_{v.name}"] = part.view(v.type.numpy).reshape(len(rows), *v.shape[1:])
        at += -(-v.type.bytes // 4) * 4
    return _write(path, arrays)


def _write(path: str | Path, arrays: dict[str, Any]) -> Path:
    data = io.BytesIO()
    np.savez_compressed(data, allow_pickle=False, **arrays)
    return write_whole(path, data.getvalue())


def _raw(life: Life, ids: list[int]) -> dict[str, np.ndarray]:
    found = [one or bytes(life.store.shape.raw) for one in life.store.fetch(ids, raw=True)]
    table, at, made = np.frombuffer(b"".join(found), np.uint8).reshape(len(ids), life.store.shape.raw), 0, {}
    for v in life.learner.graphs["predict"].inputs:
        part = np.ascontiguousarray(table[:, at : at + v.type.bytes])
        made[f"sample_{v.name}"] = part.view(v.type.numpy).reshape(len(ids), *v.shape[1:])
        at += v.type.bytes
    return made

"""The tensors of a PyTorch state dict, read without PyTorch: both its zip files and the form before version 1.6.

A pickle is a program. The few names that a state dict needs are stand-ins here that only describe tensors; every other
name is an error before anything is called. Sizes are compared with the bytes of the file before anything is allocated.
"""

from __future__ import annotations

import io
import pickle
import zipfile
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from insitu.errors import ModelError

MAGIC = 0x1950A86A20F9469CFC6C
MAX_BYTES = 1 << 30
DTYPES = {"FloatStorage": np.float32, "DoubleStorage": np.float64, "HalfStorage": np.float16, "LongStorage": np.int64,
          "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8, "ByteStorage": np.uint8,
          "BoolStorage": np.bool_}  # fmt: skip
DAMAGED = (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
           MemoryError, zipfile.BadZipFile, zlib.error, OSError, RuntimeError)  # fmt: skip


@dataclass(frozen=True)
class Storage:
    """A run of numbers that tensors are views of."""

    key: str
    dtype: type
    count: int


@dataclass(frozen=True)
class Tensor:
    """A view of a storage; sizes and strides count elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self, numbers: np.ndarray) -> np.ndarray:
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        sane = self.offset >= 0 and all(n >= 0 for n in self.shape) and all(s >= 0 for s in self.strides)
        if not sane or (prod(self.shape) and last >= numbers.size) or prod(self.shape) > numbers.size:
            raise ModelError(f"has a tensor {self.shape} outside its {numbers.size:,} numbers")
        steps = [s * numbers.itemsize for s in self.strides]
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, steps).copy()


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """Name -> array of every tensor in a state dict."""
    path = Path(path)
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(f"is larger than {MAX_BYTES:,} bytes", where=str(path))
    try:
        data = path.read_bytes()
        named, storages = _zipped(data) if zipfile.is_zipfile(io.BytesIO(data)) else _legacy(data)
        return {name: tensor.array(storages[tensor.storage.key]) for name, tensor in named.items()}
    except ModelError as e:
        raise ModelError(e.what, where=str(path), hint=e.hint) from e
    except DAMAGED as e:
        raise ModelError(f"is not a PyTorch state dict that can be read ({type(e).__name__})", where=str(path)) from e


def _rebuild(storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_) -> Tensor:
    return Tensor(storage, offset, tuple(shape), tuple(strides))


ALLOWED = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
}


class Reader(pickle.Unpickler):
    """Knows the names of a state dict and no other."""

    def find_class(self, module: str, name: str):
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if (module, name) not in ALLOWED:
            raise ModelError(f"names {f'{module}.{name}'[:80]!r}; only plain tensors are read")
        return ALLOWED[module, name]

    def persistent_load(self, pid) -> Storage:
        kind, dtype, key, _, count, *_ = pid
        if kind != "storage" or dtype not in DTYPES.values():
            raise ModelError("refers to something that is not a tensor's numbers")
        return Storage(str(key), dtype, int(count))


def _tensors(found) -> dict[str, Tensor]:
    """The tensors of the saved object: a dict, or a dict under `state_dict`, `model` or `model_state_dict`."""
    for key in ("state_dict", "model_state_dict", "model"):
        found = found[key] if isinstance(found, dict) and isinstance(found.get(key), dict) else found
    named = {str(k): v for k, v in found.items() if isinstance(v, Tensor)} if isinstance(found, dict) else {}
    if not named:
        raise ModelError("contains no tensors")
    return named


def _zipped(data: bytes) -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        if sum(info.file_size for info in z.infolist()) > 2 * len(data) + (1 << 20):
            raise ModelError("would unpack to far more data than it contains")
        root = next(n for n in z.namelist() if n.endswith("data.pkl")).removesuffix("data.pkl")
        named = _tensors(Reader(io.BytesIO(z.read(f"{root}data.pkl"))).load())
        kinds = {t.storage.key: t.storage for t in named.values()}
        return named, {key: np.frombuffer(z.read(f"{root}data/{key}"), s.dtype) for key, s in kinds.items()}


def _legacy(data: bytes) -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    """Four pickles (a number, a version, the machine, the object), the storages' keys, and then their numbers."""
    stream = io.BytesIO(data)
    magic, _, _, found, keys = (Reader(stream).load() for _ in range(5))
    if magic != MAGIC:
        raise ModelError("is not a PyTorch state dict")
    named = _tensors(found)
    kinds, storages, at = {t.storage.key: t.storage for t in named.values()}, {}, stream.tell()
    for key in map(str, keys):
        count = int.from_bytes(data[at : at + 8], "little")
        if key not in kinds or count != kinds[key].count:
            raise ModelError(f"has {count:,} numbers for a tensor of another size")
        storages[key] = np.frombuffer(data, kinds[key].dtype, count, at + 8)
        at += 8 + storages[key].nbytes
    return named, storages

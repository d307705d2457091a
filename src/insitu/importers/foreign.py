"""Files with weights or code but no graph: what such a file is, and the Python that makes a model file from it."""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from insitu.errors import ModelError

MOST = 1 << 24  # bytes of a pickle that are examined
PICKLES = 4  # in a file of PyTorch before 1.6: a number, a version, the machine, and the saved object
TORCH_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".tar")
# the classes of a state dict: tensors, their storages, and the dict
PLAIN = ("torch", "torch._utils", "torch.storage", "torch._tensor", "torch.serialization", "collections", "numpy",
         "numpy.core.multiarray", "numpy._core.multiarray", "_codecs", "builtins", "__builtin__")  # fmt: skip
EXPORT = 'torch.export.save(torch.export.export(net.eval(), (torch.zeros(1, 3, 32, 32),)), "{stem}.pt2")'
WAYS = {
    "weights": ("holds the weights of a PyTorch network without the network (a state dict)",
                'net = YourNetwork(); net.load_state_dict(torch.load("{name}", weights_only=True))', EXPORT),
    "module": ("holds a pickled PyTorch module ({found}), which only PyTorch and its class can read",
               'net = torch.load("{name}", weights_only=False)  # runs code from the file: trust it', EXPORT),
    "script": ("holds a TorchScript module, which has no graph that can be trained",
               'net = torch.jit.load("{name}")',
               'torch.onnx.export(net, (torch.zeros(1, 3, 32, 32),), "{stem}.onnx", dynamo=False)'),
    "keras": ("holds a Keras model in the old format",
              'net = keras.models.load_model("{name}")', 'net.save("{stem}.keras")'),
}  # fmt: skip


def refused(path: Path, known: list[str]) -> ModelError:
    """The error for a file that no reader supports."""
    way = "keras" if path.suffix.lower() in (".h5", ".hdf5") else None
    names = _classes(path) if path.suffix.lower() in TORCH_SUFFIXES else None
    if names is not None:
        way = "script" if names == SCRIPT else "module" if names else "weights"
    if way is None:
        return ModelError(f"unknown kind of model file {path.suffix!r}", where=str(path), hint=", ".join(known))
    what, *lines = (line.format(name=path.name, stem=path.stem, found=(names or [""])[0][:80]) for line in WAYS[way])
    hint = "two lines of Python, with an input of your network's shape:\n" + "\n".join(f"    {line}" for line in lines)
    return ModelError(what, where=str(path), hint=hint)


SCRIPT = ["TorchScript"]


def _classes(path: Path) -> list[str] | None:
    """The classes in a PyTorch file that are not tensors or dicts; None if it is not a PyTorch file."""
    with suppress(OSError, zipfile.BadZipFile, ValueError, KeyError, RuntimeError, NotImplementedError):
        if not zipfile.is_zipfile(path):
            return _named(path.open("rb").read(MOST))
        with zipfile.ZipFile(path) as z:
            names = z.namelist()
            if any("/code/" in name for name in names):
                return SCRIPT
            pickled = next((name for name in names if name.endswith("/data.pkl")), None)
            return None if pickled is None else _named(z.open(pickled).read(MOST))
    return None


def _named(data: bytes) -> list[str] | None:
    """Classes that a pickle names, other than those of tensors; None if it is not a pickle."""
    if not data.startswith(b"\x80"):  # how every pickle since protocol 2 begins
        return None
    found, stream = [], io.BytesIO(data)
    with suppress(ValueError, IndexError, OverflowError, AttributeError, TypeError):  # a longer one is truncated
        for _ in range(PICKLES):
            found += _names(stream)
    return [name for name in found if name.rpartition(".")[0] not in PLAIN]


def _names(stream: io.BytesIO) -> Iterator[str]:
    strings = []
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif opcode.name == "STACK_GLOBAL":
            yield ".".join(strings[-2:])
        elif isinstance(argument, str):
            strings.append(argument)

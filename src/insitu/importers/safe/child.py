"""Model files that need their framework's own loader (.pt2, .keras), read in a child process.

A file is first screened in this process (screen.py), so a damaged file rarely starts a child. torch's loader may run
code from the file, so trust a .pt2 only as far as its author; the child merely bounds time and memory and keeps a crash
out of this process. It returns a graph file (text and arrays, no pickle) or one error as json.
`python -m insitu.importers.safe.child IN OUT BYTES BATCH EXAMPLES` is the child.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import insitu
from insitu import errors
from insitu.errors import Error, ModelError
from insitu.graph import Graph
from insitu.graph import file as graph_file
from insitu.importers.safe.screen import screen
from insitu.importers.safe.zipped import MAX_BYTES
from insitu.importers.sizes import Shapes

NOTES = {".pt2": "the .pt2 was read by torch's own loader: trust it only as much as its author"}
SECONDS = 120
MEMORY_BYTES = 4 << 30  # address space, in addition to what torch itself maps
MAX_REPORT = 1 << 16  # bytes of the child's output that are read

Run = Callable[[list[str], Path, float], int]  # arguments, file for its output, seconds -> exit status


def run_child(arguments: list[str], said: Path, seconds: float) -> int:
    """Start Python and the framework, which takes seconds. Raises TimeoutError."""
    command = [sys.executable, "-m", "insitu.importers.safe.child", *arguments]
    packages = str(Path(insitu.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [packages, os.environ.get("PYTHONPATH")]))}
    with said.open("wb") as out:  # a file, not a pipe: the child's output does not fill our memory
        try:
            how = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.DEVNULL}
            return subprocess.run(command, **how, timeout=seconds, env=env, check=False).returncode
        except subprocess.TimeoutExpired as e:
            raise TimeoutError from e


def read_in_child(
    path: Path,
    *,
    batch: int = 1,
    examples: Shapes = (),
    seconds: float = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    run: Run = run_child,
) -> Graph:
    """The graph, or a ModelError that says what is wrong with the file."""
    if not path.is_file():
        raise ModelError("no such file", where=str(path))
    screen(path)
    with tempfile.TemporaryDirectory() as folder:
        out, said = Path(folder) / f"graph{graph_file.SUFFIX}", Path(folder) / "said"
        try:
            asked = [str(path.resolve()), str(out), str(memory_bytes), str(batch), json.dumps(examples)]
            status = run(asked, said, seconds)
        except TimeoutError:
            raise ModelError(f"its loader was not done after {seconds:g} s", where=str(path)) from None
        if status != 0 or not out.is_file():
            raise _error(status, _last_line(said), path)
        graph = _read_graph(out, path)
    note = NOTES.get(path.suffix.lower())
    return graph.with_notes(note) if note else graph


def _read_graph(out: Path, path: Path) -> Graph:
    try:
        return graph_file.read(out)
    except Error as e:
        raise ModelError(f"its loader made an invalid graph: {e.what}", where=str(path), hint=e.hint) from e


def _last_line(said: Path) -> str:
    with said.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - MAX_REPORT))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _error(status: int, report: str, path: Path) -> Error:
    """The error that the child reported; after a crash, its last line is no report."""
    try:
        found = json.loads(report)
        kind = getattr(errors, found["kind"])
        return kind(found["what"], where=found["where"] or str(path), hint=found["hint"])
    except (ValueError, KeyError, AttributeError, TypeError):
        return ModelError(f"its loader crashed (exit status {status})", where=str(path))


# the child


def main(arguments: list[str]) -> int:
    source, out, memory_bytes, batch, examples = arguments
    try:
        shapes = tuple(tuple(shape) for shape in json.loads(examples))
        graph_file.save(_load(Path(source), int(memory_bytes), int(batch), shapes), out)
        return 0
    except Error as e:
        return _report(type(e).__name__, e.what, e.where, e.hint)
    except MemoryError:
        return _report("ModelError", "needs more memory than the limit for reading a model")
    except Exception as e:  # torch's loader raises all kinds of exceptions
        text = (str(e).strip() or "no message").splitlines()[0][:200]
        return _report("ModelError", f"is not a model that can be loaded ({type(e).__name__}: {text})")


def _load(path: Path, memory_bytes: int, batch: int, examples: Shapes) -> Graph:
    load = LOADERS[path.suffix.lower()]()
    _limit(memory_bytes)  # now that the framework is in memory, and the file is not yet
    return load(path, batch, examples)


def _torch_loader():
    from insitu.importers.torch.read import read_program, torch_export

    load = torch_export().load
    return lambda path, batch, examples: read_program(load(path), batch=batch, name=path.stem, examples=examples)


def _keras_loader():
    os.environ["KERAS_BACKEND"] = "torch"
    from insitu.importers.keras.read import keras_package, read_keras

    load = keras_package().saving.load_model
    return lambda path, batch, examples: read_keras(load(path, compile=False), batch=batch, examples=examples)


LOADERS = {".pt2": _torch_loader, ".keras": _keras_loader}


def _mapped_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux
        return 8 << 30
    return pages * resource.getpagesize()


def _limit(memory_bytes: int) -> None:
    limits = {
        resource.RLIMIT_AS: _mapped_bytes() + memory_bytes,
        resource.RLIMIT_FSIZE: MAX_BYTES,
        resource.RLIMIT_CORE: 0,
    }
    for what, amount in limits.items():
        try:
            resource.setrlimit(what, (amount, amount))
        except (ValueError, OSError):  # macOS refuses some limits; the time limit still holds
            continue


def _report(kind: str, what: str, where: str = "", hint: str = "") -> int:
    print(json.dumps({"kind": kind, "what": what, "where": where, "hint": hint}))
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""A graph in one file: a zip of its text form and of the arrays that the text refers to.

The file contains only data: reading it runs no code. Writing is deterministic: the same graph gives the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from insitu.errors import DataError, Error, ModelError
from insitu.files import check_source, read_array, write_whole
from insitu.graph.check import check
from insitu.graph.graph import Graph
from insitu.graph.text import arrays, parse, to_text
from insitu.terminal.wording import either

SUFFIX = ".insitu"
MAX_BYTES = 1 << 30  # limit for all that it inflates to
MAX_TEXT = 16 << 20  # limit for the text and for the names
LEARNER = "learner.json"  # a file that has this holds a learner (learner/file.py), of which the model is a part
EPOCH = (1980, 1, 1, 0, 0, 0)


def save(graph: Graph, path: str | Path) -> Path:
    """Write the graph as an .insitu file, which appears complete or not at all."""
    check_suffix(path)
    return write_whole(path, packed(graph))


def check_suffix(path: str | Path) -> None:
    """Refuse a name that says another format than the one that is written."""
    suffix = Path(path).suffix
    if suffix.lower() != SUFFIX:
        exports = either(shell="insitu export", python="learner.export")
        what = f"a model cannot be written as {suffix}" if suffix else "a model's file needs a suffix"
        raise DataError(what, where=str(path), hint=f"a name that ends in {SUFFIX}; other formats: {exports}")


def packed(graph: Graph) -> bytes:
    """The bytes of the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as z:
        add(z, "graph.txt", to_text(graph).encode())
        named = arrays(graph)
        add(z, "names.json", json.dumps(list(named)).encode())
        for i, array in enumerate(named.values()):
            data = io.BytesIO()
            np.lib.format.write_array(data, np.asarray(array, order="C"), allow_pickle=False)
            add(z, f"{i}.npy", data.getvalue())
    return buffer.getvalue()


def read(source: str | Path | bytes) -> Graph:
    where = source.name if isinstance(source, Path) else "graph" if isinstance(source, bytes) else str(source)
    try:
        with opened_zip(source) as z:
            if sum(i.file_size for i in z.infolist()) > MAX_BYTES:
                raise ModelError("unpacks to over a gigabyte")
            if LEARNER in z.namelist():
                hint = either(
                    shell="insitu train, predict, compile and export take it", python=f"insitu.open({where!r})"
                )
                raise ModelError("holds a learner, not a model", hint=hint)
            names = json.loads(part(z, "names.json", MAX_TEXT))
            found = {name: _array(z, f"{i}.npy") for i, name in enumerate(names)}
            return _named(check(parse(part(z, "graph.txt", MAX_TEXT).decode(), found)))
    except Error as e:
        raise ModelError(e.what, where=": ".join(filter(None, (where, e.where))), hint=e.hint) from e
    except OSError as e:
        raise ModelError(f"cannot be read: {e.strerror or e}", where=where) from e
    except Exception as e:  # zipfile, json and numpy raise many kinds of exceptions for broken data
        raise ModelError(f"is not an insitu graph, or is damaged ({type(e).__name__}: {e})", where=where) from e


def opened_zip(source: str | Path | bytes) -> zipfile.ZipFile:
    """The zip file to read from."""
    if isinstance(source, bytes):
        return zipfile.ZipFile(io.BytesIO(source))
    check_source(source)
    return zipfile.ZipFile(source)


def is_learner(path: str | Path) -> bool:
    """Does this file hold a learner? A file that cannot be read does not."""
    try:
        with opened_zip(path) as z:
            return LEARNER in z.namelist()
    except (DataError, OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _named(graph: Graph) -> Graph:
    """The graph, if its names are those of its output's scores."""
    if graph.classes and len(graph.classes) != (graph.outputs[0].shape or (1,))[-1]:
        raise ModelError(f"has {len(graph.classes)} names of classes for {graph.outputs[0].type}")
    return graph


def add(z: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    z.writestr(info, data)


def part(z: zipfile.ZipFile, name: str, limit: int = MAX_BYTES) -> bytes:
    """A member of the zip file, never more than its declared size."""
    info = z.getinfo(name)
    if info.file_size > limit:
        raise ModelError(f"is {info.file_size:,} bytes, over the limit of {limit:,}", where=name)
    with z.open(info) as member:
        return member.read(info.file_size + 1)  # given a number, zipfile inflates at most that much


def _array(z: zipfile.ZipFile, name: str) -> np.ndarray:
    data = part(z, name)
    try:
        return read_array(data)
    except Exception as e:  # numpy's header is Python text, and fails in as many ways
        raise ModelError(f"is not an array ({type(e).__name__}: {str(e)[:100]})", where=name) from e

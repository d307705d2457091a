"""A graph in one file: a zip of its text form and the arrays the text refers to.

Holds data only: reading one runs no code. Writing is deterministic: the same graph gives the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from insitu.errors import Error, ModelError
from insitu.graph.check import check
from insitu.graph.graph import Graph
from insitu.graph.text import arrays, parse, to_text

SUFFIX = ".insitu"
MAX_BYTES = 1 << 30
EPOCH = (1980, 1, 1, 0, 0, 0)


def save(graph: Graph, path: str | Path) -> Path:
    """Write the graph; the file appears whole or not at all."""
    path = Path(path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as z:
        _add(z, "graph.txt", to_text(graph).encode())
        named = arrays(graph)
        _add(z, "names.json", json.dumps(list(named)).encode())
        for i, array in enumerate(named.values()):
            data = io.BytesIO()
            np.lib.format.write_array(data, np.ascontiguousarray(array), allow_pickle=False)
            _add(z, f"{i}.npy", data.getvalue())
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(buffer.getvalue())
    temporary.replace(path)
    return path


def read(source: str | Path | bytes) -> Graph:
    where = source.name if isinstance(source, Path) else "graph" if isinstance(source, bytes) else str(source)
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as z:
            if sum(i.file_size for i in z.infolist()) > MAX_BYTES:
                raise ModelError("unpacks to over a gigabyte", where=where)
            names = json.loads(z.read("names.json"))
            found = {name: _array(z, f"{i}.npy") for i, name in enumerate(names)}
            return check(parse(z.read("graph.txt").decode(), found))
    except Error as e:
        raise ModelError(str(e), where=where) from e
    except OSError as e:
        raise ModelError(f"cannot be read: {e.strerror or e}", where=where) from e
    except Exception as e:  # zipfile, json and numpy raise a dozen kinds for broken data
        raise ModelError(f"is not an insitu graph, or is damaged ({type(e).__name__}: {e})", where=where) from e


def _add(z: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    z.writestr(info, data)


def _array(z: zipfile.ZipFile, name: str) -> np.ndarray:
    return np.lib.format.read_array(io.BytesIO(z.read(name)), allow_pickle=False)

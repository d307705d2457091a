"""The class names that a .tflite file carries: the lines of labels.txt in the zip archive appended to it.

Names are a help, not the model: an archive that is damaged, huge or does not fit the model gives no names.
"""

from __future__ import annotations

import io
import zipfile

from insitu.errors import DataError
from insitu.graph.classes import checked

LABELS = "labels.txt"
MOST = 1 << 20  # bytes of names


def labels(data: bytes, width: int) -> tuple[str, ...]:
    """As many names as the first output has scores, or none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as z, z.open(LABELS) as member:
            if z.getinfo(LABELS).file_size > MOST:
                return ()
            names = checked(member.read(MOST).decode().splitlines())
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError, RuntimeError, NotImplementedError, DataError):
        return ()
    return names if len(names) == width and any(names) else ()

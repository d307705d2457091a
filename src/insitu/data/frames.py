"""Pandas frames: columns by name, words as 0 and 1, and the column of the label. Nothing here imports pandas."""

from __future__ import annotations

from typing import Any

import numpy as np

from insitu.data.tables import LABEL_HEADINGS
from insitu.data.words import words_of_frame
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.graph.classes import of_columns


def is_frame(x: Any) -> bool:
    return hasattr(x, "loc") and hasattr(x, "columns")


def framed(x: Any, graph: Graph) -> Any:
    """A row of a frame as a frame of one row, if it names a column of the model's; anything else as it is."""
    named = hasattr(x, "to_frame") and hasattr(x, "index") and not is_frame(x)
    if not named or not {name.partition("=")[0] for name in graph.columns} & {str(name).strip() for name in x.index}:
        return x
    return x.to_frame().T.infer_objects()


def label_apart(frame: Any, graph: Graph) -> tuple[Any, Any]:
    """The frame without its label, and the label; None if it has none.

    As in a file, that is the column headed `label`; or one headed `class` or `target`, if it is one too many.
    """
    heading = {str(c).strip().lower(): c for c in frame.columns if str(c) not in graph.columns}
    many = len(frame.columns) - 1 == int(np.prod(graph.inputs[0].shape[1:])) or bool(graph.columns)
    found = next((heading[name] for name in LABEL_HEADINGS if name in heading and (many or name == "label")), None)
    return (frame, None) if found is None else (frame.drop(columns=found), frame[found])


def by_name(frame: Any, known: tuple[str, ...], learned: bool = True) -> tuple[Any, tuple[str, ...]]:
    """A frame with the columns that the model knows, in its order, and their names.

    If it is not `learned` from and the model knows no names, words are an error: which number each had is unknown.
    """
    names = of_columns(frame.columns)
    if not names:
        return _numbers(frame), ()
    worded = words_of_frame(frame, known)
    if worded is not None and not learned and not known:
        raise DataError(
            "the frame has words, but the model knows no columns", hint="numbers, as the model learned them"
        )
    if worded is not None:
        return worded
    missing = next((name for name in known if name not in names), None)
    if missing is not None:
        hint = f"its columns are {', '.join(names[:12])}; the model learned from {', '.join(known[:12])}"
        raise DataError(f"the frame has no column {missing!r}", hint=hint)
    return _numbers(frame.loc[:, list(known)] if known else frame), known or names


def _numbers(frame: Any) -> Any:
    """The frame; as an array if numpy would make objects of it, as of booleans beside numbers, or of missing ones."""
    if np.asarray(frame).dtype.kind not in "OmM":
        return frame
    return np.column_stack([_column(frame.iloc[:, k], str(name)) for k, name in enumerate(frame.columns)])


def _column(cells: Any, name: str) -> np.ndarray:
    if getattr(cells.dtype, "kind", "O") in "mM":
        hint = "remove the column, or make numbers of it: the hour, the days since a date"
        raise DataError("holds dates or times, not numbers", where=f"column {name!r} of the frame", hint=hint)
    try:
        return cells.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError) as e:
        raise DataError(f"does not hold numbers: {e}", where=f"column {name!r} of the frame") from e

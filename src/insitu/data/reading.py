"""Samples from files and folders. All in memory; nothing is augmented. Arrays and datasets: taking.py.

    samples = read_samples("digits.npz", graph)
    samples.inputs[0]        float32[N, ...] in the shape of the graph's input
    samples.labels           int64[N], or None if the file has none
    samples.names            the names of the classes, if the file or folder has them

In an .npz, inputs are the arrays named like the graph's inputs, or `x` (`data`, `images`, `inputs`); labels are `y`
(`labels`, `targets`), numbers or names; `class_names` names the numbers. If it has two parts, `x_train` and `x_test`,
training and calibration read the first and tests the second (`part`). A .csv has one sample per line (for an input of
windows, one point in time per line), with the label last or in a column headed `label`; targets.py says which columns
are targets. A folder of images, .wav or .csv files has one
subfolder per class, or only files. Pixels are scaled to `pixels`, or left as they are if the input takes bytes.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from insitu.data.class_folders import class_folders
from insitu.data.damaged import read_each
from insitu.data.images import IMAGES, layout, read_image
from insitu.data.labels import numbered
from insitu.data.samples import Samples, counted, fit
from insitu.data.sound import sound_samples
from insitu.data.source import source_of
from insitu.data.table_samples import table_samples
from insitu.errors import DataError
from insitu.files import check_arrays, check_source, files_in
from insitu.graph import Graph, Value
from insitu.graph.classes import checked
from insitu.graph.source import UNIT

INPUT_STEMS = ("x", "data", "images", "inputs")
LABEL_STEMS = ("y", "labels", "label", "targets")
# names of the arrays of a part, best first; a file with only one part uses it for everything
PARTS = {"train": ("_train", "", "_test"), "test": ("_test", "", "_train")}
INPUT_KEYS = {part: [stem + end for end in ends for stem in INPUT_STEMS] for part, ends in PARTS.items()}
LABEL_KEYS = {stem + end for end in PARTS["train"] for stem in LABEL_STEMS}
CUT = {".wav": "sounds", ".csv": "recordings"}  # files of a folder that are cut into pieces
# what readers raise for a file that is broken or of another format
DAMAGED = (OSError, ValueError, LookupError, EOFError, csv.Error, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Reading:
    """How a file is read."""

    pixels: tuple[float, float] = UNIT  # the range that pixels 0..255 are scaled to
    part: str = "train"  # or "test": which part of an .npz that has both
    targets: bool | tuple[str, ...] = False  # labels are not classes but the outputs to learn: columns of these names
    every: bool | None = None  # is a line that lacks a value an error? None: unless it is to learn from
    label: str = ""  # the name of the column of a table that is the label; "": by its heading, or the last one

    @property
    def gaps(self) -> str:
        """What lines are that lack a value; "" if there must be none."""
        every = self.part != "train" if self.every is None else self.every
        return "" if every else "not learned" if self.part == "train" else "left out"


def read_samples(path: str | Path, graph: Graph, *, pixels: tuple[float, float] | None = None, part: str = "train",
                 targets: bool | tuple[str, ...] = False, every: bool | None = None,
                 label: str = "") -> Samples:  # fmt: skip
    """The samples of a file or folder, shaped and typed for the graph's inputs.

    pixels      the range that pixels 0..255 are scaled to; None: the one that the graph takes
    every       is a line of a table that lacks a value an error? None: unless it is to learn from
    label       the column of a table that is the label; "": by its heading, or the last one
    """
    check_source(path)
    path = Path(path)
    reader = _folder if path.is_dir() else READERS.get(path.suffix.lower())
    if not path.exists():
        raise DataError("no such file", where=str(path))
    if reader is None:
        raise DataError(
            f"unknown kind of data {path.suffix!r}", where=str(path), hint=", ".join(READERS) + ", or a folder"
        )
    try:
        samples = reader(path, graph, Reading(pixels or source_of(graph).pixels, part, targets, every, label))
    except DAMAGED as e:
        raise DataError(f"cannot be read: {e}", where=str(path)) from e
    return counted(samples, str(path))


def read_held_out(path: str | Path, graph: Graph, **reading) -> Samples | None:
    """The labelled test part of an .npz that also has a training part; None for anything else."""
    path = Path(path)
    if path.suffix.lower() != ".npz" or not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        ends = {key.removeprefix(stem) for key in arrays for stem in INPUT_STEMS if key.startswith(stem)}
    if "_test" not in ends or ends.isdisjoint(PARTS["train"][:2]):
        return None
    found = read_samples(path, graph, part="test", **reading)
    return None if found.labels is None else found


# --- arrays ---------------------------------------------------------------------------------------------


def _npy(path: Path, graph: Graph, how: Reading) -> Samples:
    check_arrays(path)
    return Samples((fit(_only(graph, path), np.load(path, allow_pickle=False), str(path)),), source=path.name)


def _npz(path: Path, graph: Graph, how: Reading) -> Samples:
    check_arrays(path)
    with np.load(path, allow_pickle=False) as arrays:
        names = _input_keys(arrays, graph, path, how.part)
        inputs = tuple(fit(v, arrays[n], f"{path}: {n}") for v, n in zip(graph.inputs, names))
        label = _label_key(arrays, names[0])
        labels = None if label is None else arrays[label]
        given = arrays["class_names"] if "class_names" in arrays else np.zeros(0, "U")
    called: tuple[str, ...] = ()
    if labels is not None and not how.targets:
        labels, called = numbered(labels, f"{path}: {label}")
        called = called or checked(map(str, given.reshape(-1)))
    return Samples(inputs, labels, called, source=f"{', '.join([*names, *filter(None, [label])])} of {path.name}")


def _input_keys(arrays: Mapping[str, np.ndarray], graph: Graph, path: Path, part: str) -> list[str]:
    usual = [k for k in INPUT_KEYS[part] if k in arrays]
    wanted = [v.name for v in graph.inputs]
    if all(name in arrays for name in wanted) and usual[:1] != [f"{wanted[0]}_{part}"]:
        return wanted
    usual = usual or [k for k in arrays if k not in LABEL_KEYS]
    if len(wanted) > 1 or not usual:
        raise DataError(f"has {', '.join(arrays) or 'no arrays'}; wanted {', '.join(wanted)}", where=str(path),
                        hint="np.savez(FILE, x=samples, y=labels) writes a suitable file")  # fmt: skip
    return usual[:1]


def _label_key(arrays: Mapping[str, np.ndarray], chosen: str) -> str | None:
    """The labels that belong to these inputs: of the same part, or of the whole file."""
    end = next((e for e in ("_train", "_test") if chosen.endswith(e)), "")
    ends = (end, "") if end else ("", "_train") if chosen not in INPUT_STEMS else ("",)
    return next((stem + e for e in ends for stem in LABEL_STEMS if stem + e in arrays), None)


def _only(graph: Graph, path: Path) -> Value:
    if len(graph.inputs) != 1:
        names = ", ".join(v.name for v in graph.inputs)
        raise DataError(
            f"the model has several inputs ({names})", where=str(path), hint="an .npz with one array per input"
        )
    return graph.inputs[0]


def _csv(path: Path, graph: Graph, how: Reading) -> Samples:
    return table_samples(path, _only(graph, path), graph, how.targets, gaps=how.gaps, label=how.label)


# --- images ---------------------------------------------------------------------------------------------


def _folder(path: Path, graph: Graph, how: Reading) -> Samples:
    """One subfolder per class, in the order of their names; or only images (or .wav files), without labels."""
    value, camera = _only(graph, path), source_of(graph).camera
    classes = class_folders(path)
    groups = [files_in(folder, IMAGES) for folder in classes or [path]]
    files = [file for group in groups for file in group]
    for suffix, word in CUT.items() if not files else ():
        if any(files_in(folder, (suffix,)) for folder in classes or [path]):
            return _pieces(path, classes, graph, how, suffix, word)
    if not files:
        hint = f"one subfolder per class, with {', '.join(IMAGES)}, .wav or .csv files"
        raise DataError("has no images, sounds or recordings", where=str(path), hint=hint)
    read, kept, damaged = read_each(files, lambda file: read_image(file, value, camera), str(path))
    x = _scaled(np.stack([pixels for pixels, _ in read]), value, how)
    labels = np.repeat(np.arange(len(groups)), [len(g) for g in groups])[kept] if classes else None
    made = Samples((fit(value, x, str(path)),), labels, tuple(c.name for c in classes), f"the images of {path.name}")
    notes = _folder_notes(path, dict(zip(classes, groups)), {size for _, size in read}, layout(value, camera)[:2])
    return replace(made, notes=(*damaged, *notes), files=tuple(str(files[k]) for k in kept))


def _pieces(path: Path, classes: list[Path], graph: Graph, how: Reading, suffix: str, word: str) -> Samples:
    """The .wav or .csv files of each class, in pieces of the input's length."""
    groups, value = [files_in(folder, (suffix,)) for folder in classes or [path]], graph.inputs[0]
    files = [file for group in groups for file in group]
    read, kept, damaged = read_each(files, lambda file: READERS[suffix](file, graph, how).inputs[0], str(path))
    which = np.repeat(kept, [len(pieces) for pieces in read])
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[which] if classes else None
    empty = [folder.name for folder, files in zip(classes, groups) if not files]
    notes = (f"no {suffix} files in {', '.join(empty)}: a class without samples",) if empty else ()
    made = Samples((fit(value, np.concatenate(read), str(path)),), labels, tuple(c.name for c in classes))
    return replace(made, source=f"the {word} of {path.name}", notes=(*damaged, *notes),
                   files=tuple(str(files[k]) for k in which))  # fmt: skip


def _folder_notes(path: Path, groups: Mapping[Path, list[Path]], sizes: set, size: tuple[int, int]) -> tuple[str, ...]:
    """What was left out or changed while reading, which the user may not have meant."""
    others = [p for folder in (groups or [path]) for p in files_in(folder) if p.suffix.lower() not in IMAGES]
    loose = [p for p in sorted(path.iterdir()) if p.suffix.lower() in IMAGES] if groups else []
    empty = [folder.name for folder, files in groups.items() if not files]
    height, width = size
    found = (
        (others, f"left out, as no images: {_number(others, 'file')}, for example {others and others[0].name}"),
        (loose, f"left out: {_number(loose, 'image')} outside the class folders"),
        (empty, f"no images in {', '.join(empty)}: a class without samples"),
        (sizes - {(width, height)}, f"images of {_sizes(sizes)} were resized to {height}x{width}"),
    )
    return tuple(words for there, words in found if there)


def _number(of: list[Path], what: str) -> str:
    return f"{len(of)} {what}{'s' * (len(of) > 1)}"


def _sizes(found: set[tuple[int, int]]) -> str:
    """In pixels, height first, as the input's."""
    return f"{len(found)} sizes" if len(found) > 1 else "x".join(str(side) for each in found for side in reversed(each))


def _photo(path: Path, graph: Graph, how: Reading) -> Samples:
    """One image."""
    value = _only(graph, path)
    x = _scaled(read_image(path, value, source_of(graph).camera)[0][None], value, how)
    return Samples((fit(value, x, str(path)),), source=path.name)


def _scaled(x: np.ndarray, value: Value, how: Reading) -> np.ndarray:
    """Pixels in the range that the input takes."""
    low, high = how.pixels
    return x if value.dtype == "u8" else low + x * np.float32((high - low) / 255)


def _wav(path: Path, graph: Graph, how: Reading) -> Samples:
    """One sound, in as many pieces as it has."""
    value = _only(graph, path)
    return Samples((fit(value, sound_samples(path, graph), str(path)),), source=path.name)


READERS = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".wav": _wav, **dict.fromkeys(IMAGES, _photo)}

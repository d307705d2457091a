"""A learner in one file: its model, scheme, recipe, class names, counters, and what it has learned.

    learner.save("gesture.insitu")
    learner = insitu.open("gesture.insitu")       training continues as if it had never been closed

The file is a zip: `model.insitu` (the network before training, with its calibration and names), `learner.json` (scheme,
recipe, batch, what was taught), one array per part of the state, and the mean features of the classes. It contains only
data: reading it runs no code, and every number in it is checked. Writing is deterministic.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from insitu.deploy.folder import LEARNER as SOURCE
from insitu.deploy.folder import written_again
from insitu.errors import DataError, Error, ModelError
from insitu.files import check_source, read_array, write_whole
from insitu.graph import Graph
from insitu.graph.file import LEARNER as ABOUT
from insitu.graph.file import MAX_BYTES, MAX_TEXT, SUFFIX, add, is_learner, opened_zip, packed, part
from insitu.graph.file import read as read_graph
from insitu.learner.few import Known
from insitu.learner.given import read_state
from insitu.learner.learner import Learner
from insitu.learner.lesson import MARKS, Lesson, read_lesson
from insitu.learner.named_state import split
from insitu.learner.seen import Seen, class_means
from insitu.schemes.scheme import Scheme, fit, parse_scheme
from insitu.terminal.misspelled import spelled
from insitu.terminal.wording import either
from insitu.training.head import HEAD
from insitu.training.parts import Parts, trainable
from insitu.training.train import Recipe

FORMAT = 1
MODEL, STATE, LESSON, SEEN = "model.insitu", "state", "lesson", "seen.npy"
MOST_BATCH = 1 << 20
NUMBER, TEXT = (int, float, type(None)), (str, type(None))
NONE_TOO = {"grad": TEXT, "clip": NUMBER, "clip_kind": TEXT, "rate": NUMBER}  # fields of a recipe
MOST_KNOWN = 1e30  # larger than any gain or count


def save_learner(learner: Learner, path: str | Path) -> Path:
    """Write the learner; the file appears complete or not at all."""
    return write_whole(path, learner_bytes(learner))


def learner_bytes(learner: Learner) -> bytes:
    parts = learner.parts
    if parts is None:
        return learner_bytes(_taught(learner))
    state, seen = state_of(learner), class_means(learner)
    about = {
        "format": FORMAT, "scheme": json.loads(parts.scheme.to_json()), "recipe": asdict(parts.recipe),
        "batch": parts.batch, "at_once": parts.at_once, "head": parts.head, "notes": list(learner.notes),
        "state": list(state), "known": asdict(learner.known),
        **({"lesson": learner.lesson.to_json()} if learner.lesson else {}),
        **({"seen": [[k, seen.counts[k]] for k in seen.means]} if seen.means else {}),
    }  # fmt: skip
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as z:
        add(z, ABOUT, json.dumps(about, indent=1).encode())
        add(z, MODEL, packed(parts.forward))
        for i, array in enumerate(state.values()):
            add(z, f"{STATE}/{i}.npy", _npy(array))
        for name, array in (learner.lesson.marks if learner.lesson else {}).items():
            add(z, f"{LESSON}/{name}.npy", _npy(array))
        if seen.means:
            add(z, SEEN, _npy(np.stack(list(seen.means.values())).astype(np.float32)))
    return buffer.getvalue()


def _taught(board: Learner) -> Learner:
    """The learner that a board's folder was written from, with what the board has learned since."""
    path = board.site.manifest.folder / SOURCE if board.site.manifest else None
    if path is None or not path.is_file():
        raise DataError("a board's folder has no model to save", hint='save("state.bin") keeps what it learned')
    made, state = open_learner(path), board.device.state()
    if state.keys() != made.device.state().keys():
        raise DataError("the board's program is not that of its learner", where=str(path), hint=written_again())
    made.device.load_arrays(state)
    return made


def state_of(learner: Learner) -> dict[str, np.ndarray]:
    """What it has learned so far."""
    return learner.device.state() if learner.opened else first_state(learner)


def state_in(path: str | Path) -> tuple[bytes, tuple[str, ...]]:
    """The bytes of a saved state, also of the one that a saved learner has; and the names of its classes."""
    if not is_learner(path):
        return split(read_state(path), str(path))
    learner = open_learner(Path(path))
    return learner.device.save_state(), learner.names


def first_state(learner: Learner) -> dict[str, np.ndarray]:
    """The initial state of a program that never ran."""
    return {name: array for g in learner.graphs.values() for name, array in g.state.items()}


def _npy(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array(data, np.asarray(array, order="C"), allow_pickle=False)
    return data.getvalue()


def open_learner(source: str | Path | bytes) -> Learner:
    """The learner in a file: on this machine, with everything it had learned when it was saved."""
    where = source.name if isinstance(source, Path) else "learner" if isinstance(source, bytes) else str(source)
    try:
        with opened_zip(source) as z:
            return _read(z)
    except Error as e:
        inside = "" if not isinstance(source, bytes) and e.where == str(source) else e.where
        raise ModelError(e.what, where=": ".join(filter(None, (where, inside))), hint=e.hint) from e
    except OSError as e:
        raise ModelError(f"cannot be read: {e.strerror or e}", where=where) from e
    except zipfile.BadZipFile as e:
        raise ModelError("is not a learner, or is damaged: it is no zip file", where=where, hint=made_by()) from e
    except Exception as e:  # zipfile, json and numpy raise many kinds of exceptions for broken data
        raise ModelError(f"is not a learner, or is damaged ({type(e).__name__}: {e})", where=where) from e


def made_by() -> str:
    """How a learner is made."""
    how = either(shell="insitu train MODEL --data FILE -o learner.insitu", python="insitu.compile(model, ...)")
    return f"{how} makes a learner of a model"


def _read(z: zipfile.ZipFile) -> Learner:
    if sum(i.file_size for i in z.infolist()) > MAX_BYTES:
        raise ModelError("unpacks to more than 1 GiB")
    if ABOUT not in z.namelist():
        raise ModelError("contains a model, not a learner", hint=made_by())
    about = json.loads(part(z, ABOUT, MAX_TEXT))
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        found = about.get("format") if isinstance(about, dict) else about
        raise ModelError(f"has format {str(found)[:40]}, but this insitu reads {FORMAT}", where=ABOUT)
    parts = _parts(read_graph(part(z, MODEL)), about)
    learner = Learner(parts.graphs(), parts=parts, notes=tuple(_lines(about["notes"])))
    learner.begin_from(_state(z, _texts(about["state"]), first_state(learner)))
    learner.known = _known(about.get("known", {}))
    learner.lesson = _lesson(z, about["lesson"]) if "lesson" in about else None
    learner.seen = _seen(z, about["seen"], parts) if "seen" in about else Seen()
    return learner


def _parts(graph: Graph, about: dict) -> Parts:
    scheme = _scheme(about["scheme"], graph)
    batch, head = about["batch"], about["head"]
    if type(batch) is not int or not 1 <= batch <= MOST_BATCH or type(about["at_once"]) is not bool:
        raise ModelError(f"says batch {batch!r:.40}, at once {about['at_once']!r:.40}", where=ABOUT)
    if head is not None and (head != HEAD or head not in graph.producer):
        raise ModelError(f"the model has no head {head!r:.40}", where=ABOUT)
    return Parts(graph, scheme, _recipe(about["recipe"]), batch, about["at_once"], head)


def _scheme(found: dict, graph: Graph) -> Scheme:
    return fit(parse_scheme(json.dumps(found), str(found.get("name", "scheme"))[:200]), trainable(graph))


def _recipe(found: dict) -> Recipe:
    """The recipe; fields added by a later version are refused, missing ones have their defaults."""
    kinds = {f.name: type(getattr(Recipe(), f.name)) for f in fields(Recipe)}
    for name, value in found.items():
        if name not in kinds:
            raise ModelError(f"the recipe has {name[:40]!r}, which this insitu does not know", where=ABOUT)
        allowed = NONE_TOO.get(name) or ((int, float) if kinds[name] is float else (kinds[name],))
        if type(value) not in allowed:
            raise ModelError(f"the recipe's {name} is {value!r:.40}", where=ABOUT)
    return Recipe(**found)


def _known(found: dict) -> Known:
    """What partial_fit has measured; older files say nothing about it."""
    kinds = {f.name: (int, float) if f.type == "float" else (int,) for f in fields(Known)}
    for name, value in found.items():
        if name not in kinds or type(value) not in kinds[name] or not 0 <= value < MOST_KNOWN:
            raise ModelError(f"what is known says {name[:40]!r}: {value!r:.40}", where=ABOUT)
    return Known(**found)


def _seen(z: zipfile.ZipFile, found: list, parts: Parts) -> Seen:
    """The means of the classes; older files have none."""
    means = read_array(part(z, SEEN))
    weight = parts.forward.constants.get(f"{HEAD}.weight", np.zeros((0, 0)))
    pairs = [(k, n) for k, n in found if type(k) is int and type(n) is int and 0 <= k < len(weight) and n > 0]
    whole = len(pairs) == len(found) == len({k for k, _ in pairs}) and means.shape == (len(found), weight.shape[1])
    if not whole or means.dtype != np.float32 or not np.isfinite(means).all():
        raise ModelError("the means of the classes do not fit the head", where=SEEN)
    return Seen({k: m for (k, _), m in zip(pairs, means)}, dict(pairs))


def _lesson(z: zipfile.ZipFile, found: dict) -> Lesson:
    """What was taught; files of learners that were not taught have none."""
    marks = {name: read_array(part(z, f"{LESSON}/{name}.npy")) for name in MARKS}
    return read_lesson(found, marks, f"{ABOUT}: lesson")


def _texts(found: list) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ModelError("a list of words has other contents", where=ABOUT)
    return found


def _lines(found: list) -> list[str]:
    """Text for people, without control characters: they could do anything to a terminal."""
    return ["".join(c if c.isprintable() else repr(c)[1:-1] for c in text) for text in _texts(found)]


def _state(z: zipfile.ZipFile, names: list[str], first: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of the state: those of the program, with its shapes and types."""
    found = {name: read_array(part(z, f"{STATE}/{i}.npy")) for i, name in enumerate(names)}
    for name, array in found.items():
        if name not in first or first[name].shape != array.shape or first[name].dtype != array.dtype:
            raise ModelError(f"{name[:80]} is {array.dtype}{array.shape}, which the program does not have", where=STATE)
    missing = next((name for name in first if name not in found), None)
    if missing is not None:
        raise ModelError(f"{missing} is missing", where=STATE)
    return found


@spelled
def open(source: str | Path) -> Learner:
    """A learner from the file that `save` wrote, or from a board's folder (on its emulator)."""
    check_source(source)
    path = Path(source)
    if path.is_dir():
        from insitu.learner.folder import open_folder

        return open_folder(path)
    if path.suffix.lower() != SUFFIX:
        models = either(
            shell=made_by(), python="insitu.load(...) opens models, insitu.compile(...) makes learners of them"
        )
        raise DataError(f"unknown kind of learner {path.suffix!r}", where=str(source),
                        hint=f"a {SUFFIX} file that was saved; {models}")  # fmt: skip
    return open_learner(path)

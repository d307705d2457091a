"""The host device: the generated C, built for this machine and run in this process."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from insitu.codegen import Program, emit_program
from insitu.codegen.embedded import ELF, MACHO
from insitu.codegen.state import COMPLAINTS, HEADER_BYTES, brought_up
from insitu.devices.arenas import Arenas, aligned
from insitu.devices.crew import WORTH_A_THREAD, Crew, side_by_side, usual_threads
from insitu.devices.device import Trained, Updates, Verbs, closed
from insitu.devices.host_batches import Place, batches_source, train_batches
from insitu.devices.host_training import train_on_host
from insitu.errors import DataError, ToolError
from insitu.graph import Graph, Value
from insitu.ops.update import COUNTERS
from insitu.planner import Plan, plan
from insitu.toolchain.compiler import CC_HINT, NATIVE, build_library

LINE = 64  # bytes of a cache line: constants begin at one
SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "s32": ctypes.c_int32, "s8": ctypes.c_int8}


class Routine:
    """One function of a loaded program, with arguments as C takes them."""

    def __init__(self, program: Program, verb: str, library: ctypes.CDLL):
        graph = program.plans[verb].graph
        self.inputs, self.outputs, self.stateful = graph.inputs, graph.outputs, program.state is not None
        self.changes = bool(graph.updates)  # the state, that is
        self._sizes = [v.type.bytes if v.shape or i >= len(self.inputs) else None  # None: a scalar input
                       for i, v in enumerate((*self.inputs, *self.outputs))]  # fmt: skip
        self._call = getattr(library, f"{program.prefix}_{verb}")
        self._call.restype = None
        lasting = [ctypes.c_void_p] if self.stateful else []
        inputs = [ctypes.c_void_p if v.shape else SCALARS[v.dtype] for v in self.inputs]
        self._call.argtypes = [*lasting, ctypes.c_void_p, *inputs, *(ctypes.c_void_p for _ in self.outputs)]

    def arguments(self, state, arena, arrays: list[np.ndarray], outputs: list[np.ndarray], i: int = 0) -> list:
        """The arguments of the C function for sample i."""
        inputs = [argument(v, a, i) for v, a in zip(self.inputs, arrays)]
        results = [pointer(v, o, i) for v, o in zip(self.outputs, outputs)]
        lasting = [ctypes.c_void_p(state.ctypes.data)] if self.stateful else []
        return [*lasting, ctypes.c_void_p(arena.ctypes.data), *inputs, *results]

    def columns(self, arrays: list[np.ndarray], outputs: list[np.ndarray], part: range) -> list:
        """The arguments of `bound` for each of these samples, argument by argument."""
        given = zip(self._sizes, (*arrays, *outputs))
        return [scalars(a, part) if size is None else places(a, size, part) for size, a in given]

    def run_each(self, state: np.ndarray, arena: np.ndarray, columns: list) -> None:
        """One call after the other."""
        call, always = self._call, [memory.ctypes.data for memory in ((state, arena) if self.stateful else (arena,))]
        for arguments in zip(*columns):
            call(*always, *arguments)

    def run(self, arguments: list) -> None:
        self._call(*arguments)

    def bound(self, state: np.ndarray, arena: np.ndarray) -> Callable[..., None]:
        """The C function on this state and arena, which it keeps alive: takes addresses and scalars, unchecked."""
        lasting = [state.ctypes.data] if self.stateful else []
        return Holding((state, arena), self._call, *lasting, arena.ctypes.data)


class Holding(partial):
    """A call on addresses, and the arrays at those addresses: they live as long as the call."""

    kept: tuple[np.ndarray, ...]

    def __new__(cls, kept, function, *addresses):
        self = super().__new__(cls, function, *addresses)
        self.kept = kept
        return self


class HostDevice:
    """A compiled program, its state, and arenas to run it in.

    Threads may share a device: predictions run side by side, each in an arena of its own; a call that changes the state
    waits until it is alone.
    """

    counter = None  # nothing counts instructions here
    finite = True  # are numbers that are not finite refused? Single kernels define results for them, models do not
    _crew: Crew | None

    def __init__(self, program: Program, library: ctypes.CDLL):
        self.program: Program = program
        self.plan: Plan = program.plans["predict"]
        self.routines: dict[str, Routine] = {verb: Routine(program, verb, library) for verb in program.plans}
        self.inputs: tuple[Value, ...] = self.plan.graph.inputs
        self.outputs: tuple[Value, ...] = self.plan.graph.outputs
        self._library = library
        self.arenas: Arenas = Arenas(program.arena_bytes)
        self._content: np.ndarray | None = aligned(program.state_bytes)
        self._threads, self._crew = usual_threads(self._sample_bytes), None
        if program.state:
            self.reset()

    def __enter__(self) -> HostDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        def end(_) -> None:
            self._content = self._crew = None

        self.arenas.alone(end)

    @property
    def _state(self) -> np.ndarray:  # only call this in a turn: then nobody closes the device meanwhile
        if self._content is None:
            raise closed(f"{self.graph.name} on the host")
        return self._content

    @property
    def graph(self) -> Graph:
        return self.plan.graph

    @property
    def verbs(self) -> Verbs:
        """The program's functions: name -> inputs, outputs."""
        return {verb: (routine.inputs, routine.outputs) for verb, routine in self.routines.items()}

    @property
    def quick(self) -> bool:
        return self._sample_bytes < WORTH_A_THREAD

    @property
    def _sample_bytes(self) -> int:
        """The arena of calls that can run side by side: those that take whole batches do not."""
        plans = self.program.plans
        return max(p.arena_bytes for verb, p in plans.items() if verb != "train_step" or "accumulate" not in plans)

    def info(self) -> dict[str, int]:
        return {
            "arena_bytes": self.program.arena_bytes,
            "arena_lower_bound_bytes": max(p.lower_bound_bytes for p in self.program.plans.values()),
            "state_bytes": self.program.state_bytes,
            "const_bytes": self.program.const_bytes,
        }

    def predict(self, *inputs: Any) -> Any:
        """The outputs for these inputs: one array, or a tuple of them.

        Each input has the shape of the graph's, or more samples along the first axis.
        """
        shaped = self.run("predict", *inputs)
        return shaped[0] if len(shaped) == 1 else shaped

    def run(self, verb: str, *inputs: Any) -> tuple[np.ndarray, ...]:
        """Run one of the program's functions, several times if there are more samples than the graph takes."""
        routine = self._routine(verb)
        arrays = [fit(v, x, self.finite) for v, x in zip_inputs(routine.inputs, inputs)]
        rounds = rounds_of(routine.inputs, arrays)
        outputs = [np.empty((rounds * (v.shape or (1,))[0], *v.shape[1:]), v.type.numpy) for v in routine.outputs]

        def some(part: range, arena: np.ndarray) -> None:
            routine.run_each(self._state, arena, routine.columns(arrays, outputs, part))

        self._calls(verb, rounds, some)
        return tuple(o.reshape(v.shape) if rounds == 1 else o for o, v in zip(outputs, routine.outputs))

    def _calls(self, verb: str, count: int, some: Callable[[range, np.ndarray], None]) -> None:
        """Run `some` of `count` calls in an arena, until all are done; in threads if no call changes the state."""
        changes, threads = self.routines[verb].changes, min(self._threads, count)
        if changes or threads == 1:
            turn = self.arenas.alone if changes else self.arenas.share
            turn(lambda arena: some(range(count), arena))
            return
        parts = [range(count * t // threads, count * (t + 1) // threads) for t in range(threads)]
        self.arenas.share_several(threads, lambda arenas: side_by_side(some, parts, arenas))

    def train(self, updates: Updates) -> Trained:
        """Make these updates."""
        return self.arenas.alone(lambda _: train_on_host(self, updates))

    def train_batches(self, places: Sequence[Place], rates: Sequence[float], order: np.ndarray, batch: int) -> None:
        """Steps over whole batches, without any checks. It takes no turn, as `bound`."""
        arena = self.arenas.first.memory
        train_batches(self.program, self._library, self._state, arena, places, rates, order, batch)

    def crew(self, threads: int | None) -> Crew:
        """The crew that adds up the gradients of a batch; reused until the number of threads changes."""
        if self._crew is None or self._crew.threads_asked != (threads or self._threads):
            self._crew = Crew(self, threads or self._threads)
        return self._crew

    def counters(self) -> dict[str, int]:
        """How often an update was skipped (not finite), clipped, or saturated a weight."""
        layout = self.program.state
        if layout is None or "counters" not in (places := layout.offsets()):
            return dict.fromkeys(COUNTERS, 0)
        at = places["counters"]
        count = self.arenas.share(lambda _: self._state[at : at + 4 * len(COUNTERS)].copy())
        return dict(zip(COUNTERS, count.view(np.int32).tolist()))

    def values(self, *inputs: Any) -> dict[str, np.ndarray]:
        """Every output by name; if the device was opened with `keep`, every value of the graph."""
        return {v.name: r for v, r in zip(self.outputs, self.run("predict", *inputs))}

    def prepared(self, *inputs: Any, verb: str = "predict") -> Callable[[], list[np.ndarray]]:
        """A function that only makes the C call on these inputs and returns the outputs as views: for timing.

        It has an arena of its own and takes no turn: do not use it while another thread uses this device.
        """
        routine = self.routines[verb]
        arrays = [fit(v, x, self.finite) for v, x in zip_inputs(routine.inputs, inputs)]
        outputs = [np.empty(v.shape, v.type.numpy) for v in routine.outputs]
        state, arena = self._state, aligned(self.program.arena_bytes)
        arguments = routine.arguments(state, arena, arrays, outputs)

        def run(keep=(state, arena, arrays, outputs)):
            routine.run(arguments)
            return outputs

        return run

    def bound(self, verb: str, arena: np.ndarray | None = None) -> Callable[..., None]:
        """One of the program's functions without any checks: for loops that have checked their arrays.

        It takes no turn: only for a device of one's own (`twin`), or for an arena received in a turn.
        """
        return self.routines[verb].bound(self._state, self.arenas.first.memory if arena is None else arena)

    def poison(self, content: Any) -> None:
        """Fill the arenas with this byte, or these bytes: no call may depend on what an earlier one left there."""
        self.arenas.fill(content)

    def twin(self) -> HostDevice:
        """The same program with a state and arenas of its own."""
        return HostDevice(self.program, self._library)

    # state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything persistent, by name."""
        layout = self.program.state
        return layout.views(self.arenas.share(lambda _: self._state.copy())) if layout else {}

    def content(self) -> bytes:
        """All bytes of the state: to see whether it has changed."""
        return self.arenas.share(lambda _: self._state.tobytes())

    def follow(self, other: HostDevice) -> None:
        """Copy the state of a twin. Meanwhile both wait, always the same one first: two may follow each other."""
        if other is self:
            return
        first, second = sorted((self, other), key=id)
        first.arenas.alone(lambda _: second.arenas.alone(lambda _: np.copyto(self._state, other._state)))

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set these persistent values; those that are not named stay."""
        if not self.program.state:
            raise DataError("this program has no state: it was compiled for inference only")
        layout = self.program.state
        self.arenas.alone(lambda _: layout.put(self._state, arrays))

    def save_state(self) -> bytes:
        """The state as written by <prefix>_save."""
        out = np.zeros(HEADER_BYTES + self.program.state_bytes, np.uint8)
        save = self._function("save")
        self.arenas.share(lambda _: save(pointer_to(self._state), pointer_to(out)))
        return out.tobytes()

    def load_state(self, data: bytes) -> None:
        """Load a saved state; a wrong or damaged one is an error and changes nothing."""
        load = self._function("load")
        data = brought_up(data, self.program.state) if self.program.state else data
        load.restype = ctypes.c_int32
        buffer = np.frombuffer(data, np.uint8)
        size = ctypes.c_uint32(len(data))
        code = self.arenas.alone(lambda _: load(pointer_to(self._state), pointer_to(buffer), size))
        if code:
            raise DataError(COMPLAINTS[code], where="state")

    def reset(self) -> None:
        """Back to the program's initial state."""
        init = self._function("init")
        self.arenas.alone(lambda _: init(pointer_to(self._state)))

    def _routine(self, verb: str) -> Routine:
        if verb not in self.routines:
            raise DataError(f"the program has no {verb!r}", hint=", ".join(self.routines))
        return self.routines[verb]

    def _function(self, verb: str):
        if not self.program.state:
            raise DataError("this program has no state: it was compiled for inference only")
        return getattr(self._library, f"{self.program.prefix}_{verb}")


def argument(value: Value, array: np.ndarray, i: int = 0):
    """Sample i of an input in the form for C: a scalar by value, anything else by pointer."""
    if value.shape:
        return pointer(value, array, i)
    return SCALARS[value.dtype](array.reshape(-1)[0].item())


def places(array: np.ndarray, size: int, part: range) -> list[int]:
    """The addresses of these samples, each of `size` bytes."""
    start = array.ctypes.data
    return [start + i * size for i in part]


def scalars(array: np.ndarray, part: range) -> Iterable:
    """The same number for each of these samples."""
    return repeat(array.reshape(-1)[0].item(), len(part))


def pointer_to(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def pointer(value: Value, array: np.ndarray, i: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + i * value.type.bytes)


def open_host(graph: Graph, *, keep: bool = False, flags: tuple[str, ...] = (NATIVE,)) -> HostDevice:
    """Plan, generate, build and load a graph. With `keep`, every value is an output."""
    if keep:
        results = tuple(v for n in graph.nodes for v in n.outputs)
        graph = replace(graph, outputs=results)
    return open_plans({"predict": plan(graph)}, flags=flags)


def open_plans(plans: Mapping[str, Plan], *, flags: tuple[str, ...] = (NATIVE,)) -> HostDevice:
    """Generate, build and load a program of several functions."""
    return open_program(emit_program(plans), flags=flags)


Kind = TypeVar("Kind", bound=HostDevice)


def open_program(program: Program, *, flags: tuple[str, ...] = (NATIVE,), kind: type[Kind] = HostDevice) -> Kind:
    """Build and load a program; `kind` is the class of host device that runs it."""
    return kind(program, _loaded(program, flags))


def _loaded(program: Program, flags: tuple[str, ...]) -> ctypes.CDLL:
    files, loop = program.embedded(LINE, MACHO if sys.platform == "darwin" else ELF), batches_source(program)
    path = build_library({**files, **loop}, program.kernels, flags, plain=lambda: {**program.files, **loop})
    try:
        return ctypes.CDLL(str(path))
    except OSError as e:
        raise ToolError(f"the built library cannot be loaded: {e}", where=str(path), hint=CC_HINT) from e


def zip_inputs(values: tuple[Value, ...], inputs) -> list[tuple[Value, np.ndarray]]:
    if len(values) != len(inputs):
        raise DataError(f"needs {len(values)} inputs ({', '.join(v.name for v in values)}), not {len(inputs)}")
    return list(zip(values, inputs))


def fit(value: Value, x, finite: bool = True) -> np.ndarray:
    """The array in the form for C, or an error that says what is wrong with it."""
    x = np.asarray(x)
    want = value.type.numpy
    if value.dtype in ("f32", "f64"):
        if x.dtype.kind not in "fiu":
            raise DataError(f"is {value.type}, but the data are {x.dtype}", where=f"input {value.name}")
        with np.errstate(over="ignore"):  # if it is too large for a float, the check below finds it
            x = x.astype(want, copy=False)
    elif x.dtype != want:
        raise DataError(f"is {value.type}, but the data are {x.dtype}", where=f"input {value.name}")
    batched = value.shape[:1] and x.ndim == len(value.shape) and x.shape[0] % value.shape[0] == 0 and x.shape[0]
    if x.shape != value.shape and not (batched and x.shape[1:] == value.shape[1:]):
        shape = "x".join(map(str, x.shape)) or "a scalar"
        raise DataError(f"is {value.type}, but the data have the shape {shape}", where=f"input {value.name}")
    if finite:
        check_finite(value, x)
    return np.ascontiguousarray(x)


def check_finite(value: Value, x: np.ndarray) -> None:
    """Raise an error for the first sample with a number that is not finite: in int8 it would become some pixel."""
    if x.dtype.kind != "f" or not value.shape or np.isfinite(x).all():  # the C checks the rate: it skips the step
        return
    bad = int(np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))[0])
    raise DataError("has a number that is not finite", where=f"input {value.name}, sample {bad}")


def rounds_of(values: tuple[Value, ...], arrays: list[np.ndarray]) -> int:
    """The number of calls: scalars are the same for every sample."""
    counts = {a.size // v.type.size for a, v in zip(arrays, values) if v.shape} or {1}
    if len(counts) > 1:
        raise DataError(f"the inputs have different numbers of samples: {sorted(counts)}")
    return counts.pop()

"""Every case of every op as one C library: one compilation per target, not one per case."""

import ctypes
import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np

import insitu.ops  # noqa: F401  fills the registry
from insitu.codegen import Program, emit_program
from insitu.devices.host import HostDevice
from insitu.graph import REGISTRY, Builder, Case, Graph, Type, build, type_of
from insitu.planner import plan
from insitu.toolchain.compiler import NATIVE, SCALAR, STRICT, build_library
from insitu.toolchain.joined import ended

TARGETS = {"native": (NATIVE, *STRICT), "scalar": (SCALAR, *STRICT)}


@dataclass(frozen=True)
class Bound:
    """One case as a graph: all inputs are fed, or all except the first are constants."""

    id: str
    graph: Graph
    feeds: tuple[np.ndarray, ...]


@cache
def all_bound() -> dict[str, Bound]:
    found = {}
    for op in sorted(REGISTRY.values(), key=lambda o: o.name):
        for case in op.cases:
            if op.has("emit"):
                for fixed in (False, True) if len(case.inputs) > 1 and not op.overwrites else (False,):
                    bound = bind(op, case, fixed)
                    found[bound.id] = bound
    return found


def bind(op, case: Case, fixed: bool) -> Bound:
    label = f"{op.name}: {case.name}" + (", constants" if fixed else "")
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    builder = Builder(op.name)
    values, feeds = [], []
    with build(builder):
        for i, wanted in enumerate(case.inputs):
            array = wanted if isinstance(wanted, np.ndarray) else draw(wanted, rng, op.domain)
            given = type_of(array) if isinstance(wanted, np.ndarray) else wanted
            if fixed and i:
                values.append(builder.constant(f"x{i}", array, given))
            else:
                values.append(builder.input(f"x{i}", given))
                feeds.append(array)
        result = op(*values, name="y", out=case.out, **case.attrs)
    outputs = result if isinstance(result, tuple) else (result,)
    return Bound(label, builder.graph(*outputs), tuple(feeds))


def draw(type: Type, rng, domain=None) -> np.ndarray:
    """Random values of a type: the whole range of small integers, floats from the op's domain."""
    if type.dtype in ("f32", "f64"):
        low, high = domain or (-3.0, 3.0)
        return rng.uniform(low, high, type.shape).astype(type.numpy)
    if type.dtype == "b1":
        return rng.integers(0, 2, type.shape).astype(bool)
    if type.dtype in ("s32", "s64"):
        return rng.integers(-5000, 5001, type.shape).astype(type.numpy)
    info = np.iinfo(type.numpy)
    return rng.integers(info.min, info.max + 1, type.shape).astype(type.numpy)


@cache
def case_programs(machine: str, labels: tuple[str, ...]) -> dict[str, Program]:
    """These cases as programs with the kernels for this kind of machine; the planner changes nothing in them."""
    plans = {label: plan(all_bound()[label].graph, target=machine, stream=False) for label in labels}
    return {label: emit_program(made, f"case_{i}") for i, (label, made) in enumerate(plans.items())}


@cache
def library(target: str, machine: str = "host", labels: tuple[str, ...] = ()) -> dict[str, HostDevice]:
    """Every case (or these), with the kernels for this kind of machine, compiled into one library for this target."""
    programs = case_programs(machine, labels or tuple(all_bound()))
    files = {name: text for program in programs.values() for name, text in program.files.items()}
    kernels = tuple(sorted({k for program in programs.values() for k in program.kernels}))
    loaded = ctypes.CDLL(str(build_library(_joined(files), kernels, TARGETS[target])))
    return {label: Kernels(program, loaded) for label, program in programs.items()}


class Kernels(HostDevice):
    finite = False  # kernels define a result for every number


def _joined(files: dict[str, str]) -> dict[str, str]:
    """The headers, and all sources in two files: one process per case would take longer than the cases."""
    headers = {n: t for n, t in files.items() if n.endswith(".h")}
    sources = [ended(files[n]) for n in sorted(files) if n.endswith(".c")]
    half = len(sources) // 2
    return {**headers, "cases_1.c": "\n".join(sources[:half]), "cases_2.c": "\n".join(sources[half:])}

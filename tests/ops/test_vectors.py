"""Versions of the primitives for x86 machines equal plain C: each alone under the sanitizers, and in a whole training.

The version for AVX2 is tested on machines with AVX-512, too. What this machine cannot run is only compiled.
"""

import platform
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from insitu.devices.host import open_plans
from insitu.errors import ToolError
from insitu.graph import Graph
from insitu.learner.model import Model
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.toolchain.compiler import NATIVE, SCALAR, STRICT, compile_c
from insitu.toolchain.sources import C_FOLDER
from insitu.toolchain.zig import zig_command
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..models import imported

PROGRAM = Path(__file__).parent / "primitives.c"
PRODUCTS = Path(__file__).parent / "products.c"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
# flags, and what /proc/cpuinfo must list for the result to run
MACHINES = {
    "avx2": ("-march=haswell", {"avx2", "fma"}),
    "avx512": ("-march=icelake-client", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}),
}
STEPS = 3


@cache
def features() -> set[str]:
    """What /proc/cpuinfo says this processor has."""
    if platform.machine() != "x86_64" or not Path("/proc/cpuinfo").exists():
        return set()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next(line for line in lines if line.startswith("flags")).split())


def built(flags: tuple[str, ...], folder: Path, source: Path = PROGRAM) -> Path:
    compile_c(["-std=c99", "-O1", "-ffp-contract=off", *STRICT, *flags, "-I", str(C_FOLDER), str(source),
               "-o", str(folder / source.stem)])  # fmt: skip
    return folder / source.stem


@pytest.mark.parametrize("machine", MACHINES)
def test_every_primitive_equals_plain_c_and_touches_nothing_else(machine, tmp_path):
    if not features():
        pytest.skip("not x86 with Linux")
    flag, needed = MACHINES[machine]
    if not needed <= features():
        built((flag,), tmp_path)
        pytest.skip(f"compiled, but this processor has no {', '.join(sorted(needed - features()))}")
    try:
        program = built((flag, *SANITIZE), tmp_path)
    except ToolError:  # some compilers come without the sanitizers
        program = built((flag,), tmp_path)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def printed(flags: tuple[str, ...], folder: Path) -> str:
    program = built(flags, folder, PRODUCTS)
    return subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout


def printed_within_bounds(flag: str, folder: Path) -> str:
    """With a sanitizer if there is one. Not optimised: that would take ten seconds."""
    try:
        return printed((flag, "-O0", "-fsanitize=address"), folder)
    except ToolError:
        return printed((flag, "-O0"), folder)


@pytest.mark.parametrize("machine", MACHINES)
def test_products_of_every_width_equal_plain_c(machine, tmp_path):
    flag, needed = MACHINES[machine]
    if not needed <= features():
        pytest.skip(f"this processor has no {', '.join(sorted(needed - features()))}")
    assert printed_within_bounds(flag, tmp_path) == printed((flag, SCALAR), tmp_path)


@pytest.mark.parametrize("machine", ("haswell", "icelake_client"))
def test_clang_compiles_every_primitive(machine, tmp_path):
    """It wants constants where gcc takes expressions."""
    if not features() or not zig_command():
        pytest.skip("needs ziglang, and x86 with Linux")
    flags = ("-std=c99", "-O0", "-fno-sanitize=undefined", *STRICT, f"-march={machine}", "-I", str(C_FOLDER))
    command = [*zig_command(), "cc", *flags, "-c", str(PROGRAM), "-o", str(tmp_path / "primitives.o")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@cache
def graphs() -> dict[str, Graph]:
    """A whole int8 MobileNet, all of it trained."""
    graph = imported("mobilenet_v2")
    photos = np.random.default_rng(0).standard_normal((8, *graph.inputs[0].shape[1:])).astype(np.float32)
    graph = replace_head(Model(graph).quantize(photos).graph, None)
    scheme = read_scheme("full", [layer for layer in layers(graph) if layer.name != "head"])
    return train_graphs(graph, scheme, Recipe())


def trained(*flags: str) -> dict[str, bytes]:
    """The state after some steps."""
    device = open_plans({verb: plan(graph) for verb, graph in graphs().items()}, flags=flags)
    rng = np.random.default_rng(1)
    for i in range(STEPS):
        x = rng.standard_normal(device.graph.inputs[0].shape).astype(np.float32)
        device.run("train_step", x, np.array([i], np.int32), np.float32(0.05))
    return {name: value.tobytes() for name, value in device.state().items()}


def test_a_network_trained_with_avx2_has_the_state_of_plain_c():
    if not {"avx2", "fma"} <= features():
        pytest.skip("this processor has no AVX2")
    narrow = (NATIVE, "-mno-avx512f") if "avx512f" in features() else (NATIVE,)
    first = trained(SCALAR)
    assert trained(*narrow) == first
    if MACHINES["avx512"][1] <= features():
        assert trained(NATIVE) == first

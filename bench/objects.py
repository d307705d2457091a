"""Does a change of the hand-written C leave the machine code alone? Every kernel, for every machine, before and after.

    python -m bench.objects BEFORE AFTER                    two checkouts; exit status 1 where an object differs
    python -m bench.objects BEFORE AFTER --targets m4 m55   only targets whose name contains one of these words
    python -m bench.objects BEFORE AFTER --kernels conv     only kernels, likewise

An object is compared byte by byte, without debug information, so without paths. Where a folder has no kernels.h it is
generated, as for a firmware. Nothing is linked or run here: what programs learn and count is bench/same.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from insitu.boards.cpu import CPUS
from insitu.firmware.build import FLAGS as FIRMWARE
from insitu.firmware.build import ZIG
from insitu.toolchain import sources
from insitu.toolchain.cache import cached, key_of
from insitu.toolchain.compiler import FLAGS as HOST
from insitu.toolchain.prototypes import own_header
from insitu.toolchain.zig import zig_command

CC = (*zig_command(), "cc")
PLAIN = tuple(flag for flag in FIRMWARE if flag != "-g")
X86 = (*CC, "-target", "x86_64-linux-musl")


@dataclass(frozen=True)
class Target:
    name: str
    command: tuple[str, ...]


_TARGETS = (
    *(Target(c.name, (*CC, *c.zig, *PLAIN, c.level, *ZIG)) for c in CPUS.values()),
    Target("m7-gcc", ("arm-none-eabi-gcc", *CPUS["cortex-m7"].gcc, *PLAIN, "-Os")),
    Target("avx2", (*X86, "-mcpu=x86_64_v3", *HOST)),
    Target("avx512", (*X86, "-mcpu=icelake_server", *HOST)),
    Target("avx2-gcc", ("gcc", "-march=haswell", *HOST)),
    Target("avx512-gcc", ("gcc", "-march=icelake-server", *HOST)),
    Target("scalar", ("gcc", "-march=haswell", "-DINSITU_SCALAR", *HOST)),
    Target("aarch64", (*CC, "-target", "aarch64-linux-musl", *HOST)),
    Target("wasm", (*CC, "-target", "wasm32-freestanding", *(flag for flag in HOST if flag != "-fPIC"))),
)
TARGETS = {target.name: target for target in _TARGETS}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--targets", nargs="+", default=("",))
    parser.add_argument("--kernels", nargs="+", default=("",))
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        before, after = prepared(chosen.before, Path(a)), prepared(chosen.after, Path(b))
        names = containing(chosen.kernels, {*sources.kernel_paths(before[0]), *sources.kernel_paths(after[0])})
        targets = [TARGETS[name] for name in containing(chosen.targets, TARGETS)]
        return 1 if sum([compare(names, target, before, after) for target in targets]) else 0


def containing(words: Iterable[str], names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if any(word in name for word in words))


def prepared(checkout: Path, folder: Path) -> tuple[Path, Path]:
    """The folder of C of a checkout, and a folder with the generated kernels.h of each kernel."""
    c = (checkout / "src" / "insitu" / "c").resolve()
    sources.C_FOLDER = c
    if not (c / sources.EVERYTHING).exists():
        for name, path in sources.kernel_paths(c).items():
            (folder / name).mkdir()
            (folder / name / sources.EVERYTHING).write_text(own_header(path)[sources.EVERYTHING])
    return c, folder


def compare(names: list[str], target: Target, before: tuple[Path, Path], after: tuple[Path, Path]) -> int:
    """Print what differs on a target; how many objects do."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        old, new = (list(pool.map(partial(made, target=target, where=w), names)) for w in (before, after))
    differ = [f"{name} ({said(a)} -> {said(b)})" for name, a, b in zip(names, old, new) if a != b]
    print(f"{target.name:14} {len(names)} kernels, {len(differ)} differ", *differ, sep="\n    ", flush=True)
    return len(differ)


def said(code: bytes) -> str:
    return f"{len(code)} bytes" if code[:1] != b"!" else code.decode()[:400]


def made(name: str, target: Target, where: tuple[Path, Path]) -> bytes:
    """The object of a kernel, or what the compiler complains about."""
    c, generated = where
    path = sources.kernel_paths(c).get(name)
    if path is None:
        return b"!no such file"
    command = [*target.command, "-g0", "-I", str(c), "-I", str(generated / name)]
    text = run([*command, "-E", "-P", str(path)]).stdout
    key = key_of("object", *command[:-4], hashlib.sha256(text.encode()).hexdigest())
    return cached("objects", key, ".o", lambda to: compiled(command, path, to)).read_bytes()


def compiled(command: list[str], path: Path, to: Path) -> None:
    """Compiled in its folder under its short name, so that no path gets into the object."""
    done = run([*command, "-c", path.name, "-o", str(to)], path.parent)
    if done.returncode:
        to.write_bytes(b"!" + done.stderr.encode())


def run(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())

"""The stack reserve is enough: compared with the compiler's own figures and with the real depth of the stack."""

import shutil
import subprocess
from pathlib import Path

import pytest

from insitu.devices.emulator import emulate
from insitu.errors import ToolError
from insitu.firmware import build_firmware
from insitu.firmware.build import find_tools, firmware_sources
from insitu.firmware.stack import EXCEPTION, THUMB, branch, decode, expanded, pushed
from insitu.firmware.stack_riscv import RISCV
from insitu.toolchain.sources import C_FOLDER

from .images import CORES, KINDS, board, changed, firmware, program, steps

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

GCC = "arm-none-eabi-gcc"
needs_gcc = pytest.mark.skipif(not shutil.which(GCC), reason=f"no {GCC}")


@pytest.mark.parametrize("core", [c for c in CORES if c != "M55"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_stack_never_gets_deeper_than_the_reserve(kind, core):
    made = firmware(kind, core)
    device = emulate(made)
    device.run("train_step", *steps(kind, 1)[0])
    device.load_state(device.save_state())
    machine = THUMB if made.board.core.arm else RISCV
    assert 100 < device.stack_bytes() <= made.stack.bytes - machine.exception[made.board.core.fpu] + 8


@pytest.fixture(scope="module")
def gcc_sizes(tmp_path_factory) -> dict[str, int]:
    """Function -> bytes of stack, according to GCC; names that two files share are left out."""
    folder, found, twice = tmp_path_factory.mktemp("su"), {}, set()
    tools = find_tools(GCC, board("M7").core)
    for name, (text, headers) in firmware_sources(program("conv"), "emulator", {}).items():
        place = folder / Path(name).parent / Path(name).stem
        place.mkdir(parents=True)
        for file, content in {**headers, "it.c": text}.items():
            (place / file).write_text(content)
        subprocess.run(
            [*tools.command, *tools.flags, "-fstack-usage", f"-I{C_FOLDER}", "-I.", "-c", "it.c", "-o", "it.o"],
            cwd=place, check=True,
        )  # fmt: skip
        for line in (place / "it.su").read_text().splitlines():
            where, size, how = line.split("\t")
            assert how in ("static", "dynamic,bounded"), line
            function = where.rpartition(":")[2]
            twice |= {function} & set(found)
            found[function] = int(size)
    return {f: size for f, size in found.items() if f not in twice}


@needs_gcc
def test_no_frame_is_smaller_than_the_compiler_says(gcc_sizes):
    made = firmware("conv", "M7", GCC)
    frames = {s.name: decode(made.image, s).frame for s in made.image.functions}
    both = set(frames) & set(gcc_sizes)
    assert len(both) > 20
    assert {f: (frames[f], gcc_sizes[f]) for f in both if frames[f] < gcc_sizes[f]} == {}


@needs_gcc
def test_the_reserve_is_at_least_the_compilers_sizes_along_the_chain(gcc_sizes):
    made = firmware("conv", "M7", GCC)
    chain = [gcc_sizes.get(name, 0) for name, _ in made.stack.chain]
    assert sum(size > 0 for size in chain) >= 3
    assert made.stack.bytes >= sum(chain) + EXCEPTION[True]


def test_the_chain_begins_at_reset_and_its_frames_add_up():
    made = firmware()
    assert [name for name, _ in made.stack.chain][:1] == ["reset"]
    need = sum(frame for _, frame in made.stack.chain) + EXCEPTION[True]
    assert need <= made.stack.bytes < need + 8 and made.stack.bytes % 8 == 0


def test_recursion_is_refused_by_name():
    recurse = """int32_t dig(int32_t n);
__attribute__((noinline)) int32_t dig(int32_t n) { volatile int32_t k = n; return k ? dig(k - 1) + k : 0; }"""
    with pytest.raises(ToolError, match="recursion, .*: dig -> dig"):
        build_firmware(program(), board("M7"), extra=changed("dig(net_device_arena[0]);", recurse))


def test_a_frame_of_unknown_size_is_refused_by_name():
    grow = """__attribute__((noinline)) static int32_t grow(int32_t n)
{ volatile uint8_t *p = __builtin_alloca((uint32_t)n); p[n - 1] = 1; return p[0]; }"""
    with pytest.raises(ToolError, match=r"grow: has a stack frame whose size is not in the code"):
        build_firmware(program(), board("M7"), extra=changed("grow(net_device_arena[0]);", grow))


def test_a_call_through_a_pointer_of_the_models_is_refused():
    leap = """typedef void (*target)(void);
__attribute__((noinline)) static void leap(void) { (*(target volatile *)net_device_arena)(); }"""
    with pytest.raises(ToolError, match="leap: calls through a pointer"):
        build_firmware(program(), board("M7"), extra=changed("leap();", leap))


JUMPS = {"a condition, far": "cmp r0, #0\\n bne.w deep\\n bx lr", "far": "b.w deep"}


@pytest.mark.parametrize("what", JUMPS)
def test_a_jump_into_another_function_is_a_call_of_it(what):
    functions = f"""void deep(void);
__attribute__((noinline, used)) void deep(void) {{ volatile uint8_t room[4000]; room[net_device_arena[0]] = 1; }}
__attribute__((naked, noinline)) static void hop(void) {{ __asm__ volatile("{JUMPS[what]}"); }}"""
    made = build_firmware(program(), board("M7"), extra=changed("hop();", functions))
    assert [name for name, _ in made.stack.chain][-2:] == ["hop", "deep"] and made.stack.bytes > 4000


# at address 0x1000, as an assembler encodes them: the target of each
BRANCHES = {
    "bne.w 0x1100": (0xF040, 0x807E, 0x1100),
    "beq.w 0x800": (0xF43F, 0xABFE, 0x800),
    "bne 0x1010": (0xD106, 0, 0x1010),
    "bne 0xff0": (0xD1F6, 0, 0xFF0),
    "cbz r0, 0x1010": (0xB130, 0, 0x1010),
    "cbnz r3, 0x1046": (0xBB0B, 0, 0x1046),
    "b 0x1010": (0xE006, 0, 0x1010),
    "b.w 0x3000": (0xF001, 0xBFFE, 0x3000),
    "bl 0x3000": (0xF001, 0xFFFE, 0x3000),
    "dsb sy": (0xF3BF, 0x8F4F, None),
    "mrs r0, primask": (0xF3EF, 0x8010, None),
    "svc 0": (0xDF00, 0, None),
    "udf 0": (0xDE00, 0, None),
    "push {r4, lr}": (0xB510, 0, None),
}


@pytest.mark.parametrize("text", BRANCHES)
def test_where_a_branch_goes(text):
    one, two, target = BRANCHES[text]
    assert branch(0x1000, one, two) == target


# encodings from an assembler: what each takes from the stack
ENCODINGS = {
    "push {r4, lr}": (0xB510, 0, 8),
    "push {r4-r11, lr}": (0xE92D, 0x4FF0, 36),
    "sub sp, #508": (0xB0FF, 0, 508),
    "sub.w sp, sp, #1024": (0xF5AD, 0x6D80, 1024),
    "subw sp, sp, #1028": (0xF2AD, 0x4D04, 1028),
    "vpush {d8-d15}": (0xED2D, 0x8B10, 64),
    "vpush {s16-s31}": (0xED2D, 0x8A10, 64),
    "str r4, [sp, #-4]!": (0xF84D, 0x4D04, 4),
    "strd r4, r5, [sp, #-8]!": (0xE96D, 0x4502, 8),
    "add sp, #8": (0xB002, 0, 0),
    "pop {r4, pc}": (0xBD10, 0, 0),
}


@pytest.mark.parametrize("text", ENCODINGS)
def test_what_an_instruction_pushes(text):
    one, two, bytes = ENCODINGS[text]
    assert pushed(one, two, text) == bytes


@needs_gcc
def test_encodings_are_those_of_an_assembler(tmp_path):
    source = ".syntax unified\n.thumb\n.fpu fpv5-sp-d16\n" + "\n".join(ENCODINGS) + "\n"
    (tmp_path / "it.s").write_text(source)
    tools = [GCC, "-mcpu=cortex-m7", "-c", "it.s", "-o", "it.o"]
    subprocess.run(tools, cwd=tmp_path, check=True)
    dumped = subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", "it.o", "it.bin"], cwd=tmp_path, check=False)
    assert dumped.returncode == 0
    halves = [h for one, two, _ in ENCODINGS.values() for h in ((one, two) if two else (one,))]
    assert (tmp_path / "it.bin").read_bytes()[: 2 * len(halves)] == b"".join(h.to_bytes(2, "little") for h in halves)


def test_thumb_constants_are_expanded():
    assert [expanded(c) for c in (0x0FF, 0x180, 0x480, 0xE80)] == [0xFF, 0x00800080, 0x40000000, 1024]

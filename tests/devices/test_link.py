"""The device protocol: frames, and a program over the line that gives the same bytes as without one."""

import re
import time

import cobs.cobs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.codegen import emit_program
from insitu.codegen.device import DATA_BYTES, FRAME_BYTES, KERNELS, SOURCES, emit_device, interface_of, main_source
from insitu.codegen.state import HEADER_BYTES
from insitu.devices.frames import KINDS, frame, stuff, unframe, unstuff
from insitu.devices.host import open_program
from insitu.devices.link import LinkDevice
from insitu.devices.process import ProcessChannel
from insitu.devices.requests import STATUS
from insitu.errors import DataError, GraphError
from insitu.graph import Builder, build, f32, lookup
from insitu.planner import plan
from insitu.toolchain.compiler import compile_c
from insitu.toolchain.prototypes import kernels_header
from insitu.toolchain.sources import C_FOLDER

from ..conftest import ROOT
from .firmware import build_firmware, calls, open_link, program, samples

TRAINED = ("int8", "float", "batch", "targets")
# runs without a zero around the length of the longest block, zeros at every position
LONG = [b"a" * n + end for n in (253, 254, 255, 508) for end in (b"", b"\0", b"\0b")]
EDGES = [b"", b"\0", b"\0\0", b"a\0", b"\0a", *LONG]


@pytest.mark.parametrize("data", EDGES)
def test_stuffing_is_cobs_at_the_edges(data):
    assert stuff(data) == cobs.cobs.encode(data)


@given(st.binary(max_size=600) | st.lists(st.sampled_from([0, 1, 255]), max_size=600).map(bytes))
@settings(max_examples=200, deadline=None)
def test_stuffing_is_cobs_and_comes_back(data):
    assert stuff(data) == cobs.cobs.encode(data)
    assert unstuff(stuff(data)) == data


@given(st.binary(min_size=1, max_size=300), st.data())
@settings(max_examples=200, deadline=None)
def test_a_changed_bit_of_a_frame_is_noticed(data, draw):
    sent = bytearray(frame(data)[1:-1])
    at = draw.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= 1 << draw.draw(st.integers(0, 7))
    assert unframe(bytes(sent)) is None


@pytest.fixture(scope="module")
def device():
    with open_link("float") as opened:
        yield opened


def test_every_length_of_data_comes_back_from_the_device(device):
    rng = np.random.default_rng(0)
    for size in range(DATA_BYTES + 1):
        device.ping(rng.bytes(size))
    for data in EDGES:
        device.ping(data[:DATA_BYTES])
    assert device.counters()["rejected"] == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_device_is_found_while_it_still_answers_noise(seed):
    """Three thousand random bytes precede the first request, and the device complains about each frame."""
    channel = ProcessChannel([str(build_firmware(program("int8")))])
    channel.write(np.random.default_rng(seed).bytes(3000))
    with LinkDevice(channel, program("int8")) as device:
        assert device.ping(b"there") < 2
        assert device.counters()["rejected"] > 3


class AnswersDamaged(ProcessChannel):
    """A line that turns a bit in the middle of the next answers."""

    damaged = 0

    def read(self, most: int, timeout: float) -> bytes:
        got = bytearray(super().read(most, timeout))
        if self.damaged and len(got) > 2:
            got[len(got) // 2] ^= 1
            self.damaged -= 1
        return bytes(got)


@pytest.mark.parametrize("times", [1, 3])
def test_a_damaged_answer_is_asked_for_again_at_once(times):
    """Not only after the seconds that an answer may take: a long state on a bad line would take minutes."""
    channel = AnswersDamaged([str(build_firmware(program("int8")))])
    with LinkDevice(channel, program("int8"), timeout=30) as device:
        channel.damaged = times
        began = time.monotonic()
        device.ping(b"there")
        assert channel.damaged == 0 and time.monotonic() - began < 10


@pytest.mark.parametrize("kind", [*TRAINED, "inference"])
def test_predictions_over_the_line_equal_the_hosts(kind):
    host, x = open_program(program(kind)), samples()[0]
    with open_link(kind) as device:
        assert device.predict(x).tobytes() == host.predict(x).tobytes()
        assert device.predict(x[:1]).shape == host.predict(x[:1]).shape


@pytest.mark.parametrize("kind", TRAINED)
def test_ten_training_steps_over_the_line_equal_the_hosts(kind):
    host = open_program(program(kind))
    with open_link(kind) as device:
        for i in range(10):
            for call in calls(kind, i):
                there, here = device.run(*call), host.run(*call)
                assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
        assert device.save_state() == host.save_state()
        assert host.save_state() != open_program(program(kind)).save_state(), "nothing was learned"


def test_a_state_goes_there_and_back():
    host = open_program(program())
    with open_link() as device:
        first = device.save_state()
        host.run(*calls("int8", 0)[0])
        device.load_state(host.save_state())
        assert device.save_state() == host.save_state()
        device.reset()
        assert device.save_state() == first
        device.load_arrays({"counters": np.array([1, 2, 3], np.int32)})
        assert device.state()["counters"].tolist() == [1, 2, 3]
        assert {k: device.counters()[k] for k in ("skipped", "clipped", "saturated")} == {
            "skipped": 1, "clipped": 2, "saturated": 3}  # fmt: skip


def test_the_device_says_what_it_is(device):
    built = program("float")
    assert device.info() == {
        "protocol": 1, "frame_bytes": FRAME_BYTES, "model": built.state.model, "program": interface_of(built).program,
        "verbs": 2, "arena_bytes": max(built.arena_bytes, HEADER_BYTES + built.state_bytes),
        "state_bytes": built.state_bytes, "saved_bytes": HEADER_BYTES + built.state_bytes,
    }  # fmt: skip


def test_what_does_not_fit_an_input_is_said_before_anything_is_sent(device):
    before = device.counters()["frames"]
    for inputs in [(), (np.zeros((1, 7), np.float32),), (np.array(["a"]),)]:
        with pytest.raises(DataError):
            device.predict(*inputs)
    with pytest.raises(DataError, match="no 'learn'"):
        device.run("learn")
    assert device.counters()["frames"] == before + 1


def test_a_program_for_inference_has_no_state_to_ask_for():
    with open_link("inference") as device:
        assert device.state() == {}
        for ask in (device.save_state, device.reset, lambda: device.load_state(b"")):
            with pytest.raises(DataError, match="inference only"):
                ask()


def test_all_memory_of_the_protocol_is_below_2_kb(tmp_path):
    elf = pytest.importorskip("elftools.elf.elffile")
    total = 0
    (tmp_path / "kernels.h").write_text(kernels_header(KERNELS))
    for source in SOURCES:
        made = tmp_path / "part.o"
        compile_c(
            ["-std=c99", "-O1", "-I", str(C_FOLDER), "-I", str(tmp_path), "-c", str(C_FOLDER / source), "-o", str(made)]
        )
        with made.open("rb") as f:
            if f.read(4) != b"\x7fELF":
                pytest.skip("this compiler does not make ELF files")
            sections = elf.ELFFile(f).iter_sections()
            total += sum(s["sh_size"] for s in sections if s["sh_flags"] & 3 == 3)  # writable, and in memory
    assert FRAME_BYTES < total <= 2048


def test_the_protocol_and_the_tables_compile_without_a_warning(tmp_path):
    files = {**program().files, **emit_device(program()), "main.c": main_source()}
    files["kernels.h"] = kernels_header((*program().kernels, *KERNELS))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-ffreestanding"]
    sources = [*(C_FOLDER / s for s in SOURCES), tmp_path / "net_device.c", tmp_path / "main.c"]
    for source in sources:
        target = str(tmp_path / "part.o")
        compile_c([*strict, "-I", str(C_FOLDER), "-I", str(tmp_path), "-c", str(source), "-o", target])


def test_a_program_with_too_many_inputs_for_the_protocol_says_so():
    builder = Builder("wide")
    with build(builder):
        total = builder.input("x0", f32(1, 2))
        for i in range(1, 9):
            total = lookup("add")(total, builder.input(f"x{i}", f32(1, 2)))
    with pytest.raises(GraphError, match="9 inputs"):
        emit_device(emit_program(plan(builder.graph(total))))


# the document -----------------------------------------------------------------------------------

DOCUMENT = (ROOT / "docs" / "protocol.md").read_text()


def test_the_document_names_every_request_and_every_status():
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in DOCUMENT.splitlines() if line[:2] == "| "]
    requests = {int(r[0]): r[1] for r in rows if len(r) == 3 and r[1] in KINDS}
    assert requests == dict(enumerate(KINDS))
    statuses = {int(r[0]) for r in rows if r[-1] == "untouched"}
    assert statuses == set(STATUS)


def test_the_ports_in_the_document_compile_without_a_warning(tmp_path):
    (example,) = re.findall(r"```c\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "port.c").write_text(example)
    options = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-Wno-int-to-pointer-cast"]
    compile_c([*options, "-I", str(C_FOLDER), "-c", str(tmp_path / "port.c"), "-o", str(tmp_path / "port.o")])


def test_the_document_has_the_real_size_of_the_session(tmp_path):
    (size,) = re.findall(r"One `device_session`, (\d+) bytes", DOCUMENT)
    check = f'#include "device/device.h"\ntypedef char same[sizeof(device_session) == {size} ? 1 : -1];\n'
    (tmp_path / "size.c").write_text(check)
    compile_c(["-std=c99", "-I", str(C_FOLDER), "-c", str(tmp_path / "size.c"), "-o", str(tmp_path / "size.o")])

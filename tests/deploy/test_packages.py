"""A board's folder as a package: its Arduino sketches compile and train, other systems' own tools accept the rest."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from insitu.boards import find_board
from insitu.deploy import deploy, limits_of
from insitu.deploy.bundle import write_board
from insitu.deploy.packages import platforms
from insitu.devices.host import open_program
from insitu.devices.link import LinkDevice
from insitu.devices.process import ProcessChannel
from insitu.toolchain.zig import zig_command

from ..firmware.images import conv_graphs, program, steps
from .tools import BUILD_KEYS, COMPOTE, MODULE_KEYS, PLATFORMIO, keys_of, tool, write_stubs

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

HERE = Path(__file__).parent
STRICT = ["-Os", "-fno-sanitize=undefined", "-ffunction-sections", "-Wall", "-Wextra", "-Werror"]
ARDUINO = ["-DARDUINO=10607", "-std=gnu11"]  # a library cannot bring options of its own, not even -ffp-contract=off
C = ["-DINSITU_SCALAR", *ARDUINO, *STRICT]
CPP = ["-std=c++11", "-fno-exceptions", "-fno-rtti", *STRICT]


@pytest.fixture(scope="module")
def deployment():
    return deploy(conv_graphs(), limits_of("nano33ble", None, None))


@pytest.fixture(scope="module")
def folder(deployment, tmp_path_factory):
    place = tmp_path_factory.mktemp("package")
    write_board(deployment, place)
    return place


@pytest.fixture(scope="module", params=["zig", "gcc"])
def objects(folder, tmp_path_factory, request) -> list[str]:
    """The library as Arduino builds it: every C file below src/, for a machine that can fuse a product and a sum."""
    if request.param == "gcc" and not shutil.which("gcc"):
        pytest.skip("no gcc")
    place = tmp_path_factory.mktemp("objects")
    sources = [str(p) for p in sorted((folder / "src").rglob("*.c"))]
    compiler = [*zig_command(), "cc"] if request.param == "zig" else ["gcc"]
    run([*compiler, *C, *fused(), f"-I{folder}/src", "-c", *sources], place)
    return [str(p) for p in place.glob("*.o")]


def fused() -> list[str]:
    """The option for fused multiply-adds, where this machine has them and compilers are not told."""
    cpu = Path("/proc/cpuinfo")
    return ["-mfma"] if cpu.exists() and " fma " in cpu.read_text() else []


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def built(name: str, folder: Path, objects: list[str], place: Path) -> str:
    """A sketch as a program of this machine. `zig c++` would build a library first that no sketch needs."""
    shutil.copy(folder / "examples" / name / f"{name}.ino", place / f"{name}.cpp")
    sources = [str(place / f"{name}.cpp"), str(HERE / "arduino.cpp")]
    options = [*CPP, f"-I{HERE}", f"-I{folder}/src", "-Wl,--gc-sections"]
    run([*zig_command(), "cc", *options, *sources, *objects, "-o", str(place / name)], place)
    return str(place / name)


def test_the_sketch_trains_over_the_serial_port_to_the_bytes_of_the_host(deployment, folder, objects, tmp_path):
    channel = ProcessChannel([built("serial", folder, objects, tmp_path)])
    host = open_program(program("conv", "host"))
    with LinkDevice(channel, deployment.program) as device:
        for step in steps("conv", 20):
            assert device.run("train_step", *step)[0].tobytes() == host.run("train_step", *step)[0].tobytes()
        assert device.save_state() == host.save_state()


def test_the_sketch_with_buffers_of_its_own_trains(folder, objects, tmp_path):
    lines = dict(line.split(": ") for line in run([built("train", folder, objects, tmp_path)], tmp_path).splitlines())
    assert set(lines) == {"predict", "train_step"} and float(lines["train_step"]) > 0


def test_arduino_finds_its_fields_and_the_header_to_include(folder):
    lines = dict(line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines())
    assert {"name", "version", "author", "maintainer", "sentence", "category", "architectures"} <= set(lines)
    assert (folder / "src" / lines["includes"]).exists()


def test_platformio_names_headers_and_examples_that_exist(folder):
    found = json.loads((folder / "library.json").read_text())
    assert all((folder / "src" / name).exists() for name in found["headers"])
    assert all((folder / e["base"] / name).exists() for e in found["examples"] for name in e["files"])
    assert "-ffp-contract=off" in found["build"]["flags"]


def test_platformio_packs_the_library(folder, tmp_path):
    pio = tool(PLATFORMIO, "pio")
    run([pio, "pkg", "pack", str(folder), "-o", str(tmp_path / "net.tar.gz")], tmp_path)
    assert (tmp_path / "net.tar.gz").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("board", "names"), [("pico", ["raspberrypi"]), ("lm3s6965", ["*"]), ("stm32f746", ["ststm32"]), ("esp32c3", ["*"])]
)
def test_platformio_is_told_its_own_name_of_a_boards_platform(board, names):
    assert platforms(find_board(board)) == names


def test_esp_idf_packs_the_component(folder, tmp_path):
    compote = tool(COMPOTE, "compote")
    shutil.copytree(folder, tmp_path / "net")
    out = run([compote, "component", "pack", "--name", "net", "--project-dir", str(tmp_path / "net")], tmp_path / "net")
    assert "Saved archive" in out or list((tmp_path / "net" / "dist").glob("*.tgz"))


def test_zephyr_knows_every_key_of_the_module(folder):
    text = (folder / "zephyr/module.yml").read_text()
    top, build = keys_of(text), keys_of(text.partition("build:\n")[2], "  ")
    assert set(top) <= MODULE_KEYS and set(build) <= BUILD_KEYS
    assert top["name"] == "insitu_net" and (folder / build["cmake"] / "CMakeLists.txt").exists()


@pytest.mark.parametrize(("text", "unknown"), [("nmae: net\n", "nmae"), ("build:\n  cmaek: zephyr\n", "cmaek")])
def test_a_misspelled_key_would_be_seen(text, unknown):
    assert unknown in {*keys_of(text), *keys_of(text, "  ")} - MODULE_KEYS - BUILD_KEYS


def test_zephyrs_cmake_builds_the_module(folder, tmp_path):
    """With stand-ins for the functions of Zephyr that it calls, and the compiler of this machine."""
    if not (shutil.which("cmake") and shutil.which("cc")):
        pytest.skip("no cmake or cc")
    stubs = write_stubs(tmp_path / "stubs")
    run(["cmake", "-S", str(stubs), "-B", str(tmp_path / "build"), f"-DMODULE={folder}"], tmp_path)
    run(["cmake", "--build", str(tmp_path / "build")], tmp_path)
    made = tmp_path / "build" / "module" / "libinsitu_net.a"
    objects = run(["ar", "t", str(made)], tmp_path).splitlines()
    assert sorted(objects) == sorted(f"{p.name}.o" for p in (folder / "src").rglob("*.c"))

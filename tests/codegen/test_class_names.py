"""The names of classes in the generated C, in what a device says of itself, and in a board's folder."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from insitu.codegen import emit_program
from insitu.codegen.c import string
from insitu.codegen.device import DATA_BYTES, interface_of
from insitu.devices.agree import described, differences
from insitu.devices.frames import request
from insitu.devices.process import open_process
from insitu.graph import build, f32
from insitu.ops.layout import reshape
from insitu.planner import plan
from insitu.toolchain.compiler import compile_c

NAMES = ("rest", "größer als 1/2", 'a "quoted" \\ one', "??/ trigraph", "100 % sure", "")
MANY = tuple(f"the class with the number {i}" for i in range(60))


def program(names: tuple[str, ...]):
    with build("net") as b:
        y = reshape(b.input("x", f32(1, 2, len(names) // 2)), shape=(1, -1))
    return emit_program(plan(replace(b.graph(y), classes=names)))


def test_the_c_has_the_very_names(tmp_path):
    made = program(NAMES)
    for name, text in made.files.items():
        (tmp_path / name).write_text(text)
    main = '#include <stdio.h>\n#include "net.h"\nint main(void)\n{\n    for (int i = 0; i < NET_CLASSES; i++) {\n'
    (tmp_path / "main.c").write_text(main + "        puts(net_class_names[i]);\n    }\n    return 0;\n}\n")
    sources = [str(tmp_path / name) for name in ("main.c", "net_classes.c")]
    compile_c(["-std=c99", "-Wall", "-Wextra", "-Werror", *sources, "-o", str(tmp_path / "names")])
    shown = subprocess.run([tmp_path / "names"], capture_output=True, check=True).stdout.decode()
    assert tuple(shown.split("\n")[:-1]) == NAMES


def test_without_names_there_is_no_file_and_no_line():
    made = program(NAMES)
    bare = emit_program(plan(replace(made.plans["predict"].graph, classes=())))
    assert "net_classes.c" not in bare.files and "class" not in bare.files["net.h"]
    assert "classes" not in described(interface_of(bare).info())


@pytest.mark.parametrize("names", [NAMES, MANY])
def test_a_device_says_its_classes_in_as_many_frames_as_it_takes(names):
    made = program(names)
    with open_process(made) as device:  # agrees with the description, or refuses
        assert described(device._description())["classes"] == ", ".join(names)
        assert (len(interface_of(made).info()) > DATA_BYTES) == (names is MANY)
        with pytest.raises(Exception, match="more bytes"):
            device.link.ask("info", offset=1 << 20)


def test_other_names_are_another_program():
    one, other = (interface_of(program(names)) for names in (NAMES, (*NAMES[:-1], "new")))
    assert one.program != other.program
    assert "classes" in differences(other.info(), one.info())


def test_a_string_cannot_end_early():
    assert string('a"b\\c\n1') == r'"a\042b\134c\0121"'
    assert request("info", 1, offset=7)[8:12] == b"\7\0\0\0"

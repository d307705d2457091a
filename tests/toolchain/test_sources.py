"""What a C file depends on: a kernel is recompiled if something it includes has changed, and only then."""

import re
import shutil

import pytest

from insitu.toolchain import sources
from insitu.toolchain.compiler import kernel_objects
from insitu.toolchain.sources import closure, included, kernel_paths


@pytest.fixture
def c_folder(monkeypatch, tmp_path):
    """A copy of the hand-written C, to be changed."""
    shutil.copytree(sources.C_FOLDER, tmp_path / "c")
    monkeypatch.setattr(sources, "C_FOLDER", tmp_path / "c")
    return tmp_path / "c"


def test_included_files_are_found_through_others_once(tmp_path):
    (tmp_path / "a.h").write_text('#include "b.h"\n#include "a.h"\n')
    (tmp_path / "b.h").write_text('#if ONE\n#  include "c.h"\n#endif\n#include <stdint.h>\n')
    (tmp_path / "c.h").write_text("int c;\n")
    names = included('#include "a.h"\n#include "given.h"\n', (tmp_path,), {"given.h": '#include "c.h"\n'})
    assert list(names) == ["a.h", "b.h", "c.h", "given.h"]


GENERATED = {sources.EVERYTHING, "chip.h"}


def test_every_include_of_the_hand_written_c_is_found():
    for path in sorted(sources.C_FOLDER.rglob("*.[ch]")):
        for name in set(sources.includes(path.read_text())) - GENERATED:
            assert (sources.C_FOLDER / name).is_file(), f"{path}: {name}"


def test_a_kernel_is_one_function_in_the_file_of_its_name_in_the_folder_of_its_family():
    for name, path in kernel_paths(sources.C_FOLDER).items():
        assert path.parent.parent == sources.C_FOLDER / "kernels", path  # where a bundle's Makefile looks
        assert f" {name}(" in path.read_text() or f"*{name}(" in path.read_text(), path


def test_a_changed_header_concerns_only_who_includes_it(c_folder):
    kernels = closure(("exp_f32", "crc32_bytes"))
    before = kernel_objects(tuple(kernels))
    mathf = next(c_folder.rglob("mathf.h"))
    mathf.write_text(mathf.read_text() + "/* another line */\n")
    after = kernel_objects(tuple(kernels))
    assert {k for k, a, b in zip(kernels, before, after) if a != b} == {"exp_f32"}


MACHINE = "isa/machine.h"


def asked_for(text: str) -> set[str]:
    """Names that the preprocessor is asked about."""
    return {name for line in re.findall(r"^#\s*(?:el)?if.*", text, re.M) for name in re.findall(r"\b[A-Z_]\w+", line)}


def test_one_header_asks_what_machine_this_is():
    for path in sorted(sources.C_FOLDER.rglob("*.[ch]")):
        if path != sources.C_FOLDER / MACHINE:
            assert not {n for n in asked_for(path.read_text()) if n.startswith("__") or n == "INSITU_SCALAR"}, path


def test_whoever_wants_to_know_the_machine_includes_that_header():
    """A name that is not defined counts as 0: plain C would be taken without a word."""
    known = set(re.findall(r"^#define (INSITU_\w+)", (sources.C_FOLDER / MACHINE).read_text(), re.M))
    for path in sorted(sources.C_FOLDER.rglob("*.[ch]")):
        text = path.read_text()
        if path != sources.C_FOLDER / MACHINE and asked_for(text) & known:
            assert MACHINE in sources.includes(text), path


def test_a_machines_folder_is_chosen_by_the_header_of_the_same_primitives():
    isa = sources.C_FOLDER / "isa"
    chosen = {name for path in isa.rglob("*.h") for name in sources.includes(path.read_text())}
    for path in sorted(isa.glob("*/*.h")):
        assert path.relative_to(sources.C_FOLDER).as_posix() in chosen, path

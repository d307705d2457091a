"""What a C file depends on: a kernel is recompiled if something it includes has changed, and only then."""

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

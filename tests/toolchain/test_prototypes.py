"""kernels.h is written from the kernels' own definitions."""

import shutil

import pytest

from insitu.errors import ToolError
from insitu.toolchain import sources
from insitu.toolchain.compiler import compile_c, kernel_objects
from insitu.toolchain.prototypes import kernels_header, own_header, signature, summary
from insitu.toolchain.sources import C_FOLDER, called, kernel_path, kernel_paths


@pytest.fixture
def c_folder(monkeypatch, tmp_path):
    """A copy of the hand-written C, to be changed."""
    shutil.copytree(C_FOLDER, tmp_path / "c")
    monkeypatch.setattr(sources, "C_FOLDER", tmp_path / "c")
    return tmp_path / "c"


def test_a_prototype_is_the_definition_without_its_body():
    assert signature("square_f32") == "void square_f32(float *y, const float *x, int32_t n)"
    assert signature("concat_bytes").endswith("...)")


def test_no_prototype_of_a_kernel_is_written_by_hand():
    hand_written = "\n".join(path.read_text() for path in sorted(C_FOLDER.rglob("*.h")))
    for name in kernel_paths(C_FOLDER):
        assert f"{signature(name)};" not in hand_written


def test_every_summary_fits_on_a_line():
    for name in kernel_paths(C_FOLDER):
        assert len(f"/* {summary(name)} */") <= 120


def test_the_header_of_all_kernels_compiles_alone(tmp_path):
    (tmp_path / "kernels.h").write_text(kernels_header(kernel_paths(C_FOLDER)))
    (tmp_path / "all.c").write_text('#include "kernels.h"\nint all;\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", str(C_FOLDER), "-I", str(tmp_path)]
    compile_c([*flags, "-c", str(tmp_path / "all.c"), "-o", str(tmp_path / "all.o")])


def test_the_order_of_names_does_not_matter():
    assert kernels_header(["relu_f32", "add_f32", "add_f32"]) == kernels_header(["add_f32", "relu_f32"])


def test_a_kernels_own_header_has_its_prototype_and_those_it_calls():
    text = own_header(kernel_path("matrix_f32"))["kernels.h"]
    assert "void matrix_f32(" in text and "void matrix_runs_f32(" in text and "conv2d" not in text
    assert '#include "kernels/linear/products.h"' in text


def test_another_argument_compiles_the_kernel_and_its_callers_and_nothing_else(c_folder):
    kernels = ("copy_box", "copy_bytes", "relu_f32")
    before = kernel_objects(kernels)
    path = c_folder / "kernels" / "move" / "copy_bytes.c"
    path.write_text(path.read_text().replace("int32_t n)", "const int32_t n)"))
    assert [a != b for a, b in zip(before, kernel_objects(kernels))] == [True, True, False]


def test_a_file_without_its_function_is_an_error(c_folder):
    path = c_folder / "kernels" / "move" / "copy_bytes.c"
    path.write_text(path.read_text().replace("void copy_bytes(", "void copied_bytes("))
    with pytest.raises(ToolError, match="does not define copy_bytes"):
        signature("copy_bytes")


@pytest.mark.parametrize("header", sorted(p.relative_to(C_FOLDER).as_posix() for p in C_FOLDER.rglob("kernels/**/*.h")))
def test_a_header_includes_what_it_uses(header, tmp_path):
    """A kernels.h with other kernels must not break it: it may have been all that brought a struct."""
    known = kernel_paths(C_FOLDER)
    (tmp_path / "kernels.h").write_text(kernels_header([name for name in called(C_FOLDER / header) if name in known]))
    (tmp_path / "alone.c").write_text(f'#include "{header}"\nint alone;\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
    compile_c([*flags, "-I", str(C_FOLDER), "-I", str(tmp_path), str(tmp_path / "alone.c")])

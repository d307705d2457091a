"""Small C files compiled as one: nothing leaks from one into the next, and what cannot be one stays apart."""

import ctypes

from insitu.toolchain.compiler import NATIVE, QUICK, build_library, kernel_objects
from insitu.toolchain.joined import JOINED, SMALL, joinable, joined

HEADER = "#ifndef A_H\n#define A_H\nint a(void);\nint b(void);\n#endif\n"
FIRST = '#include "a.h"\n#define SIZE 3\nint a(void) { return SIZE; }\n'
SECOND = '#include "a.h"\n#define SIZE 5\nint b(void) { return SIZE; }\n'


def test_a_macro_ends_with_its_file():
    files = {"a.h": HEADER, "a.c": FIRST, "b.c": SECOND}
    assert list(joined(files)) == ["a.h", JOINED]
    library = ctypes.CDLL(str(build_library(files, ())))
    assert (library.a(), library.b()) == (3, 5)


def test_files_with_a_private_name_in_common_stay_apart():
    for private in (
        "static int kept;\n",
        "static int kept = 1;\n",
        "static const int kept[2] = {1, 2};\n",
        "static const char *kept(void)\n{\n    return 0;\n}\n",
    ):
        files = {"a.c": private + "int *a;\n", "b.c": private + "int *b;\n"}
        assert joined(files) == files, private
        assert list(joined({**files, "b.c": "int kept;\n"})) == [JOINED]


def test_large_files_are_compiled_side_by_side():
    files = {"a.c": "int a;\n" + " " * SMALL, "b.c": "int b;\n"}
    assert joined(files) == files


def test_a_macro_that_a_header_reads_keeps_a_kernel_apart():
    plain, reads = '#include "a.h"\nint a;\n', '/* b */\n#define WIDE 1\n#include "a.h"\nint b;\n'
    assert joinable({"a.c": plain, "b.c": plain.replace("a;", "b;")}) == ["a.c", "b.c"]
    assert joinable({"a.c": plain, "b.c": reads}) == ["a.c"]


def test_a_kernel_with_the_private_name_of_another_stays_apart_alone():
    for private in ("static int kept(void)\n{\n    return 1;\n}\n", "enum { FIRST, kept = 2 };\n", "enum { kept };\n"):
        files = {"a.c": private + "int a;\n", "b.c": private + "int b;\n", "c.c": "int c;\n"}
        assert joinable(files) == ["a.c", "c.c"], private


def test_kernels_of_a_quick_program_are_one_object_for_each_order_of_adding(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    kernels = ("relu_f32", "max_pool2d_f32", "mean_f32", "sum_reduce_f32")
    assert len(kernel_objects(kernels, (NATIVE, QUICK))) == 2 < len(kernel_objects(kernels))


def test_kernels_of_one_family_are_one_object(tmp_path, monkeypatch):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    kernels = ("conv2d_packed_f32", "conv2d_patches_f32", "linear_packed_f32", "depthwise2d_f32")
    assert len(kernel_objects(kernels, (NATIVE, QUICK))) == 1

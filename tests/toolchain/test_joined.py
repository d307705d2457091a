"""Small C files compiled as one: nothing leaks from one into the next, and what cannot be one stays apart."""

import ctypes

from insitu.toolchain.compiler import build_library
from insitu.toolchain.joined import JOINED, SMALL, joined

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

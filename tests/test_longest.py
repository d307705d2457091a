"""long.txt names tests that exist, and is made from measured times."""

from . import longest


def test_every_line_of_the_list_is_a_test():
    root = longest.LIST.parent.parent
    for line in longest.LIST.read_text().splitlines():
        path, _, name = line.partition("::")
        assert f"def {name.partition('[')[0].rpartition('::')[2]}(" in (root / path).read_text(), line


def test_a_case_is_named_alone_unless_its_function_is_mostly_long():
    seconds = {"a::t[1]": 9.0, "a::t[2]": 0.1, "b::u[1]": 3.0, "b::u[2]": 1.9, "b::u[3]": 1.9, "c::v": 0.5}
    assert longest.chosen(seconds) == ["a::t", "b::u[1]"]

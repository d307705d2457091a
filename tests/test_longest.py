"""long.txt names tests that exist, and is made from measured times."""

from . import longest


def test_every_line_of_the_list_is_a_test():
    root = longest.LIST.parent.parent
    for line in longest.LIST.read_text().splitlines():
        path, _, name = line.partition("::")
        function = f"def {name.partition('[')[0].rpartition('::')[2]}(" if name else "def test_"
        assert function in (root / path).read_text(), line


def test_a_case_is_named_alone_unless_its_function_or_file_is_mostly_long():
    cases = {"a::t[1]": 9.0, "a::t[2]": 0.1, "b::u[1]": 3.0, "b::u[2]": 1.2, "b::u[3]": 1.2}
    assert longest.chosen({**cases, "a::w": 1.2, "c::v": 0.5}) == ["a", "b::u[1]"]
    more = {f"a::w[{i}]": 1.2 for i in range(9)}
    assert longest.chosen({**cases, **more}) == ["a::t", "b::u[1]"]

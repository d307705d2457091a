"""Text tables stand in columns, also where a character is two columns wide."""

import pytest
from rich.cells import cell_len

from insitu.terminal.table import duration, table


def test_wide_characters_do_not_move_the_next_column():
    lines = table(["name", "n"], [["круг \U0001f642", "a"], ["四角", "b"], ["x cross", "c"]]).splitlines()
    assert {cell_len(line[:-1]) for line in lines[2:]} == {9}


@pytest.mark.parametrize(("ms", "shown"), [(0.1234, "0.123 ms"), (24.31, "24.3 ms"), (999.4, "999 ms"), (999.6, "1 s"),
                                           (6552.0, "6.55 s"), (123456.0, "123 s"), (3.6e6, "3,600 s")])  # fmt: skip
def test_a_time_has_three_digits_and_no_exponent(ms, shown):
    assert duration(ms) == shown

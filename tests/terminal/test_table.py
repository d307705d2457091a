"""Text tables stand in columns, also where a character is two columns wide."""

from rich.cells import cell_len

from insitu.terminal.table import table


def test_wide_characters_do_not_move_the_next_column():
    lines = table(["name", "n"], [["круг \U0001f642", "a"], ["四角", "b"], ["x cross", "c"]]).splitlines()
    assert {cell_len(line[:-1]) for line in lines[2:]} == {9}

"""A loop over cases inside a test hides nothing: failing cases are named, and no case is skipped."""

import pytest

from .each import each


def even(case: str) -> None:
    assert int(case) % 2 == 0, f"{case} is odd"


def test_cases_that_hold_pass():
    each(["2", "4"], even)


def test_every_failing_case_is_named_with_the_reason_of_the_first():
    with pytest.raises(AssertionError, match=r"2 of 4 cases fail:\n  3\n  5\n[\s\S]*3 is odd"):
        each(["2", "3", "4", "5"], even)


def test_no_cases_are_a_failure():
    with pytest.raises(AssertionError, match="no cases"):
        each([], even)

"""The table of a search: rows that can be told apart, in plain words and numbers."""

from __future__ import annotations

from fractions import Fraction

from insitu.deploy.finding import Point
from insitu.reports.front import front_table, trained_words
from insitu.schemes.update import Scheme, Update

HALF, WHOLE = Fraction(1, 2), Fraction(1)


def scheme(*updates: Update) -> Scheme:
    return Scheme("s", updates)


def test_counts_are_singular_or_plural_and_nothing_is_said_of_none():
    found = trained_words([scheme(), scheme(Update("a")), scheme(Update("a"), Update("b", True, HALF))])
    assert found == ["the head", "the head, 1 bias", "the head, 2 biases, 1 weight"]


def test_schemes_with_the_same_counts_name_what_only_some_of_them_train():
    one, other = Update("a", True, HALF), Update("a", True, WHOLE)
    found = trained_words(
        [scheme(one, Update("b")), scheme(other, Update("b")), scheme(Update("b"), Update("c", share=HALF))]
    )
    assert found == ["the head, 2 biases, 1 weight: 1/2 of a, a bias", "the head, 2 biases, 1 weight: a, a bias",
                     "the head, 2 biases, 1 weight: 1/2 of c, c bias"]  # fmt: skip


def test_only_estimates_have_a_tilde_and_thousands_of_millions_a_comma():
    lines = front_table([Point(scheme(), 0.0, 1, 1, 1_686_420_000), Point(scheme(), 0.0, 1, 1, 412_159, counted=True)])
    assert "~1,686.42 M" in lines and " 412,159 " in lines

"""A certificate says what was compared: a row without a comparison proves nothing."""

from insitu.proof.certificate import Certificate
from insitu.proof.findings import Finding, row

HELD = row("gradients", "a, b", [Finding("w", 0.1, 1.0)])
BROKEN = row("gradients", "a, b", [Finding("w", 2.0, 1.0)])
EMPTY = row("updates", "a, b", [])


def line(certificate, check):
    return next(words for words in certificate.to_text().splitlines() if words.startswith(check))


def test_a_row_with_nothing_to_compare_is_not_counted_as_held():
    found = Certificate("net", "full", "float", (HELD, EMPTY))
    assert line(found, "updates").endswith("nothing to compare")
    assert line(found, "gradients").endswith("yes")
    assert found.to_text().endswith("everything holds: 1 check; nothing to compare for updates")
    assert found.ok and found.empty == ("updates",)
    assert [c["compared_nothing"] for c in found.to_json()["checks"]] == [False, True]


def test_a_broken_row_says_no_whatever_else_is_empty():
    found = Certificate("net", "full", "float", (BROKEN, EMPTY))
    assert line(found, "gradients").endswith("NO")
    assert not found.ok and found.broken == ("gradients",)
    assert found.to_text().endswith("does not hold: gradients")


def test_a_certificate_is_shown_as_its_table():
    found = Certificate("net", "full", "float", (HELD, EMPTY))
    assert repr(found) == found.to_text()


def test_a_certificate_of_nothing_does_not_hold():
    assert not Certificate("net", "full", "float", (EMPTY,)).ok

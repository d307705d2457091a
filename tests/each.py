"""Many cases of one claim in one test: every case runs, and failing cases are named."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable

SHOWN = 20  # names of failing cases


def each(cases: Iterable[str], claim: Callable[[str], None]) -> None:
    """Check the claim for every case; fails with the names of the cases that break it, and the error of the first."""
    failed, count = {}, 0
    for count, case in enumerate(cases, 1):  # noqa: B007
        try:
            claim(case)
        except Exception:
            failed[case] = traceback.format_exc()
    assert count, "there are no cases"
    if failed:
        names = "\n  ".join(list(failed)[:SHOWN])
        first = next(iter(failed.values()))
        raise AssertionError(f"{len(failed)} of {count} cases fail:\n  {names}\n\nthe first:\n{first}")

"""A week of a watch's life: it collects, learns a little every day, loses its power, meets a new exercise, is worn
upside down, and is told wrong labels. What it makes of that is up to the rules (store/rules.py).

Labels only ever come for windows within the first four of a recording; the later ones are the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.demo.lesson import Lesson
from insitu.demo.watch import CENTRE, EXERCISES, LEARNED, SPREAD, STEP, Windows, joined, recordings
from insitu.demo.wrist import Bout, Wrist
from insitu.devices.living import COLLECT

NEW = len(EXERCISES) - 1  # the exercise that the watch does not know at first: the last one
KNOWN = range(NEW)
ALL = range(len(EXERCISES))
ASKED = 14  # labels that the wearer gives when the watch has noticed a change
BOUT = 8  # lessons of a bout for each epoch of the lesson
TURN = np.array([-1, -1, 1, -1, -1, 1], np.float32)  # the axes of a watch that is worn upside down


def part(number: int, first: int, end: int, exercises: Sequence[int] = ALL, late: int = 0) -> Windows:
    """Windows number first to end - 1 of a wearer's recordings; so many readings later than usual."""
    return joined([r.part(first, end, late) for r in recordings()[number] if r.exercise in exercises])


def of(windows: Windows, exercises: Sequence[int]) -> Windows:
    """Only those of some exercises."""
    kept = np.isin(windows.y, list(exercises))
    return Windows(windows.x[kept], windows.y[kept], windows.arm[kept])


def upside_down(windows: Windows) -> Windows:
    """What the sensor reads if the watch is worn turned by half a turn."""
    x = ((windows.x * SPREAD + CENTRE) * TURN - CENTRE) / SPREAD
    return Windows(x.astype(np.float32), windows.y, windows.arm)


@dataclass
class Week:
    """The wearer, the watch, and what has happened so far."""

    number: int
    watch: Wrist
    lesson: Lesson
    score: Callable[[Windows], float]  # of the watch as it is now
    test: Windows
    losses: list[float] = field(default_factory=list)
    truth: dict[int, int] = field(default_factory=dict)  # the id of a sample without a label -> its exercise
    rolled_back: int = 0

    def days(self) -> Iterator[tuple[str, str]]:
        """Each day and what happened on it, as it happens."""
        for name, day in (
            ("Mon", self.monday), ("Tue", self.tuesday), ("Wed", self.wednesday), ("Thu", self.thursday),
            ("Fri", self.friday), ("Sat", self.saturday), ("Sun", self.sunday),
        ):  # fmt: skip
            yield name, day()

    # the days -----------------------------------------------------------------------------------

    def monday(self) -> str:
        return f"{self._taught(part(self.number, 0, 2, KNOWN))}: {self._learned()}"

    def tuesday(self) -> str:
        return f"{self._taught(part(self.number, 2, 3, KNOWN))}: {self._learned()}"

    def wednesday(self) -> str:
        self._seen(part(self.number, LEARNED - 1, LEARNED))
        self._seen(part(self.number, 0, LEARNED - 1, late=STEP // 2))
        return f"{self.watch.cut(self.steps, self.lesson.rate)}: {self._learned()}"

    def thursday(self) -> str:
        own, name = of(self.test, [NEW]), EXERCISES[NEW]
        before = self.score(own)
        self.watch.add_class(name)
        count = self._taught(part(self.number, 0, LEARNED - 1, [NEW]))
        first = self.score(own)
        return f'a new exercise, "{name}", {count}: it is recognised, {before:.0%} to {first:.0%}; {self._learned()}'

    def friday(self) -> str:
        test = upside_down(self.test)
        before, usual = self.score(test), self.watch.drift()
        seen = self._seen(upside_down(part(self.number, 0, LEARNED - 1)))
        drift, asked = self.watch.drift(), [id for id in self.watch.asks(2 * ASKED) if id in seen][:ASKED]
        for id in asked:
            self.watch.label(id, self.truth.pop(id))
        self.truth = {id: y for id, y in self.truth.items() if id not in seen}
        noticed = f"drift {usual:.2f} to {drift:.2f}, {'noticed' if drift > COLLECT else 'not noticed'}"
        told = self._learned()
        turned = f"upside down {before:.0%} to {self.score(test):.0%}"
        return f"worn upside down: {noticed}; asks for {len(asked)} labels: {told}, {turned}"

    def saturday(self) -> str:
        """Somebody else presses the buttons."""
        for id, exercise in self.truth.items():
            self.watch.label(id, (exercise + 1) % len(EXERCISES))
        return f"a child gives {len(self.truth)} windows wrong labels: {self._learned()}"

    def sunday(self) -> str:
        for id, exercise in self.truth.items():
            self.watch.label(id, exercise)
        return f"the wearer corrects them: {self._learned()}"

    # what they have in common -------------------------------------------------------------------

    @property
    def steps(self) -> int:
        return BOUT * self.lesson.epochs

    def _taught(self, windows: Windows) -> str:
        for x, y in zip(windows.x, windows.y):
            self.watch.observe(x, int(y))
        return f"{len(windows)} windows with labels"

    def _seen(self, windows: Windows) -> set[int]:
        """Without labels; their ids. What they really are may be told later."""
        found = {self.watch.observe(x): int(y) for x, y in zip(windows.x, windows.y)}
        self.truth |= found
        return set(found)

    def _learned(self) -> str:
        """A bout of learning, and what it came to."""
        known = of(self.test, KNOWN)
        before = self.score(known)
        bout = self.watch.bout(self.steps, self.lesson.rate)
        self.losses += bout.losses
        self.rolled_back += bout.undone
        return outcome(bout, before, self.score(known))


def outcome(bout: Bout, before: float, after: float) -> str:
    if bout.undone:
        return f"{bout.lost} of {bout.guards} guards go wrong, rolled back to {after:.1%}"
    return f"{before:.1%} to {after:.1%}, {bout.right} of {bout.guards} guards right"

"""When a device may learn: while it charges, is idle or cool, or at some hours. Read from Linux's own files.

    learner.keep("life", when=When(charging=True, celsius=60, hours=(22, 6)))

Any function will do as well: it returns True, or False, or a text that says why not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from insitu.errors import DataError
from insitu.terminal.misspelled import all_spelled

Condition = Callable[[], "bool | str | None"]
SYS = Path("/sys/class")
PLUGGED = ("Mains", "USB", "USB_C", "USB_PD", "Wireless")


def checked(when: Condition | None) -> Condition | None:
    """A condition that was given; an error if it is no function."""
    if when is not None and not callable(when):
        raise DataError(
            f"when must be a function, not {when!r}", hint="insitu.When(charging=True), or your own function"
        )
    return when


@all_spelled
@dataclass(frozen=True)
class When:
    """Conditions that must all hold; what this machine does not tell about itself does not hinder."""

    charging: bool = False  # on mains, or a battery that charges or is full
    idle: float | None = None  # the most load per core, over the last minute
    celsius: float | None = None  # the most that any part of it may have
    hours: tuple[float, float] | None = None  # of the day, from and to: (22, 6) is the night
    root: Path = SYS

    def __call__(self) -> str:
        """Why not; "" if it may learn."""
        return next(filter(None, (self._charging(), self._idle(), self._cool(), self._hours())), "")

    def _charging(self) -> str:
        supplies = list((self.root / "power_supply").glob("*")) if self.charging else []
        states = {_word(s / "status") for s in supplies if _word(s / "type") == "Battery"}
        plugged = any(_word(s / "type") in PLUGGED and _word(s / "online") == "1" for s in supplies)
        return "not charging" if supplies and not plugged and not states & {"Charging", "Full"} else ""

    def _idle(self) -> str:
        if self.idle is None:
            return ""
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        return f"busy: a load of {load:.2f} per core" if load > self.idle else ""

    def _cool(self) -> str:
        if self.celsius is None:
            return ""
        zones = (_word(zone / "temp") for zone in (self.root / "thermal").glob("thermal_zone*"))
        warmest = max((int(word) / 1000 for word in zones if word.lstrip("-").isdigit()), default=0.0)
        return f"too warm: {warmest:.0f} degrees" if warmest > self.celsius else ""

    def _hours(self) -> str:
        if self.hours is None:
            return ""
        (first, last), local = self.hours, time.localtime()
        now = local.tm_hour + local.tm_min / 60
        inside = first <= now < last if first <= last else now >= first or now < last
        return "" if inside else f"not between {first:g} and {last:g} o'clock"


def refusal(condition: Condition | None) -> str:
    """Why it may not learn now; "" if it may."""
    found = True if condition is None else condition()
    return found if isinstance(found, str) else "" if found else "not now"


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

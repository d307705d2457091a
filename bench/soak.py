"""A day of a device's life, compressed: observe, label, rehearse, cuts, drift, rollback. Nothing grows or is lost.

    make soak                        at most ten minutes; the exit status is 1 if anything fails
    python -m bench.soak --hours 2   a shorter day
    python -m bench.soak --kills 50  fewer kills
    python -m bench.soak --seed 1    at other instants

The day: every simulated minute the device sees some samples, of which people label a third, some of them later. Every
half hour it rehearses, sometimes with pauses. Every hour its process ends and another goes on. From noon on its sensor
is turned, so that the samples drift. Once an hour a bout with an absurd rate must be rolled back. At the end of each
hour: the accuracy on test samples as the sensor sees them then, memory, open files, and the size of the store's file.

The kills: a process that lives in a folder is killed with SIGKILL at a random instant and started again, over and over;
at the end its state and records are compared, byte for byte, with those of a life that nobody cut.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import insitu
from insitu.demo import TARGET, digits
from insitu.terminal.table import table

QUOTA = 400_000  # bytes
PER_MINUTE = 3  # samples
NOISE = 3.0  # points: two standard deviations of the accuracy on the test samples
STEPS = 60  # of the life that is killed


def turned(x: np.ndarray, hour: int) -> np.ndarray:
    """What the sensor sees: from noon on, mirrored."""
    return x[..., ::-1].copy() if hour >= 12 else x


def first_learner() -> insitu.Learner:
    d = digits()
    return insitu.compile(TARGET, data=d.x_train[:200], scheme="last:2", max_classes=12)


class Day:
    """A device, its samples, and what was measured every hour."""

    def __init__(self, folder: Path):
        self.folder, self.data, self.rng = folder, digits(), np.random.default_rng(0)
        self.template = first_learner()
        self.rows: list[tuple] = []
        self.failures: list[str] = []

    def live(self, hours: int) -> None:
        for hour in range(24 - hours, 24):
            with self.template.on("host") as learner:
                learner.keep(self.folder, quota=QUOTA)
                self._hour(learner, hour)
                self._measure(learner, hour)
            gc.collect()

    def _hour(self, learner: insitu.Learner, hour: int) -> None:
        d = self.data
        for minute in range(60):
            chosen = self.rng.integers(0, len(d.x_train), PER_MINUTE)
            ids = learner.observe(turned(d.x_train[chosen], hour))
            self.truth = {**getattr(self, "truth", {}), **dict(zip(ids, d.y_train[chosen].tolist()))}
            for id in learner.asks(1):
                learner.label(id, self.truth[id])
            if minute % 30 == 29:
                self._rehearse(learner)
        before = learner.device.save_state()
        absurd = learner.rehearse(steps=64, rate=1e4)
        if absurd.steps and (not absurd.rolled_back or learner.device.save_state() != before):
            self.failures.append(f"hour {hour}: an absurd bout was taken over: {absurd}")

    def _rehearse(self, learner: insitu.Learner) -> None:
        told = learner.rehearse(seconds=0.05)
        while not told.finished:
            told = learner.rehearse(seconds=0.05)

    def _measure(self, learner: insitu.Learner, hour: int) -> None:
        d, told = self.data, learner.statistics()
        score = 100 * learner.evaluate(turned(d.x_test, hour), d.y_test)["accuracy"]
        size = sum(p.stat().st_size for p in self.folder.iterdir())
        self.rows.append((hour, f"{score:.1f}", told["records"], told["bouts"], told["rolled_back"],
                          f"{told['drift']:.2f}", told["file_bytes"], size, memory_kb(), open_files()))  # fmt: skip
        if told["file_bytes"] > QUOTA:
            self.failures.append(f"hour {hour}: the file has {told['file_bytes']} bytes, more than its quota")

    def judge(self) -> list[str]:
        """What went wrong in the day."""
        found, settled = list(self.failures), self.rows[2:]
        if len(settled) > 4:
            half = len(settled) // 2
            early, late = settled[half // 2], settled[-1]
            if late[8] > 1.1 * early[8] + 4000:
                found.append(f"memory grew from {early[8]} to {late[8]} KB")
            if late[9] > early[9]:
                found.append(f"open files grew from {early[9]} to {late[9]}")
        for part in ([r for r in self.rows if r[0] < 12], [r for r in self.rows if r[0] >= 13]):
            scores = [float(r[1]) for r in part]
            falls = [max(scores[:i]) - s for i, s in enumerate(scores) if i]
            if falls and max(falls) > NOISE:
                found.append(f"the accuracy fell by {max(falls):.1f} points")
        return found


HEADERS = (
    "hour",
    "accuracy",
    "records",
    "bouts",
    "rolled back",
    "drift",
    "file, bytes",
    "folder",
    "memory, KB",
    "files",
)


def memory_kb() -> int:
    gc.collect()
    words = Path("/proc/self/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# kills ------------------------------------------------------------------------------------------


def kills(count: int, seconds: float, folder: Path, seed: int = 0) -> str:
    """Kill a life this often, or until the time is over; returns what happened, and raises if a byte differs."""
    from tests.store.lives import growing
    from tests.store.victim import digest, live

    wanted = {}
    for scheme in ("head", "last:1"):  # with the head alone, a full store keeps what is typical
        saved = growing(scheme).save(folder / f"{scheme[:4]}.insitu")
        with live(insitu.open(saved), folder / f"{scheme[:4]} whole", STEPS) as one:
            wanted[saved] = digest(one)
    rng, start, done, lives = random.Random(seed), time.monotonic(), 0, 0
    while done < count and time.monotonic() - start < seconds:
        saved = list(wanted)[lives % len(wanted)]
        lives += 1
        for _ in range(min(20, count - done)):
            done += killed(saved, folder / f"cut{lives}", rng.uniform(0.0, 0.5))
        found = run(saved, folder / f"cut{lives}")
        if found != wanted[saved]:
            raise AssertionError(f"life {lives} ended with other bytes after cuts: {found}")
    return f"{done} kills in {lives} lives: each ended with the bytes of the life without cuts"


def born(saved: Path, folder: Path) -> int:
    """A process that lives in this folder: forked, since importing everything again would take most of the time."""
    from tests.store.victim import digest, live

    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        (folder.parent / f"{folder.name}.digest").write_text(digest(live(insitu.open(saved), folder, STEPS)))
        code = 0
    finally:
        os._exit(code)


def killed(saved: Path, folder: Path, after: float) -> int:
    """Kill such a process after so many seconds; 0 if it had lived its life by then."""
    pid = born(saved, folder)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError(f"a process that went on after a cut failed: {folder}")
    return int(os.WIFSIGNALED(status))


def run(saved: Path, folder: Path) -> str:
    _, status = os.waitpid(born(saved, folder), 0)
    if status:
        raise AssertionError(f"the life did not go on after its cuts: {folder}")
    return (folder.parent / f"{folder.name}.digest").read_text()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the instants of the kills (0)")
    parser.add_argument("--seconds", type=float, default=480.0, help="that the kills may take (480)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder, start = Path(place), time.monotonic()
        day = Day(folder / "life")
        day.live(options.hours)
        found = day.judge()
        print(f"{table(HEADERS, day.rows)}\n{time.monotonic() - start:.0f} s", flush=True)
        print(kills(options.kills, options.seconds, folder, options.seed), flush=True)
    for words in found:
        print(words, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

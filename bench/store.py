"""How fast a store is beside plain sqlite3: inserts and samplings of 100,000 latents, in CPU and wall time.

    python -m bench.store                a table; the exit status is 1 if a store takes more than twice as long
    python -m bench.store --count 20000  fewer

Plain sqlite3 is one table (id, label, latent) with a write-ahead log, filled with `executemany` in batches and read by
id; once with sqlite's own page size, and once with the store's, which suits latents of this size better. The store also
counts, de-duplicates, checks every byte it reads, and keeps to its quota. All are measured in turn, and the fastest of
three rounds counts.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from insitu.store.records import open_store
from insitu.terminal.table import table

LATENT, BATCH, CLASSES, ROUNDS = 2560, 1000, 10, 3
MOST = 2.0


def plain(path: Path, latents: list[bytes], labels: list[int], order: list[int],
          page: int = 4096) -> dict[str, float]:  # fmt: skip
    link = sqlite3.connect(path, isolation_level=None)
    for word in (f"page_size = {page}", "journal_mode = wal", "synchronous = normal", "secure_delete = on"):
        link.execute(f"pragma {word}")
    link.execute("create table samples (id integer primary key, label integer, latent blob)")
    insert = "insert into samples (label, latent) values (?, ?)"

    def fill() -> None:
        for i in range(0, len(latents), BATCH):
            link.execute("begin immediate")
            link.executemany(insert, zip(labels[i : i + BATCH], latents[i : i + BATCH]))
            link.execute("commit")

    def sample() -> None:
        for i in order:
            link.execute("select latent from samples where id = ?", (i,)).fetchone()

    return timed(fill, sample)


def ours(path: Path, latents: list[bytes], labels: list[int], order: list[int],
         key: bytes | None = None, count: int | None = None) -> dict[str, float]:  # fmt: skip
    store = open_store(path, LATENT, quota="1000M", count=count, key=key)

    def fill() -> None:
        for i in range(0, len(latents), BATCH):
            store.add(latents[i : i + BATCH], labels[i : i + BATCH])

    def sample() -> None:
        kept = store.ledger.records if count else None
        for i in order:
            if kept is None or i in kept:
                store.fetch((i,))

    return timed(fill, sample)


def timed(*parts: Callable[[], None]) -> dict[str, float]:
    found = {}
    for part in parts:
        cpu, wall = time.process_time(), time.perf_counter()
        part()
        found |= {f"{part.__name__}": time.process_time() - cpu, f"{part.__name__} wall": time.perf_counter() - wall}
    return found


def best(run: Callable[..., dict[str, float]], *given, **options) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder) / "s.db", *given, **options)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    options = parser.parse_args(arguments)
    rng, count = np.random.default_rng(0), options.count
    latents = [row.tobytes() for row in rng.integers(0, 256, (count, LATENT), np.uint8)]
    labels = rng.integers(0, CLASSES, count).tolist()
    order = (rng.integers(0, count, count) + 1).tolist()
    ways: dict[str, Callable[[], dict[str, float]]] = {
        "plain sqlite3": lambda: best(plain, latents, labels, order),
        "plain, 8 KB pages": lambda: best(plain, latents, labels, order, page=8192),
        "store": lambda: best(ours, latents, labels, order),
        "store, a tenth fits": lambda: best(ours, latents, labels, order, count=count // 10),
        "store, encrypted": lambda: best(ours, latents, labels, order, key=b"k" * 32),
    }
    found: dict[str, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            new = way()
            old = found.get(name, new)
            found[name] = {k: min(old[k], new[k]) for k in new}
    first = found["plain sqlite3"]
    rows = [(n, *(f"{r[k]:.2f} s ({r[k] / first[k]:.2f}x)" for k in first)) for n, r in found.items()]
    print(table(("", "inserts, CPU", "inserts, wall", "samplings, CPU", "samplings, wall"), rows))
    worst = max(found["store"][k] / first[k] for k in ("fill", "sample"))
    if worst > MOST:
        print(f"{worst:.2f} times as long as plain sqlite3 is more than {MOST}", file=sys.stderr)
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())

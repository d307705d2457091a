"""Ctrl-C and kill -9 while `insitu train -o` runs: nothing is lost, no file is ever half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.terminal.interrupts import patient
from insitu.terminal.lines import Lines

from .learners import data, learner, state_of


def stop_after(count: int):
    """A report that presses Ctrl-C at its count-th call."""
    calls = [0]

    def report(words: str, done: int, total: int) -> None:
        calls[0] += 1
        if calls[0] == count:
            os.kill(os.getpid(), signal.SIGINT)

    return report


def test_ctrl_c_keeps_whole_updates():
    x, y = data(400)
    made, whole = learner(batch=4), learner(batch=4)
    first = state_of(made)
    with pytest.raises(KeyboardInterrupt):
        made.fit(x, y, epochs=50, rate=0.05, progress=stop_after(2), cache=False)
    assert state_of(made) != first
    sums = [array for name, array in made.device.state().items() if name.endswith(".sum")]
    assert sums and not any(np.any(array) for array in sums), "no batch is left half added up"
    whole.device.load_state(state_of(made))
    made.fit(x, y, epochs=1, rate=0.05)
    whole.fit(x, y, epochs=1, rate=0.05)
    assert state_of(made) == state_of(whole)


def test_the_first_ctrl_c_waits_and_the_second_does_not():
    with patient() as check:
        check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_lines_end_epochs(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("insitu.terminal.lines.monotonic", lambda: now[0])
    lines = Lines()
    for epoch in (1, 2):
        for done in range(1, 5):
            now[0] += 2
            lines(f"epoch {epoch} of 2, loss {1 / done:.3f}", 4 * (epoch - 1) + done, 8)
    said = capsys.readouterr().err.splitlines()
    assert said == ["epoch 1 of 2, loss 0.250 (50 %)", "epoch 2 of 2, loss 0.250 (100 %)"]


SCRIPT = "import sys; from insitu.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> list[str]:
    """A training of about a minute."""
    folder = tmp_path_factory.mktemp("train")
    x, y = data(4000)
    made = learner()
    np.savez(folder / "d.npz", x=x, y=y)
    made.save(folder / "start.insitu")
    return [sys.executable, "-c", SCRIPT, "train", str(folder / "start.insitu"), "--data", str(folder / "d.npz"),
            "--epochs", "100000", "--rate", "0.001"]  # fmt: skip


def started(task: list[str], out: Path) -> subprocess.Popen:
    """The command, once it has trained for some seconds."""
    run = subprocess.Popen([*task, "-o", str(out)], stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    while "epoch " not in (line := run.stderr.readline()):
        assert line, "ended early"
    return run


def test_ctrl_c_saves_where_o_says_and_tells_how_to_go_on(task, tmp_path):
    out = tmp_path / "kept.insitu"
    run = started(task, out)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130 and f"to go on: insitu train {out}" in said
    assert insitu.open(out).evaluate(*data(100))["accuracy"] > 0
    assert [p.name for p in tmp_path.iterdir()] == ["kept.insitu"]


def test_kill_leaves_the_old_file_or_the_new_one(tmp_path):
    """A process that does nothing but save is killed at random moments."""
    made, x = learner(), data()[0]
    old = made.save(tmp_path / "a.insitu").read_bytes()
    made.fit(*data(), epochs=1, rate=0.1)
    new = made.save(tmp_path / "b.insitu").read_bytes()
    code = (
        "import sys; from insitu.files import write_whole; a, b = (open(p, 'rb').read() for p in sys.argv[1:3])\n"
        "print('ready', flush=True)\nwhile True:\n    write_whole(sys.argv[3], a); write_whole(sys.argv[3], b)"
    )
    rng = np.random.default_rng(0)
    for _ in range(12):
        target = tmp_path / "kept.insitu"
        target.write_bytes(old)
        paths = [tmp_path / "a.insitu", tmp_path / "b.insitu", target]
        run = subprocess.Popen([sys.executable, "-c", code, *map(str, paths)], stdout=subprocess.PIPE)
        assert run.stdout is not None and run.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.02)))
        run.kill()
        run.wait()
        assert target.read_bytes() in (old, new)
    assert insitu.open(target).predict(x).shape == (30, 4)

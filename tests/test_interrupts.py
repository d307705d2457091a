"""Ctrl-C and kill -9 while `insitu train -o` runs: nothing is lost, no file is ever half written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.cli import main, parser
from insitu.cli.watching import continued
from insitu.learner.trials import Trials
from insitu.terminal.interrupts import patient
from insitu.terminal.lines import Lines

from .learners import data, learner, state_of
from .trainings import Training


def stop_after(count: int):
    """A report that presses Ctrl-C at its count-th call."""
    calls = [0]

    def report(words: str, done: int, total: int) -> None:
        calls[0] += 1
        if calls[0] == count:
            os.kill(os.getpid(), signal.SIGINT)

    return report


@pytest.fixture(autouse=True)
def heard():
    """Ctrl-C arrives, also where the tests were started in the background with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


PRESSED = """
import os, runpy, signal, sys
class Pressed:
    @staticmethod
    def find_spec(name, *_):
        if name == "numpy.exceptions":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Pressed)
runpy.run_module("insitu", run_name="__main__")
"""


def test_ctrl_c_while_the_program_starts_shows_no_traceback():
    done = subprocess.run([sys.executable, "-c", PRESSED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


RESTORED = """
import os, runpy, signal
real = signal.signal
def restored(number, handler):
    before = real(number, handler)
    if handler is signal.default_int_handler:
        os.kill(os.getpid(), signal.SIGINT)
    return before
real(signal.SIGINT, signal.default_int_handler)
signal.signal = restored
runpy.run_module("insitu", run_name="__main__")
"""


def test_ctrl_c_between_the_start_and_the_verb_shows_no_traceback():
    done = subprocess.run([sys.executable, "-c", RESTORED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


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


def lines_of(capsys, monkeypatch, seconds: float, epochs: int, parts: int = 4) -> list[str]:
    """What is printed by a training whose epochs take this long."""
    now = [100.0]
    monkeypatch.setattr("insitu.terminal.lines.monotonic", lambda: now[0])
    lines = Lines()
    for epoch in range(epochs):
        for part in range(parts):
            now[0] += seconds / parts
            lines(f"epoch {epoch + 1} of {epochs}, loss {1 / (part + 1):.3f}", parts * epoch + part + 1, parts * epochs)
    now[0] += 1
    lines._ended.set()
    lines._thread.start()
    lines.__exit__()
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("seconds", [0.5, 1.0, 4.0, 7.0, 29.0])
def test_every_epoch_has_its_line_with_its_last_loss(seconds, capsys, monkeypatch):
    said = lines_of(capsys, monkeypatch, seconds, epochs=5)
    assert [line.rpartition(" (")[0] for line in said] == [f"epoch {n} of 5, loss 0.250" for n in range(1, 6)]


def test_short_epochs_share_lines_and_the_last_one_always_has_one(capsys, monkeypatch):
    said = lines_of(capsys, monkeypatch, 0.01, epochs=1000)
    assert 20 <= len(said) <= 35, "ten seconds, three per second"
    assert said[-1] == "epoch 1000 of 1000, loss 0.250 (100 %)"


def test_the_last_epoch_has_a_line_if_other_work_follows_at_once(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("insitu.terminal.lines.monotonic", lambda: now[0])
    lines = Lines()
    for words, done in (("frozen layers", 1), ("epoch 1 of 2, loss 2.000", 1), ("epoch 2 of 2, loss 1.000", 2),
                        ("epoch 1 of 2, loss 0.900", 1), ("frozen layers", 1)):  # fmt: skip
        now[0] += 0.2
        lines(words, done, 3)
    said = capsys.readouterr().err.splitlines()
    assert [line[:24] for line in said] == [
        f"epoch {n} of 2, loss {loss}" for n, loss in ((1, "2.000"), (2, "1.000"), (1, "0.900"))
    ]


def test_a_long_epoch_has_a_line_every_half_minute(capsys, monkeypatch):
    said = lines_of(capsys, monkeypatch, 100.0, epochs=1, parts=1000)
    assert [line.split()[-2:] for line in said] == [[f"({n}", "%)"] for n in (30, 60, 90, 100)]


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    """A folder with a learner, and data for trainings that never end by themselves."""
    folder = tmp_path_factory.mktemp("train")
    x, y = data(4000)
    np.savez(folder / "d.npz", x=x, y=y)
    learner().save(folder / "start.insitu")
    return folder


@pytest.fixture
def kept(task, tmp_path) -> Path:
    """The file that is trained and written: the learner of the task, in a folder of its own."""
    (tmp_path / "out").mkdir()
    return Path(shutil.copy(task / "start.insitu", tmp_path / "out" / "kept.insitu"))


def words(task: Path, kept: Path, epochs: int = 100000) -> list:
    """The learner goes on from its own file, as after a power cut."""
    return [kept, "--data", task / "d.npz", "--epochs", epochs, "--rate", "0.001", "-o", kept]


def writing(folder: Path) -> bool:
    return any(path.suffix == ".part" for path in folder.iterdir())


def test_ctrl_c_saves_where_o_says_and_tells_how_to_go_on(task, kept, tmp_path):
    before = kept.read_bytes()
    run = Training(words(task, kept), tmp_path / "said", save_seconds=300)
    run.until_said("epoch")
    assert run.stop(signal.SIGINT) == 130
    line = next(line for line in run.text().splitlines() if "to go on: " in line).partition("to go on: insitu ")[2]
    assert line == f"train {kept} --data {task / 'd.npz'} --epochs 100000 --rate 0.001 -o {kept}"
    shorter = shlex.split(line.replace("--epochs 100000", "--epochs 1"))
    assert main(shorter) == 0, "the printed command runs as it is, but for the epochs"
    assert kept.read_bytes() != before
    assert insitu.open(kept).evaluate(*data(100))["accuracy"] > 0
    assert [p.name for p in kept.parent.iterdir()] == ["kept.insitu"]


def interrupt(*_):
    raise KeyboardInterrupt


def test_ctrl_c_between_the_last_epoch_and_the_save_keeps_what_was_learned(task, kept, capsys, monkeypatch):
    before = kept.read_bytes()
    monkeypatch.setattr("insitu.cli.train.tell", interrupt)
    assert main(["train", *map(str, words(task, kept, epochs=1))]) == 130
    assert kept.read_bytes() != before and "to go on: insitu train" in capsys.readouterr().err


def test_ctrl_c_before_the_first_update_changes_no_file(task, kept, capsys, monkeypatch):
    before = kept.read_bytes()
    monkeypatch.setattr("insitu.cli.train.measured_on", interrupt)
    assert main(["train", *map(str, words(task, kept, epochs=1))]) == 130
    assert kept.read_bytes() == before and "nothing was learned yet" in capsys.readouterr().err


def test_ctrl_c_while_rates_are_tried_leaves_the_file_as_it_is(task, kept, capsys, monkeypatch):
    """What a trial has learned is not kept, and what the file held is not lost."""
    other = shutil.copy(kept, kept.with_name("other.insitu"))
    tried, real = [], Trials.run

    def run(*given):
        tried.append(real(*given))
        return interrupt() if len(tried) == 2 else tried[-1]

    before = learner(seed=1).save(kept).read_bytes()
    monkeypatch.setattr(Trials, "run", run)
    assert main(["train", str(other), "--data", str(task / "d.npz"), "-o", str(kept)]) == 130
    assert len(tried) == 2 and kept.read_bytes() == before
    assert "nothing was learned yet" in capsys.readouterr().err


LINES = {  # what was typed -> what goes on
    "m.onnx --data x.npz --classes a,b --rate 0.1 --epochs 9 --scheme last:2 -o out.insitu --augment":
        "out.insitu --data x.npz --rate 0.1 --epochs 9 -o out.insitu --augment",
    "--data 'my x.npz' m.onnx --split=0.8 --save out.insitu --audio rate=8000 --test t.npz":
        "--data 'my x.npz' out.insitu --split=0.8 --save out.insitu --test t.npz",
    "m.onnx --data x.npz --classes 3 --resume old.bin --start-epoch 2 -o s.bin --seed 4":
        "m.onnx --data x.npz --classes 3 -o s.bin --seed 4 --resume s.bin",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_command_that_goes_on_keeps_every_option_that_still_counts(line):
    given = shlex.split(line)
    arguments = parser().parse_args(["train", *given])
    arguments.words = given
    assert continued(arguments) == f"insitu train {LINES[line]}"


def test_long_training_saves_now_and_then(task, kept, tmp_path):
    before = kept.read_bytes()
    run = Training(words(task, kept), tmp_path / "said", save_seconds=0.2)
    run.until(lambda: kept.read_bytes() != before)
    assert run.process.is_alive()
    run.stop(signal.SIGKILL)
    assert state_of(insitu.open(kept)) != state_of(insitu.open(task / "start.insitu"))


def test_kill_leaves_the_bytes_of_the_old_file_or_of_the_new_one(tmp_path):
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


QUICK = pytest.param("quick", id="quick")
SLOW = pytest.param("slow", id="slow", marks=pytest.mark.slow)


@pytest.mark.parametrize("kills", [QUICK, SLOW])
def test_kill_9_leaves_the_old_file_or_the_new_one(kills, task, kept, tmp_path):
    """At random moments of the training, and, every second time, of a save."""
    rng, hits, states, longest = np.random.default_rng(0), 0, set(), 1.0
    for n in range({"quick": 10, "slow": 300}[kills]):
        began, run = time.monotonic(), Training(words(task, kept), tmp_path / "said")
        if n % 2:
            run.until_said("epoch")
            longest = max(longest, 3 * (time.monotonic() - began)) if n == 1 else longest  # on a slow machine
            run.until(lambda: writing(kept.parent))
        time.sleep(float(rng.uniform(0, 0.004 if n % 2 else longest)))
        assert run.stop(signal.SIGKILL) == -signal.SIGKILL, run.text()
        hits += writing(kept.parent)
        assert len(list(kept.parent.iterdir())) <= 3, (
            "a killed save leaves a part and its lock, and the next takes them away"
        )
        states.add(state_of(insitu.open(kept)))
    print(f"{hits} kills within a save, {len(states)} different states")
    assert (hits or kills == "quick") and len(states) > n // 4
    run = Training(words(task, kept, epochs=1), tmp_path / "said")
    assert run.end() == 0 and [p.name for p in kept.parent.iterdir()] == ["kept.insitu"]


@pytest.mark.parametrize("presses", [QUICK, SLOW])
def test_ctrl_c_at_any_moment_keeps_a_file_that_goes_on(presses, task, kept, tmp_path):
    """Half of the moments are before the first line about an epoch, however slow the machine is."""
    rng, changed, first = np.random.default_rng(1), 0, 0.0
    for _ in range({"quick": 5, "slow": 50}[presses]):
        before, began = kept.read_bytes(), time.monotonic()
        run = Training(words(task, kept), tmp_path / "said", save_seconds=300)
        if first:
            time.sleep(float(rng.uniform(0, 2 * first)))
        else:
            run.until_said("epoch")
            first = time.monotonic() - began
        assert run.stop(signal.SIGINT) == 130, run.text()
        assert [p.name for p in kept.parent.iterdir()] == ["kept.insitu"]
        assert "Traceback" not in run.text() and ("epoch" not in run.text() or "to go on: " in run.text())
        changed += kept.read_bytes() != before
        assert insitu.open(kept).classes == 4
    print(f"{changed} saved something new")
    assert changed


OURS = Path(insitu.__file__).parent
FRAME = re.compile(r'File "([^"]+)", line')


def of_python(said: str) -> bool:
    """Did Python stop before the first line of insitu had run? It starts for some 20 ms, and we cannot change how:
    hooks of other packages take part in finding ours."""
    frames = FRAME.findall(said)
    ours = [Path(name).relative_to(OURS) for name in frames if Path(name).is_relative_to(OURS)]
    begun = [path for path in ours if str(path) != "__init__.py" and path.parts[0] != "terminal"]
    starting = "Traceback" in said and not begun and all(name.startswith("<frozen ") for name in frames[:1])
    return starting or said.startswith(("Fatal Python error", "Could not import runpy"))


FOUND = """Traceback (most recent call last):
  File "<frozen runpy>", line 189, in _run_module_as_main
  File "<frozen runpy>", line 131, in _get_module_details
"""
HOOK = '  File "/lib/python3/site-packages/hook/__init__.py", line 101, in find_spec\n'


@pytest.mark.parametrize(
    ("said", "python"),
    [
        (f"{FOUND}{HOOK}\nKeyboardInterrupt\n", True),
        (f'{FOUND}  File "{OURS}/__init__.py", line 9, in <module>\n{HOOK}\nKeyboardInterrupt\n', True),
        (f'{FOUND}  File "{OURS}/cli/main.py", line 9, in <module>\n{HOOK}\nKeyboardInterrupt\n', False),
        (f'{FOUND}  File "{OURS}/cli/__init__.py", line 9, in <module>\n{HOOK}\nKeyboardInterrupt\n', False),
        ('Traceback (most recent call last):\n  File "/lib/threading.py", line 1, in _shutdown\n', False),
    ],
)
def test_a_traceback_is_pythons_own_until_insitu_has_begun(said, python):
    assert of_python(said) == python


def process(words: list, seconds: float) -> tuple[int, str]:
    """Press Ctrl-C so long after the start of `insitu`; the exit status as a shell shows it, and what was said."""
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell starts background jobs with it ignored
    run = subprocess.Popen([sys.executable, "-m", "insitu", *map(str, words)], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, preexec_fn=heard)  # fmt: skip
    try:
        return run.wait(seconds), run.communicate()[1]
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGINT)
    said = run.communicate(timeout=60)[1]
    return 128 - run.returncode if run.returncode < 0 else run.returncode, said


@pytest.mark.parametrize("presses", [QUICK, SLOW])
def test_ctrl_c_while_a_process_starts_shows_no_traceback_of_ours(presses):
    rng, found = np.random.default_rng(2), Counter()
    for _ in range({"quick": 10, "slow": 100}[presses]):
        status, said = process(["train", "--help"], float(rng.uniform(0.01, 0.1)))
        assert (status, said) in ((130, ""), (0, "")) or of_python(said), said
        found[status] += not said
    print(f"exit statuses without a word: {dict(found)}")
    assert found[130]


@pytest.mark.slow
def test_ctrl_c_over_the_whole_life_of_a_process(task, kept):
    line = ["train", *words(task, kept, epochs=60)]
    began = time.monotonic()
    assert process(line, 120)[0] == 0
    life, rng, found = time.monotonic() - began, np.random.default_rng(3), Counter()
    for _ in range(50):
        status, said = process(line, float(rng.uniform(0, life)))
        assert status in (0, 130) or of_python(said), said
        assert "Traceback" not in said or of_python(said), said
        begun = "epoch" in said and status == 130
        assert not begun or "to go on: insitu train" in said, said
        assert [p.name for p in kept.parent.iterdir()] == ["kept.insitu"]
        assert insitu.open(kept).classes == 4
        found["ended" if status == 0 else "goes on" if begun else "not begun" if status == 130 else "python"] += 1
    print(dict(found))
    assert found["goes on"] and found["not begun"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(task, kept, tmp_path):
    before = kept.read_bytes()
    run = Training(words(task, kept, epochs=3), tmp_path / "said", most_bytes=len(before) // 2)
    assert run.end() == 1
    saves = [line for line in run.text().splitlines() if "cannot be written: File too large" in line]
    assert len(saves) > 1 and all(line.startswith("note: not saved yet") for line in saves[:-1]), "training goes on"
    assert not saves[-1].startswith("note")
    assert kept.read_bytes() == before and list(kept.parent.iterdir()) == [kept]


def pull_out(kept: Path, into: Path):
    """The disk with the file is gone before the result is written."""
    return lambda history: kept.parent.rename(into)


@pytest.mark.parametrize("option", ["-o", "--save-model"])
def test_what_cannot_be_written_where_it_should_be_is_kept_elsewhere(option, task, kept, tmp_path, monkeypatch, capsys):
    before, away, temporary = kept.read_bytes(), tmp_path / "away", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr("insitu.cli.train.tell", pull_out(kept, away))
    line = [str(word) for word in words(task, kept, epochs=1)]
    assert main(["train", *line[:-2], option, str(kept)]) == 1
    said = capsys.readouterr().err
    (saved,) = temporary.glob("insitu-*/kept.insitu")
    assert f"kept.insitu: cannot be written: there is no folder {kept.parent}\n" in said
    assert f"what was learned is in {saved}" in said
    assert saved.read_bytes() != before and insitu.load(saved).graph
    assert (away / "kept.insitu").read_bytes() == before, "the old file is whole"


def test_a_temporary_folder_without_room_is_left_empty(task, kept, tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("insitu-*"))
    run = Training(words(task, kept, epochs=1), tmp_path / "said", save_seconds=300, most_bytes=1000)
    assert run.end() == 1 and "what was learned is in" not in run.text()
    assert set(Path(tempfile.gettempdir()).glob("insitu-*")) <= before

"""Where nobody watches, progress comes as lines: few, but never a long silence."""

from __future__ import annotations

import time

from insitu.terminal.lines import Lines
from insitu.terminal.progress import bar, speaking, stage


def test_a_slow_request_is_reported_while_it_runs(capsys):
    start = time.monotonic()
    with speaking(every=0.05), bar() as report:
        report("epoch 1 of 2, loss 0.5", 1, 4)
        time.sleep(0.18)
    most = (time.monotonic() - start) / 0.05  # more than 3 only where other programs keep the processor
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= most and all(line.startswith("epoch 1 of 2, loss 0.5 (25 %), ") for line in lines)


def test_a_slow_stage_is_named_in_a_log(capsys):
    with speaking(every=0.05), stage("building the firmware"):
        time.sleep(0.08)
    assert capsys.readouterr().err.startswith("building the firmware ..., 0 s so far\n")


def test_a_quick_stage_says_nothing(capsys):
    with speaking(every=5), stage("building the firmware"):
        pass
    assert capsys.readouterr().err == ""


def test_a_library_stays_silent(capsys):
    with bar() as report, stage("building the firmware"):
        report("epoch 1", 1, 2)
    assert capsys.readouterr().err == ""


def test_a_stage_within_a_bar_uses_its_lines(capsys):
    with speaking(every=0.05), bar(), stage("compiling"):
        time.sleep(0.08)
    assert capsys.readouterr().err.startswith("compiling ...")


def test_a_bar_within_a_bar_is_the_same():
    with speaking(every=5), bar() as outer, bar() as inner:
        assert inner is outer
    with bar() as after:
        assert after is not outer


def test_nothing_is_printed_after_the_end(capsys):
    with Lines("waiting", every=0.02):
        time.sleep(0.05)
    assert capsys.readouterr().err
    time.sleep(0.06)
    assert capsys.readouterr().err == ""

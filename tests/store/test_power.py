"""When a device may learn: Linux's files, or any function."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from insitu.store.power import When, refusal
from tests.store.lives import bytes_of, learner, lived

KIND = "mlp last:1 int8"


def supply(root: Path, name: str, **words: str) -> None:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    for word, value in words.items():
        (folder / word).write_text(value + "\n")


def test_charging_is_read_from_the_power_supplies(tmp_path: Path):
    when = When(charging=True, root=tmp_path)
    assert when() == "", "a machine without a battery may always learn"
    supply(tmp_path / "power_supply", "BAT0", type="Battery", status="Discharging")
    assert when() == "not charging"
    supply(tmp_path / "power_supply", "BAT0", status="Charging")
    assert when() == ""
    supply(tmp_path / "power_supply", "BAT0", status="Discharging")
    supply(tmp_path / "power_supply", "AC", type="Mains", online="1")
    assert when() == ""


def test_temperature_load_and_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    supply(tmp_path / "thermal", "thermal_zone0", temp="71000")
    assert When(celsius=60, root=tmp_path)() == "too warm: 71 degrees" and not When(celsius=80, root=tmp_path)()
    assert "busy" in When(idle=-1.0)() and not When(idle=1e9)()
    monkeypatch.setattr(time, "localtime", lambda: time.struct_time((2026, 1, 1, 23, 30, 0, 0, 1, 0)))
    assert not When(hours=(22, 6))() and not When(hours=(23, 24))()
    assert When(hours=(6, 22))() == "not between 6 and 22 o'clock"


def test_any_function_decides():
    assert refusal(None) == "" and refusal(lambda: True) == "" and refusal(lambda: False) == "not now"
    assert refusal(lambda: "on battery") == "on battery"


def test_a_bout_pauses_when_it_may_not_go_on_and_ends_with_the_same_bytes():
    allowed = iter([True, True, False, False])
    one, other = learner(KIND), learner(KIND)
    lived(one, KIND, when=lambda: next(allowed, True))
    lived(other, KIND)
    told = one.rehearse(steps=64)
    assert not told.finished and told.steps == 32 and told.note == "not now"
    assert one.rehearse().note == "not now"
    told = one.rehearse()
    assert told.finished and told.steps == 32
    other.rehearse(steps=64)
    assert bytes_of(one) == bytes_of(other)


def test_energy_is_a_budget_too():
    one = learner(KIND)
    lived(one, KIND, watts=1000.0)
    told = one.rehearse(steps=1000, energy_mj=1.0)
    assert not told.finished and told.steps < 1000 and told.energy_mj > 0

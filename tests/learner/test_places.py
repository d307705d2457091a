"""A learner on other devices: fit, evaluate, predict, save, load and add_class give what they give on the host."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

import insitu
from insitu.boards import find_board
from insitu.codegen import emit_program
from insitu.deploy import board_programs, deploy_program, starting_from
from insitu.deploy.bundle import board_files
from insitu.devices.process import open_process
from insitu.learner.folder import open_folder
from insitu.learner.learned import learned_deployment
from insitu.planner import plan

from ..devices.terminal import Terminal
from ..learners import data, learner, state_of

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

BOARD = "nrf52840"
X, Y = data(12)
SETTINGS = {"epochs": 2, "rate": 0.1, "seed": 3}
PLACES = [
    "host", "process", "emulator",
    pytest.param("qemu", marks=pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")),
]  # fmt: skip


def made(scheme: str = "last:1", **options) -> insitu.Learner:
    return learner(scheme, board=BOARD, precision="int8", data=data()[0], **options)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("batch", [1, 5])
def test_a_learner_learns_the_same_bytes_everywhere(place, batch, tmp_path):
    host = made(batch=batch)
    want = host.fit(X, Y, **SETTINGS, validation=(X, Y))
    with made(batch=batch).on(place) as there:
        found = there.fit(X, Y, **SETTINGS, validation=(X, Y))
        assert (found.loss, found.accuracy, found.validation) == (want.loss, want.accuracy, want.validation)
        assert (found.updates, found.counters) == (want.updates, want.counters)
        assert state_of(there) == state_of(host)
        assert there.predict(X).tobytes() == host.predict(X).tobytes()
        assert there.evaluate(X, Y) == host.evaluate(X, Y)
        assert there.counters() == host.counters()
        host.load(there.save(tmp_path / "state.bin"))
        there.load(tmp_path / "state.bin")
        assert state_of(there) == state_of(host)


@pytest.mark.parametrize("place", ["process", "emulator"])
def test_what_was_learned_goes_along_and_comes_back(place):
    host = made()
    host.fit(X, Y, **SETTINGS)
    with host.on(place) as there:
        assert state_of(there) == state_of(host)
        there.fit(X, Y, **SETTINGS)
        assert state_of(there) != state_of(host)
        assert state_of(there.on("host")) == state_of(there)


def test_a_device_keeps_what_it_knows_if_nothing_was_learned_here():
    fresh, trained = made(), made()
    trained.fit(X, Y, **SETTINGS)
    with open_process(fresh.deployed.program) as device:
        device.load_state(trained.device.save_state())
        assert state_of(fresh.on(device)) == state_of(trained)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals")
def test_a_board_on_a_serial_port_is_a_place():
    pytest.importorskip("serial")
    host = made()
    board = Terminal(host.deployed.program)
    try:
        with host.on(f"serial:{board.port}") as there:
            there.fit(X, Y, **SETTINGS)
            host.fit(X, Y, **SETTINGS)
            assert state_of(there) == state_of(host)
            with pytest.raises(insitu.DeviceError, match="cannot grow"):
                there.add_class()
    finally:
        board.close()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals")
def test_a_serial_line_is_as_fast_as_the_boards_profile_says(tmp_path):
    pytest.importorskip("serial")
    slow = find_board(BOARD)
    slow = replace(slow, port=replace(slow.port, baud=57600))
    host = learner("head", precision="int8", data=data()[0], board=slow)
    host.write(tmp_path / "build")
    board = Terminal(host.deployed.program)
    place = f"serial:{board.port}"
    try:
        for there in (lambda: host.on(place), lambda: open_folder(tmp_path / "build", place)):
            with there() as found:
                assert found.device.channel.port.baudrate == 57600
        with host.on(place, baud=9600) as found:
            assert found.device.channel.port.baudrate == 9600
    finally:
        board.close()


@pytest.mark.parametrize("place", ["process", "emulator"])
def test_a_class_is_added_on_a_board_as_on_the_host(place):
    host = made("head")
    with made("head").on(place) as there:
        for one in (host, there):
            one.fit(X, Y, **SETTINGS)
            assert one.add_class() == 4 and one.classes == 5
            one.fit(X, np.minimum(Y + 1, 4), **SETTINGS)
        assert state_of(there) == state_of(host)


def test_a_learner_without_a_board_is_linked_for_one_when_it_goes_there():
    host = learner("head", precision="int8", data=data()[0])
    with pytest.raises(insitu.BoardError, match="no firmware") as e:
        host.on("emulator")
    assert "board=" in e.value.hint
    with host.on("emulator", board=BOARD) as there:
        there.fit(X, Y, **SETTINGS)
        host.fit(X, Y, **SETTINGS)
        assert state_of(there) == state_of(host)


def test_a_process_needs_no_board():
    host = learner("head", precision="int8", data=data()[0])
    with host.on("process") as there:
        for one in (host, there):
            one.fit(X, Y, **SETTINGS)
            assert one.add_class() == 4
            one.fit(X, Y, **SETTINGS)
        assert state_of(there) == state_of(host)


def test_a_device_with_another_program_is_refused():
    other = made("head", batch=3)
    with open_process(made().deployed.program) as device, pytest.raises(insitu.DataError, match="another program"):
        other.on(device)


@pytest.mark.parametrize("place", ["moon", "serial", "emulator:3"])
def test_an_unknown_place_is_an_error_that_lists_the_known_ones(place):
    with pytest.raises(insitu.DataError, match=f"cannot run on '{place}'") as e:
        made("head").on(place)
    assert all(name in e.value.hint for name in ("emulator", "qemu", "process", "serial:PORT"))


def test_a_closed_learner_says_so():
    with made("head").on("process") as there:
        pass
    with pytest.raises(insitu.DeviceError, match="is closed"):
        there.predict(X)


def test_the_frozen_layers_outputs_are_kept_on_the_host_only():
    with made("head").on("process") as there, pytest.raises(insitu.DataError, match="only be kept on the host"):
        there.fit(X, Y, cache=True)


# folders ------------------------------------------------------------------------------------------------


def test_a_written_folder_is_a_learner_that_goes_on(tmp_path):
    host = made()
    host.fit(X, Y, **SETTINGS)
    host.write(tmp_path / "build")
    with open_folder(tmp_path / "build") as there:
        assert state_of(there) == state_of(host) and there.classes == 4 and there.recipe.loss == "cross_entropy"
        there.fit(X, Y, **SETTINGS)
        with pytest.raises(insitu.GraphError, match="no head that can grow"):
            there.add_class()


def test_a_folder_knows_the_loss_it_is_trained_with(tmp_path):
    import torch
    from torch import nn

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6)).eval()
    host = learner("full", module=module, classes=None, board=BOARD, recipe=insitu.Recipe(loss="mse"))
    host.write(tmp_path / "build")
    with open_folder(tmp_path / "build") as there:
        history = there.fit(X, **SETTINGS)
        assert there.measure == "error" and len(history.error) == 2 and not history.accuracy
        host.fit(X, **SETTINGS)
        assert state_of(there) == state_of(host)


def test_a_folder_is_linked_already(tmp_path):
    made("head").write(tmp_path / "build")
    with open_folder(tmp_path / "build") as there, pytest.raises(insitu.BoardError, match="already linked"):
        there.on("emulator", board=BOARD)


def test_instructions_are_counted_and_written(tmp_path):
    host = made("head")
    host.fit(X, Y, **SETTINGS)
    counts = host.instructions()
    assert set(counts) == {"train_step", "predict"} and counts["train_step"] > counts["predict"] > 1000
    host.write(tmp_path / "build", measure=True)
    figures = json.loads((tmp_path / "build" / "insitu.json").read_text())["figures"]
    assert {verb: figures[f"{verb}_instructions"] for verb in counts} == counts
    with pytest.raises(insitu.BoardError, match="on an emulated board"):
        learner("head", precision="int8", data=data()[0]).instructions()


# the first state ----------------------------------------------------------------------------------------


@pytest.fixture
def planned(monkeypatch):
    """How often a graph was planned."""
    import insitu.deploy.programs as programs
    import insitu.learner.pupils as pupils

    calls = []
    for module, name in ((programs, "plan_all"), (pupils, "plan")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, real=real, **k: calls.append(a) or real(*a, **k))
    return calls


def test_a_learned_state_changes_a_program_without_planning_again(planned, tmp_path):
    host = made()
    host.fit(X, Y, **SETTINGS)
    assert planned
    planned.clear()
    written = host.write(tmp_path / "build")
    assert not planned
    anew = next(iter(board_programs(starting_from(host.graphs, host.device.state()), host.deployed.limits)))
    assert planned
    wanted = board_files(deploy_anew(host, anew))
    assert {p.relative_to(tmp_path / "build").as_posix() for p in written} == {*wanted, "learner.insitu"}
    manifest = (tmp_path / "build" / "insitu.json").read_text().splitlines()
    told = [line for line in manifest if '"learner.insitu"' not in line]
    assert told == wanted.pop("insitu.json").splitlines()
    for name, content in wanted.items():
        found = (tmp_path / "build" / name).read_bytes()
        assert found == (content.encode() if isinstance(content, str) else content), name


def deploy_anew(host: insitu.Learner, program):
    made = deploy_program(program, host.deployed.limits)
    told = {name: getattr(host.deployed, name) for name in ("batch", "loss", "scheme", "chosen")}
    return replace(made, **told)


def test_without_a_board_the_program_starts_from_what_was_learned(tmp_path):
    host = learner("last:1", precision="int8", data=data()[0])
    host.fit(X, Y, **SETTINGS)
    host.write(tmp_path / "c")
    graphs = starting_from(host.graphs, host.device.state())
    anew = emit_program({verb: plan(g) for verb, g in graphs.items()})
    assert all((tmp_path / "c" / name).read_text() == text for name, text in anew.files.items())


def test_what_has_learned_nothing_is_written_as_it_was_deployed():
    host = made("head")
    assert learned_deployment(host) is host.deployed
    host.predict(X)
    assert learned_deployment(host) is host.deployed

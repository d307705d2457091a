"""`insitu run`: a board's folder trains where it is told to, and says what that took."""

import json
import shutil

import numpy as np
import pytest

import insitu
from insitu.bundle import write_board
from insitu.cli import main
from insitu.deploy import deploy, limits_of
from insitu.devices.host import open_plans
from insitu.devices.manifest import read_manifest
from insitu.onboard import open_board, random_samples
from insitu.planner import plan

from .firmware.images import M3, conv_graphs

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

NEEDED = ("train_step_instructions", "predict_instructions", "sram_bytes", "stack_bytes", "flash_bytes", "arena_bytes")
needs_qemu = pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("board")
    write_board(deploy(conv_graphs(), limits_of("nrf52840", 65536, None)), place)
    return place


def run(capsys, *arguments) -> dict:
    status = main(["run", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out)


def test_a_run_says_what_a_step_takes(folder, capsys):
    found = run(capsys, folder, "--steps", 3)
    assert all(isinstance(found[name], int) and found[name] > 0 for name in NEEDED)
    assert found["train_step_instructions"] == sum(found["layers"]["train_step"].values())
    assert found["predict_instructions"] < found["train_step_instructions"]
    assert found["sram_bytes"] == sum(found["sram"].values()) <= 65536
    assert found["flash_bytes"] == sum(found["flash"].values())
    assert 0 < found["stack_used_bytes"] <= found["stack_bytes"]
    assert found["steps"] == 3 and len(found["loss"]) == 1


def test_training_there_gives_the_losses_and_the_state_of_the_host(folder, capsys, tmp_path):
    found = run(capsys, folder, "--steps", 4, "--rate", 0.05, "--save", tmp_path / "state.bin")
    host = open_plans({verb: plan(g, target="mcu") for verb, g in conv_graphs().items()})
    samples, losses = random_samples(read_manifest(folder), 4, 0), []
    for i in np.random.default_rng(0).permutation(4):
        given = (samples.inputs[0][i : i + 1], np.array([samples.labels[i]], np.int32), np.float32(0.05))
        losses.append(float(host.run("train_step", *given)[0]))
    assert found["loss"] == [float(np.mean(losses))]
    assert (tmp_path / "state.bin").read_bytes() == host.save_state()


def test_a_saved_state_is_where_the_next_run_goes_on(folder, capsys, tmp_path):
    state = tmp_path / "state.bin"
    first = run(capsys, folder, "--steps", 8, "--epochs", 3, "--rate", 0.05, "--save", state)
    second = run(capsys, folder, "--steps", 8, "--rate", 0.05, "--load", state)
    assert second["loss"][0] < first["loss"][0]


@needs_qemu
def test_qemu_gives_the_same_losses_and_state(folder, capsys, tmp_path):
    here = run(capsys, folder, "--steps", 3, "--rate", 0.05, "--save", tmp_path / "a.bin")
    there = run(capsys, folder, "--steps", 3, "--rate", 0.05, "--save", tmp_path / "b.bin", "--on", "qemu")
    assert there["loss"] == here["loss"] and there["stack_used_bytes"] == here["stack_used_bytes"]
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()
    assert 0.99 < there["train_step_instructions"] / here["train_step_instructions"] < 1.1


def test_a_users_own_board_is_compiled_for_and_emulated(tmp_path, capsys):
    profile = tmp_path / "mine.json"
    profile.write_text(json.dumps({**M3.to_json(), "name": "mine"}))
    data = np.random.default_rng(0).normal(size=(20, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=data, y=np.arange(20) % 3)
    from insitu.demo import TARGET

    options = ["--data", str(tmp_path / "x.npz"), "--classes", "3", "--scheme", "head", "--board", str(profile)]
    assert main(["compile", str(TARGET), *options, "-o", str(tmp_path / "build")]) == 0
    capsys.readouterr()
    found = run(capsys, tmp_path / "build", "--data", tmp_path / "x.npz", "--epochs", 2)
    assert found["board"] == "mine" and found["loss"][1] < found["loss"][0] and found["steps"] == 40


WRONG = {
    "no folder": (("nowhere", "--steps", "1"), "is no folder of a board"),
    "nothing to train on": (("{folder}",), "nothing to train on"),
    "another place": (("{folder}", "--steps", "1", "--on", "moon"), "cannot run on 'moon'"),
    "no state": (("{folder}", "--steps", "1", "--load", "nowhere.bin"), "nowhere.bin: cannot be read"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_run_is_told_in_a_line(what, folder, capsys):
    arguments, says = WRONG[what]
    assert main(["run", *(a.format(folder=folder) for a in arguments)]) == 1
    assert says in capsys.readouterr().err


def test_where_a_state_cannot_be_written_is_told_before_training(folder, capsys):
    with pytest.raises(SystemExit):
        main(["run", str(folder), "--steps", "1", "--save", "nowhere/state.bin"])
    assert "not a file that can be written" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["emulator", "qemu"])
def test_a_folder_without_firmware_says_that_its_core_is_not_emulated(tmp_path, capsys, where):
    write_board(deploy(conv_graphs(), limits_of("esp32c3", None, None)), tmp_path)
    assert main(["run", str(tmp_path), "--steps", "1", "--on", where]) == 1
    assert "RISC-V rv32imc is not emulated" in capsys.readouterr().err


def test_a_damaged_manifest_is_an_error_that_names_the_file(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "it")
    (tmp_path / "it" / "insitu.json").write_text('{"format": 1}')
    with pytest.raises(insitu.DataError, match=r"insitu\.json: cannot be understood"):
        read_manifest(tmp_path / "it")


def test_the_state_of_another_program_is_refused(folder):
    device = open_board(read_manifest(folder))
    before = device.save_state()
    changed = bytearray(before)
    changed[4] ^= 1
    with pytest.raises(insitu.Error, match="state"):
        device.load_state(bytes(changed))
    assert device.save_state() == before

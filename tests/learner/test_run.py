"""`insitu run`: a board's folder trains where it is told to, and reports what that took."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import insitu
from insitu.boards.cpu import CPUS
from insitu.cli import main
from insitu.data.noise import random_samples
from insitu.deploy import deploy, limits_of
from insitu.deploy.bundle import write_board
from insitu.deploy.manifest import read_manifest
from insitu.devices.host import open_plans
from insitu.learner.folder import open_folder
from insitu.planner import plan

from ..firmware.images import M3, conv_graphs
from ..learners import data, learner, mlp, state_of

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
    samples, losses = random_samples(read_manifest(folder).graph, 4, 0), []
    for i in np.random.default_rng((0, 0)).permutation(4):
        given = (samples.inputs[0][i : i + 1], np.array([samples.labels[i]], np.int32), np.float32(0.05))
        losses.append(float(host.run("train_step", *given)[0]))
    assert found["loss"] == [float(np.mean(losses))]
    assert (tmp_path / "state.bin").read_bytes() == host.save_state()


def test_a_saved_state_is_where_the_next_run_goes_on(folder, capsys, tmp_path):
    state = tmp_path / "state.bin"
    first = run(capsys, folder, "--steps", 8, "--epochs", 3, "--rate", 0.05, "--save", state)
    second = run(capsys, folder, "--steps", 8, "--rate", 0.05, "--load", state)
    assert second["loss"][0] < first["loss"][0]


@pytest.fixture(scope="module")
def batched(tmp_path_factory):
    """A folder that updates after four samples, its samples, and the learner it was made from."""
    from insitu.demo import TARGET

    place = tmp_path_factory.mktemp("batched")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 1, 8, 8)).astype(np.float32), np.arange(10) % 3
    np.savez(place / "x.npz", x=x, y=y)
    made = insitu.compile(TARGET, data=x, classes=3, scheme="last:1", batch=4, board="nrf52840")
    made.write(place / "build")
    return place / "build", place / "x.npz", (x, y), made


def test_a_batch_gives_the_losses_accuracy_and_state_of_fit(batched, capsys, tmp_path):
    folder, data, samples, made = batched
    state = tmp_path / "state.bin"
    found = run(capsys, folder, "--data", data, "--epochs", 2, "--rate", 0.05, "--save", state)
    history = made.fit(*samples, epochs=2, rate=0.05, schedule="constant", warmup=0)
    assert found["batch"] == 4 and found["steps"] == 6  # of 4, 4 and 2 samples, twice
    np.testing.assert_allclose(found["loss"], history.loss, rtol=1e-12)
    assert found["accuracy"] == history.accuracy
    assert state.read_bytes() == made.device.save_state()
    assert found["accumulate_instructions"] > found["apply_instructions"] > 0
    update = 4 * found["accumulate_instructions"] + found["apply_instructions"]
    assert found["step_ms"] == read_manifest(folder).board.milliseconds(update)


def test_another_batch_is_taken_where_gradients_are_added_up_and_refused_elsewhere(batched, folder, capsys):
    made_for_four, data, _, _ = batched
    assert run(capsys, made_for_four, "--data", data, "--batch", 5)["steps"] == 2
    assert main(["run", str(folder), "--steps", "4", "--batch", "2"]) == 1
    assert "this firmware updates after every sample" in capsys.readouterr().err


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


def test_what_a_board_learned_goes_back_into_the_file_of_its_learner(tmp_path, capsys):
    x, y = data(40)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    made = learner("full", module=mlp(hidden=6), precision="int8", data=x, board="nrf52840")
    made.write(tmp_path / "build")
    common = (tmp_path / "build", "--data", tmp_path / "x.npz", "--rate", 0.05)
    run(capsys, *common, "--save", tmp_path / "learned.insitu")
    run(capsys, *common, "--save", tmp_path / "state.bin")
    back = insitu.open(tmp_path / "learned.insitu")
    assert state_of(back) == (tmp_path / "state.bin").read_bytes() != state_of(made)
    for name in ("learned.insitu", "state.bin"):  # either is where the next run goes on
        run(capsys, *common, "--load", tmp_path / name, "--save", tmp_path / f"next_{name}.bin")
    found = {(tmp_path / f"next_{name}.bin").read_bytes() for name in ("learned.insitu", "state.bin")}
    assert len(found) == 1 and found != {state_of(back)}


def test_a_folder_takes_a_table_by_the_names_of_its_columns(tmp_path, capsys):
    """A date and a counter are columns that were not learned from."""
    (learned, whole), rows = (tmp_path / "a.csv", tmp_path / "b.csv"), [f"{k % 3},{k % 2}" for k in range(16)]
    learned.write_text("\n".join(["a,b,label", *(f"{row},{'yn'[k % 2]}" for k, row in enumerate(rows)), ""]))
    dated = (f"2024-01-{k + 1},{'yn'[k % 2]},{k + 1},{row}" for k, row in enumerate(rows))
    whole.write_text("\n".join(["date,label,nr,a,b", *dated, ""]))
    options = {"example": np.zeros((1, 2), np.float32), "data": learned, "precision": "float", "batch": 1}
    insitu.compile(mlp(2, 2), board="nrf52840", **options).write(tmp_path / "build")
    assert read_manifest(tmp_path / "build").columns == ("a", "b")
    losses = [run(capsys, tmp_path / "build", "--data", data, "--rate", 0.01)["loss"] for data in (learned, whole)]
    assert losses[0] == losses[1]


def test_a_folder_without_its_learner_cannot_save_one(folder, capsys):
    assert main(["run", str(folder), "--steps", "1", "--save", "x.insitu"]) == 1
    assert "try: --save state.bin keeps what it learned" in capsys.readouterr().err


WRONG = {
    "no folder": (("nowhere", "--steps", "1"), "is not the folder of a board"),
    "neither folder nor samples": (("nowhere",), "is not the folder of a board"),
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
    assert "cannot write a file to" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["emulator", "qemu"])
def test_a_folder_without_firmware_says_that_its_core_is_not_emulated(tmp_path, capsys, where, monkeypatch):
    monkeypatch.setitem(CPUS, "rv32imc", replace(CPUS["rv32imc"], emulator=""))
    write_board(deploy(conv_graphs(), limits_of("esp32c3", None, None)), tmp_path)
    assert main(["run", str(tmp_path), "--steps", "1", "--on", where]) == 1
    assert "RISC-V rv32imc is not emulated" in capsys.readouterr().err


DAMAGED = {
    "no JSON": (None, "is invalid"),
    "a list": ([], "is invalid"),
    "no verbs": ({"verbs": ...}, "'verbs' is missing"),
    "no predict": ({"verbs": {}}, "'predict' is missing"),
    "predict of nothing": ({"verbs": {"predict": {"inputs": [], "outputs": []}}}, "predict has no inputs"),
    "no figures": ({"figures": ...}, "'figures' is missing"),
    "a list of figures": ({"figures": []}, "is invalid"),
    "empty figures": ({"figures": {}}, "'sram_bytes' is missing"),
    "a figure in words": ({"figures": {"sram_budget_bytes": "much"}}, "sram_budget_bytes is 'much'"),
    "a negative figure": ({"figures": {"flash_bytes": -1}}, "flash_bytes is -1"),
    "no word on linking": ({"figures": {"linked": None}}, "linked is None"),
    "a batch of none": ({"batch": 0}, "batch is 0"),
    "a line without a number": ({"lines": {"predict": {"x": "y"}}}, "is invalid"),
    "an unknown type": ({"state": {"model": 0, "fields": [{"name": "w", "dtype": "s7", "shape": [1]}]}}, "s7"),
    "classes that are no names": ({"classes": [1, 2]}, "is invalid"),
    "columns that are no names": ({"columns": [1, 2]}, "is invalid"),
    "no board": ({"board": 3}, "a profile must be a JSON object"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_manifest_is_an_error_that_names_the_file(what, folder, tmp_path, capsys):
    change, says = DAMAGED[what]
    right = json.loads((folder / "insitu.json").read_text())
    (tmp_path / "insitu.json").write_text("{" if change is None else json.dumps(damaged(right, change)))
    assert main(["run", str(tmp_path), "--steps", "1"]) == 1
    said = capsys.readouterr().err
    assert "insitu.json: " in said and says in said


def damaged(right: dict, change):
    """The manifest with keys changed, or removed if they are `...`; figures keep everything that is not changed."""
    if not isinstance(change, dict):
        return change
    whole = {k: v for k, v in change.items() if v is not ... and not (k == "figures" and v)}
    some = {**right["figures"], **change["figures"]} if change.get("figures") not in (None, ..., [], {}) else None
    kept = {k: v for k, v in right.items() if change.get(k) is not ...}
    return {**kept, **whole, **({"figures": some} if some else {})}


def test_an_image_that_is_not_the_folders_is_an_error(folder, batched, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "it")
    shutil.copy(batched[0] / "emulator.elf", tmp_path / "it" / "emulator.elf")
    assert main(["run", str(tmp_path / "it"), "--steps", "1"]) == 1
    assert "emulator.elf: is not the file that insitu.json describes" in capsys.readouterr().err
    found = json.loads((folder / "insitu.json").read_text())
    (tmp_path / "it" / "insitu.json").write_text(json.dumps({k: v for k, v in found.items() if k != "files"}))
    assert main(["run", str(tmp_path / "it"), "--steps", "1"]) == 1
    assert "it is not the firmware of this program" in capsys.readouterr().err


def test_a_device_with_another_program_says_what_differs(folder, tmp_path):
    found = json.loads((folder / "insitu.json").read_text())
    found["arena_bytes"] += 16
    (tmp_path / "insitu.json").write_text(json.dumps(found))
    shutil.copy(folder / "emulator.elf", tmp_path)
    arena = found["arena_bytes"]
    with pytest.raises(insitu.Error, match=f"another program: bytes of arena {arena - 16:,}, not {arena:,}\n") as e:
        open_folder(tmp_path)
    assert "flash the firmware" in e.value.hint
    found["verbs"]["predict"]["outputs"][0]["shape"] = [1, 99]
    (tmp_path / "insitu.json").write_text(json.dumps(found))
    with pytest.raises(insitu.Error, match=r"predict takes \S+ bytes and gives 12, not takes \S+ bytes and gives 396"):
        open_folder(tmp_path)


def test_the_state_of_another_program_is_refused(folder):
    device = open_folder(folder).device
    before = device.save_state()
    changed = bytearray(before)
    changed[4] ^= 1
    with pytest.raises(insitu.Error, match="state"):
        device.load_state(bytes(changed))
    assert device.save_state() == before

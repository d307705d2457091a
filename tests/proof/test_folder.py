"""`insitu prove build/`: the program that will be flashed is proved, and whatever was changed in the folder is seen."""

import json
import shutil
from pathlib import Path

import pytest

import insitu
from insitu.cli import main
from insitu.deploy.folder import MANIFEST, digest

from ..learners import data, learner

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

OPTIONS = {"board": "nrf52840", "precision": "int8", "data": data()[0], "head_init": "zero"}


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("prove") / "build"
    learner("last:1", **OPTIONS).write(folder)
    return folder


@pytest.fixture
def copy(build, tmp_path) -> Path:
    return shutil.copytree(build, tmp_path / "copy")


def with_new_hash(folder: Path, name: str) -> None:
    """Make the manifest describe the file as it is now."""
    found = json.loads((folder / MANIFEST).read_text())
    found["files"][name] = digest((folder / name).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(found))


def test_the_boards_own_program_is_proved(copy, capsys):
    assert main(["prove", str(copy)]) == 0
    shown = capsys.readouterr().out
    assert "nrf52840: s16 gradients" in shown and "everything holds" in shown
    written = json.loads((copy / "certificate.json").read_text())
    checks = {row["check"]: row["count"] for row in written["checks"]}
    assert written["ok"] and all(checks[name] for name in ("files", "int8 rules", "s16 gradients", "image", "plan"))
    assert insitu.open(copy).predict(data()[0]).shape == (30, 4), "the folder is still one"


def test_what_was_learned_is_part_of_the_proof(tmp_path):
    made = learner("last:1", **OPTIONS)
    made.fit(*data(), epochs=1, rate=0.1)
    made.write(tmp_path / "learned")
    assert insitu.prove(tmp_path / "learned", data=data()).ok


def test_a_living_program_is_proved_with_room_for_classes_and_what_it_has_seen(tmp_path):
    made = learner("last:1", precision="float")
    made.fit(*data(), epochs=1, rate=0.1)
    with made.on("emulator", board="nrf51822", store="8K", max_classes=6) as board:
        board.write(tmp_path / "living")
    assert b"first_means" in (tmp_path / "living" / "src" / "net_life.c").read_bytes()
    found = insitu.prove(tmp_path / "living", steps=2)
    assert found.ok, found.to_text()


def test_a_learner_and_its_file_are_proved_as_they_are(tmp_path, capsys):
    made = learner("last:1", precision="float", max_classes=6)
    made.fit(*data(), epochs=1, rate=0.1)
    found = insitu.prove(made, steps=2)
    assert found.ok and (found.scheme, found.precision) == ("last:1", "float"), found.to_text()
    assert main(["prove", str(made.save(tmp_path / "learned.insitu")), "--steps", "2"]) == 0
    assert "float, scheme last:1" in capsys.readouterr().out
    changed = insitu.prove(tmp_path / "learned.insitu", scheme="head", precision="float", steps=2)
    assert changed.ok and changed.scheme == "head"


def test_rows_and_8_bit_gradients_are_proved(tmp_path):
    from insitu.demo import TARGET, digits

    recipe = insitu.Recipe(rows=True, grad="s8")
    calibration = digits().x_train[:50]
    made = insitu.compile(TARGET, data=calibration, scheme="last:2", recipe=recipe, board="nrf52840", sram="18K")
    made.write(tmp_path / "rows")
    found = insitu.prove(tmp_path / "rows", steps=2)
    assert found.ok and "row by row" in found.about and "stripes" in found.about, found.to_text()


def test_a_changed_file_is_refused_by_name(copy, capsys):
    path = copy / "src" / "net_train_step.c"
    path.write_text(path.read_text().replace("rate", "rate ", 1))
    assert main(["prove", str(copy)]) == 1
    assert "net_train_step.c: is not the file" in capsys.readouterr().err and not (copy / "certificate.json").exists()


def test_c_that_is_not_the_models_is_seen_even_if_the_manifest_agrees(copy, capsys):
    path = copy / "src" / "net_train_step.c"
    path.write_text(path.read_text() + "/* another program */\n")
    with_new_hash(copy, "src/net_train_step.c")
    assert main(["prove", str(copy)]) == 1
    assert "src/net_train_step.c is not the C of this model" in capsys.readouterr().out
    assert json.loads((copy / "certificate.json").read_text())["ok"] is False


def test_an_image_of_another_program_is_seen(copy, tmp_path):
    learner("last:1", **{**OPTIONS, "data": 3 * data()[0]}).write(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "emulator.elf", copy / "emulator.elf")
    with_new_hash(copy, "emulator.elf")
    assert insitu.prove(copy).broken == ("image",)


def test_options_of_compile_are_refused(build, capsys):
    assert main(["prove", str(build), "--scheme", "head"]) == 1
    assert "--scheme would change it" in capsys.readouterr().err


def test_a_folder_without_its_model_says_what_to_do(copy):
    (copy / "learner.insitu").unlink()
    with pytest.raises(insitu.DataError, match="no model to prove"):
        insitu.prove(copy)

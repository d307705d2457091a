"""Several schemes in one image: each trains the same bytes as a program of its own, and nothing else is changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.devices.device import Updates
from insitu.devices.rungs import rung
from insitu.errors import DeviceError, GraphError, SchemeError

from ..deploy.test_budget import model

pytest.importorskip("unicorn")
BOARD, SCHEMES = "nrf52840", ("head", "bias:2", "last:2")
STEPS = 3


def compiled(scheme: str, **options):
    recipe = insitu.Recipe(smoothing=0.1)  # so that these kernels run on a board as well
    return insitu.compile(model("inverted"), classes=4, scheme=scheme, head_init="uniform", recipe=recipe, **options)


def updates(learner) -> Updates:
    shape = learner.graphs["predict"].inputs[0].type
    x = np.random.default_rng(1).normal(size=(STEPS, *shape.shape[1:])).astype(np.float32)
    return Updates((x, np.arange(STEPS, dtype=np.int32) % 4), range(STEPS), [0.05] * STEPS)


@pytest.fixture(scope="module")
def together():
    return compiled("+".join(SCHEMES), board=BOARD)


@pytest.fixture(scope="module")
def apart():
    return {name: compiled(name, board=BOARD) for name in SCHEMES}


def test_every_scheme_of_an_image_learns_the_bytes_of_its_own_program(together, apart):
    with together.on("emulator") as board:
        for name, single in apart.items():
            board.device.reset()
            before, device = board.device.state(), board.device if name == SCHEMES[-1] else rung(board.device, name)
            there, here = device.train(updates(single)), single.device.train(updates(single))
            assert there.losses.tobytes() == here.losses.tobytes()
            after, wanted = board.device.state(), single.device.state()
            assert {n: after[n].tobytes() for n in wanted} == {n: a.tobytes() for n, a in wanted.items()}
            others = [n for n in after if n not in wanted]
            assert all(np.array_equal(after[n], before[n]) for n in others)


def test_they_share_the_state_and_the_arena(together, apart):
    most = apart[SCHEMES[-1]].deployed
    assert together.deployed.program.state_bytes == most.program.state_bytes
    assert together.deployed.sram_bytes <= most.sram_bytes + 512
    assert most.flash_bytes < together.deployed.flash_bytes


def test_a_learner_keeps_them_in_its_file(together, tmp_path):
    together.save(tmp_path / "net.insitu")
    again = insitu.open(tmp_path / "net.insitu")
    assert set(again.device.verbs) == {"predict", "train_step", "train_step_head", "train_step_bias_2"}


def test_what_cannot_be_together_is_told(together):
    with pytest.raises(SchemeError, match="does not train in the same way"):
        compiled("bias:3+last:2")
    with pytest.raises(GraphError, match="one sample per update"):
        compiled("head+last:2", batch=2)
    with pytest.raises(DeviceError, match="has no smaller scheme last:1"):
        rung(together.device, "last:1")


def test_fit_on_a_rung_learns_the_bytes_of_a_program_of_its_own(together, apart):
    arrays = updates(together).arrays
    asked = {"epochs": 2, "rate": 0.05, "schedule": "constant", "warmup": 0}
    single = apart["head"].on("host")
    single.device.reset()
    there = single.fit(*arrays, **asked)
    wanted = single.device.state()
    for place in ("emulator", "host"):
        with together.on(place) as board:
            before = board.device.state()
            assert board.rung("head").fit(*arrays, **asked).loss == there.loss
            after = board.device.state()
            assert all(np.array_equal(after[n], a) for n, a in wanted.items())
            assert all(np.array_equal(after[n], before[n]) for n in after if n not in wanted)


def test_a_folder_is_run_on_a_rung_and_its_readme_says_how(together, tmp_path, capsys):
    together.write(tmp_path / "build")
    line = next(line for line in (tmp_path / "build" / "README.md").read_text().splitlines() if "--rung" in line)
    assert "`net_train_step_head`" in line and "insitu run . --rung head --data FILE" in line
    steps = {}
    for more in ([], ["--rung", "head"], ["--rung", "bias:2"]):
        assert main(["run", str(tmp_path / "build"), "--steps", "2", *more, "--json"]) == 0
        steps[" ".join(more)] = json.loads(capsys.readouterr().out)["train_step_instructions"]
    assert steps["--rung head"] < steps["--rung bias:2"] < steps[""]
    assert main(["run", str(tmp_path / "build"), "--steps", "2", "--rung", "full"]) == 1
    assert "has no smaller scheme full" in capsys.readouterr().err

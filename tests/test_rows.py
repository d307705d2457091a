"""`--rows`, from the model to the folder: a learner, its program and a board's firmware never hold a whole image."""

import json
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import insitu  # noqa: E402
from insitu import Recipe  # noqa: E402
from insitu.cli import main  # noqa: E402
from insitu.deploy.bundle import write_bundle  # noqa: E402
from insitu.deploy.bundle_texts import example_main  # noqa: E402
from insitu.devices.host import open_program  # noqa: E402
from insitu.devices.rows import Arrival  # noqa: E402
from insitu.errors import GraphError  # noqa: E402
from insitu.toolchain.compiler import find_compiler  # noqa: E402

SHAPE = (9, 7, 2)
LARGE = (36, 28, 2)  # more than everything that kernels need beside it


class Network(torch.nn.Module):
    """Takes pixels like a camera's: rows, with the channels last."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        body = [torch.nn.Conv2d(2, 4, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(4, 6, 3, 1, 1), torch.nn.ReLU()]
        self.body = torch.nn.Sequential(*body, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        self.fc = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(self.body(x.permute(0, 3, 1, 2)))


def data(count: int = 12, shape: tuple[int, ...] = SHAPE):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, *shape)).astype(np.float32), rng.integers(0, 3, count).astype(np.int32)


def learner(rows: bool, scheme: str = "head", **options):
    network, example = Network().eval(), torch.zeros(1, *SHAPE)
    recipe = Recipe(rows=rows)
    return insitu.compile(network, example=example, data=data(), classes=3, scheme=scheme, recipe=recipe, **options)


@pytest.fixture(scope="module")
def pair():
    return learner(False), learner(True)


@pytest.mark.parametrize("cache", [False, True])
def test_fit_and_predict_learn_the_same_without_ever_holding_an_image(pair, cache):
    x, y = data()
    for made in pair:
        made.fit(x, y, epochs=2, rate=0.05, cache=cache)
    whole, rows = pair
    assert rows.device.save_state() == whole.device.save_state()
    assert rows.predict(x).tobytes() == whole.predict(x).tobytes()
    assert rows.device.program.plans["train_step"].graph.by_rows
    assert not whole.device.program.plans["train_step"].graph.by_rows


def test_the_model_that_was_learned_is_a_model_like_any_other(pair):
    from insitu.learner.learned import learned_model

    x, _ = data(2)
    assert np.array_equal(learned_model(pair[1]).predict(x[:1]), pair[1].predict(x[:1]))


def test_a_program_for_inference_takes_rows_too():
    model = insitu.load(Network().eval(), torch.zeros(1, *SHAPE)).quantize(data()[0])
    whole, rows = open_program(model.program()), open_program(model.program(rows=True))
    x = data()[0][:1]
    image = Arrival(rows)
    for row in x[0]:
        image.rows(row[None])
    assert image.end()[0].tobytes() == whole.run("predict", x)[0].tobytes()


def test_an_image_that_comes_channel_by_channel_has_no_rows():
    model = insitu.load(Network().body.eval(), torch.zeros(1, 2, 9, 7)).quantize(data()[0].transpose(0, 3, 1, 2))
    with pytest.raises(GraphError, match=r"(?s)planes, not rows.*permute"):
        model.program(rows=True)


def test_the_example_of_a_folder_hands_over_a_row_at_a_time(pair, tmp_path):
    program = pair[1].device.program
    write_bundle(program, tmp_path)
    (tmp_path / "main.c").write_text(example_main(program))
    assert f"[{7 * 2}]; /* a row of f32[1x9x7x2] */" in example_main(program)
    sources = [str(p) for p in (*sorted(tmp_path.glob("*.c")), *sorted(tmp_path.glob("kernels/*/*.c")))]
    flags = ["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    subprocess.run([*find_compiler(), *flags, *sources, "-o", str(tmp_path / "example")], check=True)
    said = subprocess.run([str(tmp_path / "example")], capture_output=True, text=True, check=True).stdout
    assert "refused" not in said and "train_step: 1.09861" in said  # log(3): the head is zero at first


def test_a_board_is_compiled_for_and_run_from_the_command_line(tmp_path, capsys):
    for package in ("unicorn", "elftools", "ziglang"):
        pytest.importorskip(package)
    insitu.load(Network().eval(), torch.zeros(1, *LARGE)).quantize(data(shape=LARGE)[0]).save(tmp_path / "net.insitu")
    common = ["compile", str(tmp_path / "net.insitu"), "--scheme", "head", "--classes", "3", "--board", "stm32f746",
              "--prefer", "memory"]  # fmt: skip
    found = []
    for rows in ([], ["--rows"]):
        folder = tmp_path / f"board{len(rows)}"
        assert main([*common, *rows, "-o", str(folder), "--json"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert main(["run", str(folder), "--steps", "3", "--json"]) == 0
        found.append((made["arena_bytes"], json.loads(capsys.readouterr().out)))
    (whole_bytes, whole), (rows_bytes, rows) = found
    assert rows_bytes < whole_bytes / 2 and rows["loss"] == whole["loss"]
    assert "x.rows" in rows["layers"]["predict"] and "x.rows" not in whole["layers"]["predict"]
    assert json.loads((tmp_path / "board1" / "insitu.json").read_text())["verbs"]["predict"]["rows"] == 0
    assert "never held as a whole" in (tmp_path / "board1" / "README.md").read_text()

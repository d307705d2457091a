"""What compile() and the verbs compile and train write: a dump, a folder of C, tables, and clear errors."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import insitu
from insitu import Recipe
from insitu.cli import main
from insitu.demo import TARGET, digits
from insitu.deploy.bundle import write_bundle
from insitu.toolchain.compiler import find_compiler

from .learners import data, learner, mlp

X, Y = data(40)


def compile(**options):
    return insitu.compile(mlp(), example=torch.zeros(1, 6), **options)


# --- what is written ------------------------------------------------------------------------------------


def test_the_dump_has_a_text_a_stage(tmp_path):
    compile(classes=4, data=X, scheme="last:1", recipe=Recipe(), precision="float", dump=tmp_path)
    texts = {p.stem: p.read_text() for p in sorted(tmp_path.iterdir())}
    assert list(texts) == ["1-loaded", "2-input", "3-numerics", "4-head", "5-scheme", "6-training", "7-plan"]
    assert "%head = linear" in texts["4-head"] and "%head.weight :=" in texts["6-training"]
    assert "weight 1" in texts["5-scheme"] and "peak at step" in texts["7-plan"]


MAIN = """
#include <stdio.h>
#include "net.h"
static net_state state;
static unsigned char arena[NET_ARENA_BYTES] __attribute__((aligned(16)));
int main(void)
{
    const float x[6] = {1, -2, 3, 0.5f, 0, 1};
    const int32_t label[1] = {2};
    float loss[1], out[4];
    net_init(&state);
    for (int i = 0; i < 3; i++) net_train_step(&state, arena, x, label, 0.1f, loss, out);
    net_predict(&state, arena, x, out);
    printf("%.9g %.9g %.9g %.9g\\n", out[0], out[1], out[2], out[3]);
    return 0;
}
"""


def test_the_folder_of_c_builds_alone_and_computes_what_the_learner_does(tmp_path):
    made = learner("last:1")
    write_bundle(made.program, tmp_path)
    (tmp_path / "main.c").write_text(MAIN)
    sources = [str(p) for p in (*tmp_path.glob("*.c"), *tmp_path.glob("kernels/*/*.c"))]
    flags = [
        "-std=gnu99",
        "-O2",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        str(tmp_path),
    ]
    subprocess.run([*find_compiler(), *flags, *sources, "-o", str(tmp_path / "run")], check=True)
    done = subprocess.run([str(tmp_path / "run")], check=True, capture_output=True, text=True)
    x = np.array([[1, -2, 3, 0.5, 0, 1]], np.float32)
    for _ in range(3):
        made.device.run("train_step", x, np.array([2], np.int32), np.float32(0.1))
    np.testing.assert_allclose([float(w) for w in done.stdout.split()], made.predict(x)[0], rtol=1e-5, atol=1e-6)


# --- the verbs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    np.savez(path, x=digits().x_train[:120], y=digits().y_train[:120])
    return str(path)


def test_insitu_compile_prints_the_memory_and_writes_c(samples, tmp_path, capsys):
    options = ["--classes", "10", "--scheme", "head", "--data", samples]
    assert main(["compile", str(TARGET), *options, "-o", str(tmp_path / "c"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"arena_bytes", "arena_lower_bound_bytes", "state_bytes", "const_bytes"} <= set(report)
    assert 0 < report["arena_lower_bound_bytes"] <= report["arena_bytes"]
    assert (tmp_path / "c" / "net_train_step.c").exists() and (tmp_path / "c" / "kernels.h").exists()


def test_insitu_train_learns_resumes_and_prints_a_table(samples, tmp_path, capsys):
    common = [
        "train",
        str(TARGET),
        "--data",
        samples,
        "--classes",
        "10",
        "--scheme",
        "head",
        "--epochs",
        "4",
        "--rate",
        "0.05",
    ]
    whole, half, rest = (str(tmp_path / name) for name in ("whole.bin", "half.bin", "rest.bin"))
    assert main([*common, "--split", "0.8", "-o", whole, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["loss"][-1] < report["loss"][0] and len(report["tested"]) == 4 and report["cached"]
    assert main([*common, "--split", "0.8", "-o", half, "--stop-epoch", "2"]) == 0
    assert main([*common, "--split", "0.8", "--resume", half, "--start-epoch", "2", "-o", rest]) == 0
    assert Path(rest).read_bytes() == Path(whole).read_bytes() != Path(half).read_bytes()
    text = capsys.readouterr().out
    assert "epoch" in text and "skipped" in text and "arena" in text and "cached" in text


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_file_where_the_folder_should_be_is_told_before_anything_is_compiled(below, tmp_path, capsys):
    (tmp_path / "build").write_text("mine")
    with pytest.raises(SystemExit):
        main(["compile", "no such model.onnx", "-o", str(tmp_path / "build" / below)])
    assert f"{tmp_path / 'build'} already exists and is not a folder" in capsys.readouterr().err
    assert (tmp_path / "build").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told_before_anything_is_compiled(tmp_path, capsys):
    tmp_path.chmod(0o555)
    with pytest.raises(SystemExit):
        main(["compile", "no such model.onnx", "-o", str(tmp_path / "build")])
    assert f"{tmp_path} is read-only" in capsys.readouterr().err


def test_the_verbs_say_what_is_wrong(samples, tmp_path, capsys):
    assert main(["compile", str(TARGET), "--classes", "10"]) == 1
    assert "needs samples" in capsys.readouterr().err
    common = ["--data", samples, "--classes", "10", "--scheme", "head"]
    assert main(["compile", str(TARGET), *common, "--sram", "1K"]) == 1
    assert "peak at" in capsys.readouterr().err
    assert main(["train", str(TARGET), "--data", samples, "--classes", "5", "--scheme", "head"]) == 1
    assert "classes 0..4" in capsys.readouterr().err
    (tmp_path / "bad.bin").write_bytes(b"no state")
    assert main(["train", str(TARGET), *common, "--resume", str(tmp_path / "bad.bin")]) == 1
    assert "bad.bin" in capsys.readouterr().err

"""The command line: results on stdout, errors without a traceback, and exit statuses that a script can trust."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import insitu
from insitu.cli import VERBS, main
from insitu.demo import TARGET, digits
from insitu.graph import REGISTRY

NAMES = [verb.__name__.rpartition(".")[2] for verb in VERBS]


def run(capsys, *arguments):
    """(exit status, stdout, stderr) of `insitu arguments...`."""
    status = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Forty digits as an .npz."""
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    data = digits()
    np.savez(path, x=data.x_test[:40], y=data.y_test[:40])
    return path


@pytest.fixture(scope="module")
def quantised(tmp_path_factory, samples):
    path = tmp_path_factory.mktemp("model") / "digits.insitu"
    assert main(["quantize", str(TARGET), "--data", str(samples), "-o", str(path), "--json"]) == 0
    return path


def onnx_file(path, *ops):
    """A chain of unary ops on f32[1x4x4]."""
    names = ["x", *(f"v{i}" for i in range(len(ops)))]
    nodes = [
        helper.make_node(op, [a], [b], name=f"layer{i}") for i, (op, a, b) in enumerate(zip(ops, names, names[1:]))
    ]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 4])] for n in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "chain", *ends)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


# --- the program as a whole -----------------------------------------------------------------------------


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"insitu {insitu.__version__}\n"


@pytest.mark.parametrize("verb", NAMES)
def test_help_of_every_verb_shows_examples_of_that_verb(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert f"examples:\n  insitu {verb}" in capsys.readouterr().out


def test_a_wrong_command_line_exits_with_2(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "model.onnx"])
    assert stop.value.code == 2
    assert "--data" in capsys.readouterr().err


def test_a_users_mistake_is_one_line_on_stderr_and_exit_status_1():
    code = "import sys; from insitu.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "check", "missing.onnx"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ModelError: missing.onnx: no such file\n"


def test_a_hint_follows_on_a_line_of_its_own(capsys):
    status, out, err = run(capsys, "ops", "conv3d")
    assert (status, out) == (1, "")
    assert err.splitlines()[0].startswith("GraphError: unknown op 'conv3d'")
    assert err.splitlines()[1].startswith("  try: ")


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("insitu.reports.ops.all_ops", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["ops"])


# --- ops ------------------------------------------------------------------------------------------------


def test_ops_lists_the_whole_registry(capsys):
    status, out, _ = run(capsys, "ops")
    assert status == 0
    assert {line.split()[0] for line in out.splitlines()[2:]} == set(REGISTRY)


def test_ops_of_one_op_says_where_everything_is(capsys):
    _, out, _ = run(capsys, "ops", "conv2d")
    places = ("src/insitu/ops/conv.py:", "kernels/conv/conv2d_f32.c")
    for part in (*places, "onnx: Conv", "tflite: CONV_2D", "dilation=(1, 1)"):
        assert part in out


def test_ops_as_json_has_the_importers_names(capsys):
    _, out, _ = run(capsys, "ops", "hard_swish", "--json")
    found = json.loads(out)
    assert found["importers"]["onnx"] == ["HardSwish"]
    assert found["kernels"] == ["hard_swish_f32"]


FOREIGN = {
    "Conv": "conv2d",
    "CONV_2D": "conv2d_s8",
    "torch.nn.Conv2d": "conv2d",
    "aten.conv2d": "conv2d",
    "FULLY_CONNECTED": "linear_s8",
    "HardSwish": "hard_swish",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_ops_are_found_by_the_names_of_their_formats(capsys, name):
    status, out, _ = run(capsys, "ops", name, "--json")
    found = json.loads(out)
    assert status == 0
    assert FOREIGN[name] in [op["name"] for op in (found if isinstance(found, list) else [found])]


def test_a_misspelt_op_names_its_neighbours(capsys):
    status, _, err = run(capsys, "ops", "conv2dd")
    assert status == 1
    assert "conv2d" in err.splitlines()[1]


# --- check ----------------------------------------------------------------------------------------------


def test_check_exits_with_0_if_a_gradient_reaches_every_layer(capsys, monkeypatch):
    monkeypatch.setattr("insitu.reports.trainable.has_gradient", lambda op: True)
    status, out, _ = run(capsys, "check", TARGET)
    assert status == 0
    assert "can be trained: all 6 layers" in out


def test_check_says_from_which_layer_on(capsys, monkeypatch):
    monkeypatch.setattr("insitu.reports.trainable.has_gradient", lambda op: op.name != "max_pool2d")
    status, out, _ = run(capsys, "check", TARGET)
    assert status == 0
    assert "can be trained from block2.0 on (3 of 6 layers); max_pool2d (max_pool2d) has no gradient rule" in out
    assert "try: keep everything before block2.0 frozen" in out


def test_check_exits_with_1_if_the_last_layer_has_no_gradient(capsys, monkeypatch):
    monkeypatch.setattr("insitu.reports.trainable.has_gradient", lambda op: op.name != "linear")
    status, out, _ = run(capsys, "check", TARGET, "--json")
    found = json.loads(out)
    assert status == 1
    assert not found["trainable"]
    assert not any(row["trainable"] for row in found["rows"])
    assert "linear (head)" in found["verdict"]


def test_check_lists_every_op_of_a_file_that_does_not_import(capsys, tmp_path):
    status, out, _ = run(capsys, "check", onnx_file(tmp_path / "m.onnx", "Relu", "Det", "Sin", "Tanh"), "--json")
    rows = json.loads(out)["rows"]
    assert status == 1
    assert [(r["op"], r["imported"]) for r in rows] == [("Relu", True), ("Det", False), ("Sin", False), ("Tanh", True)]
    assert json.loads(out)["verdict"] == "cannot be trained: Sin (layer2) is not supported"


def test_check_lists_every_op_of_a_saved_torch_program(capsys, tmp_path):
    import torch

    class Sorter(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x).cumprod(1).tanh()

    torch.export.save(torch.export.export(Sorter(), (torch.zeros(1, 4),)), tmp_path / "m.pt2")
    status, out, _ = run(capsys, "check", tmp_path / "m.pt2", "--json")
    assert status == 1
    assert [(r["op"], r["imported"]) for r in json.loads(out)["rows"]] == [
        ("relu", True),
        ("cumprod", False),
        ("tanh", True),
    ]


def test_check_of_a_damaged_file_is_an_error(capsys, tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(b"TFL3" * 100)
    status, out, err = run(capsys, "check", path)
    assert (status, out) == (1, "")
    assert err.startswith("ModelError: ")


def test_check_says_that_a_float_model_has_int8_weights_inside(capsys, shared_models):
    _, out, _ = run(capsys, "check", shared_models / "mlperf-tiny" / "kws_dscnn_fp32.tflite")
    assert "note: some weights are int8 in a float network" in out


# --- quantize and predict -------------------------------------------------------------------------------


def test_quantize_reports_every_layer_and_writes_a_model(capsys, tmp_path, samples):
    target = tmp_path / "q.insitu"
    status, out, _ = run(capsys, "quantize", TARGET, "--data", samples, "-o", target, "--json")
    found = json.loads(out)
    assert status == 0
    assert found["output"] == str(target)
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert layers["block1.3"]["op"] == "conv2d_s8"
    assert layers["block1.3"]["sqnr_db"] > 25  # 8 bits of a well-behaved layer; a wrong scale gives single digits
    assert found["agreement"] > 0.95
    assert found["after_bytes"] < found["before_bytes"] / 3
    assert found["fallbacks"] == []


def test_quantize_does_not_overwrite_its_own_model(capsys, quantised, samples):
    before = quantised.read_bytes()
    status, _, err = run(capsys, "quantize", quantised, "--data", samples)
    assert status == 1
    assert "would be overwritten" in err
    assert quantised.read_bytes() == before


def test_int8_inputs_take_real_data_too(capsys, tmp_path, samples):
    target = tmp_path / "q.insitu"
    assert run(capsys, "quantize", TARGET, "--data", samples, "-o", target, "--int8-io")[0] == 0
    assert insitu.load(target).graph.inputs[0].dtype == "s8"
    _, out, _ = run(capsys, "predict", target, "--data", samples, "--json")
    assert json.loads(out)["accuracy"] > 0.9


def test_predict_gives_the_models_outputs_by_name(capsys, quantised, samples, tmp_path):
    target = tmp_path / "y.npz"
    status, out, _ = run(capsys, "predict", quantised, "--data", samples, "-o", target)
    assert status == 0
    assert "accuracy" in out
    model = insitu.load(quantised)
    with np.load(samples) as data, np.load(target) as y:
        np.testing.assert_array_equal(y[model.graph.outputs[0].name], model.predict(data["x"]))


@pytest.mark.parametrize("suffix", [".npy", ".csv", "folder"])
def test_predict_reads_the_same_samples_from_other_files(capsys, quantised, samples, tmp_path, suffix):
    with np.load(samples) as data:
        path = WRITERS[suffix](tmp_path, data["x"][:7], data["y"][:7])
    _, out, _ = run(capsys, "predict", quantised, "--data", path, "--json")
    _, want, _ = run(capsys, "predict", quantised, "--data", samples, "--samples", 7, "--json")
    best = [[row["classes"][0] for row in json.loads(text)["top"]] for text in (out, want)]
    assert sorted(best[0]) == sorted(best[1])  # a folder is read class by class
    if suffix != ".npy":
        assert json.loads(out)["accuracy"] == json.loads(want)["accuracy"]


def _write_npy(folder, x, y):
    np.save(folder / "x.npy", x)
    return folder / "x.npy"


def _write_csv(folder, x, y):
    rows = [",".join(map(str, [*row.reshape(-1), label])) for row, label in zip(x, y)]
    (folder / "x.csv").write_text("\n".join(rows))
    return folder / "x.csv"


def _write_folder(folder, x, y):
    from PIL import Image

    for label in range(10):
        (folder / "x" / str(label)).mkdir(parents=True)
    for i, (image, label) in enumerate(zip(x, y)):
        Image.fromarray(np.round(image[0] * 255).astype(np.uint8)).save(folder / "x" / str(label) / f"{i}.png")
    return folder / "x"


WRITERS = {".npy": _write_npy, ".csv": _write_csv, "folder": _write_folder}


def test_data_of_the_wrong_shape_are_an_error_that_names_both_shapes(capsys, quantised, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 9, 9), np.float32))
    status, _, err = run(capsys, "predict", quantised, "--data", tmp_path / "x.npy")
    assert status == 1
    assert "3x9x9" in err
    assert "f32[1x1x8x8]" in err


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.csv", "x.txt"])
def test_damaged_data_are_an_error_and_not_a_crash(capsys, quantised, tmp_path, name):
    (tmp_path / name).write_bytes(b"PK\x03\x04 not what the name says")
    status, out, err = run(capsys, "predict", quantised, "--data", tmp_path / name)
    assert (status, out) == (1, "")
    assert err.startswith("DataError: ")


def test_a_result_that_cannot_be_written_is_refused_before_the_work(capsys, quantised, samples, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["predict", str(quantised), "--data", str(samples), "-o", str(tmp_path / "none" / "y.npz")])
    assert stop.value.code == 2
    assert "cannot write a file to" in capsys.readouterr().err


# --- bench ----------------------------------------------------------------------------------------------


def test_bench_reports_time_and_memory(capsys, quantised):
    status, out, _ = run(capsys, "bench", quantised, "--repeats", 2, "--json", "--map")
    found = json.loads(out)
    assert status == 0
    assert found["predict_ms"] > 0
    assert found["arena_bytes"] >= found["arena_lower_bound_bytes"] > 0
    assert found["macs"] == 145632  # stem 13824, block1 13824 + 73728, block2 6912 + 36864, head 480
    assert found["map"]["arena_bytes"] == found["arena_bytes"]
    assert "\x1b" not in out


def test_check_ends_with_what_each_scheme_takes(capsys):
    status, out, _ = run(capsys, "check", TARGET, "--json")
    found = json.loads(out)["totals"]
    model = insitu.load(TARGET)
    assert status == 0 and found["parameters"] == sum(a.size for a in model.graph.constants.values())
    by_name = {s["scheme"]: s for s in found["schemes"]}
    assert list(by_name) == ["head", "last:2", "last:4", "full"] and by_name["full"]["trained"] == found["parameters"]
    assert [s["sram_bytes"] for s in found["schemes"]] == sorted(s["sram_bytes"] for s in found["schemes"])


def test_the_estimate_of_check_is_enough_for_a_linked_program(capsys, samples):
    found = json.loads(run(capsys, "check", TARGET, "--json")[1])["totals"]["schemes"][1]
    words = ("--data", samples, "--scheme", "last:2", "--board", "nrf52840", "--sram", found["sram_bytes"], "--json")
    status, out, _ = run(capsys, "compile", TARGET, *words)
    assert status == 0 and json.loads(out)["sram_bytes"] <= found["sram_bytes"]
    assert json.loads(out)["state_bytes"] == found["state_bytes"]
    smallest = next(c for c in json.loads(out)["choices"] if c["name"] == "smallest")["sram_bytes"]
    assert smallest <= found["sram_bytes"] <= smallest + 300

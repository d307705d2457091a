"""Training from the command line: which samples are used, what is printed, and what happens to the learned state."""

import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import insitu
from insitu.cli import main
from insitu.demo import TARGET, digits

SOURCE = Path(insitu.__file__).parent


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Mirrored digits: 60 to train on, 40 to measure on."""
    path, d = tmp_path_factory.mktemp("data") / "parts.npz", digits()
    np.savez(path, x_train=d.x_train[:60, ..., ::-1], y_train=d.y_train[:60], x_test=d.x_test[:40, ..., ::-1],
             y_test=d.y_test[:40])  # fmt: skip
    return str(path)


@pytest.fixture(scope="module")
def learned(parts, tmp_path_factory):
    """(state, model, report) of two epochs."""
    folder = tmp_path_factory.mktemp("learned")
    state, model = folder / "s.bin", folder / "learned.insitu"
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("insitu.cli.train.show", lambda arguments, text, data: said.append((text, data)))
        options = ["--epochs", "2", "--rate", "0.05", "--save", str(state), "--save-model", str(model)]
        assert main(["train", str(TARGET), "--data", parts, *TRAINED, *options]) == 0
    return state, model, said[0]


TRAINED = ["--scheme", "last:1"]


def run(capsys, *arguments):
    status = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


# --- which samples --------------------------------------------------------------------------------------


def test_training_takes_the_training_part_and_tests_on_the_other(learned):
    _, _, (text, report) = learned
    assert report["training"] == {"source": "x_train, y_train of parts.npz", "samples": 60}
    assert report["test"] == {"source": "x_test, y_test of parts.npz", "samples": 40}
    assert len(report["tested"]) == 2
    assert "before" in text and "tested" in text


def test_one_class_alone_is_noted(capsys, tmp_path):
    np.savez(tmp_path / "one.npz", x=digits().x_train[:10], y=np.full(10, 3))
    status, _, err = run(capsys, "train", TARGET, "--data", tmp_path / "one.npz", "--scheme", "head")
    assert status == 0
    assert "note: all samples belong to one class" in err


def test_what_it_knew_before_is_what_evaluate_says(learned, parts):
    made = insitu.compile(TARGET, data=parts, scheme="last:1")
    assert learned[2][1]["before"] == made.evaluate(parts)["accuracy"]


def test_quantize_calibrates_on_one_part_and_compares_on_the_other(capsys, parts, tmp_path):
    status, out, err = run(capsys, "quantize", TARGET, "--data", parts, "-o", tmp_path / "q.insitu", "--json")
    assert status == 0
    assert "calibrating on x_train, y_train of parts.npz: 60 samples; comparing on x_test, y_test" in err
    assert json.loads(out)["samples"] == 40


def test_equalised_layers_are_compared_on_their_own_scale(capsys, parts, tmp_path):
    """stem.0 feeds a depthwise convolution: its channels were equalised, which is not noise."""
    _, out, _ = run(capsys, "quantize", TARGET, "--data", parts, "-o", tmp_path / "q.insitu", "--json")
    layers = {layer["name"]: layer for layer in json.loads(out)["layers"]}
    assert layers["stem.0"]["sqnr_db"] > 30


# --- what was learned -----------------------------------------------------------------------------------


def test_a_saved_model_predicts_what_was_learned(capsys, learned, parts):
    _, model, (_, report) = learned
    _, out, _ = run(capsys, "predict", model, "--data", parts, "--json")
    assert json.loads(out)["accuracy"] == report["tested"][-1] > report["before"]


def test_a_saved_state_predicts_what_was_learned(capsys, learned, parts):
    state, _, (_, report) = learned
    options = ["--state", state, *TRAINED, "--calibrate", parts, "--json"]
    _, out, _ = run(capsys, "predict", TARGET, "--data", parts, *options)
    assert json.loads(out)["accuracy"] == report["tested"][-1]
    status, out, _ = run(capsys, "predict", TARGET, "--data", parts, *options, "--samples", 3)
    assert status == 0 and json.loads(out)["samples"] == 3  # of the data, not of the calibration


def test_a_state_of_another_program_names_the_options(capsys, learned, parts):
    status, _, err = run(capsys, "predict", TARGET, "--data", parts, "--state", learned[0], "--scheme", "head",
                         "--calibrate", parts)  # fmt: skip
    assert status == 1
    assert "--scheme" in err
    status, _, err = run(capsys, "predict", TARGET, "--data", parts, "--state", learned[0], *TRAINED)
    assert status == 1
    assert "--calibrate FILE" in err


def test_a_bundle_starts_from_what_was_learned(capsys, learned, parts, tmp_path):
    """The initial state in C has the bytes that were saved."""
    state, _, _ = learned
    status, out, _ = run(capsys, "compile", TARGET, "--data", parts, *TRAINED, "--state", state, "-o", tmp_path)
    assert status == 0
    count = len([p for p in tmp_path.rglob("*") if p.is_file()])
    assert f"{tmp_path} ({count} files)" in out
    numbers = re.search(r"net_first_head_weight\[\d+\] = \{(.*?)\}", (tmp_path / "net_weights.c").read_text(), re.S)
    assert numbers
    made = insitu.compile(TARGET, data=parts, scheme="last:1")
    made.load(state)
    written = np.array([float(w.strip().rstrip("f")) for w in numbers[1].replace("\n", " ").split(",") if w.strip()])
    np.testing.assert_array_equal(written.astype(np.float32), made.device.state()["head.weight"].reshape(-1))


# --- targets --------------------------------------------------------------------------------------------


@pytest.fixture
def regression(tmp_path):
    """y = x A + b with three targets: a float model, and data for it."""
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(50, 4)).astype(np.float32)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], (w.T * 0).tobytes(), raw=True)
    node = helper.make_node("MatMul", ["in", "w"], ["out"], name="fc")
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k])] for n, k in (("in", 4), ("out", 3))]
    graph = helper.make_graph([node], "net", ends[0], ends[1], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=x, y=x @ w.T)
    return tmp_path / "m.onnx", tmp_path / "d.npz"


def test_targets_stay_numbers_and_the_error_is_shown(capsys, regression):
    model, data = regression
    status, out, _ = run(capsys, "train", model, "--data", data, "--loss", "mse", "--precision", "float", "--scheme",
                         "full", "--epochs", 20, "--rate", 0.1, "--json")  # fmt: skip
    found = json.loads(out)
    assert status == 0
    with np.load(data) as d:
        assert found["before"] == pytest.approx(float((d["y"] ** 2).mean()), rel=1e-5)
    assert found["accuracy"] == [] and found["error"][-1] < 0.01 * found["before"]
    assert 0.99 < found["explained"] <= 1


def test_a_regression_is_shown_in_words_of_its_own(capsys, regression):
    model, data = regression
    _, out, _ = run(capsys, "train", model, "--data", data, "--loss", "mse", "--epochs", 2, "--split", 0.8)
    assert "squared error" in out and "of the variance of the test samples" in out
    assert "\noutputs" in out and "classes" not in out


TABLES = {  # heading of a .csv -> the option that says which columns are targets
    "a,b,c,d,p,q,r": ["--targets", "p,q,r"], "target_p,target_q,target_r,a,b,c,d": [], "": [],
    "q,a,b,r,c,d,p": ["--targets", "p,q,r"],
}  # fmt: skip


@pytest.mark.parametrize("heading", TABLES)
def test_columns_of_a_table_are_targets(capsys, regression, tmp_path, heading):
    """By name, by heading, or because they are the last: three commands that learn the same, and predict by name."""
    with np.load(regression[1]) as d:
        columns = dict(zip("abcdpqr", np.concatenate([d["x"], d["y"]], 1).T))
    order = [name.removeprefix("target_") for name in heading.split(",")] if heading else list("abcdpqr")
    lines = [",".join(f"{v:.9g}" for v in row) for row in np.stack([columns[name] for name in order], 1)]
    (tmp_path / "t.csv").write_text("\n".join([*filter(None, [heading]), *lines]))
    out = tmp_path / "g.insitu"
    status, said, err = run(capsys, "train", regression[0], "--data", tmp_path / "t.csv", "--loss", "mse",
                            "--precision", "float", "--scheme", "full", "--epochs", 9, "--rate", 0.1, "--json", "-o",
                            out, *TABLES[heading])  # fmt: skip
    assert status == 0, err
    assert json.loads(said)["error"][-1] < 0.05 * json.loads(said)["before"]
    if heading:
        (tmp_path / "new.csv").write_text("d,c,b,a\n1,0.5,2,3\n")
        heads = run(capsys, "predict", out, tmp_path / "new.csv")[1].splitlines()[2].split()
        assert heads[0] == "file" and [h.removeprefix("target_") for h in heads[1:]] == ["p", "q", "r"]


def test_a_prediction_of_numbers_is_printed_as_numbers(capsys, regression, tmp_path):
    model, data = regression
    out, x = tmp_path / "g.insitu", tmp_path / "x.npy"
    run(capsys, "train", model, "--data", data, "--loss", "mse", "--precision", "float", "--scheme", "full", "--epochs",
        1, "--rate", 0.1, "-o", out)  # fmt: skip
    np.save(x, np.zeros((2, 4), np.float32))
    status, said, _ = run(capsys, "predict", out, x)
    assert status == 0 and "%" not in said
    assert [line.split()[-3:] for line in said.splitlines()].count(["0", "0", "0"]) == 2, said


def test_targets_that_do_not_fit_are_told_in_the_readers_words(capsys, regression, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c,d,p\n1,2,3,4,5\n5,6,7,8,9\n")
    words = ["train", regression[0], "--data", tmp_path / "t.csv", "--precision", "float"]
    assert (
        "the model has 3 outputs\n  try: --targets NAME,NAME"
        in run(capsys, *words, "--loss", "mse", "--targets", "p")[2]
    )
    assert "--targets NAME,NAME, or head their columns" in run(capsys, *words, "--loss", "mse")[2]
    assert "try: --loss mse" in run(capsys, *words, "--targets", "p")[2]


# --- predict and train have the same checks -------------------------------------------------------------


def test_predict_refuses_what_train_refuses(capsys, learned, tmp_path):
    d = digits()
    x, y = d.x_test[:5].copy(), d.y_test[:5].copy()
    np.savez(tmp_path / "labels.npz", x=x, y=y + 10)
    np.savez(tmp_path / "pixels.npz", x=x * 255, y=y)
    x[3, 0, 2, 2] = np.nan
    np.savez(tmp_path / "nan.npz", x=x, y=y)
    for name, words in (("labels", "classes 0..9"), ("pixels", "look like pixels"), ("nan", "sample 3")):
        status, out, err = run(capsys, "predict", learned[1], "--data", tmp_path / f"{name}.npz")
        assert (status, out) == (1, "")
        assert words in err and f"{name}.npz" in err


# --- words ----------------------------------------------------------------------------------------------

WRONG = {
    "--rate nan": "must be a number > 0, not 'nan'",
    "--rate 0": "must be a number > 0, not '0'",
    "--clip -1": "must be a number >= 0, not '-1'",
    "--epochs 0": "must be an integer >= 1, not '0'",
    "--epochs 2.5": "must be an integer >= 1, not '2.5'",
    "--start-epoch -1": "must be an integer >= 0, not '-1'",
    "--split 1": "must be between 0 and 1, not '1'",
    "--pixels 1": "must be a range such as 0:1 or -1:1, not '1'",
    "--size 0x3": "must be a height and a width such as 96x128, not '0x3'",
    "--mean a": "must be one number, or one per channel such as 0.48,0.46,0.41, not 'a'",
    "--sram 1T": "must be a number of bytes such as 256K, not '1T'",
    "--warmup inf": "must be a number >= 0, not 'inf'",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_option_says_what_is_wanted(capsys, words):
    with pytest.raises(SystemExit) as stop:
        main(["train", "m.onnx", "--data", "x.npz", *words.split()])
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert WRONG[words] in err and words.split()[0] in err
    assert len(err.splitlines()) == 2


def test_a_missing_flag_is_named(capsys):
    _, _, err = run(capsys, "compile", TARGET, "--scheme", "head")
    assert "try: --data FILE" in err and "compile(" not in err


@pytest.mark.parametrize(
    "words, said",
    [
        ("--save-model m.tflite", "a model cannot be written as .tflite: a name that ends in .insitu"),
        ("--save-model nowhere/m.insitu", "cannot write a file to nowhere/m.insitu: there is no folder"),
        ("--save pipe", "cannot write a file to pipe: it is a device, pipe or socket"),
        ("--save .", "it is a folder"),
    ],
)
def test_what_cannot_be_saved_is_told_before_training(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(SystemExit) as stop:
        main(["train", "m.onnx", "--data", "x.npz", *words.split()])
    assert stop.value.code == 2 and said in capsys.readouterr().err

"""Files that compute features themselves: sound, motion and camera frames go in where the learner takes them, too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.signal import firwin, lfilter
from torch import nn

import insitu
from insitu import Audio, Graph, Motion, Transform
from insitu.exporters.features import real_features, real_inputs, sample_rate
from insitu.graph import Type, build, check, evaluate, lookup
from insitu.graph.fixed import is_fixed

from .metadata_reader import read

RATE = 8000
HEARD = {
    "mfcc": Audio(rate=RATE, seconds=0.4, bands=20, high=3500.0, coefficients=12),
    "logarithms": Audio(rate=RATE, seconds=0.4, bands=16, high=3900.0, coefficients=None, mean=-6.0, std=3.0),
    "powers, short hops": Audio(rate=RATE, seconds=0.3, window_ms=25, hop_ms=7, bands=10, high=3500.0, power=2,
                                coefficients=None, floor=1e-9, gain=4.0, shape="hamming"),
    "pcen": Audio(rate=RATE, seconds=0.4, bands=16, high=3500.0, coefficients=None, scale="pcen"),
}  # fmt: skip


def sounds(audio: Audio, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rising and falling whistles in noise, loud and quiet, as rows of int16."""
    rng, t, found = np.random.default_rng(count), np.arange(audio.rows * audio.hop) / RATE, []
    for i in range(count):
        pitch = rng.uniform(800, 1600) + (-1) ** i * 900 * t
        wave = rng.uniform(0.05, 0.8) * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) + rng.normal(0, 0.01, len(t))
        found.append(np.rint(32000 * wave.clip(-1, 1)).astype(np.int16).reshape(audio.input.shape[1:]))
    return np.stack(found), np.arange(count) % 2


def listener(audio: Audio, **options) -> tuple[insitu.Learner, np.ndarray]:
    """A network of two layers that has learned whistles, and others."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 6, (3, 4), 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2)
    )
    x, y = sounds(audio, 24)
    options = {"classes": ["falling", "rising"], "scheme": "full", "precision": "float", **options}
    made = insitu.compile(module, example=torch.zeros(1, 1, audio.frames, audio.features), transform=audio,
                          data=x, **options)  # fmt: skip
    made.fit(x, y, epochs=2, rate=0.01)
    return made, sounds(audio, 9)[0]


def run_litert(path, *inputs: np.ndarray) -> np.ndarray:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="runs .tflite files")
    runner = interpreter.Interpreter(str(path)).get_signature_runner()
    names = list(runner.get_input_details())
    return np.concatenate([*runner(**{names[0]: inputs[0]}).values()])


@pytest.mark.parametrize("audio", HEARD.values(), ids=HEARD)
def test_features_over_real_numbers_are_those_of_the_integers(audio):
    graph = audio.graph()
    file = real_features(graph)
    assert str(file.inputs[0].type) == f"f32[1x{audio.rows * audio.hop}]" and sample_rate(graph) == RATE
    for x in sounds(audio, 6)[0]:
        want = np.asarray(evaluate(graph, x[None])) * (graph.outputs[0].type.quant or insitu.graph.quant(1.0)).scale[0]
        got = evaluate(file, *real_inputs(graph, (x[None],)))
        np.testing.assert_allclose(got, want, atol=0.01 * want.std())


@pytest.mark.parametrize("audio", HEARD.values(), ids=HEARD)
def test_a_file_hears_what_the_learner_hears(audio, tmp_path):
    made, x = listener(audio)
    waves = x.reshape(len(x), -1).astype(np.float32) / 32768
    path = made.export(tmp_path / "heard.tflite").path
    got = np.concatenate([run_litert(path, wave[None]) for wave in waves])
    want = made.predict(x)
    np.testing.assert_allclose(got, want, atol=0.01 * np.abs(want).max())
    onnxruntime = pytest.importorskip("onnxruntime", reason="runs .onnx files")
    session = onnxruntime.InferenceSession(str(made.export(tmp_path / "heard.onnx").path))
    assert session.get_modelmeta().custom_metadata_map["sample_rate"] == str(RATE)
    again = np.concatenate([session.run(None, {"waveform": wave[None]})[0] for wave in waves])
    np.testing.assert_allclose(again, got, atol=1e-4 * np.abs(want).max())


def test_an_int8_learner_hears_the_same_but_for_its_steps(tmp_path):
    made, x = listener(HEARD["logarithms"], precision="int8")
    exported = made.export(tmp_path / "heard.tflite", data=x)
    got = np.concatenate([run_litert(exported.path, wave.reshape(1, -1).astype(np.float32) / 32768) for wave in x])
    want = made.predict(x)
    assert np.abs(got - want).max() < 0.1 * np.abs(want).max()
    takes, near = (note for note in exported.notes if note.startswith(("takes", "features")))
    assert takes == "takes f32[1x3200], a waveform of samples from -1 to 1, 8,000 per second"
    assert "of the learner's largest, on 9 samples" in near


def test_android_finds_the_sample_rate_and_the_names(tmp_path):
    made, _ = listener(HEARD["mfcc"])
    for to in ("litert", "litert-train"):
        found = read(made.export(tmp_path / "heard.tflite", to=to).path.read_bytes())
        (x,), (y, *_) = found.inputs, found.outputs
        assert (x.kind, x.rate, x.channels, found.parser) == ("audio", RATE, 1, "1.3.0")
        assert y.labels == ["falling", "rising"]


def test_a_file_that_goes_on_learning_trains_the_layers_of_the_model_alone(tmp_path):
    """Its losses are ours, and no matrix of cosines or bands is among what it saves."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="runs .tflite files")
    audio = HEARD["logarithms"]
    made, x = listener(audio)
    path = made.export(tmp_path / "more.tflite", to="litert-train").path
    runners = interpreter.Interpreter(str(path))
    saved = set(runners.get_signature_runner("save").get_output_details())
    assert not [name for name in saved if name.startswith(("spectrum", "log_mel"))] and any(
        "weight" in n for n in saved
    )
    train = runners.get_signature_runner("train")
    for wave in x[:5]:
        loss = train(x=wave.reshape(1, -1).astype(np.float32) / 32768, y=np.zeros(1, np.int32), rate=np.float32([0.01]))
        want = made.partial_fit(wave[None], [0], rate=0.01).loss[-1]
        assert float(loss["loss"]) == pytest.approx(want, abs=2e-3)


def test_core_ml_hears_the_same(tmp_path):
    pytest.importorskip("coremltools", reason="writes .mlmodel files")
    for audio in HEARD.values():
        notes = listener(audio)[0].export(tmp_path / "heard.mlmodel", to="coreml-predict").notes
        assert any(note.startswith("outputs within") for note in notes)


def test_readings_are_filtered_in_the_file(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(3, 5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 29, 2)).eval()
    motion = Motion(rate=50, highpass=1.0, mean=(0.1, 0.2, 0.3), std=(2.0, 3.0, 4.0))
    made = insitu.compile(module, example=torch.zeros(1, 3, 32), transform=motion, precision="float")
    x = np.random.default_rng(0).normal(size=(1, 56, 1, 3)).astype(np.float32)
    got = run_litert(made.export(tmp_path / "moved.tflite").path, x)
    taps = np.eye(25)[12] - firwin(25, 1.0, fs=50)
    windows = (lfilter(taps, 1, x, axis=1)[:, 24:, 0] - motion.mean) / motion.std
    want = module(torch.tensor(windows.transpose(0, 2, 1), dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("format", ["yuyv", "rgb565", "nv12"])
def test_frames_of_a_camera_are_photos_for_a_file(format, tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 6, 3)).eval()
    made = insitu.compile(module, example=torch.zeros(1, 3, 6, 8), precision="float", classes=["a", "b", "c"],
                          transform=Transform(127.5, 127.5, format=format))  # fmt: skip
    graph = made.graphs["predict"]
    shape = graph.inputs[0].shape
    frame = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    (photo,) = real_inputs(graph, (frame,))
    assert photo.shape == (1, 6, 8, 3) and photo.dtype == np.uint8
    exported = made.export(tmp_path / "seen.tflite")
    np.testing.assert_allclose(run_litert(exported.path, photo), made.predict(frame), atol=1e-5)
    assert "takes u8[1x6x8x3], red, green and blue" in exported.notes
    assert read(exported.path.read_bytes()).inputs[0].size == (8, 6)


def test_a_graph_without_features_is_left_alone():
    with build("net") as b:
        graph = check(b.graph(lookup("relu")(b.input("x", Type("f32", (1, 4))), name="y")))
    assert real_features(graph) is graph and sample_rate(graph) is None


def test_matrices_of_features_are_no_layers_of_the_model():
    graph: Graph = real_features(HEARD["mfcc"].graph())
    weights = [n.inputs[1].name for n in graph.nodes if n.op.name == "conv2d"]
    assert len(weights) == 4 and all(is_fixed(graph, name) for name in weights)

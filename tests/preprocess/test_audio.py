"""Sound in, the features that signal libraries compute: in numpy and in C to the byte, whole and row by row."""

import numpy as np
import pytest
from scipy.fft import dct
from scipy.signal import lfilter, stft

from insitu import Audio, GraphError
from insitu.codegen import emit_program
from insitu.devices.host import open_host, open_program
from insitu.devices.rows import Arrival
from insitu.graph import Type, build, check, evaluate, lookup
from insitu.importers import load
from insitu.planner import plan

RATE = 16000
AUDIBLE = 1e-2  # summed amplitude of a band, 1.0 being full scale: below it, the steps of the samples themselves count
WORDS = ["down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "unknown"]


def sounds(count: int = 3) -> np.ndarray:
    """Chirps with harmonics, loud and quiet, in noise."""
    rng, t, found = np.random.default_rng(1), np.arange(RATE) / RATE, []
    for loudness in (0.9, 0.1, 0.01)[:count]:
        phase = 2 * np.pi * (rng.uniform(100, 300) * t + rng.uniform(100, 900) * t * t)
        tones = sum(np.sin(k * phase) / k for k in range(1, 6)) / 2.5
        found.append(np.rint(32767 * loudness * (tones + rng.normal(0, 0.02, RATE)).clip(-1, 1)))
    return np.array(found, np.int16)


def bands_of(audio: Audio, sound: np.ndarray) -> np.ndarray:
    """Summed amplitudes of mel bands in float64, by scipy and the definition of the triangles."""
    n = 1 << (audio.window - 1).bit_length()
    parts = {"window": "hann", "nperseg": audio.window, "noverlap": audio.window - audio.hop, "nfft": n}
    _, _, z = stft(sound / 32768, RATE, **parts, boundary=None, padded=False, scaling="spectrum")
    amplitudes = np.abs(z).T * (audio.window / 2)  # scipy divides by the sum of the window
    pitch = 1127 * np.log(1 + np.arange(n // 2 + 1) * RATE / n / 700)
    low, high = (1127 * np.log(1 + f / 700) for f in (audio.low, audio.high))
    width = (high - low) / (audio.bands + 1)
    triangles = [np.maximum(0, 1 - np.abs(pitch - low - width * (b + 1)) / width) for b in range(audio.bands)]
    return amplitudes**audio.power @ np.array(triangles).T


@pytest.mark.parametrize("audio", [
    Audio(coefficients=None),
    Audio(coefficients=None, window_ms=25, hop_ms=10, bands=32, high=7600.0, seconds=0.5),
    Audio(coefficients=None, power=2, floor=1e-9),
], ids=["amplitudes", "short hops", "powers"])  # fmt: skip
def test_the_logarithms_of_bands_are_those_of_float64(audio):
    for sound in sounds():
        sums = bands_of(audio, sound[: audio.rows * audio.hop])
        got, want = audio.of(sound[: audio.rows * audio.hop])[0], np.log(sums + audio.floor)
        audible = sums > AUDIBLE**audio.power
        assert got.shape == want.shape == (audio.frames, audio.bands)
        assert audible.mean() > 0.3
        assert np.abs(got - want)[audible].max() < 0.004
        assert np.abs(got - want).max() < 0.1


def test_cepstra_are_those_of_scipy():
    audio = Audio()
    for sound in sounds():
        logs = np.log(bands_of(audio, sound) + audio.floor)
        want = dct(logs, axis=1)[:, :10] / np.sqrt(2 * audio.bands)
        assert np.abs(audio.of(sound)[0] - want).max() < 0.02


PCEN = Audio(coefficients=None, scale="pcen")


def pcen_of(audio: Audio, sound: np.ndarray) -> np.ndarray:
    """Per-channel energy normalisation in float64, the past of each band by scipy's filter."""
    x, s = audio.gain * bands_of(audio, sound), audio.share
    past, _ = lfilter([s], [1, s - 1], x, axis=0, zi=(1 - s) * x[:1])  # begins with the first frame
    return (x / (audio.floor + past) ** audio.pcen_gain + audio.pcen_bias) ** audio.pcen_root - (
        audio.pcen_bias**audio.pcen_root
    )


@pytest.mark.parametrize("audio", [
    PCEN,
    Audio(coefficients=None, scale="pcen", window_ms=25, hop_ms=10, bands=32, high=7600.0, seconds=0.5, gain=4.0),
    Audio(coefficients=None, scale="pcen", pcen_seconds=0.06, pcen_gain=0.8, pcen_bias=10.0, pcen_root=0.25),
], ids=["usual", "short hops", "other numbers"])  # fmt: skip
def test_normalised_energies_are_those_of_float64(audio):
    for sound in sounds():
        sums = bands_of(audio, sound[: audio.rows * audio.hop])
        got, want = audio.of(sound[: audio.rows * audio.hop])[0], pcen_of(audio, sound[: audio.rows * audio.hop])
        audible = sums > AUDIBLE
        assert want[audible].std() > 0.02 and audible.mean() > 0.3
        assert np.abs(got - want)[audible].max() < 0.004
        assert np.abs(got - want).max() < 0.04


def test_a_louder_microphone_changes_normalised_energies_hardly():
    sound = (sounds(1) // 8).astype(np.int16)
    assert np.abs(PCEN.of(sound) - PCEN.of(8 * sound)).max() < 0.1
    with pytest.raises(GraphError, match="amplitudes"):
        Audio(scale="pcen", power=2).graph()
    with pytest.raises(GraphError, match="no scale 'mel'"):
        Audio(scale="mel").graph()


def test_louder_by_gain_is_louder_by_samples():
    sound = (sounds(1) // 8).astype(np.int16)
    quiet, loud = Audio(coefficients=None, gain=8.0).of(sound), Audio(coefficients=None).of(8 * sound)
    assert np.abs(quiet - loud).max() < 0.02


@pytest.fixture(scope="module", params=["log", "pcen"])
def listener(request):
    """A network behind features, with a layer that looks at three frames."""
    rng = np.random.default_rng(2)
    with build("net") as b:
        x = b.input("x", Type("f32", (1, 24, 12, 1)))
        w = b.constant("w", rng.normal(0, 0.3, (4, 3, 3, 1)).astype(np.float32))
        y = lookup("conv2d")(x, w, stride=(2, 2), name="conv")
        graph = b.graph(lookup("mean")(y, axes=(1, 2), name="pool"))
    return Audio(seconds=0.5, bands=20, coefficients=12, scale=request.param).applied_to(graph)


@pytest.mark.parametrize("scale", ["log", "pcen"])
def test_c_gives_the_bytes_of_numpy(scale):
    audio = Audio(coefficients=None, bands=30, mean=tuple(range(30)), std=2.0, scale=scale)
    device = open_host(audio.graph())
    for sound in sounds():
        x = sound.reshape(audio.input.shape)
        np.testing.assert_array_equal(device.predict(x), evaluate(audio.graph(), x))


def test_sound_arrives_hop_by_hop_with_the_same_bytes(listener):
    from dataclasses import replace

    sound = sounds(1)[0][: RATE // 2].reshape(1, 25, 320, 1)
    made = plan(replace(listener, by_rows="sound"), target="mcu", enough=0)
    arrival = Arrival(open_program(emit_program(made, "net")))
    for first in range(0, 25, 4):
        arrival.rows(sound[0, first : first + 4])
    np.testing.assert_array_equal(arrival.end()[0], open_host(listener).predict(sound))
    assert made.arena_bytes < 8000 < sound.nbytes  # neither the sound nor its spectrogram (24 x 128 words) is there


@pytest.mark.parametrize("shape", [(1, 24, 12, 1), (1, 1, 24, 12), (1, 24, 12), (1, 12, 24)])
def test_features_fit_inputs_of_any_layout(shape):
    audio = Audio(seconds=0.5, bands=20, coefficients=12)
    with build("net") as b:
        graph = b.graph(lookup("relu")(b.input("x", Type("f32", shape)), name="y"))
    made, sound = check(audio.applied_to(graph)), sounds(1)[0][: RATE // 2]
    features = audio.of(sound)[0]
    want = features.T if shape == (1, 12, 24) else features
    np.testing.assert_array_equal(np.squeeze(evaluate(made, sound.reshape(1, 25, 320, 1))), np.maximum(want, 0))


def test_features_that_do_not_fit_are_refused():
    with build("net") as b:
        graph = b.graph(lookup("relu")(b.input("x", Type("f32", (1, 49, 13, 1))), name="y"))
    with pytest.raises(GraphError, match="49 frames x 10 features"):
        Audio().applied_to(graph)
    with pytest.raises(GraphError, match="no frame"):
        Audio(seconds=0.01).graph()
    with pytest.raises(GraphError, match="rate / 2"):
        Audio(high=9000.0).graph()


def test_the_published_keyword_network_hears_what_it_was_trained_on(shared_models, shared_data):
    """MLPerf Tiny's DS-CNN: its int8 inputs from our integers and from its own recipe in float64."""
    with np.load(shared_data / "speech7.npz") as arrays:
        x, y, names = arrays["x_test"][::4], arrays["y_test"][::4], arrays["class_names"]
    graph = load(shared_models / "mlperf-tiny" / "kws_dscnn_int8.tflite")
    t, audio = graph.inputs[0].type, Audio()
    peak = np.rint(32767 * (x / np.abs(x).max(axis=1, keepdims=True))).astype(np.int16)  # as in its training
    floats = np.stack([dct(np.log(bands_of(audio, s) + 1e-6), axis=1)[:, :10] / np.sqrt(80) for s in peak])
    ours, theirs = (np.clip(np.rint(f / t.scale) + t.zero, -128, 127) for f in (audio.of(peak), floats))
    assert np.mean(ours != theirs) < 0.002 and np.abs(ours - theirs).max() <= 1
    answers = np.asarray(open_host(audio.applied_to(graph)).predict(peak.reshape(-1, 50, 320, 1))).reshape(len(y), -1)
    right = answers.argmax(1) == np.array([WORDS.index(n) for n in names])[y]
    assert right.mean() > 0.88

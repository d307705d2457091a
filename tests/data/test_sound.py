"""Sound files as samples: any PCM, any rate, int16 for a model that computes its own features."""

import struct
import wave

import numpy as np
import pytest

from insitu import Audio, DataError
from insitu.data import as_samples, read_samples
from insitu.data.sound import read_wav, write_wav
from insitu.data.source import source_of
from insitu.graph import Type, build, lookup

AUDIO = Audio(seconds=0.5)


def tone(rate: int, seconds: float = 0.5, hertz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)


@pytest.fixture(scope="module")
def graph():
    with build("net") as b:
        made = b.graph(lookup("relu")(b.input("x", Type("f32", (1, AUDIO.frames, 10, 1))), name="y"))
    return AUDIO.applied_to(made)


@pytest.mark.parametrize(("width", "channels"), [(1, 1), (2, 2), (3, 1), (4, 2)])
def test_every_width_of_pcm_is_read(tmp_path, width, channels):
    sound = tone(16000)
    whole = np.repeat(np.rint(sound * (2 ** (8 * width - 1) - 1)).astype(np.int64)[:, None], channels, 1)
    raw = (whole + 128 if width == 1 else whole).astype("<i8").reshape(-1, 1).view(np.uint8)[:, :width].tobytes()
    with wave.open(str(tmp_path / "a.wav"), "wb") as f:
        f.setparams((channels, width, 16000, 0, "NONE", ""))
        f.writeframes(raw)
    assert np.abs(read_wav(tmp_path / "a.wav") - sound).max() < 2.0 ** (2 - 8 * width) + 1e-6


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_other_rates_become_the_rate_that_a_model_listens_at(tmp_path, graph, rate):
    write_wav(tmp_path / "a.wav", np.rint(32767 * tone(rate)).astype(np.int16), rate)
    assert source_of(graph).rate == 16000
    found = read_wav(tmp_path / "a.wav", 16000)
    assert np.abs(found[1000:-1000] - tone(16000)[: len(found)][1000:-1000]).max() < 0.01  # away from the ends
    (x,) = read_samples(tmp_path / "a.wav", graph).inputs
    assert x.shape == (1, 25, 320, 1) and x.dtype == np.int16 and 16000 < x.max() < 16800


def test_a_folder_of_words_has_a_class_per_subfolder(tmp_path, graph):
    for word in ("no", "yes"):
        (tmp_path / word).mkdir()
        for k in range(3):
            write_wav(tmp_path / word / f"{k}.wav", np.full(4000 + 3000 * k, 99 + k, np.int16), 16000)
    samples = read_samples(tmp_path, graph)
    assert (
        samples.names == ("no", "yes") and samples.labels is not None and samples.labels.tolist() == [0] * 3 + [1] * 3
    )
    assert [int((x != 0).sum()) for x in samples.inputs[0][:3]] == [4000, 7000, 8000]  # silence follows, or it is cut


def test_floats_between_minus_one_and_one_are_sound(graph):
    sound = tone(16000)[None]
    (floats,), (whole,) = (
        as_samples(x, graph).inputs for x in (sound.astype(np.float32), np.rint(32768 * sound).astype(np.int16))
    )
    np.testing.assert_array_equal(floats, whole)
    with pytest.raises(DataError, match="does not fit"):
        as_samples(sound * 40000.5, graph)


def test_a_model_of_features_says_how_to_take_sound(tmp_path):
    write_wav(tmp_path / "a.wav", np.zeros(100, np.int16), 16000)
    with build("net") as b:
        made = b.graph(lookup("relu")(b.input("x", Type("f32", (1, 49, 10, 1))), name="y"))
    with pytest.raises(DataError, match=r"transform=insitu.Audio\(\)"):
        read_samples(tmp_path / "a.wav", made)


def riff(kind: int, bits: int, data: bytes, channels: int = 1, extensible: bool = False, said: int | None = None):
    """The bytes of a .wav file, as recorders and sox write them."""
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else kind, channels, 16000, 0, channels * bits // 8, bits)
    form += struct.pack("<HHIH14s", 22, bits, 3, kind, bytes(14)) if extensible else b""
    parts = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # an odd part before the sound
    parts += b"fmt " + struct.pack("<I", len(form)) + form
    parts += b"data" + struct.pack("<I", len(data) if said is None else said) + data
    return b"RIFF" + struct.pack("<I", 4 + len(parts)) + b"WAVE" + parts


@pytest.mark.parametrize("kind, bits, extensible", [(1, 24, True), (1, 16, True), (3, 32, False), (3, 64, True)])
def test_what_recorders_write_beside_plain_pcm_is_read(kind, bits, extensible, tmp_path):
    x = np.linspace(-0.9, 0.9, 400)
    if kind == 3:
        data = x.astype(f"<f{bits // 8}").tobytes()
    else:
        data = b"".join(int(v * 2 ** (bits - 1)).to_bytes(bits // 8, "little", signed=True) for v in x)
    (tmp_path / "a.wav").write_bytes(riff(kind, bits, data, extensible=extensible))
    assert np.abs(read_wav(tmp_path / "a.wav") - x).max() < 2 ** (2 - min(bits, 24))


def test_a_recording_that_was_cut_off_has_what_is_there(tmp_path):
    (tmp_path / "a.wav").write_bytes(riff(1, 16, np.full(100, 1 << 14, "<i2").tobytes() + b"x", said=1 << 31))
    assert np.array_equal(read_wav(tmp_path / "a.wav"), np.full(100, 0.5, np.float32))


@pytest.mark.parametrize("data, words", [
    (b"", "is not a .wav file"), (b"ID3" + bytes(99), "is not a .wav file"), (riff(1, 16, b""), "has no sound"),
    (riff(2, 4, bytes(9)), "4 bits in format 2"), (riff(1, 16, bytes(9), channels=0), "0 channels"),
    (b"RIFF\0\0\0\0WAVE", "has no sound"),
])  # fmt: skip
def test_a_file_without_sound_is_one_clear_line(data, words, tmp_path):
    (tmp_path / "a.wav").write_bytes(data)
    with pytest.raises(DataError, match=words):
        read_wav(tmp_path / "a.wav")

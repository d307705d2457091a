"""PCEN and a camera's rows as a user meets them: from Python and from the shell, on emulated cores, to the byte."""

import wave

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.cli import main
from insitu.data import to_camera
from insitu.data.camera import from_camera
from insitu.data.images import read_image
from insitu.graph import evaluate
from insitu.learner.folder import open_folder

for package in ("unicorn", "elftools", "ziglang", "PIL"):
    pytest.importorskip(package)

LISTENING = {"seconds": 0.5, "bands": 20, "coefficients": None, "scale": "pcen"}
SEEING = {"size": (46, 60), "crop": (42, 54)}
BOARDS = ("nrf52840", "nrf51822")  # Cortex-M4F and Cortex-M0
FITTED = {"epochs": 1, "rate": 0.01, "schedule": "constant", "warmup": 0}


def network(channels: int, classes: int = 3) -> nn.Module:
    torch.manual_seed(channels)
    layers = [nn.Conv2d(channels, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, classes))


def sounds(count: int, rate: int = 16000) -> np.ndarray:
    """Whistles of three pitches that begin and end, in noise; half a second each."""
    rng, t = np.random.default_rng(count), np.arange(rate // 2) / rate
    pitches = 400.0 * 2.0 ** (np.arange(count) % 3) * rng.uniform(0.9, 1.1, count)
    tones = np.sin(2 * np.pi * pitches[:, None] * t) * np.exp(-(((t - 0.25) / 0.1) ** 2))
    return np.rint(8000 * (tones + rng.normal(0, 0.02, tones.shape))).astype(np.int16)


@pytest.fixture(scope="module", params=["pcen", "rgb565", "yuyv", "nv12"])
def learner(request):
    """A learner of raw samples, and six of them."""
    y = np.arange(12) % 3
    if request.param == "pcen":
        front, x, example = insitu.Audio(**LISTENING), sounds(12).reshape(12, 25, 320, 1), (1, 1, 24, 20)
    else:
        front, example = insitu.Transform(0.5, 0.25, **SEEING, format=request.param), (1, 3, 24, 24)
        shape = (69, 60, 1) if request.param == "nv12" else (46, 60, 2)
        x = np.random.default_rng(0).integers(0, 256, (12, *shape), np.uint8)
    given = {"transform": front, "data": (x, y), "scheme": "last:1", "head": "int8"}
    return insitu.compile(network(example[1]), example=torch.zeros(*example), **given), x[:6], y[:6]


@pytest.mark.parametrize("board", BOARDS)
def test_rows_of_raw_samples_are_learned_on_a_core_with_the_bytes_of_the_host(learner, board):
    made, x, y = learner
    numpy = np.concatenate([evaluate(made.graphs["predict"], i[None]) for i in x[:2]])
    with made.on("emulator", board=board, rows=True) as there, there.on("host") as here:
        np.testing.assert_array_equal(there.predict(x[:2]), numpy)
        np.testing.assert_array_equal(here.predict(x[:2]), numpy)
        first = there.device.save_state()
        for learning in (there, here):
            learning.fit(x[:3], y[:3], **FITTED)
        assert there.device.save_state() == here.device.save_state() != first


# from the shell ---------------------------------------------------------------------------------


def run(capsys, *arguments) -> tuple[str, str]:
    status = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out, err


def write_sounds(folder) -> None:
    """At another rate than the network's, and in stereo."""
    for i, sound in enumerate(sounds(12, 22050)):
        path = folder / ("low", "middle", "high")[i % 3] / f"{i}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as f:
            f.setparams((2, 2, 22050, 0, "NONE", ""))
            f.writeframes(np.repeat(sound[:, None], 2, 1).astype("<i2").tobytes())


def write_photos(folder) -> None:
    """Of odd sizes: red, green or blue spots."""
    from PIL import Image

    rng = np.random.default_rng(1)
    for i in range(12):
        path = folder / ("blue", "green", "red")[i % 3] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 120, (rng.integers(31, 90), rng.integers(31, 90), 3), np.uint8)
        pixels[8:24, 8:24, 2 - i % 3] = 255
        Image.fromarray(pixels).save(path)


WAYS = {
    "pcen": (write_sounds, (1, 1, 24, 20), ["--audio", "seconds=0.5,bands=20,coefficients=none,scale=pcen"]),
    "frames": (write_photos, (1, 3, 24, 24), "--camera nv12 --size 46x60 --crop 42x54 --mean 0.5 --std 0.25".split()),
    "camera": (write_photos, (1, 3, 24, 24), "--camera rgb565 --size 46x60 --crop 42x54 --mean 0.5 --std 0.25".split()),
}


@pytest.mark.parametrize("kind", WAYS)
def test_files_of_a_folder_go_from_train_to_a_board_s_rows(kind, tmp_path, capsys):
    write, shape, options = WAYS[kind]
    write(tmp_path / "samples")
    insitu.load(network(shape[1]), torch.zeros(*shape)).save(tmp_path / "net.insitu")
    learned, build = tmp_path / "learned.insitu", tmp_path / "build"
    given = ("--data", tmp_path / "samples")
    run(capsys, "train", tmp_path / "net.insitu", *options, *given, "--rate", "0.02", "--epochs", "2", "-o", learned)
    file = next((tmp_path / "samples").glob("*/0.*"))
    out, _ = run(capsys, "predict", learned, file, "--json")
    assert file.name in out
    run(capsys, "compile", learned, "--board", "nrf52840", "--rows", "-o", build)
    out, _ = run(capsys, "run", build, *given, "--steps", "2", "--rate", "0.01")
    assert "train_step" in out
    with open_folder(build, "emulator") as board, insitu.open(learned) as here:
        x = here.samples(tmp_path / "samples").inputs[0]  # the same files, as the folder reads them
        np.testing.assert_array_equal(board.samples(tmp_path / "samples").inputs[0], x)
        np.testing.assert_allclose(board.predict(x[:2]), here.predict(x[:2]), atol=1e-6)


def test_rows_of_a_learner_need_a_board(tmp_path, capsys):
    insitu.compile(network(3), example=torch.zeros(1, 3, 8, 8), precision="float").save(tmp_path / "a.insitu")
    assert main(["compile", str(tmp_path / "a.insitu"), "--rows"]) == 1
    assert "--board NAME" in capsys.readouterr().err


# photos as a camera's bytes ---------------------------------------------------------------------


@pytest.mark.parametrize(("format", "most"), [("bgr", 0), ("rgb565", 4), ("rgb565be", 4), ("yuyv", 4), ("uyvy", 4)])
def test_photos_become_the_bytes_that_stand_for_their_colours(format, most):
    rgb = np.repeat(np.random.default_rng(2).integers(0, 256, (2, 5, 4, 3), np.uint8), 2, axis=2)  # pairs share colours
    back = from_camera(to_camera(rgb, format), format)
    assert back.shape == rgb.shape and np.abs(back.astype(int) - rgb).max() <= most
    if format != "yuyv" and format != "uyvy":
        np.testing.assert_array_equal(to_camera(back, format), to_camera(rgb, format))


def test_a_photo_is_read_as_the_camera_of_its_network_sees_it(tmp_path):
    from PIL import Image

    rgb = np.random.default_rng(3).integers(0, 256, (46, 60, 3), np.uint8)
    Image.fromarray(rgb).save(tmp_path / "a.png")
    made = insitu.load(network(3), torch.zeros(1, 3, 24, 24)).graph
    for format in ("bgr", "i420", "nv21", "rgb565"):
        camera = insitu.Transform(0.5, 0.25, **SEEING, format=format).applied_to(made)
        (x,) = insitu.data.read_samples(tmp_path / "a.png", camera).inputs
        np.testing.assert_array_equal(x[0], to_camera(rgb, format))
    with pytest.raises(insitu.DataError, match="to_camera"):
        insitu.data.as_samples(rgb[None], camera)
    with pytest.raises(insitu.DataError, match="pairs of pixels"):
        to_camera(rgb[:, 1:], "yuyv")
    assert read_image(tmp_path / "a.png", made.inputs[0])[0].shape == (3, 24, 24)


def test_changed_photos_of_a_camera_are_changed_colours():
    rgb = np.full((1, 8, 8, 3), (200, 100, 40), np.uint8)
    frames = to_camera(rgb, "rgb565")
    darker = insitu.data.Augment(crop=None, flip=False, contrast=0, saturation=0, camera="rgb565")
    made = from_camera(darker(frames, np.random.default_rng(0)), "rgb565").astype(float)
    shares = made[0, 0, 0] / rgb[0, 0, 0]
    assert 0.7 < shares[0] < 1.3 and np.ptp(shares) < 0.1  # all three alike, up to the format's steps
    with pytest.raises(insitu.DataError, match="two bytes per pixel"):
        insitu.data.Augment()(frames, np.random.default_rng(0))

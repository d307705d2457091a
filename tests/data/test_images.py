"""Images as cameras and scanners write them: 16 bits, turned on their side, too large, or cut off."""

import numpy as np
import pytest

from insitu import DataError
from insitu.data.reading import read_image, read_samples
from insitu.graph import Graph, Type, Value

Image = pytest.importorskip("PIL.Image")
GREY, RGB = Value("x", Type("f32", (1, 8, 8, 1))), Value("x", Type("f32", (1, 8, 8, 3)))


@pytest.mark.parametrize("suffix", [".png", ".pgm", ".tif"])
@pytest.mark.parametrize("value", [GREY, RGB])
def test_sixteen_bits_are_scaled_to_bytes_and_not_cut_off(tmp_path, suffix, value):
    fine = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    Image.fromarray(fine).save(tmp_path / f"fine{suffix}")
    Image.fromarray((fine / 257).round().astype(np.uint8)).save(tmp_path / f"coarse{suffix}")
    one, other = (read_image(tmp_path / f"{name}{suffix}", value)[0] for name in ("fine", "coarse"))
    assert np.array_equal(one, other) and one.min() == 0 and one.max() == 255


def test_a_photo_that_a_phone_took_sideways_is_turned(tmp_path):
    x = np.zeros((8, 8, 3), np.uint8)
    x[0] = 200  # the first row, which is the last column of what was seen
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.fromarray(x).save(tmp_path / "photo.png", exif=exif)
    found = read_image(tmp_path / "photo.png", RGB)[0]
    assert (found[:, -1] == 200).all() and not found[:, :-1].any()


def test_an_image_that_is_too_large_is_named(tmp_path, monkeypatch):
    Image.new("L", (40, 40)).save(tmp_path / "huge.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"huge\.png: has more than 200 pixels"):
        read_image(tmp_path / "huge.png", GREY)


def test_an_image_that_was_cut_off_is_named(tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(tmp_path / "a.jpg")
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"half\.jpg: is not an image, or is damaged"):
        read_image(tmp_path / "half.jpg", RGB)


@pytest.mark.parametrize("suffix", [".gif", ".tif", ".tiff", ".TIF"])
def test_a_folder_of_gif_or_tif_images_is_read_by_class(tmp_path, suffix):
    for level, name in enumerate(("dark", "light")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8), (200 * level,) * 3).save(tmp_path / name / f"1{suffix}")
    graph = Graph("net", (RGB,), (Value("y", Type("f32", (1, 2))),), (), {})
    found = read_samples(tmp_path, graph, pixels=(0, 255))
    assert found.names == ("dark", "light") and found.labels.tolist() == [0, 1]
    assert found.inputs[0].max(axis=(1, 2, 3)).tolist() == [0, 200]


def test_the_first_picture_of_an_animated_gif_is_read(tmp_path):
    first, *rest = (Image.new("RGB", (8, 8), colour) for colour in ((255, 0, 0), (0, 255, 0)))
    first.save(tmp_path / "a.gif", save_all=True, append_images=rest)
    assert (read_image(tmp_path / "a.gif", RGB)[0] == (255, 0, 0)).all()

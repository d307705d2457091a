"""Augmentation: seeded, within bounds, of the given type, and each change does what its name says."""

import numpy as np
import pytest

from insitu import Augment, DataError
from insitu.data.augment import resized, shifted

NOTHING = {"crop": None, "flip": False, "brightness": 0, "contrast": 0, "saturation": 0}


def images(dtype, shape=(2, 9, 7, 3)):
    x = np.random.default_rng(0).integers(0, 256, shape)
    return {"u1": x, "i1": x - 128, "f4": x / 255}[np.dtype(dtype).str[1:]].astype(dtype)


def once(x, seed=1, **options):
    return Augment(**options)(x, np.random.default_rng(seed))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
def test_the_same_seed_gives_the_same_change_and_another_another(dtype):
    x = images(dtype)
    a, b, c = (once(x, seed) for seed in (1, 1, 2))
    assert a.dtype == x.dtype and a.shape == x.shape
    assert (a == b).all() and (a != c).any() and (a != x).any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
def test_without_any_change_nothing_changes(dtype):
    x = images(dtype)
    np.testing.assert_allclose(once(x, **NOTHING).astype(float), x.astype(float), atol=1e-6)


def test_floats_stay_within_their_bounds():
    x = images(np.float32) * 2 - 1
    for seed in range(20):
        y = once(x, seed, bounds=(-1, 1), brightness=0.9, contrast=0.9)
        assert y.min() >= -1 and y.max() <= 1


def test_u8_and_int8_pixels_are_changed_alike():
    np.testing.assert_array_equal(once(images(np.uint8)).astype(int) - 128, once(images(np.int8)))


def test_channels_first_images_are_changed_as_channels_last_ones():
    x = images(np.uint8)
    np.testing.assert_array_equal(once(x.transpose(0, 3, 1, 2)), once(x).transpose(0, 3, 1, 2))


def test_a_flip_is_a_mirror_and_happens_half_the_time():
    x = images(np.uint8, (1, 3, 5, 1))
    made = [once(x, seed, **{**NOTHING, "flip": True}) for seed in range(200)]
    mirrored = [(y == x[:, :, ::-1]).all() for y in made]
    assert all(m or (y == x).all() for m, y in zip(mirrored, made))
    assert 70 < sum(mirrored) < 130


def test_a_grey_image_has_nothing_to_saturate():
    x = images(np.uint8, (1, 4, 4, 1)).repeat(3, axis=3)
    assert np.abs(once(x, **{**NOTHING, "saturation": 0.9}).astype(int) - x).max() <= 1


def test_brightness_scales_and_contrast_moves_from_the_mean():
    x = np.full((1, 4, 4, 3), 0.5, np.float32)
    bright = [float(once(x, s, **{**NOTHING, "brightness": 0.2}).mean()) for s in range(50)]
    assert 0.4 <= min(bright) < 0.42 and 0.58 < max(bright) <= 0.6
    np.testing.assert_allclose(once(x, **{**NOTHING, "contrast": 0.9}), x, atol=1e-6)


def test_the_whole_image_resized_is_itself_and_half_of_a_ramp_is_half_as_steep():
    ramp = np.arange(8, dtype=np.float32)[None, :, None].repeat(4, 0)
    np.testing.assert_array_equal(resized(ramp, (0, 0, 4, 8)), ramp)
    half = resized(ramp, (0, 2, 4, 4))[0, :, 0]
    np.testing.assert_allclose(np.diff(half), 0.5, atol=1e-6)
    assert half[0] == 1.75


def test_a_shift_repeats_the_border():
    x = np.arange(6).reshape(2, 3, 1)
    assert shifted(x, np.array([0, 1]))[:, :, 0].tolist() == [[1, 2, 2], [4, 5, 5]]
    assert shifted(x, np.array([-1, 0]))[:, :, 0].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_what_is_no_image_is_an_error():
    with pytest.raises(DataError, match="H x W"):
        once(np.zeros((2, 3)))

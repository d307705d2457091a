"""Pixels in, the same result as preparing them by hand: in float, in int8, in C."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu import GraphError, Transform
from insitu.codegen import emit_program
from insitu.data import to_camera
from insitu.data.camera import from_camera
from insitu.devices.host import open_host, open_program
from insitu.devices.rows import Arrival
from insitu.graph import check, evaluate
from insitu.importers import load
from insitu.planner import plan
from insitu.preprocess import fuse_transform

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    return module.eval(), load(module, torch.zeros(1, 3, 6, 5))


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def test_pixels_are_normalised_as_torch_does(net):
    module, graph = net
    x = pixels(1, 6, 5, 3)
    made = check(Transform(MEAN, STD).applied_to(graph))
    prepared = (torch.tensor(x.transpose(0, 3, 1, 2)) / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[
        :, None, None
    ]
    with torch.no_grad():
        want = module(prepared).numpy()
    assert made.inputs[0].type == insitu.Type("u8", (1, 6, 5, 3))
    np.testing.assert_allclose(evaluate(made, x), want, atol=1e-5)
    np.testing.assert_allclose(open_host(made).predict(x), want, atol=1e-5)


def test_larger_images_are_sampled(net):
    _, graph = net
    x = pixels(1, 12, 15, 3)
    made = Transform(MEAN, STD, size=(12, 15)).applied_to(graph)
    nearest = x[:, ::2][:, :, 1::3]
    np.testing.assert_array_equal(evaluate(made, x), evaluate(Transform(MEAN, STD).applied_to(graph), nearest))


def test_in_int8_the_transform_is_one_table_and_changes_no_byte(net):
    _, graph = net
    x = pixels(20, 6, 5, 3)
    whole = insitu.Model(Transform(MEAN, STD).applied_to(graph)).quantize(x).graph
    fused = fuse_transform(whole)
    assert [n.op.name for n in whole.nodes if n.op.name in ("normalize", "quantize")] == ["normalize", "quantize"]
    assert [n.op.name for n in fused.nodes if n.op.name in ("normalize", "quantize")] == ["normalize"]
    every = np.stack([np.full((6, 5, 3), v, np.uint8) for v in range(256)])
    for one in every:
        np.testing.assert_array_equal(evaluate(fused, one[None]), evaluate(whole, one[None]))
    np.testing.assert_array_equal(open_host(fused).predict(x), np.concatenate([evaluate(whole, i[None]) for i in x]))


def test_the_raw_transform_of_an_int8_input_is_pixel_minus_128():
    with insitu.graph.build("net") as b:
        x = b.input("x", insitu.graph.s8(1, 16, 16, 1, s=2 / 255, z=0))
        g = b.graph(insitu.graph.lookup("reshape")(x, shape=(1, 256)))
    every = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    for scale, zero in ((2 / 255, 0), (0.0173, -128), (1.0, 127), (3e-5, 5)):
        made = Transform.raw(g)
        assert made.mean == 128 / 255
        with insitu.graph.build("net") as b:
            x = b.input("x", insitu.graph.s8(1, 16, 16, 1, s=scale, z=zero))
            g2 = b.graph(insitu.graph.lookup("reshape")(x, shape=(1, 256)))
        raw = Transform.raw(g2).applied_to(g2)
        np.testing.assert_array_equal(evaluate(raw, every)[0], np.arange(256) - 128)
        np.testing.assert_array_equal(open_host(raw).predict(every)[0], np.arange(256) - 128)


def test_checkpoints_take_pixels_and_need_no_more_arena(shared_models):
    graph = insitu.load(shared_models / "mcunet-5fps.pkl").graph
    x = pixels(2, 128, 128, 3)
    plain, raw = open_host(graph), open_host(Transform.raw(graph).applied_to(graph))
    np.testing.assert_array_equal(raw.predict(x), plain.predict((x.astype(np.int16) - 128).astype(np.int8)))
    assert raw.info()["arena_bytes"] == plain.info()["arena_bytes"]


def test_a_transform_that_does_not_fit_is_an_error(net):
    _, graph = net
    with pytest.raises(GraphError, match="2 numbers do not fit 3 channels"):
        Transform(mean=(0.1, 0.2)).applied_to(graph)
    with pytest.raises(GraphError, match="deviation"):
        Transform(std=0.0).applied_to(graph)
    with pytest.raises(GraphError, match="not int8 pixels"):
        Transform.raw(graph)
    with pytest.raises(GraphError, match="rank 4"):
        Transform().applied_to(load(nn.Linear(3, 2), torch.zeros(1, 3)))


def test_a_camera_s_bytes_are_the_colours_they_stand_for(net):
    _, graph = net
    plain = Transform(MEAN, STD).applied_to(graph)
    rgb = pixels(1, 6, 5, 3)
    made = Transform(MEAN, STD, format="bgr").applied_to(graph)
    np.testing.assert_array_equal(evaluate(made, rgb[..., ::-1]), evaluate(plain, rgb))
    red, green, blue = (rgb[..., i].astype(np.uint16) for i in range(3))
    words = (red >> 3) << 11 | (green >> 2) << 5 | blue >> 3
    camera = Transform(MEAN, STD, format="rgb565").applied_to(graph)
    bytes_ = words[..., None].view(np.uint8)  # little-endian
    np.testing.assert_allclose(evaluate(camera, bytes_), evaluate(plain, rgb), atol=0.05)
    np.testing.assert_allclose(open_host(camera).predict(bytes_), evaluate(camera, bytes_), atol=1e-5)


def test_yuv_is_what_pillow_says():
    Image = pytest.importorskip("PIL.Image")
    rgb = np.repeat(pixels(1, 4, 6, 3), 2, axis=2)  # two pixels share their colour
    full = np.asarray(Image.fromarray(rgb[0]).convert("YCbCr")).astype(np.float64)  # luma 0 to 255
    luma, u, v = 16 + full[..., 0] * 219 / 255, *(128 + (full[..., i] - 128) * 224 / 255 for i in (1, 2))
    chroma = np.where(np.arange(12) % 2, v, u)
    yuyv = np.rint(np.stack([luma, chroma], -1)).astype(np.uint8)[None]
    with insitu.graph.build("camera") as b:
        x = b.input("x", insitu.Type("u8", yuyv.shape))
        graph = b.graph(insitu.graph.lookup("pixels")(x, format="yuyv"))
    assert np.abs(evaluate(graph, yuyv).astype(int) - rgb).max() <= 4  # two roundings of three numbers


# a frame in planes ------------------------------------------------------------------------------

# BT.601 with luma 16 to 235, in float64: red, green and blue of luma - 16, u - 128, v - 128
BT601 = np.array([(1, 0, 2 * (1 - 0.299)), (1, -2 * 0.114 * (1 - 0.114) / 0.587, -2 * 0.299 * (1 - 0.299) / 0.587),
                  (1, 2 * (1 - 0.114), 0)]) @ np.diag([255 / 219, 255 / 224, 255 / 224])  # fmt: skip
PLANES = ("i420", "nv12", "nv21")


def frame_of(luma, u, v, format):
    """The bytes of a frame, as a camera's data sheet describes them."""
    n, h, w = luma.shape
    colours = [u, v] if format == "i420" else [np.stack([u, v] if format == "nv12" else [v, u], -1)]
    flat = np.concatenate([c.reshape(n, -1) for c in (luma, *colours)], axis=1)
    return flat.reshape(n, 3 * h // 2, w, 1)


def planes(n, h, w, seed=0):
    shapes = ((n, h, w), (n, h // 2, w // 2), (n, h // 2, w // 2))
    return [pixels(*shape, seed=seed + i) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("format", PLANES)
def test_a_frame_in_planes_has_the_colours_of_bt601(format):
    """Off by one at most: numbers have 8 fraction bits."""
    luma, u, v = planes(3, 38, 50)
    each = [luma, *(c.repeat(2, 1).repeat(2, 2) for c in (u, v))]
    exact = np.stack([c - of for c, of in zip(map(np.float64, each), (16, 128, 128))], -1) @ BT601.T
    off = from_camera(frame_of(luma, u, v, format), format) - np.clip(np.rint(exact), 0, 255)
    assert np.abs(off).max() <= 1


@pytest.mark.parametrize("format", PLANES)
def test_a_frame_in_planes_is_what_pillow_says(format):
    Image = pytest.importorskip("PIL.Image")
    rgb = pixels(2, 3, 7, 3).repeat(2, axis=1).repeat(2, axis=2)  # four pixels share their colour
    full = np.stack([np.asarray(Image.fromarray(one).convert("YCbCr")) for one in rgb]).astype(np.float64)
    luma, (u, v) = 16 + full[..., 0] * 219 / 255, (128 + (full[..., i] - 128) * 224 / 255 for i in (1, 2))
    parts = [np.rint(c).astype(np.uint8) for c in (luma, u[:, ::2, ::2], v[:, ::2, ::2])]
    assert np.abs(from_camera(frame_of(*parts, format), format).astype(int) - rgb).max() <= 4  # two roundings
    np.testing.assert_allclose(to_camera(rgb, format).astype(int), frame_of(*parts, format), atol=1)


@pytest.mark.parametrize("format", PLANES)
def test_a_frame_in_planes_is_never_a_whole_image_of_colours(format):
    """Cropped, resized and in int8, with the bytes of the numpy meaning."""
    camera = Transform(0.5, 0.25, size=(58, 78), crop=(54, 66), format=format)
    x = frame_of(*planes(20, 58, 78), format)
    made = fuse_transform(insitu.Model(camera.applied_to(_rows_last())).quantize(x).graph)
    framed, plain = (replace(camera, format=f).applied_to(_rows_last()) for f in (format, "rgb"))
    np.testing.assert_array_equal(evaluate(framed, x[:1]), evaluate(plain, from_camera(x[:1], format)))
    whole = plan(made, target="mcu", enough=0)
    want = np.concatenate([evaluate(made, i[None]) for i in x[:2]])
    np.testing.assert_array_equal(open_program(emit_program(whole, "net")).predict(x[:2]), want)
    assert x[0].nbytes < whole.arena_bytes < 1.25 * x[0].nbytes  # colours would take twice as much again


@pytest.mark.parametrize("format", ["nv12", "nv21"])
def test_rows_of_luma_wait_for_their_colours(format):
    """A frame of nv12 arrives row by row: luma is kept, colours are not."""
    camera = Transform(0.5, 0.25, size=(58, 78), crop=(54, 66), format=format)
    x = frame_of(*planes(20, 58, 78), format)
    made = fuse_transform(insitu.Model(camera.applied_to(_rows_last())).quantize(x).graph)
    rows = plan(replace(made, by_rows="pixels"), target="mcu", enough=0)
    arrival = Arrival(open_program(emit_program(rows, "net")))
    for first in range(0, 87, 7):
        arrival.rows(x[0, first : first + 7])
    np.testing.assert_array_equal(arrival.end()[0], evaluate(made, x[:1]))
    assert rows.arena_bytes < 58 * 78 + 1600 < x[0].nbytes  # luma, and some rows of the others


def test_rows_of_i420_are_refused_with_the_reason():
    made = Transform(format="i420", size=(12, 10)).applied_to(_rows_last())
    with pytest.raises(GraphError, match="two planes after all luma") as e:
        plan(replace(made, by_rows="pixels"), target="mcu")
    assert "nv12" in e.value.hint


def test_frames_in_planes_have_even_sides(net):
    _, graph = net
    with pytest.raises(GraphError, match="square of four pixels, but images are 6x5"):
        Transform(format="nv12").applied_to(graph)
    with pytest.raises(insitu.DataError, match="one colour for four pixels"):
        to_camera(pixels(1, 5, 4, 3), "i420")
    with pytest.raises(insitu.DataError, match="to_camera"):
        camera = Transform(format="nv12", size=(8, 10)).applied_to(graph)
        insitu.data.as_samples(pixels(1, 8, 10, 3), camera)


@pytest.mark.parametrize("format", ["rgb565", "yuyv"])
def test_a_camera_s_rows_are_cropped_and_resized_as_they_arrive(format):
    """With the bytes of the numpy meaning, and no image of any size in the arena."""
    camera = Transform(0.5, 0.25, size=(60, 80), crop=(54, 66), format=format)
    x = pixels(20, 60, 80, 2)
    made = fuse_transform(insitu.Model(camera.applied_to(_rows_last())).quantize(x).graph)
    want = evaluate(made, x[:1])
    whole = plan(made, target="mcu", enough=0)
    rows = plan(replace(made, by_rows="pixels"), target="mcu", enough=0)
    np.testing.assert_array_equal(open_program(emit_program(whole, "net")).predict(x[:1]), want)
    arrival = Arrival(open_program(emit_program(rows, "net")))
    for first in range(0, 60, 7):
        arrival.rows(x[0, first : first + 7])
    np.testing.assert_array_equal(arrival.end()[0], want)
    assert rows.arena_bytes < 2000 < x[0].nbytes < whole.arena_bytes < 1.2 * x[0].nbytes  # and some rows


def _rows_last():
    """A network whose input is height x width x channels."""
    with insitu.graph.build("rows") as b:
        x = b.input("x", insitu.Type("f32", (1, 6, 5, 3)))
        w = b.constant("w", np.random.default_rng(0).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32))
        y = insitu.graph.lookup("conv2d")(x, w, name="conv")
        return b.graph(insitu.graph.lookup("mean")(y, axes=(1, 2), name="pool"))


def test_the_middle_is_cropped_before_it_is_resized(net):
    _, graph = net
    x = pixels(1, 14, 17, 3)
    made = Transform(MEAN, STD, size=(14, 17), crop=(12, 15)).applied_to(graph)
    want = Transform(MEAN, STD, size=(12, 15)).applied_to(graph)
    np.testing.assert_array_equal(evaluate(made, x), evaluate(want, x[:, 1:13, 1:16]))
    with pytest.raises(GraphError, match="does not fit"):
        Transform(size=(4, 4), crop=(5, 4)).applied_to(graph)


def test_mean_and_std_may_come_as_arrays():
    for mean, std in ((np.array([0.5, 0.4, 0.3]), np.float32(2)), (np.array(0.5), np.array([1.0, 2.0, 3.0]))):
        as_numbers = [tuple(v.tolist()) if v.ndim else v.item() for v in (mean, std)]
        assert Transform(mean, std) == Transform(*as_numbers)

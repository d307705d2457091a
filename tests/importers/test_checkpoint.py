"""The three int8 ImageNet checkpoints: the graph computes what the file's integers say."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from insitu.devices.host import open_host
from insitu.graph import check, evaluate
from insitu.importers.checkpoint.read import DEAD, read_checkpoint

# name -> (nodes, dead channels)
CHECKPOINTS = {"mcunet-5fps": (51, 62), "mbv2-w0.35": (63, 15), "proxyless-w0.3": (75, 33)}


class NumpyOnly(pickle.Unpickler):
    def find_class(self, module, name):
        assert (module.replace("_core", "core"), name) in {
            ("numpy", "dtype"), ("numpy", "ndarray"), ("numpy.core.multiarray", "_reconstruct"), ("_codecs", "encode"),
        }  # fmt: skip
        return super().find_class(module, name)


def tree_of(path):
    return NumpyOnly(io.BytesIO(zipfile.ZipFile(path).read("archive/data.pkl"))).load()


def photos(folder, count: int) -> np.ndarray:
    """s8[count, 128, 128, 3]: pixel - 128."""
    from PIL import Image

    with np.load(folder / "person.npz") as data:
        jpeg, offsets = data["jpg_test"], data["off_test"]
    images = [Image.open(io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())).convert("RGB") for i in range(count)]
    return (np.stack([np.asarray(i, np.int16) for i in images]) - 128).astype(np.int8)


# --- the file's arithmetic, written again from its description: sums in float64 are exact, nothing is sanitised ---


def scaled(acc, reals, y_zero):
    """Rounded once, half up, by 31-bit multipliers; channels last."""
    fraction, exponent = np.frexp(np.broadcast_to(np.float64(reals), acc.shape[-1:]))
    m, s = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64), 31 - exponent.astype(np.int64)
    y = (acc * m + (np.int64(1) << (s - 1))) >> s  # below 2^63 even for a bias at the int32 limit
    return np.clip(y + y_zero, -128, 127)


def convolved(layer, x):
    """x[H,W,C] -> y[H',W',O], int64 all the way."""
    p, k, s = layer["params"], layer["kernel_size"][0], layer["stride"]
    w = p["weight"].astype(np.int64)
    x = np.pad(x - p["x_zero"], (((k - 1) // 2,) * 2, ((k - 1) // 2,) * 2, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(0, 1))[::s, ::s]  # H', W', C, k, k
    if layer["groups"] > 1:
        acc = np.einsum("hwcuv,cuv->hwc", windows, w[:, 0])
    else:
        acc = (windows.reshape(*windows.shape[:2], -1).astype(np.float64) @ w.reshape(len(w), -1).T).astype(np.int64)
    h, wd, o = acc.shape
    reals = p["x_scale"] * p["w_scales"].astype(np.float64) / p["y_scale"]
    return scaled((acc + p["bias"].astype(np.int64)).reshape(-1, o), reals, p["y_zero"]).reshape(h, wd, o)


def added(residual, inner, a, b):
    """16-bit multipliers with a common shift."""
    p, q = residual["params"], inner["params"]
    ra, rb = p["x_scale"] / p["y_scale"], q["y_scale"] / p["y_scale"]
    shift = 15 - int(np.frexp(max(ra, rb))[1])
    ma, mb = (int(np.floor(r * 2**shift + 0.5)) for r in (ra, rb))
    y = (ma * (a - p["x_zero"]) + mb * (b - q["y_zero"]) + (1 << (shift - 1))) >> shift
    return np.clip(y + p["y_zero"], -128, 127)


def described(tree, x) -> dict[str, np.ndarray]:
    found = {"first_conv": convolved(tree["first_conv"], x)}
    x = found["first_conv"]
    for i, block in enumerate(tree["blocks"]):
        y = x
        for part in ("pointwise1", "depthwise", "pointwise2"):
            if block[part] is not None:
                y = found[f"blocks.{i}.{part}"] = convolved(block[part], y)
        if block["residual"] is not None:
            y = found[f"blocks.{i}.residual"] = added(block["residual"], block["pointwise2"], x, y)
        x = y
    return found


@pytest.fixture(params=CHECKPOINTS)
def checkpoint(request, shared_models):
    return request.param, shared_models / f"{request.param}.pkl"


def test_sanitised_channels_give_the_bytes_of_the_arithmetic_in_the_file(checkpoint, shared_data):
    _, path = checkpoint
    graph, tree = read_checkpoint(path), tree_of(path)
    noise = np.random.default_rng(3).integers(-128, 128, (1, 128, 128, 3)).astype(np.int8)
    for x in (photos(shared_data, 1), noise):
        values = evaluate(graph, x, keep=True)
        for name, want in described(tree, x[0].astype(np.int64)).items():
            assert np.array_equal(values[name][0], want), name


def test_no_channel_that_training_would_divide_by_is_left(checkpoint):
    name, path = checkpoint
    graph, tree = check(read_checkpoint(path), "int8"), tree_of(path)
    nodes, dead = CHECKPOINTS[name]
    assert len(graph.nodes) == nodes
    layers = [tree["first_conv"], *(b[k] for b in tree["blocks"] for k in ("pointwise1", "depthwise", "pointwise2"))]
    assert sum(int((c["params"]["w_scales"] < DEAD).sum()) for c in layers if c) == dead
    scales = [v.type.quant.scale for v in graph.values.values() if v.name.endswith(".weight")]
    assert min(map(min, scales)) >= DEAD


def test_generated_c_equals_the_meaning_on_photos(checkpoint, shared_data):
    _, path = checkpoint
    graph = read_checkpoint(path)
    x = photos(shared_data, 3)
    y = open_host(graph).predict(x)
    assert y.shape == (3, 1000)
    assert len({row.tobytes() for row in y}) == 3
    for i in range(3):
        assert np.array_equal(y[i], evaluate(graph, x[i : i + 1])[0])

"""Keras models on the torch backend become graphs that compute what `predict` computes."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
import pytest

from insitu.errors import Error, ModelError, Unsupported
from insitu.graph import check, evaluate
from insitu.importers.keras.read import read_keras, read_keras_file

keras = pytest.importorskip("keras")
L = keras.layers
if keras.backend.backend() != "torch":
    pytest.skip("keras runs on another backend here", allow_module_level=True)


def randomise(model):
    """Parameters that would reveal a mistake: statistics away from 0 and 1, biases away from 0."""
    rng = np.random.default_rng(0)
    for v in model.variables:
        if "seed" not in v.path:
            low, high = (0.5, 1.5) if "moving" in v.path or "gamma" in v.path else (-0.4, 0.4)
            v.assign(rng.uniform(low, high, v.shape))
    return model


def small_cnn():
    return randomise(
        keras.Sequential(
            [
                keras.Input((12, 10, 3), name="image"),
                L.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="stem"),
                L.BatchNormalization(name="stem_norm", momentum=0.9),
                L.ReLU(6.0, name="stem_relu"),
                L.DepthwiseConv2D(3, padding="same", name="depthwise"),
                L.BatchNormalization(scale=False, name="norm"),
                L.Activation("relu6"),
                L.GlobalAveragePooling2D(name="pool"),
                L.Dropout(0.3, name="dropout"),
                L.Dense(5, activation="softmax", name="classes"),
            ],
            name="small",
        )
    )


def agrees(model):
    graph = check(read_keras(model), "float")
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=v.shape).astype(np.float32) for v in graph.inputs]
    wanted = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
    found = evaluate(graph, *inputs, precision=np.float64)
    assert found.shape == wanted.shape
    assert np.max(np.abs(found - wanted)) <= 1e-5 * np.max(np.abs(found)), graph
    return graph


def ops(graph):
    return [n.op.name for n in graph.nodes]


def test_a_cnn_computes_what_keras_computes_and_nothing_is_spelled_out():
    graph = agrees(small_cnn())
    assert ops(graph) == [
        "conv2d", "batch_norm", "relu6", "depthwise2d", "batch_norm", "relu6", "mean", "dropout", "linear", "softmax",
    ]  # fmt: skip


def test_the_generated_c_computes_what_keras_computes():
    from insitu.devices.host import open_host
    from insitu.quantizer.fold import fold

    model = small_cnn()
    x = np.random.default_rng(1).normal(size=(1, 12, 10, 3)).astype(np.float32)
    y = open_host(fold(read_keras(model))).predict(x)
    assert np.max(np.abs(y - model.predict(x, verbose=0))) <= 1e-5


def test_layers_and_variables_keep_their_names_and_batch_norm_its_settings():
    graph = read_keras(small_cnn())
    assert [v.name for v in graph.inputs] == ["image"]
    assert {"stem", "stem_norm", "stem_relu", "depthwise", "pool", "dropout", "classes"} <= set(graph.producer)
    assert {"stem.kernel", "stem_norm.gamma", "stem_norm.moving_mean", "classes.bias"} <= set(graph.constants)
    attrs = graph.producer["stem_norm"].attrs
    assert attrs["momentum"] == 0.1 and attrs["epsilon"] == 0.001


def residual():
    x = keras.Input((6, 6, 2))
    y = L.Conv2D(4, 3, padding="same", activation="relu")(x)
    z = L.Conv2D(4, 1)(x)
    y = L.Add(name="sum")([y, z])
    return keras.Model(x, L.Dense(3)(L.Flatten()(L.MaxPooling2D(2)(y))))


def two_inputs():
    a, b = keras.Input((4,)), keras.Input((3,))
    return keras.Model([a, b], L.Dense(2, activation="tanh")(L.Concatenate()([L.Dense(5)(a), b])))


def attends():
    x = keras.Input((9, 12))
    y = L.Add()([x, L.MultiHeadAttention(3, 4, name="heads")(x, x)])
    return keras.Model(x, L.Dense(5)(L.GlobalAveragePooling1D()(L.RMSNormalization()(y))))


def test_each_product_of_an_attention_layer_takes_its_bias_in():
    graph = agrees(randomise(attends()))
    assert ops(graph).count("linear") == 5 and ops(graph).count("matmul") == 2
    assert "heads" in graph.producer and ops(graph).count("add") == 1 + 1  # the skip, and the norm's epsilon


def test_every_activation_of_keras_that_torch_spells_with_numbers():
    agrees(keras.Sequential([keras.Input((6,)), *(L.Activation(a) for a in ("squareplus", "celu", "selu", "mish"))]))


def nested():
    inner = keras.Sequential([keras.Input((5, 5, 2)), L.Conv2D(3, 3, name="conv"), L.BatchNormalization()], name="body")
    return keras.Sequential([keras.Input((5, 5, 2)), inner, L.Flatten(), L.Dense(2)])


def augmented():
    """Layers that vary photos in training and leave them as they are in prediction, three of them in a model."""
    inner = keras.Sequential([L.RandomFlip("horizontal"), L.RandomRotation(0.1), L.RandomZoom(0.2)], name="vary")
    layers = [inner, L.RandomContrast(0.3), L.RandomCrop(6, 5), L.GaussianNoise(0.1), L.Rescaling(1 / 255, offset=-1)]
    return keras.Sequential([keras.Input((8, 7, 3)), *layers, L.Conv2D(2, 3)])


MODELS = {
    "augmented": augmented,
    "residual": residual,
    "two inputs": two_inputs,
    "nested": nested,
    "upsampling": lambda: keras.Sequential([keras.Input((3, 4, 2)), L.UpSampling2D((2, 3)), L.Conv2D(2, 3)]),
    "conv1d": lambda: keras.Sequential(
        [keras.Input((9, 3)), L.Conv1D(4, 3, strides=2, padding="same"), L.MaxPooling1D(2), L.Flatten(), L.Dense(2)]
    ),
    "separable": lambda: keras.Sequential([keras.Input((6, 5, 3)), L.ZeroPadding2D(1), L.SeparableConv2D(4, 3)]),
    "transposed": lambda: keras.Sequential(
        [keras.Input((4, 3, 2)), L.Conv2DTranspose(3, 3, strides=2, padding="same")]
    ),
    "activations": lambda: keras.Sequential(
        [keras.Input((6,)), *(L.Activation(a) for a in ("elu", "gelu", "silu", "softplus", "hard_sigmoid", "sigmoid"))]
    ),
    "leaky": lambda: keras.Sequential([keras.Input((4, 4, 2)), L.LeakyReLU(0.2), L.PReLU(shared_axes=[1, 2])]),
    "normalised": lambda: keras.Sequential([keras.Input((4, 6)), L.LayerNormalization(), L.Rescaling(0.5, 1.0)]),
    "average": lambda: keras.Sequential([keras.Input((5, 5, 2)), L.AveragePooling2D(2, padding="same")]),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_what_keras_computes(name):
    graph = agrees(randomise(MODELS[name]()))
    assert "transpose" not in ops(graph)


def test_the_batch_can_be_chosen():
    assert read_keras(small_cnn(), batch=3).outputs[0].shape == (3, 5)


def test_a_dynamic_size_is_refused_by_name():
    model = keras.Sequential([keras.Input((None, 8, 3), name="image"), L.Conv2D(2, 3)])
    with pytest.raises(Unsupported, match=r"input image: takes 1x\?x8x3: size 1 is open"):
        read_keras(model)


def test_another_backend_gets_the_two_lines_that_fix_it(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ModelError) as e:
        read_keras(small_cnn())
    assert 'os.environ["KERAS_BACKEND"] = "torch"' in e.value.hint and "load_model" in e.value.hint


def test_a_saved_model_is_the_same_graph(tmp_path):
    model = small_cnn()
    model.save(tmp_path / "small.keras")
    assert str(read_keras_file(tmp_path / "small.keras")) == str(read_keras(model))


def test_a_damaged_file_is_one_error(tmp_path):
    (tmp_path / "broken.keras").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(Error, match=r"broken\.keras"):
        read_keras_file(tmp_path / "broken.keras")


def test_a_table_is_normalised_as_its_layer_learned():
    norm = L.Normalization()
    norm.adapt(np.random.default_rng(0).normal((20, 600, -3), (5, 150, 0.1), (50, 3)).astype(np.float32))
    graph = agrees(keras.Sequential([keras.Input((3,)), norm, L.Dense(4, activation="relu"), L.Dense(2)]))
    assert len(graph.nodes) <= 5  # its constants are computed once


@pytest.mark.parametrize("layer", [L.Maximum, L.Minimum])
def test_the_larger_or_smaller_of_two_branches(layer):
    x = keras.Input((6,))
    agrees(randomise(keras.Model(x, layer()([L.Dense(4)(x), L.Dense(4)(x)]))))


def test_a_cropped_transposed_convolution_keeps_its_bias():
    model = randomise(keras.Sequential([keras.Input((6, 6, 2)), L.Conv2DTranspose(3, 3, strides=2, padding="same")]))
    graph = read_keras(model)
    (layer,) = (node for node in graph.nodes if node.op.name == "conv_transpose2d")
    assert len(layer.inputs) == 3, "the bias is the layer's, so that it can be trained"
    x = np.random.default_rng(1).normal(size=(1, 6, 6, 2)).astype(np.float32)
    np.testing.assert_allclose(evaluate(graph, x), model.predict(x, verbose=0), atol=1e-5)

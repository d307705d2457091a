"""A compiled Keras model keeps its optimizer, rate and loss: training here follows Keras's own fit."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
import pytest

import insitu
from insitu.errors import DataError

keras = pytest.importorskip("keras")
L = keras.layers
if keras.backend.backend() != "torch":
    pytest.skip("keras runs on another backend here", allow_module_level=True)

X = np.random.default_rng(0).normal(size=(48, 6)).astype(np.float32)
Y = X[:, :3].argmax(1)
HOT = np.eye(3, dtype=np.float32)[Y]
K = keras.optimizers


def network(end: str | None = "softmax", outputs: int = 3):
    keras.utils.set_random_seed(0)
    layers = [keras.Input((6,)), L.Dense(8, activation="relu"), L.Dense(outputs, activation=end)]
    return keras.Sequential(layers)


def compiled(optimizer, loss="sparse_categorical_crossentropy", loss_weights=None, **options):
    made = network(**options)
    made.compile(optimizer=optimizer, loss=loss, loss_weights=loss_weights)
    return made


def follow(model, y, epochs: int = 2, batch: int = 8, scheme: str = "full"):
    """The losses of each epoch, ours and Keras's, over the same batches."""
    made = insitu.compile(model, precision="float", scheme=scheme)
    ours = made.fit(X, y, epochs=epochs, batch_size=batch)
    theirs = []
    for epoch in range(epochs):
        order = np.random.default_rng((0, epoch)).permutation(len(X))
        theirs += model.fit(X[order], y[order], batch_size=batch, shuffle=False, verbose=0).history["loss"]
    return made, ours.loss, theirs


CASES = {
    "sgd": (lambda: K.SGD(0.1), {}, Y),
    "momentum": (lambda: K.SGD(0.05, momentum=0.8), {}, Y),
    "nesterov": (lambda: K.SGD(0.05, momentum=0.8, nesterov=True), {}, Y),
    "clipnorm": (lambda: K.SGD(0.5, clipnorm=0.1), {}, Y),
    "adam": (lambda: K.Adam(0.01), {}, Y),
    "betas": (lambda: K.Adam(0.02, beta_1=0.7, beta_2=0.9), {}, Y),
    "epsilon": (lambda: K.Adam(0.02, epsilon=1e-2), {}, Y),
    "one-hot": (lambda: K.SGD(0.1), {"loss": "categorical_crossentropy"}, HOT),
    "logits": (lambda: K.SGD(0.1), {"loss": keras.losses.CategoricalCrossentropy(from_logits=True), "end": None}, HOT),
    "smooth": (lambda: K.SGD(0.1), {"loss": keras.losses.CategoricalCrossentropy(label_smoothing=0.25)}, HOT),
    "binary": (lambda: K.SGD(0.1), {"loss": "binary_crossentropy", "end": "sigmoid", "outputs": 1}, HOT[:, :1]),
    "mse": (lambda: K.SGD(0.05), {"loss": "mse", "end": None}, HOT),
}


@pytest.mark.parametrize("case", CASES)
def test_losses_follow_keras(case):
    optimizer, options, y = CASES[case]
    model = compiled(optimizer(), **options)
    start = network(**{k: v for k, v in options.items() if k != "loss"}).get_weights()
    made, ours, theirs = follow(model, y)
    assert not [note for note in made.notes if "Keras" in note]
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)
    moved = max(float(np.abs(a - b).max()) for a, b in zip(start, model.get_weights()))
    assert moved > 0.01, "Keras itself must have learned something"
    state = made.device.state()
    found = next(v for name, v in state.items() if v.shape in ((8, 6), (6, 8)) and name.count(".") < 2)
    kernel = model.get_weights()[0]
    np.testing.assert_allclose(found if found.shape == kernel.shape else found.T, kernel, atol=2e-3 * moved)


def test_adam_takes_keras_steps_from_tiny_gradients():
    """Gradients near epsilon, 1e-7: the first steps are 2 times too large if epsilon is added after the correction."""
    model = compiled(K.Adam(0.05), loss="mse", end=None)
    made = insitu.compile(model, precision="float", scheme="full", batch=8)
    start = model.get_weights()[-1].copy()
    near = np.asarray(model.predict(X, verbose=0)) + 1e-6 * HOT
    model.fit(X, near, batch_size=48, epochs=3, shuffle=False, verbose=0)
    made.fit(X, near, batch_size=48, epochs=3)
    moved = model.get_weights()[-1] - start
    ours = next(v for v in made.device.state().values() if v.shape == (3,)) - start
    assert np.abs(moved).max() > 1e-3
    np.testing.assert_allclose(ours, moved, rtol=0.05, atol=1e-4)


def test_weight_decay_of_a_plain_sgd_follows_keras():
    model = compiled(K.SGD(0.1, weight_decay=0.05))
    made, ours, theirs = follow(model, Y)
    assert any("weight_decay applies to weights" in note for note in made.notes)
    np.testing.assert_allclose(ours, theirs, rtol=5e-3)


def test_the_compiled_rate_is_used_unless_told_otherwise(tmp_path):
    made = insitu.compile(compiled(K.Adam(0.02)), precision="float", scheme="full")
    assert made.batch == 32 and made.fit(X, Y, epochs=1).rate == 0.02
    assert made.recipe.clip_kind == "parameter", "the optimizer is Keras's own"
    assert made.fit(X, Y, epochs=1, rate=0.001).rate == 0.001
    opened = insitu.open(made.save(tmp_path / "a.insitu"))
    assert opened.recipe == made.recipe and opened.fit(X, Y, epochs=1).rate == 0.02
    assert opened.partial_fit(X[0], 1).head_rate == 0.02


def test_a_model_that_has_learned_goes_on_with_every_layer_as_in_keras():
    """With a rate of its own nothing is tried, and auto alone would only ever train the head."""
    model = compiled(K.Adam(0.02))
    model.fit(X, Y, epochs=3, verbose=0)
    model.optimizer = K.Adam(0.02)  # without the averages of what it has learned
    made, ours, theirs = follow(model, Y, scheme="auto")
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert any("every layer learns" in note for note in made.notes)


def test_a_frozen_layer_is_not_trained_because_another_one_is_compiled():
    model = compiled(K.SGD(0.1))
    model.fit(X, Y, epochs=3, verbose=0)
    model.layers[0].trainable = False
    made = insitu.compile(model, precision="float")
    before = made.device.state()
    made.fit(X, Y, epochs=1)
    changed = {name for name, v in made.device.state().items() if not np.array_equal(v, before.get(name))}
    assert changed and all(name.startswith("head") or name == "counters" for name in changed)


def test_a_recipe_wins_over_the_compiled_settings():
    made = insitu.compile(compiled(K.Adam(0.02)), precision="float", recipe=insitu.Recipe())
    assert made.recipe.optimizer == "sgd" and made.recipe.rate is None and made.batch == 1


def test_an_uncompiled_model_is_as_before():
    made = insitu.compile(network(), precision="float")
    assert made.recipe == insitu.Recipe(grad="f32") and made.batch == 1


def test_int8_says_what_becomes_of_adam(capsys):
    made = insitu.compile(compiled(K.Adam(0.02)), data=X)
    said = capsys.readouterr().err
    assert "int8 weights are updated by SGD" in said and "Adam(0.02)" in said and 'precision="float"' in said
    assert made.recipe.optimizer == "sgd" and made.recipe.rate is None and any("Adam" in n for n in made.notes)
    assert insitu.compile(compiled(K.SGD(0.02)), data=X).recipe.rate == pytest.approx(0.02)


LEFT = {
    "RMSprop": lambda: {"optimizer": K.RMSprop()},
    "ExponentialDecay": lambda: {"optimizer": K.SGD(K.schedules.ExponentialDecay(0.3, 10, 0.9))},
    "global_clipnorm": lambda: {"optimizer": K.SGD(0.1, global_clipnorm=1.0)},
    "amsgrad": lambda: {"optimizer": K.Adam(amsgrad=True)},
    "together with momentum": lambda: {"optimizer": K.SGD(0.1, momentum=0.9, weight_decay=0.01)},
    "mean_absolute_error": lambda: {"optimizer": "sgd", "loss": "mean_absolute_error"},
    "reduction='sum'": lambda: {
        "optimizer": "sgd",
        "loss": keras.losses.SparseCategoricalCrossentropy(reduction="sum"),
    },
    "loss_weights": lambda: {"optimizer": "sgd", "loss_weights": [2.0]},
    "label_smoothing": lambda: {
        "optimizer": "sgd",
        "loss": keras.losses.BinaryCrossentropy(label_smoothing=0.1),
    },
}


@pytest.mark.parametrize("word", LEFT)
def test_what_cannot_be_taken_over_is_named(word, capsys):
    made = insitu.compile(compiled(**LEFT[word]()), precision="float")
    assert any(word in note for note in made.notes) and word in capsys.readouterr().err


def test_an_optimizer_that_is_not_known_keeps_the_batch_of_keras():
    made = insitu.compile(compiled(K.RMSprop()), precision="float")
    assert made.batch == 32 and made.fit(X, Y, epochs=1, rate=0.02, batch_size=32).batch == 32


def test_int8_says_nothing_of_a_rate_and_an_optimizer_that_are_not_used(capsys):
    insitu.compile(compiled(K.RMSprop()), data=X)
    said = capsys.readouterr().err
    assert "RMSprop is not known here: SGD" in said and "keeps RMSprop" not in said
    made = insitu.compile(compiled(K.Adam(K.schedules.ExponentialDecay(0.3, 10, 0.9))), data=X)
    assert not [note for note in made.notes if "schedule" in note] and any("SGD" in note for note in made.notes)
    made = insitu.compile(compiled(K.SGD(K.schedules.ExponentialDecay(0.3, 10, 0.9))), data=X)
    assert [note for note in made.notes if "schedule" in note] and made.recipe.rate == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("last", "units", "loss", "way"),
    [("softmax", 3, "sparse_categorical_crossentropy", "classify gives probabilities"),
     ("sigmoid", 1, "binary_crossentropy", "classify gives probabilities"),
     ("sigmoid", 2, "binary_crossentropy", "1 / (1 + exp(-logit)) is the probability")],
)  # fmt: skip
def test_a_last_function_that_is_part_of_the_loss_is_not_dropped_in_silence(last, units, loss, way, capsys):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units, activation=last)])
    model.compile("sgd", loss)
    made = insitu.compile(model, precision="float")
    said = f"the last {last} is part of the loss: predict gives logits, {way}"
    assert said in made.notes and said in capsys.readouterr().err


def test_a_single_sigmoid_is_classified_as_keras_predicts():
    model = compiled(K.SGD(0.1), loss="binary_crossentropy", end="sigmoid", outputs=1)
    made = insitu.compile(model, precision="float")
    given = [answer["1"] for answer in made.classify(X)]
    np.testing.assert_allclose(given, model.predict(X, verbose=0)[:, 0], atol=1e-5)
    assert made.classify(X[:1], top=1)[0].keys() == {"1" if given[0] > 0.5 else "0"}
    assert "outputs" in str(made) and "classes" not in str(made)


def test_a_network_with_two_outputs_of_its_own_classifies_nothing_and_says_where_probabilities_are():
    model = compiled(K.SGD(0.1), loss="binary_crossentropy", end="sigmoid", outputs=2)
    made = insitu.compile(model, precision="float")
    with pytest.raises(DataError, match="has no classes") as error:
        made.classify(X)
    assert "1 / (1 + exp(-logit))" in error.value.hint and "classes" not in str(made)


# how many epochs, if nobody says ---------------------------------------------------------------


def digits_of(count: int):
    """Some of scikit-learn's digits, others to test on, and a compiled network that knows nothing."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((64,)), L.Dense(32, activation="relu"), L.Dense(10, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return (x[:count], y[:count]), (x[1000:], y[1000:]), model


def test_fit_alone_has_the_epochs_that_an_untrained_network_needs():
    train, test, model = digits_of(200)
    made = insitu.compile(model, precision="float", scheme="full")
    history, ours = made.fit(*train), made.evaluate(*test)["accuracy"]
    assert history.planned == 143, "of 7 updates each"
    model.fit(*train, epochs=len(history.loss), verbose=0)
    theirs = model.evaluate(*test, verbose=0)[1]
    assert ours > 0.8 and abs(ours - theirs) < 0.02, (ours, theirs)


def test_a_network_that_knows_its_task_has_the_usual_epochs():
    train, _, model = digits_of(200)
    model.fit(*train, epochs=60, verbose=0)
    made = insitu.compile(model, precision="float", scheme="full")
    assert made.fit(*train).planned == 20
    assert made.fit(*train, epochs=3).planned == 3


def test_it_ends_when_nothing_is_left_to_learn():
    x = np.repeat(np.eye(6, dtype=np.float32)[:3] * 5, 40, 0)
    made = insitu.compile(compiled(K.Adam(0.05)), precision="float", scheme="full")
    history = made.fit(x, np.repeat(np.arange(3), 40))
    assert len(history.loss) < history.planned and history.loss[-1] < 0.01
    assert str(history).startswith(f"{len(history.loss)} of {history.planned} epochs")
    assert len(made.fit(x, np.repeat(np.arange(3), 40), epochs=9).loss) == 9, "as asked"


def test_going_on_needs_the_epochs_of_before():
    made = insitu.compile(compiled(K.Adam(0.01)), precision="float", scheme="full")
    with pytest.raises(DataError, match="needs the number of epochs"):
        made.fit(X, Y, start_epoch=2)
    planned = made.fit(X, Y, stop_epoch=2).planned
    assert len(made.fit(X, Y, epochs=planned, start_epoch=2).loss) == planned - 2

"""compile(): every stage in one call, its messages and its budget. What it writes: test_pipeline_output.py."""

import re
import warnings

import numpy as np
import pytest
import torch

import insitu
from insitu import BoardError, BudgetError, DataError, Error, GraphError, ModelError, Recipe, Transform
from insitu.errors import LearningWarning, Unsupported

from .learners import data, learner, mlp, state_of
from .models import families, imported

X, Y = data(40)


def compile(**options):
    return insitu.compile(mlp(), example=torch.zeros(1, 6), **options)


def trained() -> torch.nn.Module:
    """A network whose weights are no longer those of an initialisation."""
    made = mlp()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter *= 1.5
    return made


# --- stages ---------------------------------------------------------------------------------------------


def test_a_float_model_without_calibration_data_is_an_error():
    with pytest.raises(DataError, match="needs samples"):
        compile(classes=4)


def test_the_first_sample_is_the_example_of_a_torch_module():
    made = insitu.compile(trained(), data=(X, Y))
    assert made.sample.shape == (1, 6) and made.predict(X[:3]).shape == (3, 4)
    with pytest.raises(ModelError, match="needs an example input") as e:
        insitu.compile(trained(), precision="float")
    assert "example=torch.zeros(1, 6)" in e.value.hint  # as its first layer says


def test_no_samples_are_told_as_such_and_not_as_a_missing_example():
    with pytest.raises(DataError, match="data: there are no samples"):
        insitu.compile(trained(), data=(X[:0], Y[:0]))


def test_samples_as_torch_tensors_are_read_without_a_warning_of_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert insitu.compile(trained(), data=(torch.tensor(X), torch.tensor(Y))).sample.shape == (1, 6)


def test_a_list_of_samples_gives_an_example_and_a_wrong_one_is_named_by_its_shape():
    assert insitu.compile(trained(), data=list(X)).sample.shape == (1, 6)
    with pytest.raises(ModelError, match=r"with an input of shape \[1, 3\]"):
        insitu.compile(trained(), data=X[:, :3])


@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
def test_a_recurrent_layer_is_refused_with_what_to_use_instead(layer):
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = getattr(torch.nn, layer)(6, 4, batch_first=True)

        def forward(self, x):
            return self.layer(x)[0][:, -1]

    with pytest.raises(Unsupported, match=f"aten.{layer.lower()} is not supported") as e:
        insitu.compile(Recurrent(), data=np.zeros((4, 5, 6), np.float32))
    assert "a 1-D convolution over the sequence" in str(e.value.hint)


@pytest.mark.parametrize("precision", ["float", "int8"])
def test_a_model_that_learns_targets_trains_its_last_layer(precision):
    made = insitu.compile(trained(), data=X, precision=precision, recipe=Recipe(loss="mse"))
    before = {name: array.copy() for name, array in made.device.state().items()}
    made.fit(X, np.float32(made.predict(X)) + 1, epochs=1, rate=0.01)
    after = made.device.state()
    changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert {name.partition(".")[0] for name in changed} <= {"head", "4", "counters", "net"} and len(changed) > 1
    assert made.partial_fit(X[0], np.ones(4, np.float32), rate=0.01).updates == 1  # one sample, several targets
    with pytest.raises(DataError, match="has no classes"):
        made.classify(X[:1])


@pytest.mark.parametrize("options", [{}, {"classes": 5}, {"recipe": Recipe(loss="mse")}], ids=["own", "new", "targets"])
def test_auto_means_as_much_as_fits_and_says_so_in_its_notes_alone(options, capsys):
    made = insitu.compile(trained(), example=torch.zeros(1, 6), precision="float", **options)
    assert made.parts and made.parts.scheme.name == "auto:full"
    assert "scheme auto: full (every layer)" in made.notes[0] and not capsys.readouterr().err


def test_a_number_of_classes_that_the_model_has_may_be_its_own():
    """classes=3 for a trained network of three outputs replaced its head without a word: 98 % became 33."""
    answers = insitu.compile(trained(), data=X).predict(X).argmax(1)
    own = insitu.compile(trained(), data=(X, answers), classes=4)
    assert "own classifier stays" in own.notes[0] and own.evaluate(X, answers)["accuracy"] > 0.9
    guessing = insitu.compile(trained(), data=(X, Y), classes=4)
    assert "only guesses" in guessing.notes[0] and not guessing.predict(X).any()
    unlabelled = insitu.compile(trained(), data=X, classes=4)
    assert unlabelled.notes[0].startswith("a new head of 4 classes") and not unlabelled.predict(X).any()
    asked = insitu.compile(trained(), data=(X, Y), classes=4, head_init="zero")
    assert not asked.predict(X).any()


def test_auto_means_the_head_if_classes_are_added_later(capsys):
    made = insitu.compile(trained(), example=torch.zeros(1, 6), precision="float", max_classes=9)
    assert made.parts and made.parts.scheme.name == "head" and "classes are added later" in made.notes[0]
    assert not capsys.readouterr().err


def test_auto_means_the_last_layer_of_a_model_without_a_head_to_compare_with():
    ends = torch.nn.Sequential(*trained(), torch.nn.Sigmoid())
    made = insitu.compile(ends, example=torch.zeros(1, 6), precision="float", recipe=Recipe(loss="mse"))
    assert made.parts and made.parts.scheme.name == "last:1" and "ends in none" in made.notes[0]


def test_auto_means_everything_of_an_untrained_model(capsys):
    made = compile(classes=4, precision="float")
    assert made.parts and made.parts.scheme.name == "full" and "the model is untrained" in capsys.readouterr().err
    x, y = data(300)
    made.fit(x, y)
    assert made.evaluate(*data(200, seed=1))["accuracy"] > 0.8


def test_auto_means_what_fits_of_an_untrained_model(capsys):
    model = insitu.load(mlp(hidden=64), torch.zeros(1, 6))
    made = insitu.compile(model, classes=4, data=X, board="nrf52840", sram=6000)
    assert made.parts and made.parts.scheme.name == "head" and made.deployed and made.deployed.sram_bytes <= 6000
    assert "only its head fits the board" in capsys.readouterr().err


def test_constant_calibration_data_are_said():
    with pytest.warns(LearningWarning, match="typical inputs") as said:
        compile(classes=4, data=np.ones_like(X))
    assert len(said) == 1


def test_int8_has_a_float_head_on_int8_features():
    made = compile(classes=3, data=X, scheme="head")
    forward = made.graphs["predict"]
    assert any(n.op.kind == "int8" for n in forward.nodes)
    assert forward.outputs[0].dtype == "f32" and set(forward.state) == {"head.weight", "head.bias"}
    history = made.fit(X, Y % 3, epochs=2, rate=0.05)
    assert history.cached and history.loss[1] < history.loss[0]


def test_a_model_that_is_int8_already_needs_no_data():
    model = insitu.load(mlp(), torch.zeros(1, 6)).quantize(X)
    assert insitu.compile(model, classes=3, scheme="head").predict(X).shape == (40, 3)


@pytest.mark.parametrize("name", [n for n in families() if n != "autoencoder"])
def test_every_family_trains_its_head_in_int8(name):
    graph = imported(name)
    x = np.random.default_rng(0).normal(size=(12, *graph.inputs[0].shape[1:])).astype(np.float32)
    made = insitu.compile(graph, classes=3, data=x, scheme="head")
    history = made.fit(x, np.arange(12) % 3, epochs=3, rate=0.05)
    assert np.isfinite(history.loss).all() and history.loss[-1] < history.loss[0] and history.cached


@pytest.mark.parametrize("name", [n for n in families() if n != "autoencoder"])
def test_every_family_trains_whole_in_float(name):
    graph = imported(name)
    x = np.random.default_rng(0).normal(size=(8, *graph.inputs[0].shape[1:])).astype(np.float32)
    made = insitu.compile(graph, classes=3, precision="float", scheme="full")
    history = made.fit(x, np.arange(8) % 3, epochs=3, rate=0.02)
    assert np.isfinite(history.loss).all() and not history.cached


def test_batch_norm_learns_its_statistics_from_whole_batches():
    module, example = families()["resnet8"]
    x = (np.random.default_rng(0).normal(size=(11, *example[0].shape[1:])) * 3 + 1).astype(np.float32)
    made = insitu.compile(module, example=example, classes=3, precision="float", scheme="full", batch=4)
    name = next(k for k in made.device.state() if "mean" in k)
    before = made.device.state()[name]
    history = made.fit(x, np.arange(11) % 3, epochs=2, rate=0.01)
    assert np.isfinite(history.loss).all() and (made.device.state()[name] != before).any()
    assert [len(losses) for losses in history.losses] == [12, 12]  # all eleven, and one twice to fill the last batch
    assert made.predict(x).shape == (11, 3)
    with pytest.raises(DataError, match="do not make a batch of 4"):
        made.fit(x[:3], [0, 1, 2])
    with pytest.raises(DataError, match="every 4 samples"):
        made.fit(x, np.arange(11) % 3, batch=2)


def test_the_same_call_gives_the_same_program():
    one, two = (compile(classes=4, precision="float", scheme="last:1", head_init="uniform", seed=5) for _ in "ab")
    assert one.program.files == two.program.files
    assert compile(classes=4, precision="float", head_init="uniform", seed=6).program.files != one.program.files


def test_prototypes_know_the_classes_before_any_training():
    x, y = data(400)
    made = compile(classes=4, data=(x, y), precision="float", head_init="prototypes", scheme="head")
    assert made.evaluate(x, y)["accuracy"] > 0.4  # chance is 0.25
    with pytest.raises(DataError, match="labelled"):
        compile(classes=4, data=x, precision="float", head_init="prototypes")
    with pytest.raises(DataError, match="4 classes"):
        compile(classes=4, data=(x, y + 1), precision="float", head_init="prototypes")


def test_pixels_go_in_where_a_transform_is_given():
    module, example = families()["mobilenet_v2"]
    x = np.random.default_rng(0).integers(0, 256, (12, 40, 40, 3)).astype(np.uint8)
    transform = Transform(mean=(0.5, 0.4, 0.3), std=0.25, size=(40, 40))
    made = insitu.compile(module, example=example, classes=3, data=x, scheme="head", transform=transform)
    ops = [n.op.name for n in made.graphs["predict"].nodes]
    assert ops[:2] == ["resize", "normalize"] and "quantize" not in ops
    assert made.fit(x, np.arange(12) % 3, epochs=2, rate=0.05).cached
    with pytest.raises(DataError, match="0 to 255"):
        made.fit(x / 255, np.arange(12) % 3)


BAD = {
    "an unknown precision": ({"precision": "int4"}, DataError, "precision"),
    "an unknown scheme": ({"precision": "float", "scheme": "some"}, Error, "unknown scheme"),
    "an unknown board": ({"precision": "float", "board": "toaster"}, BoardError, "board"),
    "no classes": ({"precision": "float", "classes": 0}, DataError, "classes must be an integer >= 1"),
    "an unknown start": ({"precision": "float", "classes": 2, "head_init": "ones"}, GraphError, "head"),
    "a layer that is not there": ({"precision": "float", "classes": 2, "head_after": "x"}, GraphError, "no such layer"),
    "data of another shape": ({"data": X[:, :5]}, DataError, "shape 40x5"),
    "data with NaN": ({"data": np.where(X > 2, np.nan, X)}, DataError, "finite"),
    "a batch as example": ({"example": torch.zeros(4, 6), "precision": "float"}, ModelError, "one sample"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_compiled_is_a_clear_error(case):
    options, kind, complaint = BAD[case]
    with pytest.raises(kind, match=complaint):
        insitu.compile(mlp(), **{"example": torch.zeros(1, 6), "scheme": "head", **options})


# --- memory ---------------------------------------------------------------------------------------------


def test_what_does_not_fit_names_the_peak_and_a_way_out_that_fits():
    need = learner("full").info()
    fits = learner("head").info()
    sram = fits["arena_bytes"] + fits["state_bytes"]
    with pytest.raises(BudgetError, match="peak at") as e:
        compile(classes=4, precision="float", scheme="full", sram=sram)
    assert f"{need['arena_bytes'] + need['state_bytes']:,}" in str(e.value)
    for part in e.value.hint.split("   or   "):
        scheme = re.match(r'scheme="(\S+)" \(fits, ', part)[1]
        compile(classes=4, precision="float", scheme=scheme, sram=sram)


def test_a_budget_is_exact():
    options = {"classes": 4, "precision": "float", "scheme": "full"}
    info = compile(**options).info()
    need = info["arena_bytes"] + info["state_bytes"]
    compile(**options, sram=need, flash=info["const_bytes"])
    for limit in ({"sram": need - 1}, {"flash": info["const_bytes"] - 1}):
        with pytest.raises(BudgetError):
            compile(**options, **limit)


def test_where_not_even_the_head_fits_the_error_says_so():
    with pytest.raises(BudgetError, match="even the head"):
        compile(classes=4, precision="float", scheme="full", sram=64)


def test_state_of_is_what_save_writes(tmp_path):
    made = learner("head")
    assert made.save(tmp_path / "s.bin").read_bytes() == state_of(made)


class Joined(torch.nn.Module):
    """A signal, and a few facts beside it."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
        self.head = torch.nn.Linear(4 * 6 + 3, 3)

    def forward(self, x, facts):
        return self.head(torch.cat([self.body(x), facts], 1))


def test_a_model_of_two_inputs_takes_them_as_a_tuple_a_list_or_a_dict():
    rng = np.random.default_rng(0)
    x, facts = rng.normal(size=(24, 2, 8)).astype(np.float32), rng.normal(size=(24, 3)).astype(np.float32)
    y = np.arange(24) % 3
    named = {"facts": facts, "x": x}
    for given in ((x, facts), [x, facts], ((x, facts), y), named, (named, y)):
        made = insitu.compile(Joined(), data=given, classes=3, head_init="zero")
        assert made.graphs["predict"].inputs[1].shape == (1, 3)
    made.fit([x, facts], y, epochs=1, rate=0.01)
    wanted = made.predict(x, facts)
    assert np.array_equal(made.predict([x, facts]), wanted) and np.array_equal(made.predict((x, facts)), wanted)
    assert [max(c, key=c.get) for c in made.classify([x, facts])] == [str(k) for k in wanted.argmax(1)]
    assert made.evaluate((x, facts), y)["samples"] == 24
    with pytest.raises(ModelError, match="needs an example"):
        insitu.compile(Joined(), data={"y": facts, "x": x})


def test_auto_trains_all_of_a_single_layer_behind_sound_features():
    sounds = np.random.default_rng(0).integers(-3000, 3000, (6, 1600)).astype(np.int16)
    single = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(40, 3)).eval()
    made = insitu.compile(single, example=torch.zeros(1, 1, 4, 10), classes=["a", "b", "c"], data=sounds,
                          transform=insitu.Audio(seconds=0.1))  # fmt: skip
    assert made.parts is not None and made.parts.scheme.name == "full"

"""A .keras file has the settings that its model was compiled with: they are taken over like those of a live model."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import json
import zipfile

import pytest

import insitu
from insitu.deploy import limits_of
from insitu.importers.keras.compiled import compiled as settings_of
from insitu.pipeline.recipes import settings_of as chosen

from .test_keras_compiled import CASES, LEFT, K, compiled, keras, network


def saved(model, path):
    model.save(path)
    return path


def changed(path, to, change):
    """The file with other settings."""
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    tree = json.loads(members["config.json"])
    change(tree["compile_config"])
    members["config.json"] = json.dumps(tree).encode()
    with zipfile.ZipFile(to, "w") as z:
        for name, data in members.items():
            z.writestr(name, data)
    return to


@pytest.mark.parametrize("case", CASES)
def test_a_file_has_the_settings_of_its_model(case, tmp_path):
    optimizer, options, _ = CASES[case]
    model = compiled(optimizer(), **options)
    found, want = settings_of(saved(model, tmp_path / "m.keras")), settings_of(model)
    assert found is not None and found == want and "optimizer" in found.fields


@pytest.mark.parametrize("word", LEFT)
def test_what_cannot_be_taken_over_is_named_of_a_file_too(word, tmp_path):
    model = compiled(**LEFT[word]())
    found, want = settings_of(saved(model, tmp_path / "m.keras")), settings_of(model)
    assert found is not None and found == want and any(word in note for note in found.notes)


def test_a_wrapper_and_schedules_are_read(tmp_path):
    schedules = K.schedules
    for given in (schedules.CosineDecay(0.25, 10), schedules.PiecewiseConstantDecay([5], [0.5, 0.1])):
        model = compiled(K.LossScaleOptimizer(K.SGD(given)))
        assert settings_of(saved(model, tmp_path / "m.keras")) == settings_of(model)


def test_compile_of_a_file_learns_as_the_file_says(tmp_path):
    path = saved(compiled(K.Adam(0.02, beta_1=0.7)), tmp_path / "m.keras")
    made = insitu.compile(str(path), precision="float", scheme="full")
    assert made.recipe.optimizer == "adam" and made.recipe.beta1 == 0.7 and made.recipe.rate == 0.02
    assert made.batch == 32


def test_a_recipe_wins_over_the_settings_of_a_file(tmp_path):
    path = saved(compiled(K.Adam(0.02)), tmp_path / "m.keras")
    own = chosen(path, insitu.Recipe(), "float", None, limits_of("host", None, None))
    assert own.recipe.optimizer == "sgd" and own.recipe.rate is None and own.batch == 1
    theirs = chosen(path, None, "float", None, limits_of("host", None, None))
    assert theirs.recipe.optimizer == "adam" and theirs.batch == 32


def test_a_file_without_settings_is_as_before(tmp_path):
    assert settings_of(saved(network(), tmp_path / "m.keras")) is None
    assert settings_of(tmp_path / "missing.keras") is None
    (tmp_path / "broken.keras").write_bytes(b"PK")
    assert settings_of(tmp_path / "broken.keras") is None


DAMAGE = {
    "a rate of text": lambda c: c["optimizer"]["config"].update(learning_rate="fast"),
    "no rate": lambda c: c["optimizer"]["config"].pop("learning_rate"),
    "a rate that is a list": lambda c: c["optimizer"]["config"].update(learning_rate=[1]),
    "an unknown schedule": lambda c: c["optimizer"]["config"].update(
        learning_rate={"class_name": "Mine", "config": {}, "module": "keras"}
    ),
    "betas of text": lambda c: c["optimizer"]["config"].update(beta_1="x"),
    "settings that are no object": lambda c: c.update(optimizer=7),
    "a loss that is a number": lambda c: c.update(loss=3),
    "losses without a name": lambda c: c.update(loss=[{"class_name": 4}]),
    "weights of objects": lambda c: c.update(loss_weights=[{}]),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_settings_that_cannot_be_read_are_a_note(what, tmp_path):
    path = saved(compiled(K.Adam(0.02)), tmp_path / "m.keras")
    found = settings_of(changed(path, tmp_path / "other.keras", DAMAGE[what]))
    assert found is not None and found.notes and all(note.startswith("Keras: ") for note in found.notes)


def test_settings_are_read_without_keras(tmp_path, monkeypatch):
    path = saved(compiled(K.SGD(K.schedules.ExponentialDecay(0.3, 10, 0.9))), tmp_path / "m.keras")

    def never(*_):
        raise AssertionError("no class of the file is looked up")

    monkeypatch.setattr(keras.saving, "deserialize_keras_object", never)
    monkeypatch.setattr("insitu.importers.keras.read.keras_package", never)
    found = settings_of(path)
    assert found is not None and found.fields["rate"] == 0.3

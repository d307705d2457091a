"""One file holds a learner: it opens anywhere, goes on byte for byte, and a broken one is one clear error."""

from __future__ import annotations

import copy
import io
import json
import pickle
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

import insitu
from insitu.errors import DataError, Error, ModelError
from insitu.learner.file import learner_bytes, open_learner

from ..learners import data, learner, state_of
from ..mutate import mutations

KINDS = {
    "float": {},
    "int8": {"precision": "int8", "data": data()[0]},
    "adam in batches": {"batch": 4, "recipe": insitu.Recipe(optimizer="adam", decay=0.01)},
    "head alone": {"scheme": "head"},
    "stochastic": {"precision": "int8", "data": data()[0], "recipe": insitu.Recipe(arithmetic="stochastic", seed=3)},
}
COURSE = {"epochs": 4, "rate": 0.05}


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_byte_for_byte(kind, tmp_path):
    x, y = data()
    whole, first = (learner(**KINDS[kind]) for _ in range(2))
    whole.fit(x, y, **COURSE)
    first.fit(x, y, **COURSE, stop_epoch=2)
    opened = insitu.open(first.save(tmp_path / "half.insitu"))
    assert opened.counters() == first.counters()
    opened.fit(x, y, **COURSE, start_epoch=2)
    assert state_of(opened) == state_of(whole)
    np.testing.assert_array_equal(opened.predict(x), whole.predict(x))


def test_it_keeps_names_scheme_recipe_and_counters(tmp_path):
    words = np.array(["tap", "rest", "wave", "nod"])
    x, y = data()
    made = learner(recipe=insitu.Recipe(clip=0.5), scheme="last:1")
    made.fit(x, words[y], **COURSE)
    opened = insitu.open(made.save(tmp_path / "a.insitu"))
    assert opened.names == made.names == ("nod", "rest", "tap", "wave")
    assert opened.recipe == made.recipe and opened.parts and made.parts
    assert (opened.parts.scheme, opened.counters()) == (made.parts.scheme, made.counters())
    assert opened.evaluate(x, words[y]) == made.evaluate(x, words[y])
    assert made.save(tmp_path / "b.insitu").read_bytes() == opened.save(tmp_path / "c.insitu").read_bytes()


def test_another_process_opens_it(tmp_path):
    x, y = data()
    made = learner()
    made.fit(x, y, **COURSE)
    np.save(tmp_path / "x.npy", x)
    path = made.save(tmp_path / "a.insitu")
    code = (
        "import sys, insitu, numpy as np; print(insitu.open(sys.argv[1]).predict(np.load(sys.argv[2])).tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", code, path, tmp_path / "x.npy"], capture_output=True, text=True)
    assert done.stdout.strip() == made.predict(x).tobytes().hex(), done.stderr


def test_a_learner_that_never_ran_is_kept_too(tmp_path):
    made = learner()
    assert not made.opened
    opened = insitu.open(made.save(tmp_path / "a.insitu"))
    np.testing.assert_array_equal(opened.predict(data()[0]), learner().predict(data()[0]))


def test_an_opened_learner_grows_and_goes_to_a_board(tmp_path):
    x, y = data()
    made = learner(precision="int8", data=x)
    made.fit(x, y, **COURSE)
    opened = insitu.open(made.save(tmp_path / "a.insitu"))
    board = opened.on("emulator", board="nrf52840")
    np.testing.assert_array_equal(board.predict(x[:3]), made.predict(x[:3]))
    assert opened.add_class("new") == 4 and opened.names == ("", "", "", "", "new")
    np.testing.assert_array_equal(opened.predict(x)[:, :4], made.predict(x))


def test_copies_go_their_own_way():
    x, y = data()
    made = learner()
    made.fit(x, y, **COURSE)
    before = state_of(made)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert state_of(other) == before
        other.fit(x, y, **COURSE)
        assert state_of(made) == before != state_of(other)


def test_the_model_of_a_learner_file_has_learned(tmp_path):
    x, y = data()
    made = learner()
    made.fit(x, y, **COURSE)
    path = made.save(tmp_path / "a.insitu")
    np.testing.assert_allclose(insitu.load(path).predict(x), made.predict(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["a.onnx", "a", "a.tflite", "a.pt"])
def test_an_unknown_suffix_is_refused(name, tmp_path):
    with pytest.raises(DataError, match="cannot save"):
        learner().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_model_is_not_a_learner_and_the_other_way_round(tmp_path):
    made = learner()
    model = insitu.load(made.save(tmp_path / "a.insitu")).save(tmp_path / "m.insitu")
    with pytest.raises(ModelError, match="contains a model"):
        insitu.open(model)
    with pytest.raises(ModelError, match="holds a learner"):
        insitu.graph.file.read(tmp_path / "a.insitu")
    with pytest.raises(DataError, match="unknown kind of learner"):
        insitu.open(tmp_path / "a.bin")


# --- hostile files --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved() -> bytes:
    made = learner(precision="int8", data=data()[0])
    made.fit(*data(), **COURSE)
    return learner_bytes(made)


def changed(saved: bytes, **members: bytes | None) -> bytes:
    """The file with members replaced, or left out (None)."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as z, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        found = {name: z.read(name) for name in z.namelist()}
        for name, content in {**found, **members}.items():
            if content is not None:
                new.writestr(name, content)
    return out.getvalue()


def about(saved: bytes, **fields) -> bytes:
    with zipfile.ZipFile(io.BytesIO(saved)) as z:
        found = json.loads(z.read("learner.json"))
    return changed(saved, **{"learner.json": json.dumps({**found, **fields}).encode()})


def test_two_thousand_mutations_open_or_are_one_error(saved):
    start, errors = time.process_time(), 0
    for broken in mutations(saved, 2000, seed=5):
        try:
            open_learner(broken)
        except ModelError as e:
            assert str(e).strip()
            errors += 1
    assert errors > 1500, "nearly every byte of a zip is checked"
    assert time.process_time() - start < 120


LIES = {
    "format": {"format": 2}, "recipe": {"recipe": {"clip": "a"}}, "a field of tomorrow": {"recipe": {"speed": 1}},
    "an optimizer": {"recipe": {"optimizer": "lion"}}, "scheme": {"scheme": {"updates": [{"layer": "no"}]}},
    "scheme type": {"scheme": []}, "batch": {"batch": 0}, "huge batch": {"batch": 1 << 40}, "bool": {"batch": True},
    "at once": {"at_once": 1}, "head": {"head": "x"}, "notes": {"notes": [1]}, "state": {"state": ["a"]},
    "no state": {"state": []}, "state type": {"state": 3}, "loss": {"recipe": {"loss": "zero"}},
    "gradients": {"recipe": {"grad": "s4"}}, "clip": {"recipe": {"clip": -1.0}},
    "a share that takes minutes": {"scheme": {"updates": [{"layer": "no", "share": "1e9999999"}]}},
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_a_file_says_of_itself_is_checked(lie, saved):
    start = time.process_time()
    with pytest.raises(ModelError):
        open_learner(about(saved, **LIES[lie]))
    assert time.process_time() - start < 5


def test_a_note_in_a_file_does_nothing_to_a_terminal(saved):
    assert open_learner(about(saved, notes=["\x1b[2Ja\nnote: b"])).notes == (r"\x1b[2Ja\nnote: b",)


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", 3, "a" * 300])
def test_a_schemes_name_is_a_line_of_text(name, saved):
    with zipfile.ZipFile(io.BytesIO(saved)) as z:
        scheme = json.loads(z.read("learner.json"))["scheme"]
    with pytest.raises(ModelError, match="its name is"):
        open_learner(about(saved, scheme={**scheme, "name": name}))
    assert open_learner(about(saved, scheme={**scheme, "name": "mine"})).parts.scheme.name == "mine"


def test_missing_and_wrong_members_are_errors(saved):
    with zipfile.ZipFile(io.BytesIO(saved)) as z:
        names = z.namelist()
    for name in names:
        for content in (None, b"", b"nonsense"):
            with pytest.raises(ModelError):
                open_learner(changed(saved, **{name: content}))


def test_a_bomb_is_refused_before_it_is_unpacked():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("learner.json", b" " * (1 << 25))
        with z.open(zipfile.ZipInfo("model.insitu"), "w", force_zip64=True) as member:
            for _ in range(9):
                member.write(bytes(1 << 27))
    start = time.process_time()
    with pytest.raises(Error):
        open_learner(out.getvalue())
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["fit", "evaluate", "partial_fit"])
def test_a_loaded_model_says_what_opens_the_learner(name, tmp_path):
    model = insitu.load(learner().save(tmp_path / "own.insitu"))
    with pytest.raises(AttributeError, match=r"a Model has no '\w+': a learner has one. insitu.open\("):
        getattr(model, name)
    with pytest.raises(AttributeError, match="a Model has no 'colour'$"):
        _ = model.colour  # type: ignore[attr-defined]
    assert len(copy.deepcopy(model).graph.nodes) == len(model.graph.nodes)


def test_a_model_that_has_predicted_can_be_copied_and_pickled(tmp_path):
    model, x = insitu.load(learner().save(tmp_path / "own.insitu")), data()[0]
    expected = model.predict(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(x), expected)

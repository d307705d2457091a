"""The life of a learner: collect, label, rehearse with guards, add and forget classes, for every kind of model."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.devices.device import Updates
from insitu.errors import DataError, GraphError
from insitu.learner.rows import rows_in_use
from insitu.store.bout import FIRST_RATE, falling
from insitu.store.rules import NONE, Ledger
from insitu.training.newcomer import row_from_mean
from tests.learner.test_rows import NEW, digits, nine_digits, scores
from tests.learners import data, imported
from tests.store.lives import CLASSES, KINDS, bytes_of, learner, lived, model_of, samples

KIND = "mlp last:1 int8"


@pytest.mark.parametrize("kind", KINDS)
def test_a_life_works_with_no_options_at_all(kind: str):
    one = learner(kind)
    x, y = samples(model_of(kind), 60)
    ids = one.observe(x[:50], y[:50])
    later = one.observe(x[50])
    assert ids == list(range(1, 51)) and later == 51 and one.asks() == [51]
    assert one.label(later, int(y[50])) and one.asks() == []
    before = bytes_of(one)
    told = one.rehearse(steps=40)
    assert told.finished and told.steps == 40 and told.guards >= 4
    assert bytes_of(one) != before or told.rolled_back
    assert one.drift() >= 0 and one.statistics()["bouts"] == 1


@pytest.mark.parametrize("kind", ["mlp head", "mlp last:1 int8", "1-D last:1 int8", "2-D full float"])
def test_learning_from_latents_equals_learning_from_samples_byte_for_byte(kind: str):
    one, other = learner(kind), learner(kind)
    x, y = samples(model_of(kind))
    life = one.keep()
    ids = one.observe(x, y)
    order, ledger = [], copy.deepcopy(life.store.ledger)
    ledger.begin()
    for _ in range(50):
        record = ledger.lesson()
        assert record is not None
        order.append(ids.index(record.id))
    told = one.rehearse(steps=50, rate=0.01)
    inputs = one.samples(x, y)
    rates = falling(FIRST_RATE * 0.01, 50, 50)[:-1]
    other.device.train(Updates((*inputs.inputs, inputs.labels), order, rates))  # type: ignore[arg-type]
    assert bytes_of(one) == bytes_of(other) or told.rolled_back
    assert not told.rolled_back


def test_a_bout_with_pauses_equals_one_without(tmp_path: Path):
    whole, paused = learner(KIND), learner(KIND)
    lived(whole, KIND)
    lived(paused, KIND, path=tmp_path / "life")
    assert whole.rehearse(steps=100).finished
    told, calls = paused.rehearse(steps=100, seconds=0.0), 1
    state = bytes_of(paused)
    while not told.finished and calls < 20:
        assert bytes_of(paused) == state, "it predicts as before until the guards have judged"
        paused.close()
        paused = learner(KIND)  # another process would do the same
        paused.keep(tmp_path / "life")
        told, calls = paused.rehearse(seconds=0.0), calls + 1
    assert calls == 7 and bytes_of(paused) == bytes_of(whole)
    assert paused.life.store.ledger == whole.life.store.ledger


def test_everything_survives_the_end_of_the_process(tmp_path: Path):
    one = learner(KIND)
    life = lived(one, KIND, path=tmp_path / "life")
    one.rehearse(steps=30)
    x, _ = samples(model_of(KIND), 5, seed=9)
    one.observe(x)
    kept, state, drift = life.store.ledger, bytes_of(one), life.drift_
    one.close()
    again = learner(KIND)
    life = again.keep(tmp_path / "life")
    assert bytes_of(again) == state and life.store.ledger == kept and again.known == one.known
    assert life.drift_.to_bytes() == drift.to_bytes() and again.statistics()["bouts"] == 1
    assert again.rehearse(steps=10).steps == 10


def test_a_harmful_bout_is_rolled_back_and_the_next_one_is_slower():
    one = learner("mlp head")
    x, y = data(300)
    one.fit(x, y)
    one.keep()
    one.observe(x[:200], y[:200])
    state = bytes_of(one)
    told = one.rehearse(steps=64, rate=1000.0)
    assert told.rolled_back and bytes_of(one) == state
    assert one.statistics()["rolled_back"] == 1 and one.life.record.pace == 0.5
    assert not one.rehearse(steps=64).rolled_back and one.life.record.pace == 1.0


def test_guards_are_never_learned_from():
    one = learner(KIND)
    life = lived(one, KIND)
    one.rehearse(steps=200)
    records = life.store.ledger.records.values()
    assert sum(r.uses for r in records if not r.guard) == 200 and all(r.uses for r in records if not r.guard)
    assert all(r.uses == 1 for r in records if r.guard)  # the bout that they judged


def test_the_store_follows_the_rules():
    one, ledger = learner(KIND), Ledger(30)
    one.keep(count=30)
    x, y = samples(model_of(KIND), 100)
    for i, (sample, label) in enumerate(zip(x, y)):
        one.observe(sample, None if i % 3 else int(label))
        ledger.observe(NONE if i % 3 else int(label))
    kept = one.life.store.ledger
    assert kept.next_id == 101 and set(kept.records) == set(ledger.records)


# classes ----------------------------------------------------------------------------------------


def test_a_class_added_by_name_takes_part_and_the_others_stay(tmp_path: Path):
    one = nine_digits().on("host")
    one.lately = nine_digits().lately
    before, d = scores(one)[0], digits()
    life = one.keep(tmp_path / "life")
    assert life.store.ledger.labelled.total() == 9 * 64, "it begins with some of what it was fitted to"
    program = one.program
    assert one.add_class("nine") == NEW and not rows_in_use(one)[NEW]
    one.observe(d.x_train[d.y_train == NEW][:20], ["nine"] * 20)
    old, new = scores(one)
    assert one.program is program and old >= before - 1 and new > 60
    state = bytes_of(one)
    one.close()
    again = nine_digits().on("host")
    again.keep(tmp_path / "life")
    assert bytes_of(again) == state and again.names[NEW] == "nine", "its row was not in a checkpoint yet"
    assert again.rehearse(steps=1, rate=1e6).rolled_back and bytes_of(again) == state, "it lost its own guards"
    rows = again.device.state()["head.weight"]
    assert not again.rehearse().rolled_back
    changed = (again.device.state()["head.weight"] != rows).any(1)
    assert np.flatnonzero(changed).tolist() == [NEW], "a bout that was dropped taught nothing: the class is still new"
    old, new = scores(again)
    assert old >= before - 1 and new > 80
    assert again.forget("nine") == 20 and scores(again)[1] == 0 and not rows_in_use(again)[NEW]
    assert "nine" not in again.names and NEW not in again.life.store.means.means


def test_a_class_beyond_the_room_makes_the_program_again(tmp_path: Path):
    one = learner("mlp head")
    life = lived(one, "mlp head", path=tmp_path / "life")
    assert one.add_class("wave") == 4 and one.classes == 5
    x, _ = samples(model_of("mlp head"), 10, seed=5)
    one.observe(x + 3, ["wave"] * 10)
    assert rows_in_use(one)[4] and (one.predict(x + 3).argmax(1) == 4).mean() > 0.5
    assert one.rehearse(steps=32).finished and len(life.store) == 70
    saved, state = one.save(tmp_path / "grown.insitu"), bytes_of(one)
    one.close()
    again = insitu.open(saved)
    assert len(again.keep(tmp_path / "life").store) == 70
    assert again.names[4] == "wave" and bytes_of(again) == state
    again.close()
    first = learner("mlp head")  # as it was compiled, after a crash before anything was saved: it grows again
    assert len(first.keep(tmp_path / "life").store) == 70
    assert first.names[4] == "wave" and bytes_of(first) == state


def test_a_store_that_was_marked_with_the_names_of_classes_goes_on(tmp_path: Path):
    def named() -> insitu.Learner:
        return insitu.compile(imported(), classes=["a", "b"], scheme="head", precision="float")

    one = named()
    life = one.keep(tmp_path / "life")
    assert life.mind.older != life.mind.model
    with life.store.changing():
        life.store.belong(life.mind.older)
    one.close()
    assert named().keep(tmp_path / "life").store.shape.model == life.mind.model


def test_a_learner_of_numbers_takes_no_class():
    one = insitu.compile(imported(), scheme="head", precision="float", recipe=insitu.Recipe(loss="mse"))
    with pytest.raises(GraphError, match="mse learns no classes"):
        one.add_class("wave")


def test_nothing_is_unlearned_because_a_class_has_no_samples():
    one = learner(KIND)
    x, y = samples(model_of(KIND), 60)
    one.keep()
    one.observe(x[y < 3], y[y < 3])
    state = bytes_of(one)
    told = one.rehearse()
    assert told.steps == 0 and "no samples of 3" in told.note and bytes_of(one) == state
    assert one.rehearse(steps=16, partial=True).steps == 16


# errors -----------------------------------------------------------------------------------------


def test_a_sample_in_place_of_an_id_is_not_shown():
    one, x = learner(KIND), samples(model_of(KIND), 1)[0]
    one.observe(x)
    with pytest.raises(DataError, match="no record whose id is of type ndarray") as error:
        one.label(x, 0)  # type: ignore[arg-type]
    assert len(str(error.value)) < 200 and "ids are those that `observe` returned" in error.value.hint


def test_a_life_says_what_it_is_like(tmp_path: Path):
    one, (x, y) = learner(KIND), samples(model_of(KIND), 40)
    life = one.keep(tmp_path / "life")
    one.observe(x[:30], y[:30])
    one.observe(x[30:])
    one.rehearse(steps=8)
    shown = repr(life)
    for words in (f"in       {tmp_path / 'life'}", "samples  40 of at most", "; 10 without a label", "bouts    1, 0 of",
                  f"guards   {one.statistics()['guards']}", "classes  0 "):  # fmt: skip
        assert words in shown, shown
    one.close_life()
    assert "closed" in repr(life)


def test_the_folder_of_a_life_is_not_mistaken_for_that_of_a_board(tmp_path: Path, capsys):
    one = learner(KIND)
    one.keep(tmp_path / "life")
    one.close_life()
    with pytest.raises(DataError, match="holds the life of a learner") as error:
        insitu.open(tmp_path / "life")
    assert "keep" in error.value.hint
    assert main(["info", str(tmp_path / "life")]) == 1
    assert "holds the life of a learner" in capsys.readouterr().err


def test_what_a_life_cannot_do_is_said_clearly(tmp_path: Path):
    one = learner(KIND)
    life = one.keep(tmp_path / "life")
    with pytest.raises(DataError, match="has a life already"):
        one.keep()
    with pytest.raises(DataError, match=r"another learner is using it \(process \d+\)"):
        learner(KIND).keep(tmp_path / "life")
    with pytest.raises(DataError, match="no record 77"):
        one.label(77, 0)
    with pytest.raises(DataError, match="2 samples, but 3 labels"):
        one.observe(samples(model_of(KIND), 2)[0], [0, 1, 2])
    with pytest.raises(DataError, match="no class 9"):
        one.observe(samples(model_of(KIND), 1)[0], 9)
    for wrong, why in ((1.7, "integer"), (float("nan"), "integer"), ([1], "integer"), (True, "integer"), ("", "named")):
        with pytest.raises(DataError, match=why):
            one.observe(samples(model_of(KIND), 1)[0], [wrong])
    with pytest.raises(DataError, match="must be an integer"):
        one.asks("2")
    assert one.observe(samples(model_of(KIND), 3)[0][:0]) == []
    assert one.rehearse().note == "no labelled samples to learn from"
    life.close()
    with pytest.raises(DataError, match="quota must be a number of bytes"):
        learner(KIND).keep(quota=None)
    with pytest.raises(DataError, match="another model"):
        learner("mlp head").keep(tmp_path / "life")
    targets = insitu.compile(imported(), scheme="full", precision="float",
                             recipe=insitu.Recipe(loss="mse"))  # fmt: skip
    with pytest.raises(GraphError, match="loss mse has none"):
        targets.keep()


def test_a_row_that_no_class_uses_takes_no_samples():
    """Its bias is -1e9: one lesson of it would ruin the head."""
    x, _ = samples(model_of("mlp head"), 12)
    one = insitu.compile(imported(), classes=CLASSES, max_classes=CLASSES + 2, precision="float")
    one.keep()
    with pytest.raises(DataError, match=r"class 4 is not in use\n.*add_class"):
        one.observe(x[:1], CLASSES)
    id = one.observe(x[:1])
    with pytest.raises(DataError, match="class 5 is not in use"):
        one.label(id, CLASSES + 1)
    assert one.add_class("more") == CLASSES
    assert one.label(id, CLASSES) and one.observe(x[1:2], "more")


def test_a_fit_in_the_middle_of_a_bout_ends_the_bout():
    one = learner(KIND)
    lived(one, KIND)
    assert not one.rehearse(steps=100, seconds=0.0).finished
    x, y = samples(model_of(KIND), 60)
    one.fit(x, y, epochs=1, rate=0.01)
    state = bytes_of(one)
    assert one.rehearse(steps=16).finished and one.statistics()["abandoned"] == 1
    assert bytes_of(one) != state


def test_export_and_erase(tmp_path: Path):
    one = learner(KIND)
    life = lived(one, KIND, path=tmp_path / "life", raw=True)
    x, y = samples(model_of(KIND), 60)
    with np.load(life.export(tmp_path / "all.npz")) as found:
        assert found["label"].tolist() == y.tolist() and found["guard"].sum() == life.store.ledger.guards.count
        (sample,) = (found[k] for k in found if k.startswith("sample_"))
        assert np.array_equal(sample, one.samples(x, y).inputs[0])
    latents = life.store.fetch(range(1, 61))
    life.erase()
    content = b"".join(p.read_bytes() for p in (tmp_path / "life").iterdir())
    assert not any(one in content for one in latents if one and len(one) > 3) and one.statistics()["records"] == 0
    with np.load(life.export(tmp_path / "none.npz")) as found:  # an empty store has its arrays, without samples
        assert {len(found[k]) for k in found if k != "names"} == {0} and any(k.startswith("sample_") for k in found)
    assert one.observe(x[0], 0) == 1


def test_an_encrypted_life_goes_on_with_its_key_only(tmp_path: Path):
    one = learner(KIND)
    lived(one, KIND, path=tmp_path / "life", key=b"k" * 32)
    one.rehearse(steps=16)
    state = bytes_of(one)
    one.close()
    body = state[16:]
    assert body not in b"".join(p.read_bytes() for p in (tmp_path / "life").iterdir())
    with pytest.raises(DataError, match="key is wrong"):
        learner(KIND).keep(tmp_path / "life", key=b"x" * 32)
    again = learner(KIND)
    again.keep(tmp_path / "life", key=b"k" * 32)
    assert bytes_of(again) == state


@pytest.mark.parametrize("bout", [False, True])
def test_a_new_class_takes_no_kept_sample_from_the_others(bout: bool):
    """Its row is made near that of another class, and would take many of its samples."""
    rng = np.random.default_rng(3)
    x, y = samples_around(rng, 40)
    one = insitu.compile(imported(), classes=4, scheme="head", precision="float", max_classes=5)
    one.fit(x, y)
    with one:
        life = one.keep()
        ids = sorted(i for i, r in life.store.ledger.records.items() if r.label != NONE)
        labels = np.array([life.store.ledger.records[i].label for i in ids])
        latents = [latent for latent in life.store.fetch(ids) if latent is not None]
        right = life.mind.recall(latents)[0].argmax(1) == labels
        new = one.add_class("new")
        one.observe(x[y == 0][:20] + rng.normal(0, 0.5, (20, x.shape[1])).astype(np.float32), ["new"] * 20)
        made = one.device.state()["head.bias"][new]
        if bout:
            assert not one.rehearse().rolled_back
        life.mind.follow()
        after = life.mind.recall(latents)[0].argmax(1) == labels
        assert right.mean() > 0.8 and after[right].all()
        bare = row_from_mean(life.store.means.means[new], *trained_rows(one, life, new))[1]
        assert bout or made < bare, "its bias was lowered: else this test shows nothing"


def samples_around(rng: np.random.Generator, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of four classes, around four places."""
    y = np.repeat(np.arange(4), each)
    places = 2 * np.eye(4, 6, dtype=np.float32)
    return (places[y] + rng.normal(0, 0.5, (4 * each, 6))).astype(np.float32), y


def trained_rows(one: insitu.Learner, life: insitu.Life, new: int) -> tuple[list, list]:
    state, means = one.device.state(), life.store.means.means
    old = [k for k in sorted(means) if k != new]
    return [means[k] for k in old], [(state["head.weight"][k], state["head.bias"][k]) for k in old]


def test_ids_that_were_never_given_are_told_from_those_that_gave_way():
    one = learner(KIND)
    x, y = samples(model_of(KIND), 40)
    with one:
        one.keep(count=10)
        one.observe(x, y)
        gone = next(i for i in range(1, 41) if i not in one.life.store.ledger.records)
        with pytest.raises(DataError, match="gave way"):
            one.label(gone, 0)
        for never in (0, -1, 41, 10**30, "3", None):
            with pytest.raises(DataError, match="1 to 40 so far"):
                one.label(never, 0)


def test_a_guard_whose_label_was_corrected_judges_no_running_bout():
    one = learner(KIND)
    x, y = samples(model_of(KIND), 80)
    with one:
        life = one.keep()
        one.observe(x, y)
        assert not one.rehearse(seconds=0).finished and life.record.bout is not None
        guards = list(life.record.bout.guards)
        one.label(guards[0], (life.store.ledger.records[guards[0]].label + 1) % CLASSES)
        assert one.rehearse().guards == len(guards) - 1
        uses = [life.store.ledger.records[i].uses for i in guards]
        assert uses == [0] + [1] * (len(guards) - 1)


def test_a_class_that_could_not_be_saved_was_not_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk: the call fails, and can be made again when there is room."""
    one = insitu.compile(imported(), classes=4, scheme="head", precision="float", max_classes=6)
    with one:
        life = one.keep(tmp_path / "life")
        names, state = one.names, bytes_of(one)

        def full(*_):
            raise DataError("no space left", where="bank0")

        with monkeypatch.context() as patch, pytest.raises(DataError, match="no space"):
            patch.setattr("insitu.store.life.write_bank", full)
            one.add_class("new")
        assert [n for n in one.names if n] == [n for n in names if n] and not life.record.fresh
        assert bytes_of(one) == state
        assert one.add_class("new") == 4 and life.record.fresh == [4]

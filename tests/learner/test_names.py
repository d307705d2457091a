"""Class names from the data to the predictions: matched by name, never by position."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.errors import DataError, LearningWarning

from ..learners import data, learner, mlp

WORDS = np.array(["tap", "rest", "wave", "nod"])
COURSE = {"epochs": 8, "rate": 0.1}


def compiled(module=None, **options) -> insitu.Learner:
    options = {"precision": "float", "head_init": "uniform", "scheme": "full", **options}
    return insitu.compile(module or mlp(), example=torch.zeros(1, 6), **options)


def taught(**options) -> insitu.Learner:
    x, y = data(200)
    made = compiled(data=(x, WORDS[y]), **options)
    made.fit(x, WORDS[y], **COURSE)
    return made


def test_names_of_the_labels_are_the_learners(capsys):
    made = taught()
    assert made.names == ("nod", "rest", "tap", "wave")
    assert made.classes_.tolist() == ["nod", "rest", "tap", "wave"]
    assert "a new head for the 4 classes" in capsys.readouterr().err


def test_labels_in_another_order_and_fewer_classes_mean_the_same():
    made, (x, y) = taught(), data(200)
    few = np.isin(y, (0, 2))
    samples = insitu.Samples((x[few],), (y[few] == 0).astype(int), ("wave", "tap"))
    assert made.evaluate(samples)["accuracy"] == made.evaluate(x[few], WORDS[y[few]])["accuracy"] > 0.9


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    made, x = taught(), data()[0]
    with pytest.raises(DataError, match="no class named 'shake'") as error:
        made.fit(x, ["shake"] * len(x))
    assert "nod, rest, tap, wave" in str(error.value)
    assert made.add_class("shake") == 4 and made.names[-1] == "shake"
    made.fit(x, ["shake"] * len(x), **COURSE)
    with pytest.raises(DataError, match="two classes"):
        made.add_class("tap")


def test_an_empty_folder_is_no_class_that_a_learner_has_to_know():
    made, (x, y) = taught(), data(200)
    names = ("empty", "nod", "rest", "tap", "wave")
    samples = insitu.Samples((x,), np.array([names.index(n) for n in WORDS[y]]), names)
    made.fit(samples, **COURSE)
    assert made.names == ("nod", "rest", "tap", "wave") and made.evaluate(samples)["accuracy"] > 0.9


def test_names_given_at_compile_keep_their_order():
    made = compiled(classes=["wave", "tap", "rest", "nod"])
    assert made.names == ("wave", "tap", "rest", "nod") and made.classes == 4
    x, y = data()
    made.fit(x, WORDS[y], **COURSE)
    assert made.names == ("wave", "tap", "rest", "nod")
    for bad in (["a", "a"], [], "wave", ["a", ""]):
        with pytest.raises(DataError):
            compiled(classes=bad)


def test_a_learner_without_names_takes_those_of_the_first_labels():
    made, (x, y) = compiled(classes=4), data()
    assert made.names == () and made.classes_.tolist() == [0, 1, 2, 3]
    some = np.isin(y, (0, 2))
    made.fit(x[some], WORDS[y[some]], **COURSE)
    assert made.names == ("tap", "wave", "", "")
    made.fit(x, WORDS[y], **COURSE)
    assert set(made.names) == set(WORDS) and made.names[:2] == ("tap", "wave")


def test_names_alone_do_not_tell_a_nameless_model_its_classes():
    x, y = data()
    with pytest.raises(DataError, match="does not name its classes"):
        compiled(classes=4).evaluate(x, WORDS[y])
    assert compiled(classes=4).evaluate(x, y.astype(str)) == compiled(classes=4).evaluate(x, y)


def test_a_model_that_knows_its_names_keeps_its_head():
    x, y = data()
    model = insitu.load(mlp(), torch.zeros(1, 6), classes=["tap", "rest", "wave", "nod"])
    made = insitu.compile(model, data=(x, WORDS[y]), precision="float", scheme="full")
    np.testing.assert_allclose(made.predict(x), model.predict(x), rtol=1e-5, atol=1e-6)
    assert made.names == model.classes
    with pytest.raises(DataError, match="2 names for 4 classes"):
        insitu.load(mlp(), torch.zeros(1, 6), classes=["a", "b"])


def skilled() -> nn.Module:
    """A network that knows the classes of `data` in the order of its outputs: the first four coordinates."""
    made = mlp()
    with torch.no_grad():
        for layer, scale in zip((made[0], made[2], made[4]), (1.0, 1.0, 3.0)):
            layer.weight.zero_()
            layer.bias.zero_()
            for k in range(4):
                layer.weight[k, k] = scale
                layer.bias[k] = 4 if layer is not made[4] else 0
    return made


def test_names_for_a_model_that_knows_its_classes_keep_its_head(capsys):
    x, y = data(200)
    words = np.array(["a_tap", "b_rest", "c_wave", "d_nod"])  # in the order of its outputs
    made = insitu.compile(skilled(), example=torch.zeros(1, 6), data=(x, words[y]), precision="float")
    assert "a_tap, b_rest, c_wave, d_nod in this order, it is right for 100.0%" in capsys.readouterr().err
    assert made.names == tuple(words) and made.evaluate(x, words[y])["accuracy"] == 1.0
    given = insitu.compile(skilled(), example=torch.zeros(1, 6), classes=words.tolist(), precision="float")
    assert given.evaluate(x, words[y])["accuracy"] == 1.0 and "own classifier stays" in capsys.readouterr().err


def test_the_samples_tell_the_order_of_a_models_own_classes(capsys):
    x, y = data(200)
    words = np.array(["d", "b", "c", "a"])  # not in alphabetical order
    made = insitu.compile(skilled(), example=torch.zeros(1, 6), data=(x, words[y]), precision="float")
    assert "outputs named d, b, c, a in this order, it is right for 100.0%" in capsys.readouterr().err
    assert made.names == tuple(words) and made.evaluate(x, words[y])["accuracy"] == 1.0


def test_other_classes_start_a_new_head_unless_told_otherwise(capsys):
    x, y = data(200)
    words = np.array(["d", "c", "b", "a"])
    other = np.random.default_rng(0).permutation(words[y])  # which it knows nothing about
    made = insitu.compile(skilled(), example=torch.zeros(1, 6), data=(x, other), precision="float")
    assert "a new head: the model's own classifier only guesses" in capsys.readouterr().err
    assert not made.predict(x).any()  # it starts from zeros
    options = {"data": (x, other), "classes": words.tolist(), "precision": "float"}
    kept = insitu.compile(skilled(), example=torch.zeros(1, 6), head_init="own", **options)
    assert kept.evaluate(x, words[y])["accuracy"] == 1.0
    anew = insitu.compile(skilled(), example=torch.zeros(1, 6), head_init="zero", **options)
    assert not anew.predict(x).any() and anew.names == tuple(words)
    with pytest.raises(DataError, match="has 4 classes, not 3"):
        insitu.compile(skilled(), example=torch.zeros(1, 6), head_init="own", classes=3, precision="float")


def test_numbers_as_labels_of_named_classes_are_positions_and_said_once(capsys):
    x, y = data()
    made = compiled(classes=["tap", "rest", "wave", "nod"])
    made.fit(x, y, **COURSE)
    made.evaluate(x, y)
    assert capsys.readouterr().err.count("0 is tap, 1 is rest, 2 is wave, 3 is nod") == 1
    assert made.evaluate(x, WORDS[y]) == made.evaluate(x, y)


def test_numbers_as_labels_of_classes_named_by_numbers_are_names(capsys):
    x, y = data()
    made = compiled(classes=["3", "5", "7", "9"])
    made.fit(x, 2 * y + 3, **COURSE)
    assert made.evaluate(x, 2 * y + 3) == made.evaluate(x, (2 * y + 3).astype(str))
    assert "positions" not in capsys.readouterr().err
    with pytest.raises(DataError, match="no class named '0'"):
        made.evaluate(x, y)


def test_classes_follow_from_the_data_with_a_note(capsys):
    x, y = data()
    wide = mlp(classes=40)
    assert compiled(wide, data=(x, y)).classes == 4
    assert "a new head with 4 classes (the model's own has 40" in capsys.readouterr().err
    assert compiled(wide, data=(x, y), classes=40).classes == 40
    assert compiled(data=(x, np.minimum(y, 2))).classes == 4, "three of four: its own"
    assert compiled(data=(x, y + 4)).classes == 8
    assert compiled(wide, data=x).classes == 40
    assert capsys.readouterr().err.count("note:") == 1


@pytest.mark.parametrize("labels, said", [
    (lambda y: y + 1, "with 5 classes (the model's own has 4); only 4 of these numbers occur: y.astype(str) takes"),
    (lambda y: 10 * y, "with 31 classes (the model's own has 4); only 4 of these numbers occur"),
    (lambda y: y + (y == 3), "with 5 classes (the model's own has 4)\n"),
])  # fmt: skip
def test_numbers_that_may_be_names_are_said_to_be(labels, said, capsys):
    x, y = data()
    assert compiled(data=(x, labels(y).astype(str))).classes == 4
    capsys.readouterr()
    compiled(data=(x, labels(y)))
    assert said in capsys.readouterr().err


def test_numbers_that_are_too_large_for_classes_are_an_error():
    x, y = data()
    with pytest.raises(DataError, match="labels go up to 3,000,000, which is too far for class numbers") as error:
        compiled(data=(x, 1_000_000 * y))
    assert error.value.hint.startswith("only 4 of these numbers occur: y.astype(str) takes them for names")


@pytest.mark.parametrize("names", [["1", "2", "3", "4"], ["10", "20", "30", "40"]])
def test_numbers_are_names_when_the_models_own_classifier_is_looked_at(names, tmp_path, capsys):
    """As many names as the model has outputs: its classifier stays if it is right, by the same names as in fit."""
    x, y = data(200)
    knowing = compiled(data=(x, y))
    knowing.fit(x, y, **COURSE)
    knowing.save(tmp_path / "knowing.insitu")
    model, labels = insitu.load(tmp_path / "knowing.insitu"), int(names[0]) * (y + 1)
    made = insitu.compile(model, data=(x, labels), classes=names, precision="float")
    assert "the model's own classifier stays" in capsys.readouterr().err
    assert made.evaluate(x, labels) == knowing.evaluate(x, y)


@pytest.mark.parametrize("classes", [4, ["tap", "rest", "wave", "nod"]])
@pytest.mark.parametrize("shift", [1, -1])
def test_labels_outside_as_many_classes_as_outputs_are_an_error_of_compile(classes, shift):
    x, y = data()
    with pytest.raises(DataError, match=r"labels are -?\d..\d, but the model has classes 0..3"):
        insitu.compile(mlp(), data=(x, y + shift), classes=classes)


@pytest.mark.parametrize("loss", ["mse", "binary_cross_entropy", "soft_cross_entropy"])
def test_targets_say_nothing_about_the_models_own_classes(loss, capsys):
    x, y = data()
    targets = np.eye(4, dtype=np.float32)[y]
    made = insitu.compile(mlp(), data=(x, targets), classes=4, recipe=insitu.Recipe(loss=loss))
    assert "a new head of 4 classes" in capsys.readouterr().err
    assert made.fit(x, targets, epochs=1, rate=0.01).updates == len(x)


def test_classify_gives_names_and_probabilities():
    made, (x, y) = taught(), data(200)
    found = made.classify(x[:5])
    assert [next(iter(each)) for each in found] == WORDS[y[:5]].tolist()
    for each in found:
        assert sum(each.values()) == pytest.approx(1) and list(each.values()) == sorted(each.values(), reverse=True)
    (one,) = made.classify(x[0], top=2)
    assert list(one) == list(found[0])[:2]
    scores = torch.softmax(torch.tensor(made.predict(x[:1])), 1)[0].numpy()
    assert made.classify(x[:1])[0] == pytest.approx(dict(zip(made.names, scores)), rel=1e-4)


def test_classify_reads_what_predict_reads(tmp_path):
    made, (x, y) = taught(), data(40)
    assert made.classify(x[:0]) == made.classify([]) == []
    for top in (0, -1, 1.5):
        with pytest.raises(DataError, match="top must be an integer >= 1"):
            made.classify(x, top=top)
    np.savez(tmp_path / "x.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    assert made.classify(tmp_path / "x.npz") == made.classify(x[30:])
    lines = [",".join(map(str, row)) + ",rest" for row in x[:3].tolist()]
    (tmp_path / "x.csv").write_text("\n".join(["a,b,c,d,e,f,label", *lines, ",1,1,1,1,1,rest"]))
    with pytest.raises(DataError, match=r"line 5, column 1 \(a\): is empty"):
        made.classify(tmp_path / "x.csv")


@pytest.mark.parametrize("end", [nn.Softmax(1), nn.LogSoftmax(1), nn.Identity()])
def test_a_softmax_of_the_model_is_not_applied_twice(end):
    x, _ = data()
    logits = mlp()(torch.tensor(x[:1]))
    model = insitu.load(nn.Sequential(mlp(), end).eval(), torch.zeros(1, 6), classes=WORDS.tolist())
    wanted = torch.softmax(logits, 1)[0].detach().numpy()
    assert model.classify(x[0])[0] == pytest.approx(dict(zip(WORDS, wanted)), rel=1e-4)


def test_one_score_is_yes_or_no():
    model = insitu.load(mlp(classes=1), torch.zeros(1, 6))
    (found,) = model.classify(data()[0][0])
    yes = torch.sigmoid(mlp(classes=1)(torch.tensor(data()[0][:1])))[0, 0].item()
    assert found == pytest.approx({"0": 1 - yes, "1": yes}, rel=1e-4)


def test_lists_and_strings_are_taken_by_fit():
    x, y = data()
    one, other = learner(), learner()
    one.fit(x.tolist(), y.tolist(), **COURSE)
    other.fit(x, y, **COURSE)
    np.testing.assert_array_equal(one.predict(x), other.predict(x))
    assert np.shape(one.predict(x[0])) == (1, 4)


def test_outputs_without_names_get_those_of_the_samples_they_know():
    x, y = data(300)
    module = mlp()
    optimizer = torch.optim.Adam(module.parameters(), 0.02)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(y, dtype=torch.long)).backward()
        optimizer.step()
    for count in (1, 12, 200):
        made = insitu.compile(module.eval(), example=torch.zeros(1, 6), precision="float")
        assert made.names == () and made.evaluate(x, y)["accuracy"] > 0.95
        some = np.flatnonzero(made.predict(x).argmax(1) == y)[:count]
        made.partial_fit(x[some], WORDS[y[some]], rate=1e-4)
        assert all(made.names[k] == WORDS[k] for k in set(y[some]))
    assert made.evaluate(x, WORDS[y])["accuracy"] > 0.95
    tall = nn.Sequential(module, nn.Unflatten(1, (1, 4)))  # scores of a higher rank: [1, 1, 4]
    made = insitu.compile(tall.eval(), example=torch.zeros(1, 6), precision="float", scheme="full")
    made.partial_fit(x[some], WORDS[y[some]], rate=1e-4)
    assert all(made.names[k] == WORDS[k] for k in set(y[some]))


@pytest.mark.parametrize("classes", [4, None])
def test_a_fit_with_one_class_by_mistake_takes_no_name(classes):
    made, (x, y) = compiled(classes=classes), data(80)
    with pytest.warns(LearningWarning, match="one class"):
        made.fit(x, ["train"] * len(x))
    assert not any(made.names)
    made.fit(x, WORDS[y], **COURSE)
    assert sorted(made.names) == sorted(WORDS)


def test_answers_for_several_outputs_are_refused_with_a_way_out_that_works():
    class Two(nn.Module):
        def __init__(self, joined: bool):
            super().__init__()
            self.body, self.joined = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), joined
            self.first, self.second = nn.Linear(16, 1), nn.Linear(16, 2)

        def forward(self, x):
            both = self.first(h := self.body(x)), self.second(h)
            return torch.cat(both, 1) if self.joined else both

    x, options = data(120)[0], {"recipe": insitu.Recipe(loss="mse")}
    targets = x[:, :1] + x[:, 1:2], np.abs(x[:, 2:4])
    made = compiled(Two(False).eval(), head_init=None, **options)
    for given in (targets, list(targets), {"first": targets[0], "second": targets[1]}):
        with pytest.raises(DataError, match=r"answers for 2 outputs.*one output is learned \(first\)") as e:
            made.fit(x, given)
        assert "torch.cat(outputs, 1)" in e.value.hint and "np.hstack(targets)" in e.value.hint
    joined, answers = compiled(Two(True).eval(), head_init=None, **options), np.hstack(targets)
    joined.fit(x, answers)
    assert (np.square(joined.predict(x) - answers).mean(0) < 0.1 * answers.var(0)).all()


def test_room_for_classes_is_not_counted_as_classes():
    made = learner("last:1", precision="float", max_classes=6, classes=["wave", "tap", "rest", "nod"])
    assert "4 of 6: wave, tap, rest, nod" in str(made)

"""The learner: the same bytes whichever way it runs, and a clear error with nothing changed if it cannot run."""

import time
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu import DataError, Recipe
from insitu.demo import TARGET, digits
from insitu.devices.device import Updates
from insitu.learner.course import Course, cosine
from insitu.learner.pace import Pace

from ..learners import data, learner, mlp, state_of

# --- learning -------------------------------------------------------------------------------------------


def test_it_learns():
    x, y = data(200)
    made = learner()
    history = made.fit(x, y, epochs=10, rate=0.1)
    assert history.loss[-1] < 0.2 < history.loss[0]
    assert made.evaluate(x, y)["accuracy"] > 0.95


def test_a_step_a_sample_follows_torch():
    x, y = data(20)
    module = mlp()
    made = learner(classes=None, module=module)
    made.fit(x, y, epochs=2, rate=0.1, schedule="constant", warmup=0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for epoch in range(2):
        for n in Course(2, 0.1, 1, "constant", 0, 0).order(epoch, 20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(torch.tensor(x[n : n + 1])), torch.tensor(y[n : n + 1])).backward()
            optimizer.step()
    with torch.no_grad():
        np.testing.assert_allclose(made.predict(x), module(torch.tensor(x)).numpy(), atol=1e-4)


def test_a_batch_follows_torch_the_last_smaller_one_too():
    x, y = data(20)
    module = mlp()
    made = learner(batch=8, classes=None, module=module)
    made.fit(x, y, epochs=1, batch=8, rate=0.5, schedule="constant", warmup=0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    order = Course(1, 0.5, 8, "constant", 0, 0).order(0, 20)
    for start in range(0, 20, 8):
        part = order[start : start + 8]
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(x[part])), torch.tensor(y[part])).backward()
        optimizer.step()
    with torch.no_grad():
        np.testing.assert_allclose(made.predict(x), module(torch.tensor(x)).numpy(), atol=1e-4)


def test_an_autoencoder_learns_towards_its_input():
    x, _ = data(50)
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
    made = learner(module=module, classes=None, recipe=Recipe(loss="mse"))
    before = made.evaluate(x)["error"]
    made.fit(x, epochs=10, rate=0.05)
    assert made.evaluate(x)["error"] < before / 2


def test_errors_are_per_target_in_its_unit_and_evaluate_has_the_mean_of_their_squares():
    x, _ = data(20)
    y = (x[:, :4] * [1, 10, 100, 1000]).astype(np.float32)
    made = learner(classes=None, recipe=Recipe(loss="mse"))
    off = np.asarray(made.predict(x), np.float64) - y
    found = made.errors(x, y)
    assert list(found) == ["0", "1", "2", "3"]
    np.testing.assert_allclose(list(found.values()), np.sqrt((off**2).mean(0)), rtol=1e-6)
    assert made.evaluate(x, y)["error"] == pytest.approx(np.mean(np.square(list(found.values()))))
    with pytest.raises(DataError, match="a classifier has no errors"):
        learner().errors(*data(20))


# --- the same bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("scheme", ["head", "last:1", "bias:1"])
def test_the_cached_prefix_changes_nothing(scheme, batch):
    x, y = data()
    states = []
    for cache in (True, False):
        made = learner(scheme, batch)
        history = made.fit(x, y, epochs=2, rate=0.1, batch=batch, cache=cache)
        assert history.cached == cache
        states.append(state_of(made))
    assert states[0] == states[1]


def test_a_fit_says_whether_it_began_at_cached_outputs():
    x, y = data()
    history = learner("full").fit(x, y)
    assert not history.cached and "cached" not in str(history)
    assert "cached" in str(learner("head").fit(x, y))


def shifted(x, rng):
    return x + rng.normal(size=x.shape).astype(np.float32)


def test_cached_views_are_the_views_of_uncached_training():
    x, y = data()
    states = []
    for cache in (True, False):
        made = learner("last:1")
        assert made.fit(x, y, epochs=5, rate=0.1, augment=shifted, views=3, cache=cache).cached == cache
        states.append(state_of(made))
    assert states[0] == states[1]


def test_an_augmentation_without_views_is_new_each_epoch_and_never_cached():
    x, y = data(5)
    seen = []

    def spy(one, rng):
        seen.append(float(rng.random()))
        return one

    assert not learner("head").fit(x, y, epochs=2, augment=spy).cached
    assert len(set(seen)) == 10
    with pytest.raises(DataError, match="fixed views"):
        learner("head").fit(x, y, augment=spy, cache=True)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_results_do_not_depend_on_the_number_of_threads(threads, optimizer):
    x, y = data(50)
    one, many = (learner(batch=20, recipe=Recipe(optimizer=optimizer)) for _ in range(2))
    one.fit(x, y, epochs=2, rate=0.01, batch=20, threads=1)
    assert many.fit(x, y, epochs=2, rate=0.01, batch=20, threads=threads).threads == threads
    assert state_of(one) == state_of(many)


@pytest.mark.parametrize("threads", [1, 2])
def test_counters_that_are_full_stay_so_whoever_adds_them_up(threads):
    x, y = data(8)
    made, most = learner(batch=8), np.iinfo(np.int32).max
    infinite = np.array([np.inf, 0, 0, 0], np.float32)  # each sample is skipped
    made.device.load_arrays({"counters": np.full(3, most, np.int32), "head.bias": infinite})
    made.fit(x, y, rate=0.1, batch=8, threads=threads)
    assert set(made.counters().values()) == {most}


def test_a_batch_on_the_host_has_the_bytes_of_the_device_program_called_one_by_one():
    x, y = data(8)
    made, plain = learner(batch=8), learner(batch=8)
    made.fit(x, y, epochs=1, rate=0.1, batch=8, schedule="constant", warmup=0, threads=2)
    for n in Course(1, 0.1, 8, "constant", 0, 0).order(0, 8):
        plain.device.run("accumulate", x[n : n + 1], y[n : n + 1].astype(np.int32))
    plain.device.run("apply", np.float32(0.1), np.float32(1 / 8))
    assert state_of(made) == state_of(plain)


@pytest.mark.parametrize("batch, optimizer", [(1, "sgd"), (1, "momentum"), (8, "adam")])
@pytest.mark.parametrize("scheme", ["full", "last:1"])
def test_resuming_equals_an_uninterrupted_run(tmp_path, batch, optimizer, scheme):
    x, y = data()
    settings = {"epochs": 5, "rate": 0.02, "batch": batch, "augment": shifted, "views": 2}
    whole, first, second = (learner(scheme, batch, recipe=Recipe(optimizer=optimizer)) for _ in range(3))
    whole.fit(x, y, **settings)
    first.fit(x, y, **settings, stop_epoch=2)
    second.load(first.save(tmp_path / "state.bin"))
    second.fit(x, y, **settings, start_epoch=2)
    assert state_of(second) == state_of(whole) != state_of(first)


def test_predicting_between_steps_changes_nothing():
    x, y = data()
    made = learner()
    made.fit(x, y, rate=0.1)
    before = state_of(made)
    made.predict(x)
    made.evaluate(x, y)
    assert state_of(made) == before


def test_validation_changes_nothing_and_is_what_evaluate_gives():
    x, y = data()
    with_, without = learner("last:1"), learner("last:1")
    history = with_.fit(x, y, epochs=3, rate=0.1, validation=(x, y))
    without.fit(x, y, epochs=3, rate=0.1)
    assert state_of(with_) == state_of(without)
    assert len(history.validation) == 3 and history.validation[-1] == with_.evaluate(x, y)["accuracy"]


# --- growing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_new_class_keeps_what_was_learned_and_can_be_learned(optimizer):
    x, y = data(100)
    made = learner("last:1", recipe=Recipe(optimizer=optimizer))
    made.fit(x, y, epochs=3, rate=0.02)
    before, old = made.predict(x), made.device.state()
    assert made.add_class() == 4 and made.classes == 5
    np.testing.assert_array_equal(made.predict(x)[:, :4], before)
    new = made.device.state()
    for name, array in old.items():
        np.testing.assert_array_equal(new[name][tuple(slice(n) for n in array.shape)], array)
    far = x + 10
    made.fit(np.concatenate([x, far]), np.concatenate([y, np.full(100, 4)]), epochs=5, rate=0.02)
    assert made.evaluate(far, np.full(100, 4))["accuracy"] > 0.9


@pytest.mark.parametrize("head_init", ["zero", "uniform", "prototypes", "own"])
def test_a_new_class_is_never_the_answer_before_it_was_learned(head_init):
    """A row of zeros won wherever all other outputs were negative: a head of prototypes fell from 76 to 70 %."""
    found = digits()
    samples = found.x_train[:60, ..., ::-1].copy(), found.y_train[:60]
    made = insitu.compile(TARGET, data=samples, classes=10, head_init=head_init, scheme="head")
    for fitted in (False, True):
        if fitted:
            made.fit(*samples, epochs=3, rate=0.01)
        before = made.predict(found.x_test)
        row = made.add_class()
        after = made.predict(found.x_test)
        np.testing.assert_array_equal(after[:, :row], before)
        assert (after[:, row] <= before.max(1) + 1e-4 * np.abs(before).max()).all()
        assert not np.ptp(before, axis=1).any() or (after.argmax(1) == row).mean() == 0


def on_a_board(**options) -> insitu.Learner:
    pytest.importorskip("elftools"), pytest.importorskip("ziglang")
    return learner("head", board="nrf52840", precision="int8", data=data()[0], **options)


def test_a_new_class_is_in_the_firmware_too():
    made = on_a_board()
    narrow = made.deployed
    made.add_class()
    assert made.deployed.program.plans["predict"].graph.outputs[0].shape == (1, 5)
    assert made.deployed.sram_bytes > narrow.sram_bytes and made.deployed.limits == narrow.limits
    assert made.deployed.firmware.image.data != narrow.firmware.image.data


def test_a_new_class_that_does_not_fit_the_board_is_an_error_and_changes_nothing():
    made = on_a_board(sram=on_a_board().deployed.sram_bytes)
    before = state_of(made), made.deployed
    with pytest.raises(insitu.BudgetError, match="of SRAM"):
        made.add_class()
    assert (state_of(made), made.deployed) == before and made.classes == 4


# --- bad input ------------------------------------------------------------------------------------------

X, Y = data(6)
NAN = np.where(np.arange(36).reshape(6, 6) == 20, np.nan, X).astype(np.float32)
BAD = {
    "a label too high": ((X, [0, 1, 2, 3, 4, 0]), {}, "classes 0..3"),
    "a negative label": ((X, [0, -1, 2, 3, 3, 0]), {}, "classes 0..3"),
    "names of too many classes": ((X, list("abcdef")), {}, "name 6 classes, but the model has 4"),
    "a label that is not finite": ((X, [0, np.nan, 1, 1, 1, 1]), {}, "finite"),
    "fractions as labels": ((X, [0.5] * 6), {}, "class numbers"),
    "no labels": ((X,), {}, "no labels"),
    "nothing": ((X[:0], Y[:0]), {}, "no samples"),
    "nothing to walk": (([],), {}, "no samples"),
    "too few labels": ((X, Y[:5]), {}, "inputs and labels differ"),
    "NaN": ((NAN, Y), {}, "sample 3"),
    "infinity": ((np.where(np.isnan(NAN), np.inf, NAN), Y), {}, "sample 3"),
    "another width": ((X[:, :5], Y), {}, "shape 6x5"),
    "words": ((X.astype(str), Y), {}, "must be numbers"),
    "a rate of NaN": ((X, Y), {"rate": float("nan")}, "learning rate"),
    "an infinite rate": ((X, Y), {"rate": float("inf")}, "learning rate"),
    "a negative rate": ((X, Y), {"rate": -0.1}, "learning rate"),
    "no epochs": ((X, Y), {"epochs": 0}, "epochs"),
    "a batch of none": ((X, Y), {"batch": 0}, "batch"),
    "a batch it was not made for": ((X, Y), {"batch": 4}, "after every sample"),
    "an unknown schedule": ((X, Y), {"schedule": "linear"}, "schedule"),
    "a warm-up of NaN": ((X, Y), {"warmup": float("nan")}, "warm-up"),
    "validation without labels": ((X, Y), {"validation": X}, "no labels"),
    "validation with a wrong label": ((X, Y), {"validation": (X, Y + 9)}, "classes 0..3"),
    "an augmentation that changes the shape": ((X, Y), {"augment": lambda x, rng: x[:, :3]}, "augmentation"),
    "an augmentation that changes the type": ((X, Y), {"augment": lambda x, rng: x.astype(float)}, "augmentation"),
    "a model": ((3.5,), {}, "float"),
}


@pytest.fixture(scope="module")
def trained():
    made = learner("last:1")
    made.fit(X, Y, rate=0.1)
    return made


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_clear_error_and_changes_nothing(trained, case):
    arguments, options, complaint = BAD[case]
    before = state_of(trained)
    with pytest.raises(insitu.Error, match=complaint):
        trained.fit(*(np.array(a) if isinstance(a, list) and a else a for a in arguments), **options)
    assert state_of(trained) == before


DAMAGE = {
    "truncated": lambda b: b[:-1],
    "longer": lambda b: b + b"\0",
    "empty": lambda b: b"",
    "header flipped": lambda b: bytes([b[0] ^ 1]) + b[1:],
    "model flipped": lambda b: b[:5] + bytes([b[5] ^ 1]) + b[6:],
    "size flipped": lambda b: b[:8] + bytes([b[8] ^ 1]) + b[9:],
    "checksum flipped": lambda b: b[:12] + bytes([b[12] ^ 1]) + b[13:],
    "first byte flipped": lambda b: b[:16] + bytes([b[16] ^ 1]) + b[17:],
    "last byte flipped": lambda b: b[:-1] + bytes([b[-1] ^ 128]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_state_is_an_error_and_changes_nothing(trained, tmp_path, damage):
    before = state_of(trained)
    path = tmp_path / "state.bin"
    path.write_bytes(DAMAGE[damage](before))
    with pytest.raises(DataError, match=r"state\.bin"):
        trained.load(path)
    assert state_of(trained) == before


def test_the_state_of_another_model_is_an_error(trained, tmp_path):
    before = state_of(trained)
    for name, other in (("scheme", learner("full")), ("classes", learner("last:1", classes=3))):
        with pytest.raises(DataError, match="saved with the scheme full|wrong size"):
            trained.load(other.save(tmp_path / f"{name}.bin"))
    with pytest.raises(DataError, match="cannot be read"):
        trained.load(tmp_path / "missing")
    assert state_of(trained) == before


def test_a_state_that_cannot_be_written_is_an_error_and_leaves_the_old_file(trained, tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        trained.save(tmp_path / "no folder" / "state.bin")


def test_a_loss_that_is_not_finite_is_skipped_and_counted():
    x, y = data(3)
    made = learner()
    made.device.load_arrays({"head.bias": np.array([np.inf, 0, 0, 0], np.float32)})
    before = {k: v for k, v in made.device.state().items() if k != "counters"}
    made.fit(x, y, epochs=1, rate=0.1)
    after = made.device.state()
    assert made.counters()["skipped"] == 3
    assert all((after[k] == v).all() for k, v in before.items())


# --- schedules and speed --------------------------------------------------------------------------------


def test_the_cosine_rises_falls_and_ends_at_zero():
    rates = [cosine(step, 100, 10) for step in range(101)]
    assert rates[9] == 1 and rates[0] == 0.1 and rates[100] == 0
    assert all(a > b for a, b in pairwise(rates[10:]))


def test_python_adds_little_to_a_step():
    """The best of five epochs: a step of a tiny network takes a few microseconds, nearly all of them in Python."""
    x, y = data(2000)
    made = learner("head")
    samples, best = made.samples(x, y), float("inf")
    updates = Updates((*samples.inputs, samples.labels), range(2000), [0.01] * 2000)
    for _ in range(5):
        start = time.perf_counter()
        made.device.train(updates)
        best = min(best, time.perf_counter() - start)
    assert best / 2000 < 40e-6  # 5 us on an idle machine


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_how_many_samples_are_handed_over_at_once_changes_nothing(monkeypatch, size):
    """Thirty samples in batches of eight, the last of which has six."""
    x, y = data()
    usual, other = learner("last:1", batch=8), learner("last:1", batch=8)
    usual.fit(x, y, epochs=2, rate=0.1, augment=shifted)
    monkeypatch.setattr(Pace, "_adapt", lambda self, seconds: setattr(self, "updates", size))
    history = other.fit(x, y, epochs=2, rate=0.1, augment=shifted)
    assert state_of(usual) == state_of(other)
    assert history.updates == 8 and history.batch == 8 and [len(losses) for losses in history.losses] == [30, 30]


def test_progress_counts_the_samples_of_all_epochs():
    x, y = data()
    seen = []
    learner().fit(x, y, epochs=3, progress=lambda *said: seen.append(said))
    words, done, total = seen[-1]
    assert words.startswith("epoch 3 of 3, loss") and done == total == 90
    steps = [done for words, done, _ in seen if words.startswith("epoch")]  # before them, rates are looked for
    assert steps == sorted(steps)

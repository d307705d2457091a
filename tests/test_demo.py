"""`insitu demo`: real data, networks that have not seen their wearer, and what the firmware learns about one."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.demo import TARGET, digits
from insitu.demo.lesson import LESSON, Lesson, base_learner, material, teach
from insitu.demo.watch import EXERCISES, LEARNED, STEP, WEARERS, WINDOW, network, others, recordings, wearer
from insitu.demo.week import part, upside_down
from insitu.errors import DataError
from insitu.reports import html

pytest.importorskip("seglearn")
SHORT = Lesson(epochs=3)


# data and networks ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", WEARERS)
def test_a_wearer_labels_four_windows_of_each_exercise_and_arm(number):
    learn = wearer(number).learn
    pairs = list(zip(learn.y.tolist(), learn.arm.tolist()))
    assert len(learn) == 56 and learn.x.shape == (56, 1, WINDOW, 6) and learn.x.dtype == np.float32
    assert all(pairs.count((exercise, arm)) == LEARNED for exercise in range(len(EXERCISES)) for arm in (0, 1))


def test_no_reading_of_the_test_was_learned_from():
    for recording in recordings()[3]:
        last_learned = (LEARNED - 1) * STEP + WINDOW
        first_tested = recording.part(LEARNED + 1).x[0, 0]
        assert np.array_equal(first_tested, recording.x[last_learned : last_learned + WINDOW])


def test_everybody_else_is_everybody_but_the_wearer():
    counts = {n: sum(len(r.part(0)) for r in found) for n, found in recordings().items()}
    for number in WEARERS:
        assert len(others(number)) == sum(counts.values()) - counts[number]
    with pytest.raises(DataError, match="no wearer 11"):
        wearer(11)


@pytest.mark.parametrize("path", [TARGET, *(network(n) for n in WEARERS)], ids=lambda p: p.stem)
def test_a_network_is_small_and_carries_no_path_of_the_machine_it_was_made_on(path):
    data = path.read_bytes()
    assert len(data) < 100_000
    assert b"/site-packages/" not in data and b".py" not in data


def test_the_digits_network_loses_less_than_a_point_in_int8():
    data, model = digits(), insitu.load(TARGET)
    made = model.quantize(data.x_train[:200])
    exact, small = (float((np.asarray(m.predict(data.x_test)).argmax(1) == data.y_test).mean()) for m in (model, made))
    assert exact > 0.95 and small > exact - 0.01


# learning ---------------------------------------------------------------------------------------


def test_a_watch_learns_its_wearer():
    """Wearer 2 is the one whom the others' network knows least."""
    learner, person = base_learner(2), wearer(2)
    before = learner.evaluate(person.test.x, person.test.y)["accuracy"]
    teach(learner, person.learn)
    assert learner.evaluate(person.test.x, person.test.y)["accuracy"] > before + 0.1


@pytest.mark.slow
def test_ten_wearers_gain_more_than_three_points_on_average():
    gains = []
    for number in WEARERS:
        learner, test = base_learner(number), wearer(number).test
        before = learner.evaluate(test.x, test.y)["accuracy"]
        teach(learner, wearer(number).learn)
        gains.append(learner.evaluate(test.x, test.y)["accuracy"] - before)
    assert np.mean(gains) > 0.03


def test_replay_adds_windows_of_other_wearers_only():
    own = wearer(4).learn
    mixed = material(4, own, replace(LESSON, replay=10))
    assert len(mixed) == len(own) + 10 and np.array_equal(mixed.x[: len(own)], own.x)
    everybody = {window.tobytes() for window in others(4).x}
    assert all(window.tobytes() in everybody for window in mixed.x[len(own) :])


# the demo ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo():
    pytest.importorskip("unicorn")
    pytest.importorskip("elftools")
    pytest.importorskip("ziglang")
    from insitu.demo.run import run_demo

    return run_demo(5, "nrf52840", SHORT)


def test_a_week_on_the_board_is_the_week_on_the_host(demo):
    from insitu.demo.run import run_demo

    host = run_demo(5, "host", SHORT)
    assert demo.report.scores == host.report.scores and demo.report.confusion == host.report.confusion
    told, same = dict(demo.report.story), dict(host.report.story)
    assert [day for day in told if told[day] != same[day]] == ["Wed"]  # it loses its power in another way
    assert demo.equal and not demo.note


def test_a_week_is_what_it_says(demo):
    told = dict(demo.report.story)
    assert "power cut" in told["Wed"] and "all 92 samples" in told["Wed"]
    assert "0% to 100%" in told["Thu"] and ", noticed" in told["Fri"]
    assert len(demo.report.losses) == 7 * 8 * SHORT.epochs


def test_wrong_labels_are_rolled_back_and_corrected():
    from insitu.demo.run import run_demo

    told = dict(run_demo(5, "host").report.story)
    assert "rolled back" in told["Sat"]
    right, guards = map(int, re.search(r"(\d+) of (\d+) guards right$", told["Sun"]).groups())
    assert right == guards > 20


def test_a_watch_that_is_worn_upside_down_reads_the_other_way():
    own = wearer(5).test
    assert np.allclose(upside_down(upside_down(own)).x, own.x, atol=1e-5)
    assert not np.allclose(upside_down(own).x, own.x, atol=0.5)


def test_no_label_comes_from_a_window_of_the_test():
    last = (LEARNED - 1) * STEP + WINDOW
    late = part(5, 0, LEARNED - 1, late=STEP // 2)
    assert len(late) == 14 * (LEARNED - 1)
    for recording in recordings()[5]:
        assert np.array_equal(recording.part(0, LEARNED - 1, STEP // 2).x[-1, 0], recording.x[last - 160 : last - 32])


def test_the_report_counts_everything_and_it_fits_a_watch(demo):
    r = demo.report
    assert "Measured on: wearer 5&#x27;s seven exercises." in html.page(r)  # the matrix has seven rows
    kept = sum(p.bytes for p in r.flash.pieces if p.name in ("store", "checkpoints"))
    assert r.sram.bytes < 64_000 and r.flash.bytes - kept < 64_000 and kept > 256_000
    assert {"arena", "state", "stack reserve", "life"} <= {p.name for p in r.sram.pieces}
    assert r.arena.arena_bytes <= next(p.bytes for p in r.sram.pieces if p.name == "arena")
    assert sum(c.total for c in r.costs) == r.step_instructions
    assert r.predict_instructions < r.step_instructions < 10_000_000
    assert r.estimate.step_ms == pytest.approx(r.step_instructions / 64e3)


@pytest.mark.parametrize("page", ["README.md", "docs/demo.md"])
def test_a_page_shows_the_memory_that_the_firmware_takes(page, demo):
    from insitu.demo.task import facts

    text, found = (Path(__file__).parent.parent / page).read_text(), dict(facts(demo))
    for name in ("SRAM", "flash"):
        assert f"{name:<10}{found[name]}\n" in text


def test_measuring_leaves_what_was_learned_as_it_was(demo):
    """Scores come from the state before the counted step; a step at rate zero must not change it."""
    six, new, *_ = demo.report.scores
    assert six.samples + new.samples == len(wearer(5).test)
    right = sum(demo.report.confusion.after[i][i] for i in range(7))
    assert right == round(six.after * six.samples) + round(new.after * new.samples)


def test_without_an_emulator_the_host_trains_and_says_so(monkeypatch):
    from insitu.demo import device

    monkeypatch.setattr(device, "find_spec", lambda name: None if name == "unicorn" else object())
    opened = device.open_device(base_learner(5), "nrf52840")
    assert opened.firmware is None
    assert "No unicorn here" in opened.note and 'pip install "insitu[demo]"' in opened.note


def test_the_verb_prints_figures_and_writes_the_page(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["demo", "--board", "host", "--epochs", "1", "-o", str(page)]) == 0
    shown = capsys.readouterr()
    assert f"report written to {page}" in shown.out and "points" in shown.out
    assert page.read_text().startswith("<!doctype html>")
    assert main(["demo", "--board", "host", "--epochs", "1", "-o", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == 56 and found["train_step_instructions"] is None and found["equal"]


def test_vision_without_the_zoos_files_says_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path))
    assert main(["demo", "--vision", "-o", str(tmp_path / "page.html")]) == 1
    assert "insitu zoo add" in capsys.readouterr().err


def test_vision_learns_flowers(shared_models, shared_data, tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    from insitu.demo.vision import run_vision_demo
    from insitu.zoo import add

    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)  # built files stay in their cache
    add(shared_models / "mcunet-5fps.pkl")
    add(shared_data / "flowers102.npz")
    found = run_vision_demo("host")
    (score,) = found.report.scores
    assert score.after > 0.75 > 0.4 > score.before


def test_audio_without_the_zoos_files_says_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)
    assert main(["demo", "--audio", "-o", str(tmp_path / "page.html")]) == 1
    told = capsys.readouterr().err
    assert "is not in the cache" in told and "insitu zoo" in told


def test_audio_learns_words_in_noise_from_raw_samples(shared_models, shared_data, tmp_path, monkeypatch):
    from insitu.demo.audio import run_audio_demo
    from insitu.zoo import add

    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)
    add(shared_models / "mlperf-tiny" / "kws_dscnn_int8.tflite")
    add(shared_data / "speech7.npz")
    found = run_audio_demo("host", epochs=2)
    noisy, quiet = found.report.scores
    assert found.equal and 0.6 < noisy.before < 0.8 and noisy.after > noisy.before + 0.03 and quiet.after > 0.9

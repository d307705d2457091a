"""What each part brings, measured: nothing twice, within its time, and in the order that a known task has."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu import pipeline
from insitu.data import as_samples
from insitu.errors import DataError
from insitu.learner import contributions
from insitu.learner.contributions import HEAD, Part, each_bias, filled, measure, parts_of
from insitu.learner.given import given_samples
from insitu.schemes.ladder import rungs

WHOLE, HALF, EIGHTH = Fraction(1), Fraction(1, 2), Fraction(1, 8)


@pytest.fixture(scope="module")
def parts():
    """A network whose second layer has lost its weights: nothing reaches the first, and nothing passes to the head."""
    torch.manual_seed(0)
    lost = nn.Linear(16, 16)
    nn.init.zeros_(lost.weight)
    nn.init.constant_(lost.bias, 0.1)
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), lost, nn.ReLU(), nn.Linear(16, 4)).eval()
    made = insitu.compile(module, example=torch.zeros(1, 8), classes=4, precision="float", scheme="full")
    assert made.parts is not None
    return replace(made.parts, scheme=HEAD)


def data(count: int = 160):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count, 8)).astype(np.float32), np.arange(count) % 4
    x[np.arange(count), y] += 3
    return x, y


@pytest.fixture(scope="module")
def samples(parts):
    return given_samples(parts.forward, "cross_entropy", *data())


@pytest.fixture(scope="module")
def layers(parts):
    return pipeline.trainable(parts.forward)


def test_it_finds_what_brings_most_and_measures_nothing_twice(parts, layers, samples, tmp_path):
    asked, path = [], tmp_path / "not there yet" / "kept.json"
    found = measure(parts, layers, samples, path=path, report=lambda words, done, total: asked.append(words))
    wanted = len(parts_of(layers))
    assert found.source == "measured" and len(json.loads(path.read_text())["costs"]) == wanted + 1
    gains = [found.gains[layer.name] for layer in layers]
    assert gains[1].shares[WHOLE] > 1 > gains[0].shares.get(EIGHTH, 0)
    assert list(gains[1].shares.values()) == sorted(gains[1].shares.values())
    began = path.stat().st_mtime_ns
    assert measure(parts, layers, samples, path=path, seconds=0) == found and path.stat().st_mtime_ns == began
    assert sum(words.startswith("measuring ") for words in asked) == wanted
    assert rungs(layers, found)[1].layer == layers[1].name


def test_other_samples_or_no_time_use_nothing_that_was_kept(parts, layers, samples, tmp_path):
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({"key": "other", "costs": {"head": 1.0, str(Part(1)): 0.0}}))
    found = measure(parts, layers, samples, path=path, seconds=0)
    assert all(gain.bias == 0 and not gain.shares for gain in found.gains.values())
    assert list(json.loads(path.read_text())["costs"]) == ["head"]


def test_samples_without_labels_or_too_few_are_told(parts, layers, samples):
    x, y = data()
    with pytest.raises(DataError, match="needs labelled samples"):
        pipeline.measured(parts, as_samples(x, parts.forward))
    with pytest.raises(DataError, match="too few samples"):
        measure(parts, layers, given_samples(parts.forward, "cross_entropy", x[:8], y[:8]))


def test_auto_measured_trains_what_was_found_within_its_memory(parts):
    made = insitu.compile(insitu.Model(parts.forward), classes=4, precision="float", scheme="auto:measured",
                          sram=6000, data=data(48))  # fmt: skip
    info = made.info()
    assert made.parts is not None
    assert made.parts.scheme.name.startswith("auto:measured:") and made.parts.scheme.updates
    assert info["arena_bytes"] + info["state_bytes"] <= 6000


def test_what_was_not_measured_follows_from_what_was(layers):
    names = [layer.name for layer in layers]
    assert each_bias(layers, {1: 2.0, 2: 1.0}) == {names[-1]: 2.0, names[-2]: 0.0}
    assert each_bias(layers, {2: 3.0}) == {names[-1]: 1.5, names[-2]: 1.5}
    assert filled({WHOLE: 4.0}, layers[1])[Fraction(1, 4)] == 2.0
    assert filled({WHOLE: 1.0, EIGHTH: 3.0}, layers[1])[WHOLE] == 3.0
    assert filled({WHOLE: -1.0}, layers[1]) == {} == filled({}, layers[1])


def test_an_interrupted_auto_measured_goes_on_from_the_cache(parts, layers, samples, tmp_path, monkeypatch):
    monkeypatch.setattr(contributions, "cache_folder", lambda: tmp_path)  # what is built stays where it is
    asked = []

    def stop(words: str, done: int, total: int) -> None:
        asked.append(words)
        if words.startswith("measuring ") and done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(parts, layers, samples, report=stop)
    (path,) = (tmp_path / "measured").glob("*.json")
    kept = json.loads(path.read_text())["costs"]
    assert len(kept) == 4
    path.write_text(path.read_text().replace(str(kept["head"]), "9.5"))
    found = measure(parts, layers, samples)
    assert json.loads(path.read_text())["costs"].items() > {**kept, "head": 9.5}.items()
    assert measure(parts, layers, samples) == found
    measure(parts, layers, samples, seed=1, seconds=0)
    assert len(list((tmp_path / "measured").glob("*.json"))) == 2, "another seed has results of its own"


def test_a_damaged_file_is_measured_again(parts, layers, samples, tmp_path):
    path = tmp_path / "kept.json"
    found = measure(parts, layers, samples, path=path, seconds=0)
    path.write_text(path.read_text().replace('"head": ', '"head": "much", "other": '))
    assert measure(parts, layers, samples, path=path, seconds=0) == found


def test_counted_work_decides_how_much_is_measured_whatever_the_machine(parts, layers, samples, tmp_path, monkeypatch):
    monkeypatch.setattr(contributions, "WORK", 3 * contributions.MAKING + contributions.MAKING // 2)
    monkeypatch.setattr(contributions.time, "monotonic", iter(range(0, 1 << 40, 1 << 20)).__next__)
    some = measure(parts, layers, samples, path=tmp_path / "kept.json")
    wanted = [str(part) for part in parts_of(layers)]
    assert list(json.loads((tmp_path / "kept.json").read_text())["costs"]) == ["head", *wanted[:3]]
    monkeypatch.undo()
    more = measure(parts, layers, samples, path=tmp_path / "kept.json")
    monkeypatch.setattr(contributions, "WORK", 3 * contributions.MAKING + contributions.MAKING // 2)
    assert measure(parts, layers, samples, path=tmp_path / "kept.json") == some != more

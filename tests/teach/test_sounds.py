"""`insitu teach` with .wav files: a new network, or one that knows words."""

import json
import shutil
import sys

import numpy as np
import pytest

import insitu
from insitu import DataError
from insitu.cli import main
from insitu.data.sound import sound_samples, write_wav
from insitu.deploy.cost import count
from insitu.deploy.estimate import estimated
from insitu.teach import teach
from insitu.teach.backbones import NEW, backbones
from insitu.terminal.table import size
from insitu.zoo import add


@pytest.fixture(scope="module")
def whistles(tmp_path_factory):
    """Sounds that rise, fall or stay, at two rates and several lengths."""
    root, rng = tmp_path_factory.mktemp("whistles"), np.random.default_rng(0)
    for name, slope in {"falling": -1.0, "rising": 1.0, "steady": 0.0}.items():
        (root / name).mkdir()
        for k in range(15):
            rate, seconds = (16000, 22050)[k % 2], rng.uniform(0.6, 1.1)
            t = np.arange(int(rate * seconds)) / rate
            pitch = rng.uniform(900, 1400) + slope * rng.uniform(500, 800) * (t - seconds / 2)
            sound = rng.uniform(0.1, 0.6) * np.sin(2 * np.pi * np.cumsum(pitch) / rate) + rng.normal(0, 0.01, len(t))
            write_wav(root / name / f"{k}.wav", np.rint(32767 * sound).astype(np.int16), rate)
    return root


def heard(file, sound, learner) -> str:
    """The class that a .tflite file gives a sound."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="runs .tflite files")
    runner = interpreter.Interpreter(str(file)).get_signature_runner()
    (out,) = runner(waveform=sound.reshape(1, -1).astype(np.float32) / 32768).values()
    return learner.names[int(out.argmax())]


def test_sounds_are_learned_by_a_new_network(whistles, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)  # no network that knows words
    monkeypatch.setattr(sys.modules["insitu.teach.teach"], "HEARD", 0)  # as few epochs as possible
    out, file = tmp_path / "heard.insitu", tmp_path / "heard.tflite"
    assert main(["teach", str(whistles), "-o", str(out), "--export", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "sounds" and told["network"] == "a new network for sounds" and told["accuracy"] >= 0.7
    learner = insitu.open(out)
    assert str(learner.graphs["predict"].inputs[0].type) == "s16[1x50x320x1]"
    assert main(["predict", str(out), str(whistles / "rising" / "0.wav"), "--top", "1"]) == 0
    assert "rising (" in capsys.readouterr().out
    sound = sound_samples(whistles / "rising" / "0.wav", learner.graphs["predict"])
    assert heard(file, sound, learner) == "rising"  # the file takes the sound itself
    more = teach(whistles, go_on=learner)  # every file is known: none changes its place
    assert more.tested == told["tested"] and more.accuracy >= 0.7


def test_sounds_that_are_easy_do_not_take_all_epochs(whistles, tmp_path, monkeypatch):
    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)
    made = teach(whistles)
    assert made.history.planned == 200 and len(made.history.loss) < 150 and made.accuracy >= 0.8
    assert f"training  {len(made.history.loss)} of 200 epochs" in str(made)


def test_fewer_sounds_than_a_batch_are_learned(whistles, tmp_path, monkeypatch):
    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)
    monkeypatch.setattr(sys.modules["insitu.teach.teach"], "HEARD", 0)
    for name in ("rising", "steady"):
        (tmp_path / "few" / name).mkdir(parents=True)
        for k in range(5):
            shutil.copy(whistles / name / f"{k}.wav", tmp_path / "few" / name)
    assert len(teach(tmp_path / "few").material) == 10


def test_a_network_that_knows_words_is_used_if_it_is_here(whistles, shared_models, tmp_path, monkeypatch):
    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)
    with pytest.raises(DataError, match="zoo get kws-dscnn-int8"):
        teach(whistles, backbone="kws-dscnn-int8")
    add(shared_models / "mlperf-tiny" / "kws_dscnn_int8.tflite")
    assert teach(whistles).network.startswith("kws-dscnn-int8")
    assert [b.name for b in backbones(NEW, sounds=True)] == []


def test_what_a_board_takes_is_told(whistles, tmp_path, monkeypatch):
    """Memory of the linked image, and about the instructions that an emulated core counts, features included."""
    pytest.importorskip("unicorn")
    monkeypatch.setattr("insitu.zoo.cache.zoo_folder", lambda: tmp_path)
    monkeypatch.setattr(sys.modules["insitu.teach.teach"], "HEARD", 0)
    taught = teach(whistles, board="nrf52840")
    made = taught.learner.deployed
    told = next(line for line in str(taught).splitlines() if line.startswith("board"))
    assert f"{size(made.sram_bytes)} of 262.1 KB of SRAM" in told and made.chosen == "insitu teach"
    counted = sum(count(made.firmware)["predict"].values())
    assert estimated(made.program.plans, made.limits.board.core)["predict"] == pytest.approx(counted, rel=0.1)

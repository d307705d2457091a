"""A state's file holds the names of its classes, and is never loaded for others."""

import zlib

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.errors import DataError
from insitu.learner.named_state import split, with_names

from ..training.small_nets import int8_net

NAMES = ("rest", "wave", "füße")


def learner(**options):
    return insitu.compile(int8_net(), **{"classes": 3, "scheme": "head", **options})


@pytest.fixture
def saved(tmp_path):
    learner(classes=list(NAMES)).save(tmp_path / "state.bin")
    return tmp_path / "state.bin"


def test_the_names_follow_the_bytes_that_a_board_loads(saved):
    made = learner(classes=list(NAMES))
    state, names = split(saved.read_bytes(), "state.bin")
    assert state == made.device.save_state() and names == NAMES
    assert saved.read_bytes() == with_names(state, names)


def test_without_names_the_file_is_the_state_alone(tmp_path):
    made = learner()
    assert made.save(tmp_path / "state.bin").read_bytes() == made.device.save_state()


def test_a_learner_without_names_takes_over_those_of_the_state(saved):
    made = learner()
    made.load(saved)
    assert made.names == NAMES


@pytest.mark.parametrize("classes", [list(NAMES[::-1]), ["rest", "wave", "walk"], 5])
def test_a_state_of_other_classes_or_of_another_order_is_refused(classes, saved):
    made = learner(classes=classes)
    before, names = made.device.save_state(), made.names
    with pytest.raises(DataError, match=r"saved with the classes rest, wave, füße; those of this learner: ") as error:
        made.load(saved)
    assert "classes=['rest', 'wave', 'füße']" in error.value.hint
    assert made.device.save_state() == before and made.names == names


def test_so_is_a_learner_of_another_order(tmp_path):
    other = learner(classes=list(NAMES)).save(tmp_path / "other.insitu")
    with pytest.raises(DataError, match="was saved with the classes"):
        learner(classes=list(NAMES[::-1])).load(other)


def test_damaged_names_are_refused(saved):
    content = saved.read_bytes()
    start = content.index(b"INSN")
    for text in (b'["rest", 3]', b"[", b"{}", b'["a", "a"]'):
        saved.write_bytes(content[:start] + b"INSN" + zlib.crc32(text).to_bytes(4, "little") + text)
        with pytest.raises(DataError):
            learner().load(saved)
    for cut in range(start + 1, len(content), 5):
        saved.write_bytes(content[:cut])
        with pytest.raises(DataError):
            learner().load(saved)


def test_predict_names_the_classes_of_the_state(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    net = int8_net()
    insitu.graph.file.save(net, tmp_path / "net.insitu")
    shape = net.inputs[0].shape
    np.savez("x.npz", x=np.zeros((4, *shape[1:]), net.inputs[0].type.numpy))
    insitu.compile("net.insitu", classes=list(NAMES), scheme="head").save("state.bin")
    assert main(["predict", "net.insitu", "--data", "x.npz", "--state", "state.bin", "--scheme", "head"]) == 0
    assert "wave" in capsys.readouterr().out

"""A file with weights or code but no graph is refused with the Python that makes a model of it; none of it runs."""

import os
import pickle

import pytest
import torch
from torch import nn

from insitu.errors import ModelError
from insitu.importers import load


def message(path) -> str:
    with pytest.raises(ModelError) as caught:
        load(path)
    return str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_state_dict_is_told_to_be_weights_without_a_network(tmp_path, zipped, wrapped):
    state = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).state_dict()
    kept = {"epoch": 3, "model": state} if wrapped else state
    torch.save(kept, tmp_path / "net.pth", _use_new_zipfile_serialization=zipped)
    text = message(tmp_path / "net.pth")
    assert "weights of a PyTorch network without the network" in text and "load_state_dict" in text
    assert '"net.pt2"' in text


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickled_module_is_told_by_its_class(tmp_path, zipped):
    torch.save(nn.Linear(2, 3), tmp_path / "net.pt", _use_new_zipfile_serialization=zipped)
    text = message(tmp_path / "net.pt")
    assert "a pickled PyTorch module (torch.nn.modules.linear.Linear)" in text and "weights_only=False" in text


def test_a_torchscript_module_is_told_to_be_one(tmp_path):
    torch.jit.script(nn.Linear(2, 3)).save(tmp_path / "net.pt")
    text = message(tmp_path / "net.pt")
    assert "TorchScript" in text and '"net.onnx"' in text


def test_an_old_keras_file_is_told_to_be_one(tmp_path):
    (tmp_path / "net.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert 'net.save("net.keras")' in message(tmp_path / "net.h5")


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04 not a zip", bytes(range(256))])
def test_what_is_nothing_of_this_kind_is_refused_with_what_is_read(tmp_path, data):
    (tmp_path / "net.pth").write_bytes(data)
    assert ".onnx, .tflite" in message(tmp_path / "net.pth")


class Runs:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_nothing_in_such_a_file_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pth").write_bytes(pickle.dumps(Runs()))
    message(tmp_path / "net.pth")
    assert not (tmp_path / "ran").exists()


def test_the_two_lines_make_a_file_that_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(nn.Conv2d(3, 2, 3), "net.pt")
    lines = [line.strip() for line in message("net.pt").splitlines()[-2:]]
    exec("\n".join(["import torch", *lines]), {})
    assert load("net.pt2").outputs[0].shape == (1, 2, 30, 30)

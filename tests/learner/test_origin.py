"""A state of another scheme is refused with the scheme it was saved with; anything else with what is known."""

import time

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.errors import DataError
from insitu.graph.file import save
from insitu.learner.origin import identity, origin

from ..training.small_nets import SHAPE, float_net, int8_net

SCHEMES = ("head", "last:1", "last:2", "bias:2", "full")


def learner(scheme: str, net=int8_net, **options):
    return insitu.compile(net(), classes=3, scheme=scheme, **options)


@pytest.mark.parametrize(
    "net, options", [(int8_net, {}), (int8_net, {"batch": 2}), (float_net, {"precision": "float"})]
)
def test_the_layout_is_that_of_the_program(net, options):
    for scheme in SCHEMES:
        made = learner(scheme, net, **options)
        assert identity(made.parts).model == made.device.program.state.model


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_state_of_another_scheme_is_refused_with_its_name(scheme, tmp_path):
    learner(scheme).save(tmp_path / "state.bin")
    other = learner("last:3" if scheme != "full" else "head")
    before = other.device.save_state()
    said = rf"state\.bin: was saved with the scheme {scheme}, but this .*\n  try: scheme=\"{scheme}\"$"
    with pytest.raises(DataError, match=said):
        other.load(tmp_path / "state.bin")
    assert other.device.save_state() == before


def test_a_state_of_other_classes_or_of_nothing_is_refused_as_before(tmp_path):
    made = learner("head")
    insitu.compile(int8_net(), classes=5, scheme="head").save(tmp_path / "five.bin")
    (tmp_path / "short.bin").write_bytes(b"INS1")
    for name in ("five.bin", "short.bin"):
        with pytest.raises(DataError, match="wrong size"):
            made.load(tmp_path / name)


def test_a_learner_of_another_model_is_refused_with_both_names(tmp_path):
    made = learner("head")
    other = insitu.compile(int8_net(), classes=5, scheme="head").save(tmp_path / "five.insitu")
    before, name = made.device.save_state(), made.graphs["predict"].name
    said = (
        rf"five.insitu: holds a learner of another model: {name} \(.* to f32\[1x5\]\); this learner's model is {name} "
    )
    with pytest.raises(DataError, match=rf"{said}\(.* to f32\[1x3\]\)\n  try: insitu.open\(\".*five.insitu\"\)"):
        made.load(other)
    assert made.device.save_state() == before


@pytest.mark.parametrize("options, said", [
    ({"batch": 2}, "was saved with batch=2, but this learner has batch=1\n"),
    ({"recipe": insitu.Recipe(optimizer="momentum")}, "was saved with optimizer='momentum', but this learner has "),
])  # fmt: skip
def test_a_learner_with_other_options_is_refused_with_them(options, said, tmp_path):
    other = learner(**{"scheme": "head", **options}).save(tmp_path / "other.insitu")
    with pytest.raises(DataError, match=said):
        learner("head").load(other)


def test_a_damaged_state_is_said_to_be_damaged(tmp_path):
    made = learner("head")
    path = made.save(tmp_path / "state.bin")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="is damaged"):
        made.load(path)


def test_looking_for_it_ends(monkeypatch):
    made = learner("head")
    monkeypatch.setattr("insitu.learner.origin.SECONDS", 0.0)
    begin = time.monotonic()
    origin(made.parts, made.device.save_state()[:4] + b"\0\0\0\0" + made.device.save_state()[8:])
    assert time.monotonic() - begin < 5


def test_the_command_line_says_so(tmp_path, capsys):
    save(int8_net(), tmp_path / "net.insitu")
    learner("last:2").save(tmp_path / "state.bin")
    np.save(tmp_path / "x.npy", np.zeros((2, *SHAPE[1:]), np.float32))
    command = ["predict", "net.insitu", "--data", "x.npy", "--state", "state.bin", "--classes", "3", "--scheme", "head"]
    files = {"net.insitu", "x.npy", "state.bin"}
    assert main([str(tmp_path / word) if word in files else word for word in command]) == 1
    assert "was saved with the scheme last:2" in capsys.readouterr().err

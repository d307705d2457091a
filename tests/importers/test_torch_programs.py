"""Exported programs: dynamic axes, decompositions, train mode, and the .pt2 file of one, which nobody vouches for."""

import numpy as np
import pytest
import torch
from torch import nn

from insitu.errors import ModelError, Unsupported
from insitu.graph import evaluate
from insitu.importers.safe.child import read_in_child
from insitu.importers.torch.read import read_program, read_pt2, read_torch
from tests.importers.torch_agrees import close, reference
from tests.models import conv_bn, families, randomise

FAMILIES = families()


def exported(module, example, axes):
    return torch.export.export(module.eval(), (example,), dynamic_shapes=(axes,))


def test_a_dynamic_batch_is_fixed_and_another_dynamic_axis_refused_by_name():
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(2))
    x = torch.randn(2, 2, 6, 6)
    batch, height = torch.export.Dim("batch"), torch.export.Dim("height", min=4)
    graph = read_program(exported(module, x, {0: batch}), batch=5)
    assert graph.inputs[0].shape == (5, 2, 6, 6) and graph.outputs[0].shape == (5, 3, 16)
    with pytest.raises(Unsupported, match=r"input input: takes 2x2x\?x6: size 2 is open"):
        read_program(exported(module, x, {2: height}))


def test_a_decomposed_program_is_read_as_well():
    module, example = FAMILIES["mobilenet_v2"]
    program = torch.export.export(module, example).run_decompositions()
    y = evaluate(read_program(program), *(x.numpy() for x in example), precision=np.float64)
    assert close(y, reference(module, *example))


def test_a_program_exported_in_train_mode_is_the_same_graph():
    module = randomise(nn.Sequential(conv_bn(2, 3), nn.Dropout(0.3))).train()
    x = torch.randn(2, 2, 5, 5)
    trained = read_program(torch.export.export(module, (x,)), name="net")
    assert str(trained) == str(read_torch(module, x, name="net"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    module, example = FAMILIES["flat_cnn"]
    torch.export.save(torch.export.export(module, example), path)
    return path


def test_a_saved_program_is_the_same_graph_and_says_whom_it_trusts(saved):
    module, example = FAMILIES["flat_cnn"]
    graph, direct = read_pt2(saved), read_torch(module, example, name="net")
    assert str(graph).splitlines()[2:] == str(direct).splitlines()[1:]
    assert any("trust it only as much as its author" in note for note in graph.notes)


def test_a_broken_saved_program_is_one_error(saved, tmp_path):
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(saved.read_bytes()[:2000])
    with pytest.raises(ModelError, match=r"broken\.pt2"):
        read_pt2(broken)


def test_reading_a_saved_program_takes_bounded_time(saved):
    with pytest.raises(ModelError, match="not done after"):
        read_in_child(saved, seconds=0.05)


def test_reading_a_saved_program_takes_bounded_memory(saved):
    with pytest.raises(ModelError):
        read_in_child(saved, memory_bytes=1 << 20)

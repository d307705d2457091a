"""Where the gradient of a maximum goes if several elements are equal: to the first, or to all of them evenly."""

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.devices.host import open_host
from insitu.errors import GraphError
from insitu.graph import Builder, Graph, build, check, evaluate, f32, lookup, s8
from insitu.importers import load
from insitu.importers.onnx.read import read_onnx
from insitu.importers.tflite.read import read_tflite
from insitu.proof.surrogate import moved, real
from insitu.training.autodiff import differentiate
from tests.importers.onnx_models import model, node
from tests.importers.tflite_files import T, ints, one

from .gradients import weighted_sum

TIED = np.array([[[2, 1], [2, 3]], [[0, 3], [2, 3]]], np.float32)
WEIGHT = np.float32(3)


def gradient_graph(op: str, type, **attrs) -> Graph:
    with build(op) as b:
        x = b.input("x", type)
        y = lookup(op)(x, **attrs)
        y = y if y.dtype == "f32" else lookup("dequantize")(y)
        return b.graph(through(b, y, x))


def through(b: Builder, y, x):
    """The gradient of the weighted sum of y."""
    return differentiate(b, weighted_sum(b, [y], [np.full(y.shape, WEIGHT)]), [x])[x.name]


def input_gradient(graph: Graph) -> Graph:
    """From an imported network to the gradient of its input."""
    b = Builder.of(graph)
    with build(b):
        return check(b.graph(through(b, graph.outputs[0], graph.inputs[0])), "float")


@pytest.mark.parametrize(
    "op, attrs", [("max_pool2d", {"kernel": (2, 2), "stride": (1, 1)}), ("amax", {"axes": (1, 2)})]
)
def test_of_equal_maxima_the_first_gets_the_gradient(op, attrs):
    found = evaluate(gradient_graph(op, f32(1, 2, 2, 1), **attrs), np.ones((1, 2, 2, 1), np.float32))
    np.testing.assert_array_equal(found.reshape(-1), [WEIGHT, 0, 0, 0])


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_split_equal_maxima_get_what_torch_gives_them_in_numpy_and_in_c(axes):
    torch = pytest.importorskip("torch", reason="compares with torch")
    graph = gradient_graph("amax", f32(*TIED.shape), axes=axes, ties="even")
    tx = torch.tensor(TIED, requires_grad=True)
    (float(WEIGHT) * torch.amax(tx, axes)).sum().backward()
    np.testing.assert_array_equal(evaluate(graph, TIED), tx.grad.numpy())
    np.testing.assert_array_equal(open_host(graph).predict(TIED), tx.grad.numpy())


def test_split_equal_integers_share_evenly_in_numpy_and_in_c():
    x = np.array([[5, 5, -7, 5], [-128, 3, 3, -128], [1, 0, -1, -2]], np.int8)
    graph = gradient_graph("amax", s8(3, 4, s=0.1, z=2), axes=(1,), ties="even")
    wanted = [[1, 1, 0, 1], [0, 1.5, 1.5, 0], [3, 0, 0, 0]]
    np.testing.assert_array_equal(evaluate(graph, x), wanted)
    np.testing.assert_array_equal(open_host(graph).predict(x), wanted)


def test_ties_are_first_or_even():
    with build("amax") as b, pytest.raises(GraphError, match="one of first, even"):
        lookup("amax")(b.input("x", f32(2, 2)), axes=(1,), ties="last")


@pytest.mark.parametrize("type", [s8(3, 4, s=0.1, z=2), f32(3, 4)], ids=str)
def test_the_certificate_s_difference_of_a_split_maximum_is_the_mean_over_those_that_are_equal(type):
    x = real(np.array([[5, 5, -7, 5], [-128, 3, 3, -128], [1, 0, -1, -2]], np.int8), s8(3, 4, s=0.1, z=2))
    with build("amax") as b:
        node = b.producer(lookup("amax")(b.input("x", type), axes=(1,), ties="even"))
    move = np.random.default_rng(0).normal(size=x.shape)
    (found,), _ = moved(node, [x], [move])
    np.testing.assert_allclose(found, [move[0, [0, 1, 3]].mean(), move[1, 1:3].mean(), move[2, 0]], rtol=1e-5)


# importers ---------------------------------------------------------------------------------------

IN_TORCH = {
    "amax": lambda x: x.amax((2, 3)),
    "amax keeping axes": lambda x: x.amax((2, 3), keepdim=True).flatten(1),
    "amax of all": lambda x: x.amax().reshape(1, 1),
    "max of all": lambda x: x.max().reshape(1, 1),
    "max along an axis": lambda x: x.max(2).values,
    "amin": lambda x: x.amin((2, 3)),
    "adaptive pool": lambda x: torch_functional().adaptive_max_pool2d(x, 1),
    "pool of everything": lambda x: torch_functional().max_pool2d(x, (3, 4)),
}


def torch_functional():
    import torch

    return torch.nn.functional


@pytest.mark.parametrize("name", IN_TORCH)
def test_an_imported_maximum_gives_equal_maxima_what_torch_gives_them(name):
    torch = pytest.importorskip("torch", reason="compares with torch")

    class Net(torch.nn.Module):
        def forward(self, x):
            return IN_TORCH[name](x)

    x = torch.randint(0, 3, (2, 5, 3, 4), generator=torch.Generator().manual_seed(0)).float()
    graph = input_gradient(load(Net(), x))
    tx = x.clone().requires_grad_()
    (float(WEIGHT) * Net()(tx)).sum().backward()
    np.testing.assert_array_equal(evaluate(graph, x.numpy()), tx.grad.numpy())


@pytest.mark.parametrize("op, ties", [("ReduceMax", "even"), ("ReduceMin", "even"), ("GlobalMaxPool", "first")])
def test_onnx_reductions_split_and_its_pools_do_not(op, ties):
    attrs = {} if op == "GlobalMaxPool" else {"axes": [2, 3]}
    graph = read_onnx(model([node(op, ["x"], ["y"], **attrs)], [("x", (1, 2, 3, 4))], opset=11))
    assert ties_in(graph) == [ties]


def test_a_tflite_reduction_splits():
    assert ties_in(read_tflite(one("REDUCE_MAX", [T((2, 3, 4)), ints(0, 2)], T((3,))))) == ["even"]


def ties_in(graph: Graph) -> list[str]:
    return [n.attrs["ties"] for n in graph.nodes if n.op.name == "amax"]

"""From an int8 table back to its formula, and the float files of int8 learners that are made of formulas."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.errors import Unsupported
from insitu.exporters.functions import PLAIN, formula_of
from insitu.exporters.learned import chosen_graph
from insitu.exporters.written import Options
from insitu.graph import Op, Type, evaluate, s8
from insitu.ops import activation as a
from insitu.ops import arith
from insitu.ops._functions import real
from insitu.ops._tables import litert_table, unary_table
from insitu.ops.unary import sqrt

X, Y = s8(s=0.05, z=-11), s8(s=0.04, z=-100)
WITH = [
    (a.leaky_relu, {"slope": 0.13}), (a.elu, {"alpha": 0.7}), (a.gelu, {"approximate": "tanh"}),
    (a.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}), (a.clamp, {"lo": -1.0, "hi": 1.0}),
]  # fmt: skip


def value(formula, x: Type) -> np.ndarray:
    y = real(np.arange(-128, 128), x)
    for step in formula:
        y = step.of(y)
    return y


EVERYWHERE = [(op, {}) for op in PLAIN if op.name not in ("log", "sqrt", "rsqrt", "reciprocal")]


@pytest.mark.parametrize("op, attrs", [*EVERYWHERE, *WITH])
def test_a_table_gives_its_own_function_back(op: Op, attrs: dict):
    x = real(np.arange(-128, 128), X)
    found = formula_of(X, Y, unary_table(op, X, Y, **attrs), saturated=False)
    ends = real(np.array([-128, 127]), Y)
    got, want = (np.clip(v, *ends) for v in (value(found, X), op.apply("eval", (x,), op.complete(attrs))))
    np.testing.assert_allclose(got, want, atol=Y.scale)


@pytest.mark.parametrize("op", [op for op in PLAIN if op.name in ("sqrt", "log", "rsqrt", "reciprocal")])
def test_a_function_with_gaps_stays_a_table_there(op: Op):
    assert formula_of(X, Y, unary_table(op, X, Y)) is None


def test_a_square_root_of_what_is_never_below_zero_is_one():
    x = s8(s=0.05, z=-128)
    assert formula_of(x, Y, unary_table(sqrt, x, Y))[0].op is sqrt


@pytest.mark.parametrize("name", ["LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "RELU6", "ELU", "GELU", "ABS"])
def test_tables_of_litert_have_a_formula_too(name: str):
    x, y = s8(s=0.05), s8(s=1 / 128)
    assert formula_of(x, y, litert_table(name, x, y, **({"alpha": 0.1} if name == "LEAKY_RELU" else {})))


def test_a_formula_ends_where_its_table_does():
    table = unary_table(a.silu, X, s8(s=0.01))
    assert [step.op for step in formula_of(X, s8(s=0.01), table)] == [a.silu, a.clamp]
    assert value(formula_of(X, s8(s=0.01), table), X).max() == pytest.approx(1.27)
    assert [step.op for step in formula_of(X, s8(s=0.01), table, saturated=False)] == [a.silu]


def test_a_straight_line_is_found():
    y = s8(s=0.1, z=5)
    found = formula_of(X, y, unary_table(lambda x: 1.7 * x + 0.9, X, y))
    assert [step.op for step in found[:2]] == [arith.mul, arith.add]
    assert found[0].numbers[0] == pytest.approx(1.7, rel=0.01)


def test_a_number_that_is_no_part_of_the_op_is_exact_if_the_slopes_are_known():
    x = real(np.arange(-128, 128), X)
    table, slopes = unary_table(a.elu, X, Y, alpha=0.7), np.where(x > 0, 1.0, 0.7 * np.exp(x))
    (found,) = formula_of(X, Y, table, slopes.astype(np.float32), saturated=False)
    assert found.op is a.elu and found.attrs["alpha"] == pytest.approx(0.7, rel=1e-5)


def test_what_is_no_formula_is_none():
    assert formula_of(X, Y, np.random.default_rng(0).integers(-128, 128, 256).astype(np.int8)) is None


def samples(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(12, *shape)).astype(np.float32)


def taught(net: nn.Module, x: np.ndarray, scheme: str = "last:1") -> insitu.Learner:
    torch.manual_seed(0)
    learner = insitu.compile(net.eval(), example=torch.zeros(1, *x.shape[1:]), data=x, scheme=scheme)
    learner.fit(x, np.arange(len(x)) % 3, epochs=1, rate=0.02)
    return learner


GATES = [nn.SiLU, nn.ELU, nn.GELU, nn.PReLU, nn.Softplus, nn.Hardswish, nn.LogSigmoid, nn.Mish, nn.Softsign,
         lambda: nn.LeakyReLU(0.3)]  # fmt: skip


@pytest.mark.parametrize("gate", GATES, ids=lambda g: getattr(g, "__name__", "LeakyReLU"))
def test_an_int8_learner_with_functions_goes_on_learning_in_litert_and_is_written_for_core_ml(gate, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="writes .tflite files")
    torch.manual_seed(0)
    x = samples(5)
    learner = taught(nn.Sequential(nn.Linear(5, 8), gate(), nn.Linear(8, 3)), x)
    learner.export(tmp_path / "net.tflite", to="litert-train", precision="float")
    graph = chosen_graph(learner, Options(precision="float"))
    assert not any(v.type.quant for v in graph.values.values())
    got = np.concatenate([evaluate(graph, x[i : i + 1]) for i in range(len(x))])
    assert np.abs(got - learner.predict(x)).max() < 0.1 * np.abs(got).max()
    pytest.importorskip("coremltools", reason="writes .mlmodel files")
    assert learner.export(tmp_path / "net.mlmodel", to="coreml-predict").size_bytes


class Attention(nn.Module):
    """Its matrices are computed, and cut out of one product."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(4, 12), nn.Linear(4, 3), nn.LayerNorm(4)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(-1, 6, 3, 2, 2).permute(2, 0, 3, 1, 4)
        x = (q @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.out(torch.relu(x.transpose(1, 2).reshape(-1, 6, 4)).mean(1))


def test_a_float_file_of_int8_attention_runs_with_every_optimisation(tmp_path):
    pytest.importorskip("onnxruntime", reason="runs .onnx files")
    torch.manual_seed(0)
    learner = taught(Attention(), samples(6, 4), "head")
    assert learner.export(tmp_path / "net.onnx", precision="float").size_bytes
    pytest.importorskip("coremltools", reason="writes .mlmodel files")
    with pytest.raises(Unsupported, match="Core ML cannot express op matmul"):
        learner.export(tmp_path / "net.mlmodel", to="coreml-predict")


class Squared(nn.Module):
    def forward(self, x):
        return torch.tanh(x).square()


def test_a_function_without_a_formula_is_refused_where_all_is_float(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="writes .tflite files")
    learner = taught(nn.Sequential(nn.Linear(5, 8), Squared(), nn.Linear(8, 3)), samples(5))
    assert learner.export(tmp_path / "net.tflite", precision="float").size_bytes  # its table is part of the file
    with pytest.raises(Unsupported, match="is float, and no formula is known for this int8 function"):
        learner.export(tmp_path / "train.tflite", to="litert-train", precision="float")
    assert not (tmp_path / "train.tflite").exists()


def test_a_float_file_is_compared_with_the_int8_learner_on_usual_inputs_and_told(tmp_path):
    """Drawn inputs reach the ends of int8's range, where only int8 saturates."""
    pytest.importorskip("coremltools", reason="writes .mlmodel files")
    torch.manual_seed(0)
    x = samples(7)
    net = nn.Sequential(nn.Linear(7, 1), nn.Tanh(), nn.Linear(1, 5), nn.Softplus(), nn.Linear(5, 3, bias=False))
    learner = taught(net, x, "last:2")
    said = learner.export(tmp_path / "net.mlmodel", to="coreml-predict").notes[-1]
    assert float(said.split("within ")[1].split()[0]) < 0.05
    notes = learner.export(tmp_path / "net.tflite", precision="float").notes
    assert any(note.startswith("without the roundings of int8, outputs are within ") for note in notes)
    assert not any(note.startswith("without") for note in learner.export(tmp_path / "int8.tflite").notes)

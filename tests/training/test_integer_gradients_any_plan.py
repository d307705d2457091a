"""Integer gradients are the same bytes whatever the plan: kernels for a host or for small machines, with much scratch
or little, with parts of the network in stripes or not, in place or not."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from insitu.devices.host import open_plans
from insitu.graph import Builder, Graph, build, evaluate, f32, lookup, s8
from insitu.graph.call import Call, Scratch
from insitu.importers.torch.read import read_torch
from insitu.learner.model import Model
from insitu.planner import Plan, plan
from insitu.planner.place.placer import ALIGN
from insitu.planner.plan import _ordered, _placed
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from .random_nets import Draw, Skip

NETWORKS = ((0, "s16"), (1, "s8"))  # seeds, and the type of the gradients


def expanded(draw: Draw, c: int, to: int, stride: int) -> nn.Module:
    """A block of a mobile network: more channels, a depthwise convolution, fewer."""
    wide, kernel = c + 3 + draw.below(30), draw.one_of((3, 5, 7))
    layers = (nn.Conv2d(c, wide, 1), nn.ReLU6(), nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide),
              nn.ReLU6(), nn.Conv2d(wide, to, 1))  # fmt: skip
    return nn.Sequential(*layers)


class Mobile(nn.Module):
    def __init__(self, draw: Draw):
        super().__init__()
        c, later = 4 + draw.below(6), 5 + draw.below(16)
        self.stem = nn.Sequential(nn.Conv2d(2, c, 3, 1, 1), nn.ReLU6())
        self.body = nn.Sequential(expanded(draw, c, c, 2), Skip(expanded(draw, c, c, 1)), expanded(draw, c, later, 2),
                                  Skip(expanded(draw, later, later, 1)))  # fmt: skip
        self.fc = nn.Linear(later, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


def network(seed: int, kind: str) -> tuple[dict[str, Graph], np.ndarray]:
    """Training graphs of a random network, its last two blocks trained, and samples."""
    draw = Draw(seed)
    torch.manual_seed(seed)
    side = 24 + draw.below(9)
    x = torch.randn(3, 2, side, side + draw.below(6))
    graph = read_torch(Mobile(draw).eval(), (x[:1],))
    graph = replace_head(Model(graph).quantize(x.numpy()).graph, None)
    scheme = read_scheme("last:6", [layer for layer in layers(graph) if layer.name != "head"])
    return train_graphs(graph, scheme, Recipe(grad=kind)), x.numpy()


def with_little_scratch(graph: Graph) -> Plan:
    """The plan for a small machine in which every call uses the least possible scratch."""
    return _placed(_ordered(graph, "as given", lambda n: call_of(n, graph, tight=True), "mcu"), ALIGN)


def call_of(node, graph: Graph, **asked) -> Call:
    fixed = {i for i, v in enumerate(node.inputs) if v.name in graph.constants}
    attrs, args = dict(node.attrs), (*node.outputs, *node.inputs)
    return node.op.apply("emit", args, attrs, node=node, fixed=fixed, target="mcu", **asked)


PLANS = {
    "mcu": lambda graph: plan(graph, target="mcu", stream=False),
    "in stripes": lambda graph: plan(graph, target="mcu", stream=True),
    "in higher stripes": lambda graph: plan(graph, target="mcu", stream=True, enough=20000),
    "little scratch": with_little_scratch,
}


def learned(step: Plan, predict: Plan, x: np.ndarray) -> list[bytes]:
    """Losses and the state after a few steps."""
    device = open_plans({"predict": predict, "train_step": step})
    device.poison(0xA5)
    rate = np.float32(0.05)
    losses = [device.run("train_step", s[None], np.array([i % 3], np.int32), rate) for i, s in enumerate(x)]
    return [np.asarray(v).tobytes() for out in losses for v in out] + [v.tobytes() for v in device.state().values()]


@pytest.mark.parametrize("seed, kind", NETWORKS)
def test_every_plan_learns_the_same_bytes(seed, kind):
    graphs, x = network(seed, kind)
    predict, step = plan(graphs["predict"]), graphs["train_step"]
    wanted = learned(plan(step), predict, x)
    for name, make in PLANS.items():
        assert learned(make(step), predict, x) == wanted, name


def scratch(call: Call) -> int:
    return sum(a.bytes for a in call.args if isinstance(a, Scratch))


def test_little_scratch_is_less():
    step = network(1, "s16")[0]["train_step"]
    found = [n for n in step.nodes if n.op.name in ("conv2d_dx_block", "depthwise2d_dx_block", "conv2d_dw_block")]
    sizes = [(scratch(call_of(n, step)), scratch(call_of(n, step, tight=True))) for n in found]
    assert sizes and all(less < 0.6 * usual for usual, less in sizes), sizes


@pytest.mark.parametrize("target", ["host", "mcu"])
@pytest.mark.parametrize("kernel", [3, 5])
def test_a_depthwise_gradient_may_lie_where_the_one_it_is_made_of_lay(kernel, target):
    """More rows than a band, more channels than a group, and no second image in the arena."""
    builder, before = Builder("alone"), (kernel // 2,) * 4
    with build(builder):
        g, w = builder.input("g", f32(1, 19, 6, 21)), builder.input("w", s8(kernel, kernel, 21, s=0.02))
        m, e = lookup("to_block")(g, dtype="s16b", name="m")
        dx = lookup("depthwise2d_dx_block")(m, e, w, size=(19, 6), padding=before, name="dx")
        y = lookup("from_block")(*dx, name="y")
    graph = builder.graph(y)
    made = plan(graph, target=target)
    assert made.offsets[dx[0].name] == made.offsets[m.name]
    rng = np.random.default_rng(0)
    feeds = rng.normal(size=g.shape).astype(np.float32), rng.integers(-127, 128, w.shape).astype(np.int8)
    (got,) = open_plans({"predict": made}).run("predict", *feeds)
    assert got.tobytes() == np.asarray(evaluate(graph, *feeds)).tobytes()

"""Low-rank updates: the program starts as the model, learns as torch would, and its factors become one weight."""

import copy
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import insitu  # noqa: E402
from insitu.devices.device import STEP, run_step  # noqa: E402
from insitu.errors import DataError, GraphError, SchemeError  # noqa: E402
from insitu.exporters.learned import learned_graph  # noqa: E402
from insitu.federated.catalogue import exchanged  # noqa: E402
from insitu.federated.units import units_of  # noqa: E402
from insitu.graph import evaluate  # noqa: E402
from insitu.learner.relinked import with_scheme  # noqa: E402
from insitu.schemes.scheme import Scheme, Update, fit, read_scheme  # noqa: E402
from insitu.training.low_rank import DOWN, UP, first_down, with_product  # noqa: E402
from insitu.training.parts import trainable  # noqa: E402

IMAGE = (1, 3, 6, 6)
PRODUCTS = ("0", "2", "6")  # the layers of the network below that can have factors of rank 2
FULL = {"classes": None, "precision": "float"}


def network() -> nn.Module:
    """Two 1x1 convolutions, one with a stride and without a bias, and two linear layers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 12, 1), nn.ReLU(), nn.Conv2d(12, 10, 1, stride=2, bias=False), nn.Tanh(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10, 8), nn.ReLU(),
                         nn.Linear(8, 4)).eval()  # fmt: skip


class Beside(nn.Module):
    """The layer with torch's own factors beside it."""

    def __init__(self, base: nn.Module, down: np.ndarray, up: np.ndarray):
        super().__init__()
        self.base, self.down, self.up = base, nn.Parameter(torch.tensor(down)), nn.Parameter(torch.tensor(up))

    def forward(self, x):
        w = (self.up.reshape(len(self.up), -1) @ self.down.reshape(len(self.down), -1)).reshape(self.base.weight.shape)
        return self.base._conv_forward(x, self.base.weight + w, self.base.bias) if w.ndim > 2 else \
            nn.functional.linear(x, self.base.weight + w, self.base.bias)  # fmt: skip


def samples(count: int = 24):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, *IMAGE[1:])) + rng.normal(size=(count, IMAGE[1], 1, 1))
    return x.astype(np.float32), x.mean((2, 3)).argmax(1)


def compiled(scheme: str = "lora:2", module: nn.Module | None = None, **options) -> insitu.Learner:
    return insitu.compile(module or network(), example=torch.zeros(IMAGE), scheme=scheme, **{**FULL, **options})


def learned(scheme: str = "lora:2", **options) -> insitu.Learner:
    made = compiled(scheme, **options)
    made.fit(*samples(), epochs=3, rate=0.05, head_rate=0.05)
    return made


def factors(state) -> set[str]:
    return {name for name in state if name.endswith((DOWN, UP))}


def close(a, b, tolerance: float = 1e-5) -> bool:
    return float(np.abs(np.asarray(a) - b).max()) <= tolerance * float(np.abs(b).max())


# the program ------------------------------------------------------------------------------------


def test_it_starts_as_the_model():
    x, _ = samples()
    made = compiled()
    assert factors(made.device.state()) == {f"{name}.weight{end}" for name in PRODUCTS for end in (DOWN, UP)}
    assert made.predict(x).tobytes() == compiled("head").predict(x).tobytes()


def test_frozen_weights_are_no_state():
    made = compiled()
    assert not {f"{name}.weight" for name in PRODUCTS} & set(made.device.state())
    assert made.info()["state_bytes"] < compiled("full").info()["state_bytes"]


def test_later_layers_read_the_sum_under_the_layers_name():
    graph = compiled().graphs["predict"]
    assert [graph.producer[name].op.name for name in PRODUCTS] == ["add"] * 3


def test_factors_are_drawn_alike_and_have_rows_of_about_one():
    down = first_down("a.weight", (64, 100))
    assert np.array_equal(down, first_down("a.weight", (64, 100)))
    assert not np.array_equal(down, first_down("b.weight", (64, 100)))
    np.testing.assert_allclose(np.square(down).sum(1).mean(), 1, rtol=0.05)
    assert abs(down.mean()) < 0.01


def moved() -> tuple[insitu.Learner, dict[str, np.ndarray]]:
    """A program whose factors are all far from zero, and its state."""
    made, rng = compiled(recipe=insitu.Recipe(clip=0.0)), np.random.default_rng(2)
    state = made.device.state()
    state |= {name: rng.normal(size=state[name].shape).astype(np.float32) for name in factors(state)}
    made.device.load_arrays(state)
    return made, made.device.state()


def torch_twin(state) -> nn.Module:
    module = network()
    for name in PRODUCTS:
        down, up = (state[f"{name}.weight{end}"] for end in (DOWN, UP))
        module.set_submodule(name, Beside(module.get_submodule(name), down, up))
    return module


def test_a_step_is_autograds():
    made, state = moved()
    module, (x, y), rate = torch_twin(state), samples(1), 0.1
    nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)).backward()
    run_step(made.device, STEP, x, y.astype(np.int32), np.float32(rate))
    now, largest = (
        made.device.state(),
        max(float(p.grad.abs().max()) for p in module.parameters() if p.grad is not None),
    )
    for name in PRODUCTS:
        layer = module.get_submodule(name)
        for end, want in ((DOWN, layer.down.grad), (UP, layer.up.grad)):
            got = (state[f"{name}.weight{end}"] - now[f"{name}.weight{end}"]) / rate
            np.testing.assert_allclose(got, want.numpy(), atol=1e-4 * largest, err_msg=f"{name}{end}")


def test_the_c_computes_what_the_graph_means():
    made, state = moved()
    x, graph = samples(4)[0], made.graphs["predict"]
    graph = replace(graph, constants={**graph.constants, **{n: state[n] for n in graph.state}}, state={})
    assert close(made.predict(x), np.concatenate([evaluate(graph, one[None]) for one in x]))
    assert close(made.predict(x), torch_twin(state)(torch.from_numpy(x)).detach().numpy())


@pytest.mark.parametrize("options", [{"batch": 4}, {"recipe": insitu.Recipe(optimizer="adam")},
                                     {"recipe": insitu.Recipe(optimizer="momentum"), "batch": 2}])  # fmt: skip
def test_every_kind_of_update_moves_factors(options):
    made = learned(**options)
    first = compiled(**options).device.state()
    assert all(not np.array_equal(made.device.state()[name], first[name]) for name in factors(first))


def test_a_step_of_zeros_is_bounded_by_the_weights_of_its_layer():
    made, (x, y) = compiled(recipe=insitu.Recipe(clip_kind="step")), samples(1)
    run_step(made.device, STEP, x, y.astype(np.int32), np.float32(1e4))
    state, graph = made.device.state(), made.graphs["predict"]
    for name in PRODUCTS:
        moved, most = (
            float(np.linalg.norm(a)) for a in (state[f"{name}.weight.up"], graph.constants[f"{name}.weight"])
        )
        assert 0.05 * most < moved < 0.1001 * most


def test_it_is_proved():
    found = insitu.prove(network(), example=torch.zeros(IMAGE), scheme="lora:2", precision="float", steps=2)
    assert found.ok, found.broken


def test_an_emulated_core_learns_the_same():
    for package in ("unicorn", "elftools", "ziglang"):
        pytest.importorskip(package)
    x, y = samples(6)
    host, course = compiled(board="nrf52840"), {"epochs": 2, "rate": 0.05, "seed": 3}
    with compiled(board="nrf52840").on("emulator") as there:
        there.fit(x, y, **course)
        host.fit(x, y, **course)
        for name, array in host.device.state().items():
            np.testing.assert_allclose(there.device.state()[name], array, atol=1e-5, err_msg=name)
        assert close(there.predict(x), host.predict(x))


def test_fit_with_nothing_else_learns():
    x, y = samples(200)
    made = compiled()
    made.fit(x[:120], y[:120], seed=0)
    assert made.evaluate(x[120:], y[120:])["accuracy"] > 0.6  # a third is chance


# out of the program -----------------------------------------------------------------------------


def test_the_weight_takes_the_product():
    made = learned()
    state, graph = made.device.state(), learned_graph(made)
    assert {n.op.name for n in graph.nodes} == {n.op.name for n in learned_graph(compiled("head")).nodes}
    down, up = (state[f"6.weight{end}"] for end in (DOWN, UP))
    assert np.abs(up @ down).max() > 1e-3  # something was learned
    assert close(graph.constants["6.weight"], network().get_submodule("6").weight.detach().numpy() + up @ down)
    x = samples()[0]
    assert close(np.concatenate([evaluate(graph, one[None]) for one in x]), made.predict(x))


@pytest.mark.parametrize(
    "name, package", [("m.tflite", "ai_edge_litert"), ("m.onnx", "onnxruntime"), ("m.pt", "torch")]
)
def test_files_hold_what_was_learned(name, package, tmp_path):
    pytest.importorskip(package)
    made, x = learned(), samples()[0]
    made.export(tmp_path / name)
    if not name.endswith(".pt"):
        assert close(insitu.load(tmp_path / name).predict(x), made.predict(x))


def test_the_users_module_takes_what_was_learned():
    module, made, x = network(), learned(), samples()[0]
    insitu.export.into(module, made)
    assert close(module(torch.from_numpy(x)).detach().numpy(), made.predict(x))


def with_norms() -> tuple[nn.Module, tuple[int, ...]]:
    """Batch norms are folded into the layers that get factors."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 12, 1), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(12, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4))  # fmt: skip
    net(2 * torch.randn(40, *IMAGE[1:]) + 1)  # its statistics
    return net.eval(), IMAGE[1:]


def over_time() -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(6, 12, 1), nn.ReLU(), nn.Conv1d(12, 8, 1, stride=2), nn.ReLU(), nn.Flatten(),
                         nn.Linear(40, 4)).eval(), (6, 10)  # fmt: skip


@pytest.mark.parametrize("net", [with_norms, over_time])
def test_a_module_with_norms_or_of_one_axis_takes_it_too(net):
    module, shape = net()
    x = np.random.default_rng(3).normal(size=(24, *shape)).astype(np.float32)
    made = insitu.compile(module, example=torch.zeros(1, *shape), scheme="lora:2", **FULL)
    made.fit(x, np.arange(24) % 4, epochs=2, rate=0.05)
    assert len(factors(made.device.state())) == 4 and made.device.state()["0.weight.up"].any()
    insitu.export.into(module, made)
    assert close(module(torch.from_numpy(x)).detach().numpy(), made.predict(x))


def test_too_little_memory_suggests_a_lower_rank():
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).eval()
    options = {"example": torch.zeros(1, 64), "board": "nrf52840", **FULL}
    with pytest.raises(insitu.BudgetError) as e:
        insitu.compile(wide, scheme="lora:16", sram=12_000, **options)
    assert 'scheme="lora:8"' in e.value.hint or 'scheme="lora:4"' in e.value.hint
    insitu.compile(wide, scheme="lora:4", sram=12_000, **options)


def test_a_file_goes_on_byte_for_byte(tmp_path):
    (x, y), course = samples(), {"epochs": 4, "rate": 0.05}
    whole, first = compiled(), compiled()
    whole.fit(x, y, **course)
    first.fit(x, y, **course, stop_epoch=2)
    opened = insitu.open(first.save(tmp_path / "half.insitu"))
    opened.fit(x, y, **course, start_epoch=2)
    assert opened.device.save_state() == whole.device.save_state()
    assert close(insitu.load(opened.save(tmp_path / "all.insitu")).predict(x), whole.predict(x))


@pytest.mark.parametrize("scheme", ["head", "full", "lora:1", "lora:2", "last:1"])
@pytest.mark.parametrize("options", [{}, {"recipe": insitu.Recipe(optimizer="adam")}])
def test_another_scheme_goes_on_from_what_was_learned(scheme, options):
    made, x = learned(**options), samples()[0]
    other = with_scheme(made, scheme)
    assert close(other.predict(x), made.predict(x))
    assert all(not array.any() for name, array in other.device.state().items() if name.endswith(UP))


def test_another_board_goes_on_from_what_was_learned(tmp_path):
    made, x = learned(), samples()[0]
    path = made.save(tmp_path / "a.insitu")
    assert insitu.cli.main(["compile", str(path), "--board", "nrf52840", "-o", str(tmp_path / "build")]) == 0
    assert close(insitu.open(tmp_path / "build").predict(x), made.predict(x))


def test_a_class_is_added():
    made, x = learned(classes=4), samples()[0]
    want = made.predict(x)
    made.add_class("more")
    assert close(made.predict(x)[:, :4], want)


# schemes ----------------------------------------------------------------------------------------


def layers():
    return trainable(insitu.load(network(), torch.zeros(IMAGE)).graph)


@pytest.mark.parametrize(
    "text, names", [("lora:2", PRODUCTS), ("lora:2:last:1", PRODUCTS[-1:]), ("lora:4", PRODUCTS[1:])]
)
def test_a_word_names_the_layers_that_factors_make_smaller(text, names):
    found = read_scheme(text, [layer for layer in layers() if layer.name != "8"])
    assert [(u.layer, u.bias, u.rank) for u in found.updates] == [(name, False, int(text[5])) for name in names]


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_with_ranks_read_back(form, tmp_path):
    scheme = Scheme("mine", (Update("0", True, rank=2), Update("6", False, rank=3)))
    path = tmp_path / "mine"
    path.write_text(str(scheme) if form == "text" else scheme.to_json())
    assert read_scheme(str(path), layers()).updates == scheme.updates
    state = compiled(str(path)).device.state()
    assert {"0.bias", "0.weight.down", "6.weight.up"} <= set(state) and "6.bias" not in state


@pytest.mark.parametrize("text, complaint", [
    ("lora", "rank is missing"), ("lora:0", "not a rank"), ("lora:x", "not a rank"), ("lora:2:last", "not a rank"),
    ("lora:50", "wide enough"), ("lora:2:last:9", "3 layers"), ("lora:2:first:1", "not a rank"),
])  # fmt: skip
def test_a_word_that_cannot_be_says_why(text, complaint):
    with pytest.raises(SchemeError, match=complaint):
        read_scheme(text, [layer for layer in layers() if layer.name != "8"])


@pytest.mark.parametrize("line, complaint", [
    ("6 weight 1/2 rank 2", "cannot read"), ("6 rank -1", "cannot read"), ("6 rank 8", "no smaller"),
    ("nowhere rank 2", "no such layer"),
])  # fmt: skip
def test_a_line_that_cannot_be_says_why(line, complaint, tmp_path):
    (tmp_path / "s").write_text(line)
    with pytest.raises(SchemeError, match=complaint):
        read_scheme(str(tmp_path / "s"), layers())


def test_a_wide_convolution_has_no_factors():
    module = nn.Sequential(nn.Conv2d(3, 12, 3), nn.Flatten(), nn.Linear(192, 4))
    with pytest.raises(SchemeError, match="wide enough"):
        compiled(module=module)
    found = trainable(insitu.load(module, torch.zeros(IMAGE)).graph)
    with pytest.raises(SchemeError, match="needs a linear layer or a 1x1 convolution, not this conv2d"):
        fit(Scheme("mine", (Update(found[0].name, rank=1),)), found)


def test_int8_layers_have_no_factors():
    with pytest.raises(SchemeError, match='needs a float layer, and layer "0" is int8') as e:
        insitu.compile(network(), data=samples()[0], scheme="lora:2")
    assert 'precision="float"' in e.value.hint


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.both, self.head = nn.Linear(9, 9), nn.Linear(9, 4)

    def forward(self, x):
        return self.head(torch.relu(self.both(torch.relu(self.both(x)))))


class Tied(nn.Module):
    """An autoencoder whose decoder is the transposed encoder, and a head."""

    def __init__(self):
        super().__init__()
        self.code, self.head = nn.Linear(9, 8), nn.Linear(9, 4)

    def forward(self, x):
        return self.head(nn.functional.linear(torch.tanh(self.code(x)), self.code.weight.t()))


def test_a_shared_layer_has_no_factors(tmp_path):
    with pytest.raises(SchemeError, match="wide enough"):
        insitu.compile(Twice(), example=torch.zeros(1, 9), scheme="lora:2", **FULL)
    (tmp_path / "s").write_text("both rank 2")
    with pytest.raises(GraphError, match="shared with another layer"):
        insitu.compile(Twice(), example=torch.zeros(1, 9), scheme=str(tmp_path / "s"), **FULL)


def test_a_layer_whose_weight_is_read_turned_elsewhere_has_no_factors():
    module, example = Tied(), torch.zeros(1, 9)
    with pytest.raises(GraphError, match="shared with another layer"):
        insitu.compile(module, example=example, scheme="lora:2", **FULL, recipe=insitu.Recipe(loss="mse"))


def test_it_can_be_chosen_on_the_device():
    made = compiled("head+lora:2", board="nrf52840")
    assert {"train_step", "train_step_head"} <= set(made.graphs)


def test_a_fleet_refuses_factors_unless_they_stay_on_their_device():
    units = units_of(compiled().graphs)
    with pytest.raises(DataError, match="0: has a low-rank update") as e:
        exchanged(units)
    assert "personal" in e.value.hint
    assert all(u.name.startswith("head") for u in exchanged(units, PRODUCTS))


def test_the_product_has_the_weights_shape_and_type():
    arrays = {"w.down": np.ones((2, 1, 1, 3), np.float32), "w.up": np.full((4, 1, 1, 2), 0.5, np.float32)}
    found = with_product(np.zeros((4, 1, 1, 3), np.float32), arrays, "w")
    assert found.dtype == np.float32 and np.array_equal(found, np.ones((4, 1, 1, 3)))


def test_a_program_that_never_ran_is_merged_too():
    made = compiled()
    assert close(np.concatenate([evaluate(learned_graph(made), one[None]) for one in samples(3)[0]]),
                 copy.deepcopy(made).predict(samples(3)[0]))  # fmt: skip

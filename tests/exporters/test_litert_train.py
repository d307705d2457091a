"""Trainable LiteRT files, run by LiteRT: the same losses as the learner's C and as torch, and exact checkpoints."""

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("ai_edge_litert", reason="LiteRT runs the exported files")

from ai_edge_litert.interpreter import Interpreter, OpResolverType

import insitu
from insitu.devices.device import Updates
from insitu.errors import Unsupported
from insitu.exporters.learned import chosen_graph
from insitu.exporters.litert_train import write
from insitu.exporters.litert_train.table import TABLE
from insitu.exporters.written import Options
from insitu.graph import evaluate
from insitu.ops.activation_backward import relu_dx
from insitu.training.train import Recipe

from ..models import MobileNetV2

STEPS = 20
RATES = {"sgd": 0.02, "momentum": 0.01, "adam": 0.002}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Dropout(0.2), nn.Linear(9, 4))


def cnn() -> nn.Module:
    """A strided and a depthwise convolution, every kind of pooling, and activations with a gradient of their own."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 6, 3, 1, 1, groups=6), nn.Hardswish(),
        nn.Conv2d(6, 8, 1), nn.Sigmoid(), nn.AvgPool2d(2, 1), nn.Conv2d(8, 8, 3, 2, 1, groups=8), nn.Tanh(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


NETS = {
    "mlp": (mlp, (1, 3, 4), "full"),
    "cnn": (cnn, (3, 16, 16), "full"),
    "mobilenet": (lambda: MobileNetV2(4), (3, 16, 16), "last:4"),
}


def learner_of(net: str, optimizer: str = "sgd", batch: int = 1, scheme: str = "", **options) -> insitu.Learner:
    make, shape, usual = NETS[net]
    torch.manual_seed(3)
    recipe = options.pop("recipe", None) or Recipe(optimizer=optimizer)
    options = {"precision": "float", "classes": 4, "head_init": "uniform", **options}
    return insitu.compile(make().eval(), example=torch.zeros(1, *shape), scheme=scheme or usual, batch=batch,
                          recipe=recipe, **options)  # fmt: skip


def samples(learner: insitu.Learner, count: int):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, *learner.sample.shape[1:])).astype(np.float32)
    return x, rng.integers(0, 4, count).astype(np.int32)


def opened(learner: insitu.Learner, batch: int | None = None, **options) -> Interpreter:
    return Interpreter(model_content=write(learner, Options(batch=batch)).data, **options)


def steps(interpreter: Interpreter, x, y, rate: float, batch: int = 1) -> list[float]:
    train = interpreter.get_signature_runner("train")
    rate = np.array([rate], np.float32)
    return [float(train(x=x[i : i + batch], y=y[i : i + batch], rate=rate)["loss"]) for i in range(0, len(x), batch)]


QUICK = {("mlp", "adam"), ("cnn", "momentum"), ("mobilenet", "sgd")}  # each net and each optimizer once
PAIRS = [
    pytest.param(net, optimizer, marks=() if (net, optimizer) in QUICK else pytest.mark.slow)
    for net in NETS for optimizer in RATES
]  # fmt: skip


def test_an_epsilon_that_is_added_early_is_exported():
    learner = learner_of("mlp", recipe=Recipe(optimizer="adam", epsilon=0.01, epsilon_early=True))
    x, y = samples(learner, STEPS)
    ours = [learner.partial_fit(a, int(b), rate=0.01).losses[0][0] for a, b in zip(x, y)]
    np.testing.assert_allclose(steps(opened(learner_of("mlp", recipe=learner.recipe)), x, y, 0.01), ours, atol=1e-4)


@pytest.mark.parametrize("net, optimizer", PAIRS)
def test_losses_equal_those_of_the_learners_own_program(net, optimizer):
    learner = learner_of(net, optimizer)
    x, y = samples(learner, STEPS)
    got = steps(opened(learner), x, y, RATES[optimizer])
    want = learner.device.train(Updates((x, y), range(STEPS), [RATES[optimizer]] * STEPS)).losses
    np.testing.assert_allclose(got, want, atol=1e-5)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("optimizer", ["adam", pytest.param("sgd", marks=SLOW), pytest.param("momentum", marks=SLOW)])
def test_losses_equal_those_of_torch(optimizer):
    torch.manual_seed(3)
    module, batch = cnn(), 4
    learner = learner_of("cnn", optimizer, batch, classes=None)  # the module's own classifier
    x, y = samples(learner, batch * STEPS)
    got = steps(opened(learner), x, y, RATES[optimizer], batch)
    make = {
        "sgd": lambda p, rate: torch.optim.SGD(p, rate),
        "momentum": lambda p, rate: torch.optim.SGD(p, rate, momentum=0.9),
        "adam": lambda p, rate: torch.optim.Adam(p, rate),
    }[optimizer]
    want, steps_of = [], make(module.parameters(), RATES[optimizer])
    for i in range(0, len(x), batch):
        given = torch.tensor(x[i : i + batch].reshape(batch, *learner.sample.shape[1:]))
        given = given if given.shape[1] == 3 else given.permute(0, 3, 1, 2)
        loss = nn.functional.cross_entropy(module(given), torch.tensor(y[i : i + batch]).long())
        steps_of.zero_grad()
        loss.backward()
        steps_of.step()
        want.append(loss.item())
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("resolver", [OpResolverType.AUTO, OpResolverType.BUILTIN_REF])
def test_a_fresh_interpreter_goes_on_exactly_where_another_saved(resolver):
    learner = learner_of("mlp", "adam")  # with dropout: its random numbers go on too
    x, y = samples(learner, 12)
    first = opened(learner, experimental_op_resolver_type=resolver)
    steps(first, x[:6], y[:6], 0.01)
    saved = first.get_signature_runner("save")()
    want = steps(first, x[6:], y[6:], 0.01)
    second = opened(learner, experimental_op_resolver_type=resolver)
    second.get_signature_runner("restore")(**saved)
    second.get_signature_runner("infer")(x=x[:1])  # the first signature that reads must not overwrite what was restored
    assert steps(second, x[6:], y[6:], 0.01) == want
    last = [i.get_signature_runner("save")() for i in (first, second)]
    assert all(np.array_equal(last[0][name], last[1][name]) for name in last[0])


def test_what_litert_learned_is_a_state_of_the_learner():
    learner = learner_of("cnn", "momentum")
    x, y = samples(learner, 6)
    interpreter = opened(learner)
    steps(interpreter, x, y, 0.02)
    learner.device.load_arrays(interpreter.get_signature_runner("save")())
    got = interpreter.get_signature_runner("infer")(x=x[:1])
    np.testing.assert_allclose(got["logits"], learner.predict(x[:1]), atol=1e-5)
    np.testing.assert_allclose(got["output"].sum(), 1, atol=1e-6)


def test_the_file_starts_from_what_was_learned():
    learner = learner_of("mlp")
    x, y = samples(learner, 8)
    learner.fit(x, y, epochs=2, rate=0.1)
    got = opened(learner).get_signature_runner("infer")(x=x[:1])["logits"]
    np.testing.assert_allclose(got, learner.predict(x[:1]), atol=1e-6)


@pytest.mark.parametrize("loss", ["mse", "binary_cross_entropy", "soft_cross_entropy"])
def test_losses_that_take_targets(loss):
    learner = learner_of("mlp", recipe=Recipe(loss=loss), classes=4 if loss == "soft_cross_entropy" else None)
    x, _ = samples(learner, 6)
    y = np.random.default_rng(2).dirichlet(np.ones(4), 6).astype(np.float32)
    got = steps(opened(learner), x, y, 0.1)
    want = learner.device.train(Updates((x, y), range(6), [0.1] * 6)).losses
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_a_batch_at_once_equals_gradients_added_up_one_by_one():
    learner = learner_of("cnn", "adam", batch=4)
    x, y = samples(learner, 12)
    got = steps(opened(learner), x, y, 0.01, batch=4)
    want = learner.device.train(Updates((x, y), range(12), [0.01] * 3, batch=4)).losses
    np.testing.assert_allclose(got, want.reshape(3, 4).mean(1), atol=1e-5)


def test_the_batch_can_be_chosen_at_export():
    interpreter = opened(learner_of("mlp"), batch=3)
    details = interpreter.get_signature_runner("train").get_input_details()
    assert details["x"]["shape"][0] == details["y"]["shape"][0] == 3


def test_batch_norm_learns_its_statistics():
    NETS["normed"] = (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(),
                                            nn.Linear(8, 4)), (1, 3, 4), "full")  # fmt: skip
    learner = learner_of("normed", "momentum", batch=6)
    x, y = samples(learner, 24)
    interpreter = opened(learner)
    got = steps(interpreter, x, y, 0.05, batch=6)
    want = learner.device.train(Updates((x, y), range(24), [0.05] * 4, batch=6)).losses
    np.testing.assert_allclose(got, want.reshape(4, 6)[:, 0], atol=1e-5)
    saved, state = interpreter.get_signature_runner("save")(), learner.device.state()
    moved = [name for name in saved if "running" in name or "mean" in name or "var" in name]
    assert moved and all(np.allclose(saved[name], state[name], atol=1e-5) for name in moved)


def test_a_label_that_is_no_class_changes_nothing_and_is_counted():
    learner = learner_of("mlp")
    x, _ = samples(learner, 1)
    interpreter = opened(learner)
    before = interpreter.get_signature_runner("save")()
    assert np.isnan(steps(interpreter, x, np.array([9], np.int32), 0.1)).all()
    after = interpreter.get_signature_runner("save")()
    assert after["counters"].tolist() == [1, 0, 0]
    assert all(np.array_equal(before[n], after[n]) for n in before if n not in ("counters", "dropout.counter"))


def test_long_gradients_are_clipped():
    learner = learner_of("mlp", recipe=Recipe(clip=0.01))
    x, y = samples(learner, 3)
    interpreter = opened(learner)
    got = steps(interpreter, x, y, 0.5)
    want = learner.device.train(Updates((x, y), range(3), [0.5] * 3)).losses
    np.testing.assert_allclose(got, want, atol=1e-5)
    counters = interpreter.get_signature_runner("save")()["counters"]
    assert counters.tolist() == learner.device.state()["counters"].tolist() and counters[1] > 0


def test_an_int8_learner_is_refused():
    x = np.random.default_rng(0).normal(size=(8, 1, 3, 4)).astype(np.float32)
    with pytest.raises(Unsupported, match='int8\n  try: precision="float" trains the float network'):
        write(learner_of("mlp", precision="int8", data=x, scheme="head"), Options())


def test_the_float_network_of_an_int8_learner_goes_on_learning():
    x = np.random.default_rng(0).normal(size=(STEPS, 3, 16, 16)).astype(np.float32)
    y = np.arange(STEPS, dtype=np.int32) % 4
    learner = learner_of("mobilenet", precision="int8", data=x, scheme="last:2")
    learner.fit(x, y, epochs=1, rate=0.05)
    options = Options(precision="float")
    written = Interpreter(model_content=write(learner, options).data)
    network = chosen_graph(learner, options)
    first = evaluate(network, x[:1])
    np.testing.assert_allclose(written.get_signature_runner("infer")(x=x[:1])["logits"], first, atol=1e-5)
    ours = insitu.compile(network, precision="float", scheme="last:2", recipe=learner.recipe)
    want = ours.device.train(Updates((x, y), range(STEPS), [0.02] * STEPS)).losses
    np.testing.assert_allclose(steps(written, x, y, 0.02), want, atol=1e-5)


def test_an_op_that_litert_lacks_is_refused_by_name_before_a_file_appears(monkeypatch, tmp_path):
    monkeypatch.delitem(TABLE, relu_dx)
    with pytest.raises(Unsupported, match=r"LiteRT cannot express op relu_dx") as found:
        learner_of("mlp").export(tmp_path / "net.tflite", to="litert-train")
    assert found.value.where.startswith("%") and not list(tmp_path.iterdir())


def test_export_checks_the_file_and_says_what_the_signatures_take(tmp_path):
    made = learner_of("cnn", "adam").export(tmp_path / "net.tflite", to="litert-train", batch=8)
    assert any("x f32[8x3x16x16], y s32[8] and rate f32[1]" in note for note in made.notes)
    assert any(note.startswith("LiteRT infers what the learner predicts") for note in made.notes)


def test_the_same_learner_gives_the_same_bytes():
    learner = learner_of("cnn", "adam")
    assert write(learner, Options()).data == write(learner, Options()).data


def test_class_names_are_in_the_file():
    learner = learner_of("mlp", classes=["rest", "walk", "run", "jump"])
    assert b"rest\nwalk\nrun\njump" in write(learner, Options()).data

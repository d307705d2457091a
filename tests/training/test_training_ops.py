"""Ops that exist only in training: batch statistics and random drops; and gradient rules with missing parts."""

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.errors import GraphError
from insitu.graph import build, evaluate, f32, lookup
from insitu.graph.types import s32
from insitu.ops._random import first_count, random_u32
from insitu.training.autodiff import differentiate

from .gradients import weighted_sum
from .test_gradients import close

N = 20_000


def dropped(counter: int, *, p: float, layer: int = 0, x=None) -> np.ndarray:
    x = np.ones(N, np.float32) if x is None else x
    with build("dropout") as b:
        y = lookup("dropout_train")(b.input("x", f32(*x.shape)), b.input("counter", s32(1)), p=p, layer=layer)
        graph = b.graph(y)
    return evaluate(graph, x, np.array([counter], np.int32))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_with_probability_p_and_keeps_the_mean(p):
    y = dropped(7, p=p)
    assert abs((y == 0).mean() - p) < 4 * np.sqrt(p * (1 - p) / N)
    np.testing.assert_allclose(y[y != 0], 1 / (1 - p), rtol=1e-6)


def test_steps_layers_and_elements_draw_independently():
    a, b, c = dropped(0, p=0.5) > 0, dropped(1, p=0.5) > 0, dropped(0, p=0.5, layer=1) > 0
    for other in (b, c, np.roll(a, 1), np.roll(a, 64)):
        assert abs(np.corrcoef(a, other)[0, 1]) < 4 / np.sqrt(N)


def test_random_bits_are_even():
    bits = np.unpackbits(random_u32(3, 5, N).view(np.uint8)).reshape(N, 32).mean(axis=0)
    assert np.all(np.abs(bits - 0.5) < 4.5 * 0.5 / np.sqrt(N))


def test_random_numbers_are_these_on_every_machine():
    np.testing.assert_array_equal(random_u32(5, 2, 3), PINNED)
    assert first_count(1)[0] != first_count(0)[0] + 1


def test_the_gradient_of_dropout_drops_what_was_dropped():
    x = np.linspace(1, 2, 50, dtype=np.float32)
    with build("dropout") as b:
        v, counter = b.input("x", f32(50)), b.input("counter", s32(1))
        y = lookup("dropout_train")(v, counter, p=0.4, layer=2)
        grads = differentiate(b, weighted_sum(b, [y], [np.ones(50, np.float32)]), [v])
        graph = b.graph(y, grads["x"])
    y, gradient = evaluate(graph, x, np.array([11], np.int32))
    np.testing.assert_allclose(gradient, y / x, rtol=1e-6)
    assert 0 < (gradient == 0).sum() < 50


def test_running_statistics_are_torch_s():
    torch = pytest.importorskip("torch", reason="compares with torch")
    rng = np.random.default_rng(5)
    layer = torch.nn.BatchNorm2d(3, momentum=0.2, eps=1e-3).double()
    with build("norm") as b:
        inputs = [b.input("x", f32(2, 4, 5, 3)), *(b.input(n, f32(3)) for n in ("scale", "bias", "mean", "var"))]
        graph = b.graph(*lookup("batch_norm_train")(*inputs, momentum=0.2, epsilon=1e-3))
    mean, var = np.zeros(3), np.ones(3)
    for _ in range(3):
        x = rng.normal(1, 2, (2, 4, 5, 3))
        want = layer(torch.tensor(x).movedim(-1, 1)).movedim(1, -1).detach().numpy()
        y, _, _, mean, var = evaluate(graph, x, np.ones(3), np.zeros(3), mean, var, precision=np.float64)
        close(y, want)
    close(mean, layer.running_mean.numpy())
    close(var, layer.running_var.numpy())


def test_one_element_a_channel_has_no_variance():
    with build("norm") as b, pytest.raises(GraphError, match="no variance"):
        lookup("batch_norm_train")(b.input("x", f32(1, 5)), *(b.input(n, f32(5)) for n in "abcd"))


@pytest.mark.parametrize("used", [(0,), (2,), (0, 2)])
def test_pieces_that_lead_nowhere_have_no_gradient(used):
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    with build("split") as b:
        v = b.input("x", f32(2, 6))
        pieces = lookup("split")(v, sizes=(1, 3, 2), axis=1)
        loss = weighted_sum(b, [pieces[i] for i in used], [np.ones(pieces[i].shape, np.float32) for i in used])
        graph = b.graph(differentiate(b, loss, [v])["x"])
    want = np.repeat([1.0 if i in used else 0.0 for i in range(3)], (1, 3, 2))
    np.testing.assert_array_equal(evaluate(graph, x), [want, want])


def test_rows_that_output_padding_added_belong_to_no_window():
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(1, 3, 3, 2)), rng.normal(size=(2, 2, 2, 1))
    with build("up") as b:
        inputs = [b.input("x", f32(*x.shape)), b.input("w", f32(*w.shape))]
        y = lookup("conv_transpose2d")(*inputs, stride=(1, 1), dilation=(3, 3), output_padding=(2, 1))
        r = rng.uniform(size=y.shape).astype(np.float32)
        grads = differentiate(b, weighted_sum(b, [y], [r]), inputs)
        graph = b.graph(*(grads[v.name] for v in inputs))
    torch = pytest.importorskip("torch", reason="compares with torch")
    tx, tw = (torch.tensor(v, requires_grad=True) for v in (x, w))
    up = torch.nn.functional.conv_transpose2d(tx.movedim(-1, 1), tw.movedim(-1, 1), None, 1, 0, (2, 1), 1, 3)
    (up.movedim(1, -1) * torch.tensor(r.astype(np.float64))).sum().backward()
    for found, want in zip(evaluate(graph, x, w, precision=np.float64), (tx.grad, tw.grad)):
        close(found, want.numpy())


def test_gradients_at_kinks_are_torch_s():
    torch = pytest.importorskip("torch", reason="compares with torch")
    from .torch_twins import TWINS

    at = np.array([0.0, 6.0, -3.0, 3.0, -1.0, 1.0])
    for name, attrs in KINKS.items():
        with build(name) as b:
            x = b.input("x", f32(6))
            grads = differentiate(b, weighted_sum(b, [lookup(name)(x, **attrs)], [np.ones(6, np.float32)]), [x])
            graph = b.graph(grads["x"])
        tx = torch.tensor(at, requires_grad=True)
        TWINS[name](tx, **lookup(name).complete(attrs)).sum().backward()
        np.testing.assert_allclose(evaluate(graph, at, precision=np.float64), tx.grad.numpy(), err_msg=name, atol=1e-7)


KINKS = {
    "relu": {}, "relu6": {}, "leaky_relu": {"slope": 0.2}, "clamp": {"lo": -1.0, "hi": 1.0}, "hard_swish": {},
    "elu": {"alpha": 0.7}, "abs": {},
}  # fmt: skip
PINNED = [3849130265, 2121563502, 3480045862]

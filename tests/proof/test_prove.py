"""The certificate holds for correct programs, and fails, naming the check, for everything broken on purpose."""

import json
import shutil
from dataclasses import replace
from functools import wraps
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu import proof
from insitu.cli import main
from insitu.devices.host import open_plans
from insitu.graph import lookup
from insitu.graph.file import save
from insitu.planner import plan, verify
from insitu.proof.differences import Run
from insitu.proof.findings import Finding, row
from insitu.proof.program import Tools, same_state
from insitu.proof.steps import real_steps
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.toolchain import sources
from insitu.training import prefix
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..training.small_nets import float_net, int8_net

certifying = import_module("insitu.proof.certify")  # the package has a function of that name


def broken(graph=None, **options) -> tuple[str, ...]:
    """The checks that fail for the small int8 network."""
    return insitu.prove(graph or int8_net(), classes=3, **{"scheme": "full", **options}).broken


# what is right ----------------------------------------------------------------------------------

RIGHT = {
    "int8": (int8_net, {}),
    "int8, batch": (int8_net, {"batch": 3}),
    "int8, last layers": (int8_net, {"scheme": "last:2"}),
    "int8 head": (int8_net, {"head": "int8"}),
    "int8, stochastic": (int8_net, {"recipe": Recipe(arithmetic="stochastic", decay=0.01)}),
    "int8, clipped": (int8_net, {"recipe": Recipe(clip=0.01, arithmetic="residual4")}),
    "int8, head clip, no scaling": (int8_net, {"recipe": Recipe(clip=0.1, clip_kind="head", qas=False)}),
    "float": (float_net, {"precision": "float"}),
    "float, momentum": (float_net, {"precision": "float", "recipe": Recipe(optimizer="momentum", nesterov=True)}),
    "float, adam": (float_net, {"precision": "float", "recipe": Recipe(optimizer="adam", decay=0.01)}),
}


@pytest.mark.parametrize("label", RIGHT)
def test_a_right_program_is_proven(label):
    graph, options = RIGHT[label]
    assert broken(graph(), **options) == ()


def test_the_small_network_exercises_every_check():
    """Otherwise the mutants below would prove nothing."""
    found = insitu.prove(int8_net(), classes=3, scheme="full")
    assert all(r.count for r in found.rows if r.check != "frozen layers"), found.to_text()
    assert "everything holds" in found.to_text()
    assert insitu.prove(int8_net(), classes=3, scheme="last:2").empty == ()


# mutants ----------------------------------------------------------------------------------------


def mutate(monkeypatch, op: str, rule: str, change) -> None:
    """Replace a rule of an op by change(rule)."""
    rules = lookup(op).rules
    monkeypatch.setitem(rules, rule, wraps(rules[rule])(change(rules[rule])))


def test_a_zero_point_dropped_from_a_gradient(monkeypatch):
    monkeypatch.setattr("insitu.ops.conv_backward.real", lambda a, t: a * (t.quant.scales(t.rank) if t.quant else 1.0))
    assert {"int8 rules", "int8 gradients", "C, floats"} <= set(broken())


def test_frozen_layers_that_give_other_outputs_alone(monkeypatch):
    def wrong(graphs, samples):
        cut = prefix.split(graphs, samples)
        changed = {name: np.flip(a) for name, a in cut.prefix.constants.items()}
        return replace(cut, prefix=replace(cut.prefix, constants=changed))

    monkeypatch.setattr(certifying, "split", wrong)
    assert broken(scheme="last:2") == ("frozen layers",)


def test_frozen_layers_that_cannot_be_cut_off(monkeypatch):
    def wrong(graphs, samples):
        cut = prefix.split(graphs, samples)
        return replace(cut, prefix=replace(cut.prefix, nodes=cut.prefix.nodes[:-1]))

    monkeypatch.setattr(certifying, "split", wrong)
    assert broken(scheme="last:2") == ("plan",)


def test_a_zero_point_dropped_from_the_c(monkeypatch):
    def change(emit):
        def without(*args, **kwargs):
            call = emit(*args, **kwargs)
            zero = args[2].type.zero
            assert zero in call.args
            return type(call)(call.function, *(0 if a is not None and a is zero else a for a in call.args))

        return without

    mutate(monkeypatch, "conv2d_dw", "emit", change)
    assert set(broken()) == {"C, floats", "training steps"}


def test_a_zero_point_dropped_from_the_forward_pass(monkeypatch):
    monkeypatch.setattr("insitu.ops.conv.centred", lambda x, zero: x.astype(np.float64))
    assert {"int8 meaning", "C, integers"} <= set(broken())


def test_a_dropped_clamp_mask(monkeypatch):
    monkeypatch.setattr("insitu.ops.conv.unclamped", lambda g, y: g[0] if isinstance(y, tuple) else g)
    assert set(broken()) == {"int8 rules", "int8 gradients"}


def test_a_mask_the_c_does_not_write(monkeypatch):
    def change(emit):
        def without(*args, **kwargs):
            call = emit(*args, **kwargs)
            return type(call)(call.function, call.args[0], None, *call.args[2:])

        return without

    mutate(monkeypatch, "conv2d_s8", "emit", change)
    assert {"C, integers", "poisoned arena"} <= set(broken())


@pytest.mark.parametrize("precision", ["int8", "float"])
def test_a_dropped_fan_out_add(monkeypatch, precision):
    monkeypatch.setattr("insitu.training.autodiff._total", lambda grads, name: grads[name][0])
    graph = int8_net() if precision == "int8" else float_net()
    assert broken(graph, precision=precision) == (f"{precision} gradients",)


def test_a_dropped_weight_scale(monkeypatch):
    monkeypatch.setattr("insitu.ops.conv_backward.real", lambda a, t: a.astype(np.float64) - t.zero)
    assert {"int8 rules", "int8 gradients"} <= set(broken())


def test_dropped_quantisation_aware_scaling(monkeypatch):
    def unscaled(w, qas):
        return np.ones(len(w.quant.scale), np.float32)

    monkeypatch.setattr("insitu.ops.update_int.per_channel", unscaled)
    assert broken() == ("updates",)


# update -> the input that a wrong formula ignores, and what it uses instead
FORGOTTEN = {"momentum": ("sgd_momentum", 1, np.zeros_like), "adam": ("adam", 3, np.ones_like)}


@pytest.mark.parametrize("optimizer", FORGOTTEN)
def test_an_optimizer_that_forgets_its_momentum_or_its_correction(monkeypatch, optimizer):
    recipe = Recipe(optimizer=optimizer, decay=0.01, nesterov=optimizer == "momentum")
    graph = train_graphs(float_net(), read_scheme("full", layers(float_net())), recipe, head=None)["train_step"]
    right = list(real_steps(graph, graph.state))
    assert len(right) >= 2 and all(f.ok for f in right)
    name, at, instead = FORGOTTEN[optimizer]
    rule = lookup(name).rules["eval"]

    @wraps(rule)
    def forgetful(*given, **options):
        return rule(*given[:at], instead(given[at]), *given[at + 1 :], **options)

    monkeypatch.setitem(lookup(name).rules, "eval", forgetful)
    assert not any(f.ok for f in real_steps(graph, graph.state))


@pytest.mark.parametrize("op", ["conv2d_dx", "conv2d_dw", "depthwise2d_dx"])
@pytest.mark.parametrize("precision", ["int8", "float"])
def test_a_dropped_padding_edge(monkeypatch, op, precision):
    def change(eval):
        def without(*args, **kwargs):
            found = eval(*args, **kwargs).copy()
            found[:, 0] = 0
            return found

        return without

    mutate(monkeypatch, op, "eval", change)
    graph = int8_net() if precision == "int8" else float_net()
    check = "int8 rules" if precision == "int8" else "float gradients"
    assert {check, f"{precision} gradients", "C, floats"} <= set(broken(graph, precision=precision))


def test_a_padding_edge_dropped_by_the_c(monkeypatch):
    def change(emit):
        def without(*args, **kwargs):
            call = emit(*args, **kwargs)
            struct = next(a for a in call.args if type(a).__name__ == "Struct")
            struct.fields["pt"] = 0
            return call

        return without

    mutate(monkeypatch, "depthwise2d_dw", "emit", change)
    mutate(monkeypatch, "conv2d_dw", "emit", change)
    assert "C, floats" in broken()


def shifted(graph):
    """A plan in which one value is moved by 16 bytes onto another one that is alive.

    Scratch, which may contain pointers, and labels, which are indices, are left alone: the C must survive it.
    """
    made = plan(graph)
    areas = [(range(at, at + size(made, name)), *life(made, name), name) for name, at in made.offsets.items()]
    for area, first, last, name in areas:
        slipped = range(area.start + 16, area.stop + 16)
        hit = [n for other, f, t, n in areas if n != name and f < last and first < t and meet(slipped, other)]
        if (
            hit
            and slipped.stop <= made.arena_bytes
            and not any(n.startswith(("scratch", "labels")) for n in (name, *hit))
        ):
            return replace(made, offsets={**made.offsets, name: slipped.start})
    return made


def size(plan, name: str) -> int:
    return plan.scratch_bytes[name] if name.startswith("scratch") else plan.graph.values[name].type.bytes


def life(plan, name: str) -> tuple[int, int]:
    step = int(name.split(" ")[1].split(".")[0]) if name.startswith("scratch") else 0
    return (step - 1, step + 1) if name.startswith("scratch") else plan.life[name]


def meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def test_a_shifted_offset_is_seen_by_the_planner_check(monkeypatch):
    monkeypatch.setattr(certifying, "TOOLS", Tools(shifted, verify, open_plans))
    assert broken() == ("plan",)


def test_a_shifted_offset_is_seen_in_the_bytes_even_where_nobody_verifies(monkeypatch):
    monkeypatch.setattr(certifying, "TOOLS", Tools(shifted, lambda p: p, open_plans))
    assert {"C as shipped", "C, integers", "C, floats"} & set(broken())


@pytest.fixture
def stale_scratch(monkeypatch, tmp_path):
    """A kernel that no longer clears the sums in its scratch."""
    folder = tmp_path / "c"
    shutil.copytree(sources.C_FOLDER, folder)
    kernel = folder / "kernels" / "pool" / "mean_s8.c"
    text = kernel.read_text()
    assert "acc[i] = 0;" in text
    kernel.write_text(text.replace("acc[i] = 0;", "(void)i;"))
    monkeypatch.setattr(sources, "C_FOLDER", folder)


def test_a_stale_scratch(stale_scratch):
    assert "poisoned scratch" in broken()


# the report -------------------------------------------------------------------------------------


def test_an_error_that_is_no_number_is_never_allowed():
    assert not row("check", "a, b", [Finding("x", np.nan, 1.0), Finding("y", 0.0, 1.0)]).ok
    assert not row("check", "a, b", [Finding("x", 1.0, 0.0), Finding("y", 0.0, 0.0)]).ok


def test_the_command_says_so_in_its_exit_status_and_in_json(tmp_path, monkeypatch, capsys):
    path = save(int8_net(), tmp_path / "small.insitu")
    command = ["prove", str(path), "--classes", "3", "--scheme", "last:1"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["model"] == "small" and {c["check"] for c in found["checks"]} >= {"plan", "updates"}
    monkeypatch.setattr("insitu.ops.update_int.per_channel", lambda w, qas: np.ones(len(w.quant.scale), np.float32))
    assert main([*command, "-o", str(tmp_path / "certificate.json")]) == 1
    assert "does not hold: updates" in capsys.readouterr().out
    assert not json.loads((tmp_path / "certificate.json").read_text())["ok"]


@pytest.mark.parametrize("arithmetic", ["residual", "residual4", "stochastic", "nearest", "master"])
def test_one_integer_that_moved_a_unit_too_far_is_seen(arithmetic):
    """Unless its step is so close to a rounding boundary that float32 may round it either way."""
    forward = replace_head(int8_net(), 3, init="uniform")
    scheme = read_scheme("full", [layer for layer in layers(forward) if layer.name != "head"])
    graph = train_graphs(forward, scheme, Recipe(arithmetic=arithmetic))["train_step"]
    (x,) = proof.drawn(forward, 0).inputs
    run = Run.of(graph, (x[:1], np.ones(1, np.int32), np.float32(0.01)), graph.state)
    after = {name: run.env[new.name] for name, new in graph.updates.items()}
    assert all(f.ok for f in same_state("step", graph.state, after, run))
    for name, w in after.items():
        if name in run.gradients and w.dtype.kind == "i":
            off = w.copy()
            off.reshape(-1)[0] += 1 if off.reshape(-1)[0] < 100 else -1
            wrong = [f for f in same_state("step", graph.state, {**after, name: off}, run) if not f.ok]
            assert any(name in f.where for f in wrong), name


def test_an_example_comes_from_the_samples_as_in_compile():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(3, 4, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    samples = np.random.default_rng(0).normal(size=(6, 3, 11)).astype(np.float32)
    assert insitu.prove(net, data=samples, precision="float", steps=1).ok
    with pytest.raises(insitu.ModelError, match="needs an example input"):
        insitu.prove(net)

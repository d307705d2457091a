"""`scheme="auto"`: as much is trained as fits, more in more memory, and the note says what and why. The layers
before the head rest until a fit finds a rate for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

import insitu
from insitu.deploy.auto import HOST, board_fits, choose, step_macs
from insitu.deploy.limits import Limits, limits_of
from insitu.errors import BudgetError
from insitu.learner.asked import given_of
from insitu.learner.feed import Feed, plain
from insitu.learner.rates import Probe, trained_values
from insitu.learner.relinked import relinked
from insitu.learner.settle import settle
from insitu.pipeline import trainable
from insitu.schemes.ladder import rungs
from insitu.schemes.update import Scheme
from insitu.training.train import Recipe

from .test_budget import model, need


def auto(**options):
    return insitu.compile(model("inverted"), classes=4, **{"scheme": "auto:ladder", **options})


@pytest.fixture(scope="module")
def full():
    return auto(scheme="full")


@pytest.fixture(scope="module")
def head():
    return auto(scheme="head")


def scheme_of(learner) -> Scheme:
    return learner.parts.scheme


def trained(learner) -> set[str]:
    return set(learner.graphs["predict"].state)


def test_a_small_network_is_trained_in_full(full):
    made = auto()
    assert scheme_of(made).updates == scheme_of(full).updates and need(made)[0] <= HOST
    assert made.notes[0].startswith("scheme auto: full (every layer); fit decides")


def test_a_budget_is_used_and_kept(full, head):
    least, most, before = need(head)[0], need(full)[0], 0
    for sram in (least, (least + most) // 2, most - 1):
        made = auto(sram=sram)
        assert need(made)[0] <= sram and len(scheme_of(made).updates) >= before
        before = len(scheme_of(made).updates)
    assert before > 0 and scheme_of(made).name.startswith("auto:ladder:")
    assert f"within {sram / 1000:.1f} KB" in made.notes[0]


def test_the_next_rung_would_not_fit(head, full):
    sram = (need(head)[0] + need(full)[0]) // 2
    number = int(scheme_of(auto(sram=sram)).name.rpartition(":")[2])
    with pytest.raises(BudgetError):
        auto(sram=sram, scheme=f"ladder:{number + 1}")


def test_the_name_of_a_rung_makes_the_same_program(head, full):
    made = auto(sram=(need(head)[0] + need(full)[0]) // 2)
    again = auto(scheme=scheme_of(made).name)
    assert trained(again) == trained(made) and need(again) == need(made)


def test_where_there_is_nothing_but_a_head_the_note_says_that():
    x = np.random.default_rng(0).normal(size=(12, 7)).astype(np.float32)
    made = insitu.compile(nn.Linear(7, 3), data=x, sram=3001)
    assert scheme_of(made).name == "head" and made.notes == ("scheme auto: only the head has anything to train",)


def test_where_not_even_the_head_fits_the_error_says_so(head):
    with pytest.raises(BudgetError, match="needs"):
        auto(sram=need(head)[0] - 1)


@pytest.mark.parametrize("scheme", ["auto", "auto:ladder"])
def test_a_model_without_a_head_that_fits_nowhere_says_so_too(scheme):
    module = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)).eval()
    x = np.random.default_rng(0).normal(size=(4, 1, 64, 64)).astype(np.float32)
    with pytest.raises(BudgetError, match="nrf51822 has 16 KB"):
        insitu.compile(module, scheme=scheme, board="nrf51822", data=x, recipe=insitu.Recipe(loss="mse"))


def test_on_a_board_everything_is_counted():
    for package in ("elftools", "ziglang"):
        pytest.importorskip(package)
    made = auto(board="nrf52840", sram=24_000)
    assert need(made)[0] <= 24_000
    assert scheme_of(made).updates and scheme_of(made).name.startswith("auto:ladder:")


def test_more_than_half_of_a_board_is_used_only_if_nothing_but_the_head_fits_the_half(full, head):
    def best(half: int, whole: int) -> str:
        limits = Limits(None, whole, aims=(half, whole))
        return next(choose(full.parts, trainable(full.parts.forward), limits)).scheme.name

    assert best(need(full)[0], 10**6) == "auto:full" == best(need(head)[0], 10**6)
    assert best(need(full)[0] - 1, 10**6) != "auto:full"


def test_a_rung_fits_if_the_planner_reaches_its_memory_on_the_way_to_less(shared_models):
    """The planner misses 60,568 bytes of arena for this rung, by 280, and reaches 55,284 if asked for nothing."""
    made = insitu.compile(shared_models / "mcunet-5fps.pkl", classes=10, scheme="ladder:21", recipe=Recipe(grad="s16"))
    assert made.parts is not None
    graphs = made.parts.graphs()
    assert board_fits(graphs, limits_of("stm32f746", 98_000, None), 98_000)
    assert not board_fits(graphs, limits_of("stm32f746", 90_000, None), 90_000)


def test_a_few_plans_are_enough(full, monkeypatch):
    planned = []
    monkeypatch.setattr("insitu.deploy.auto.host_bytes", lambda graphs: planned.append(graphs) or 10**9)
    layers = trainable(full.parts.forward)
    first = next(choose(full.parts, layers, Limits(sram=50_000)))
    assert first.number == 0 and len(planned) < 9 < len(rungs(layers))


def samples(learner, count: int = 8):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, *learner.graphs["predict"].inputs[0].shape[1:])).astype(np.float32), np.arange(
        count
    ) % 4


def changed(learner, x, y, **options) -> set[str]:
    """The parts of the state that a training changes, by the name of their layer."""
    return changed_by(learner, lambda: learner.fit(x, y, epochs=1, **options))


def changed_by(learner, training) -> set[str]:
    before = {name: array.copy() for name, array in learner.device.state().items()}
    training()
    after = learner.device.state()
    return {name.rsplit(".", 1)[0] for name in before if "." in name and not np.array_equal(before[name], after[name])}


def test_a_given_rate_is_the_heads_unless_more_was_asked_for(full):
    made = auto()
    x, y = samples(made)
    assert made.device.state()["body_rate"].tolist() == [0.0] and full.device.state()["body_rate"].tolist() == [1.0]
    assert changed(made, x, y, rate=0.01) == {"head"}
    made.keep()
    made.observe(x, y)
    assert changed_by(made, lambda: made.rehearse(steps=32, rate=0.001)) == {"head"}
    assert changed(made, x, y, rate=0.01, head_rate=0.02) > {"head"}  # both rates were given


def untested(learner, x, y):
    """The rates of `insitu run`, which tries nothing."""
    feed = Feed(learner.device, plain((x,)), y.astype(np.int32))
    given = given_of(learner.recipe, 1, None, None, None, 1, None, 0)
    probe = Probe(learner.device, trained_values(learner.graphs), learner.recipe.loss)
    return settle(feed, given, learner.recipe, probe, lambda *_: None, tries=False).rates


def test_rates_that_nobody_tries_are_the_heads_until_a_fit_has_found_more(full):
    made = auto()
    x, y = samples(made)
    assert untested(made, x, y).body == 0.0 < untested(made, x, y).head
    made.device.load_arrays({"body_rate": np.array([0.5], np.float32)})  # as a fit would
    assert (untested(made, x, y).body or 0) > 0 and (untested(full, x, y).body or 0) > 0


def test_what_a_fit_found_stays(full, tmp_path):
    made = auto()
    x, y = samples(made)
    made.device.load_arrays({"body_rate": np.array([0.5], np.float32)})  # as a fit would
    made.save(tmp_path / "net.insitu")
    again = insitu.open(tmp_path / "net.insitu")
    assert scheme_of(again).rests and changed(again, x, y, rate=0.01) > {"head"}
    assert again.device.state()["body_rate"].tolist() == [0.5]


def test_a_learner_of_this_machine_gets_the_scheme_that_fits_a_board_and_keeps_what_it_learned():
    for package in ("elftools", "ziglang"):
        pytest.importorskip(package)
    made = auto()
    x, y = samples(made)
    made.fit(x, y, epochs=2, rate=0.02, head_rate=0.05)
    half = relinked(made, limits_of("nrf52840", 24_000, None))
    assert len(scheme_of(half).updates) < len(scheme_of(made).updates) and need(half)[0] <= 24_000
    assert scheme_of(half).rests and "scheme auto: ladder:" in half.notes[-1] and len(half.notes) == 1
    assert half.predict(x).tobytes() == made.predict(x).tobytes()
    assert half.device.state()["body_rate"] == made.device.state()["body_rate"] > 0
    again = relinked(half, limits_of("nrf52840", 19_000, None))  # parts of weights have become frozen
    assert again.predict(x).tobytes() == made.predict(x).tobytes()


def test_on_this_machine_an_update_takes_limited_work_if_nobody_asked_for_more(full):
    layers, most = trainable(full.parts.forward), step_macs(full.graphs)
    quick = next(choose(full.parts, layers, Limits(), work=most // 2))
    assert 0 < quick.number < quick.last and quick.slow
    assert step_macs(replace(full.parts, scheme=quick.scheme).graphs()) <= most // 2
    assert 'million multiply-adds per sample (scheme="auto:ladder" trains more)' in quick.note
    head = next(choose(full.parts, layers, Limits(), work=0))
    assert head.note.startswith("scheme auto: only the head, within") and head.slow
    assert next(choose(full.parts, layers, Limits(), work=most)).scheme.name == "auto:full"

"""The cost of using less memory: both programs are counted, they learn the same, and the report has their figures."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from insitu.boards import Memory, find_board
from insitu.cli import main
from insitu.deploy import Deployment, deploy, limits_of
from insitu.deploy.bundle import write_board
from insitu.deploy.cost import RATE, count, count_on, lowering_cost, random_input, roomy, unlowered_firmware
from insitu.deploy.lowering import Counted, LoweringCost, lowering_rows, lowering_table
from insitu.errors import BoardError
from insitu.learner.model import Model
from insitu.planner.changes.weight_parts import taken_apart
from insitu.planner.plan import plan_ordered
from insitu.planner.spent import changes, spent
from insitu.terminal.wording import in_shell

from ..firmware.images import conv_graphs
from ..planner.test_tiles import Layer
from ..training.small_nets import int8_net

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

from insitu.devices.emulator import emulate  # noqa: E402  needs them

LIMITS = limits_of("nrf52840", None, None, "memory")


@pytest.fixture(scope="module")
def deployed():
    return deploy(conv_graphs(), LIMITS)


@pytest.fixture(scope="module")
def other():
    return unlowered_firmware(conv_graphs(), find_board("nrf52840"))


@pytest.fixture(scope="module")
def cost(deployed) -> LoweringCost:
    found = lowering_cost(deployed, conv_graphs())
    assert found is not None
    return found


def second_step(device) -> tuple[int, int, bytes]:
    """Instructions of the second step and of a prediction, counted as a whole, not by layer; and the state after."""
    rng = np.random.default_rng(0)
    verbs = {"train_step": conv_graphs()["train_step"].inputs, "predict": conv_graphs()["predict"].inputs}
    device.run("train_step", *(random_input(rng, v) for v in verbs["train_step"]))
    spent = []
    for verb, inputs in verbs.items():
        before = device.instructions(verb)
        device.run(verb, *(random_input(rng, v) for v in inputs))
        spent.append(device.instructions(verb) - before)
    return spent[0], spent[1], device.save_state()


def test_the_figures_are_those_of_the_two_programs_and_both_learn_the_same(cost, deployed, other):
    states = []
    for counted, firmware in ((cost.lowered, deployed.firmware), (cost.without, other)):
        step, predict, state = second_step(emulate(firmware))
        assert (counted.instructions("train_step"), counted.instructions("predict")) == (step, predict)
        assert (counted.arena_bytes, counted.sram_bytes) == (firmware.program.arena_bytes, firmware.sram_bytes)
        states.append(state)
    assert states[0] == states[1]
    assert cost.lowered.arena_bytes < cost.without.arena_bytes


def test_the_program_without_is_planned_without_any_change(other):
    assert all(not any(spent(plan).values()) for plan in other.program.plans.values())


def test_counts_are_the_same_each_time_kept_or_not(deployed):
    fresh = count_on(emulate(deployed.firmware), deployed.program)
    assert count(deployed.firmware) == count(deployed.firmware) == fresh


def test_a_damaged_count_is_made_again(deployed, tmp_path, monkeypatch):
    kept = count(deployed.firmware)
    monkeypatch.setattr("insitu.toolchain.cache.cache_folder", lambda: tmp_path)
    (first,) = (count(deployed.firmware), *tmp_path.glob("counts/*.json"))[1:]
    first.write_text("{")
    assert count(deployed.firmware) == kept


def test_the_difference_is_told_by_layer_and_by_what_was_done(cost):
    more = cost.lowered.instructions("train_step") - cost.without.instructions("train_step")
    assert sum(cost.by_kind.values()) == sum(c.more for c in cost.changes) == more
    assert {c.how for c in cost.changes} - {"everything else"} == set(cost.how.values()) & {c.how for c in cost.changes}
    sizes = [abs(c.more) for c in cost.changes]
    assert sizes == sorted(sizes, reverse=True) and all(sizes)


def test_a_layer_that_is_gone_counts_with_what_read_it():
    """A weight that is read as its parts is no longer put together."""
    whole = Layer(0).graph()
    apart = taken_apart(whole, whole.producer["merged"])
    assert apart is not None
    how = changes(*(plan_ordered(g, target="mcu") for g in (apart, whole)))
    assert how == {"merged": "weights in parts", "dx.0": "weights in parts"}


def test_a_plan_that_was_not_lowered_says_nothing(other):
    made = Deployment(LIMITS, other.program, other)
    assert lowering_cost(made, conv_graphs()) is None
    assert lowering_rows("", None) == [] and lowering_table(None) == ""
    assert "lowering" not in made.figures()


def test_where_the_board_is_too_small_the_core_gets_more_and_the_report_says_so(deployed, cost):
    board = find_board("nrf52840")
    little = replace(board, sram=Memory(board.sram.origin, deployed.sram_bytes))
    made = replace(deployed, firmware=replace(deployed.firmware, board=little))
    found = lowering_cost(made, conv_graphs())
    assert found is not None and found.without.sram_bytes > little.sram.bytes and "nrf52840 has" in found.note
    assert found.without.layers == cost.without.layers and not cost.note
    with pytest.raises(BoardError, match="would overlap"):
        roomy(board, 1024, board.sram.origin + 1)


COST = LoweringCost(
    "3 stripes, 1 updates in tiles",
    Counted(64_244, 115_428, 616_274, {"train_step": {"conv": 49_000_000, "grad": 310_767}, "predict": {"c": 1000}}),
    Counted(168_148, 219_364, 613_410, {"train_step": {"conv": 40_893_028}, "predict": {"c": 800}}),
    {"conv": "stripes", "grad": "updates in tiles"}, "small", 200_000,
)  # fmt: skip


def test_the_line_of_a_report():
    assert lowering_rows(COST.summary, COST.to_json()) == [
        ("lowered by", "3 stripes, 1 updates in tiles"),
        ("", "without -> with it: 168.1 -> 64.2 KB of arena, 219.4 -> 115.4 KB of SRAM, for 40.89 -> 49.31 M "
             "instructions per step (+20.6 %), 800 -> 1,000 per prediction (+25.0 %)"),
        ("", "without this it needs 219.4 KB of SRAM and small has 200.0 KB: counted on the same core with enough "
             "memory"),
        ("", "extra instructions: stripes +8,106,972, updates in tiles +310,767"),
    ]  # fmt: skip
    assert lowering_table(COST.to_json()).splitlines()[2:] == [
        "conv             40,893,028    49,000,000  +8,106,972  stripes",
        "grad                      -       310,767  +310,767    updates in tiles",
    ]


ADVICE = {
    0: "",  # speed was preferred already, or nobody said how much there is
    115_428: "",  # all of it is used
    200_000: "--prefer speed would undo what it can within 200.0 KB of SRAM, of 8.42 M extra instructions",
    262_144: "--prefer speed would undo this: 40.89 M instructions per step instead of 49.31 M (-17.1 %), with "
             "219.4 KB of 262.1 KB of SRAM",
}  # fmt: skip


@pytest.mark.parametrize("allowed", ADVICE)
def test_where_a_lower_peak_is_expensive_the_report_says_what_would_undo_it(allowed):
    found = replace(COST, allowed_bytes=allowed)
    assert found.advice == ADVICE[allowed].replace("--prefer speed", 'prefer="speed"')
    with in_shell():
        assert found.advice == ADVICE[allowed]
    rows = lowering_rows(found.summary, found.to_json())
    assert (("", found.advice) in rows) == bool(found.advice)


def test_where_a_lower_peak_is_cheap_nothing_is_said():
    cheap = Counted(64_244, 115_428, 616_274, {"train_step": {"conv": 44_000_000}})
    assert replace(COST, lowered=cheap, allowed_bytes=262_144).advice == ""


def test_a_cost_that_was_written_without_advice_is_read():
    found = {k: v for k, v in COST.to_json().items() if k != "advice"}
    assert lowering_rows(COST.summary, found) == lowering_rows(COST.summary, COST.to_json())


def test_a_folder_that_was_measured_says_so_in_every_run(deployed, cost, tmp_path, capsys):
    write_board(replace(deployed, cost=cost), tmp_path)
    assert f"The peak was lowered by {cost.summary}: {cost.price}" in (tmp_path / "README.md").read_text()
    assert main(["run", str(tmp_path), "--steps", "1"]) == 0
    said = capsys.readouterr().out
    assert cost.price in said
    # two numbers for one step: each says what was counted
    assert re.search(r"train_step +[\d,]+ instructions in the call that took most, about", said)
    assert "counted on a random sample when it was compiled" in said
    assert main(["run", str(tmp_path), "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lowering"] == cost.to_json()


@pytest.mark.parametrize("lowering", [3, {}, {**COST.to_json(), "by_kind": 3}, {**COST.to_json(), "layers": [1]}])
def test_a_damaged_cost_in_a_folder_is_an_error(deployed, tmp_path, capsys, lowering):
    write_board(deployed, tmp_path)
    found = json.loads((tmp_path / "insitu.json").read_text())
    found["figures"]["lowering"] = lowering
    (tmp_path / "insitu.json").write_text(json.dumps(found))
    assert main(["run", str(tmp_path), "--steps", "1"]) == 1
    assert "insitu.json: is invalid: lowering is damaged" in capsys.readouterr().err


def test_compile_measures_when_asked(capsys, tmp_path):
    Model(int8_net()).save(tmp_path / "net.insitu")
    options = [str(tmp_path / "net.insitu"), "--scheme", "full", "--prefer", "memory", "--measure"]
    assert main(["compile", *options, "--board", "nrf52840", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lowering"]["lowered"]["train_step_instructions"] == found["train_step_instructions"] > 0
    assert found["lowering"]["lowered"]["arena_bytes"] == found["arena_bytes"]
    assert found["lowering"]["without"]["arena_bytes"] > found["arena_bytes"]
    assert main(["compile", *options]) == 1
    assert "counted on an emulated board" in capsys.readouterr().err


def test_where_nothing_can_be_counted_nothing_is_compiled(capsys):
    assert main(["compile", "nothing.onnx", "--measure", "--board", "corstone300"]) == 1
    said = capsys.readouterr().err
    assert "corstone300 cannot be emulated with pip packages alone" in said and "--on qemu" in said


def test_rates_are_rates_and_labels_are_classes():
    rng = np.random.default_rng(0)
    x, label, rate = (random_input(rng, v) for v in conv_graphs()["train_step"].inputs)
    assert x.std() > 0 and label.tolist() == [0] and rate == np.float32(RATE)

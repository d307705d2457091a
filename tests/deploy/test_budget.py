"""A network that does not fit says so with a way out, and following that way out works."""

import json
import re
from functools import cache

import numpy as np
import pytest

import insitu
from insitu.boards import boards, find_board
from insitu.deploy import board_programs, deploy_program
from insitu.deploy.budget import coarser, kb
from insitu.errors import BudgetError
from insitu.schemes.scheme import Scheme
from insitu.terminal.wording import in_shell
from insitu.training.head import replace_head
from insitu.training.parts import Parts

from ..models import MobileNetV2, families

torch = pytest.importorskip("torch")
nn = torch.nn

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

NAMES = ("mobilenet_v2", "ds_cnn", "cnn1d", "flat_cnn", "resnet8")
SCHEMES = ("full", "last:3", "last:2", "bias:3", "head")
OPTION = re.compile(r"--(scheme|sram|flash|board|grad|head|rows) ?([^\s-]\S*)?")


@pytest.fixture(autouse=True)
def at_the_command_line():
    """The ways out are read as flags."""
    with in_shell():
        yield


def camera():
    """Takes an image like a camera's, row by row; a family's images come channel by channel."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(Turned(), *layers, nn.Flatten(), nn.Linear(6, 3)).eval(), (torch.zeros(1, 20, 20, 3),)


def wide():
    """The gradient of the trained weight is larger than everything else, and can be made in ever smaller tiles."""
    torch.manual_seed(0)
    layers = [Turned(), nn.Conv2d(3, 64, 3, 4, 1), nn.ReLU(), nn.Conv2d(64, 256, 1), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 3)).eval(), (torch.zeros(1, 8, 8, 3),)


def inverted():
    """The blocks of mobilenet_v2, each kind once."""
    torch.manual_seed(0)
    return MobileNetV2(depth=3).eval(), (torch.zeros(1, 3, 32, 32),)


def dense():
    """Most of what its head needs is the head itself: weights, and their gradient."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(23, 61), nn.ReLU(), nn.Linear(61, 199), nn.ReLU(), nn.Linear(199, 9)).eval(), (
        torch.zeros(1, 23),
    )


OWN = {"dense": dense, "camera": camera, "wide": wide, "inverted": inverted}


class Turned(nn.Module):
    def forward(self, x):
        return x.permute(0, 3, 1, 2)


@cache
def model(name: str):
    """A calibrated int8 model."""
    module, (example,) = OWN[name]() if name in OWN else families()[name]
    rng = np.random.default_rng(0)
    return insitu.load(module, example).quantize(rng.normal(size=(8, *example.shape[1:])).astype(np.float32))


def compiled(name: str, grad: str | None = None, rows: bool = False, prefer: str = "memory", **options):
    """Compiled with the least memory, if nothing else is asked for."""
    recipe = insitu.Recipe(grad=grad, rows=rows)
    return insitu.compile(model(name), classes=4, recipe=recipe, prefer=prefer, **options)


def need(learner) -> tuple[int, int]:
    """SRAM and flash: of everything if there is a board, else of the program alone."""
    if learner.deployed:
        return learner.deployed.sram_bytes, learner.deployed.flash_bytes
    info = learner.info()
    return info["arena_bytes"] + info["state_bytes"], info["const_bytes"]


def gradients(learner) -> str:
    return learner.parts.recipe.grad


def least(name: str, **options) -> int:
    """The SRAM of the smallest program: the state is received in place, and the arena is as low as possible."""
    learner = compiled(name, **options)
    return deploy_program([*board_programs(learner.graphs)][-1], learner.deployed.limits).sram_bytes


def ways(error: BudgetError) -> list[dict[str, str]]:
    """The options of each way out that a hint names."""
    parts = (error.hint or "").rpartition("; ")[2].split("   or   ")
    found = [dict(OPTION.findall(part.partition(" (")[0])) for part in parts]
    return [{name: name == "rows" or value for name, value in way.items()} for way in found]


def follow(name: str, options: dict, error: BudgetError) -> None:
    found = ways(error)
    assert found and all(found), error.hint
    for way in found:
        learner = compiled(name, **{**options, **way})
        limits = {**options, **way}
        for used, limit in zip(need(learner), (limits.get("sram"), limits.get("flash"))):
            assert limit is None or used <= (int(limit[:-1]) * 1024 if str(limit).endswith("K") else int(limit))


QUICK = 4  # random budgets that are not marked slow


def pairs():
    """Ten pairs of model and budget: a scheme, and less memory than it needs; every third one for a board."""
    rng = np.random.default_rng(7)
    for i in range(10):
        name, scheme = NAMES[rng.integers(len(NAMES))], SCHEMES[rng.integers(len(SCHEMES))]
        yield pytest.param(name, scheme, float(rng.uniform(0.2, 0.98)), "sram" if i % 4 else "flash",
                           "nrf52840" if i % 3 == 0 else "host", id=f"{i}-{name}-{scheme}",
                           marks=() if i < QUICK else pytest.mark.slow)  # fmt: skip


@pytest.mark.parametrize(("name", "scheme", "share", "memory", "board"), list(pairs()))
def test_a_way_out_of_a_random_budget_works_when_followed(name, scheme, share, memory, board):
    options = {"scheme": scheme, "board": board}
    whole = dict(zip(("sram", "flash"), need(compiled(name, **options))))
    tight = {**options, memory: max(1, int(whole[memory] * share))}
    with pytest.raises(BudgetError) as e:
        compiled(name, **tight)
    follow(name, tight, e.value)


@pytest.mark.parametrize("name", ("inverted", "ds_cnn", "resnet8"))
def test_on_a_board_a_byte_too_few_is_told_with_integer_gradients_or_a_smaller_scheme_that_fit(name):
    options = {"scheme": "full", "board": "stm32f746", "grad": "f32"}
    sram = need(compiled(name, **options))[0]
    compiled(name, **options, sram=sram)
    with pytest.raises(BudgetError, match=r"of SRAM.*\n  peak at .*\n  plus .*stack and protocol") as e:
        compiled(name, **options, sram=sram - 1)
    assert ways(e.value)[0] == {"grad": "s16"} and "scheme" in ways(e.value)[1]
    follow(name, {**options, "sram": sram - 1}, e.value)


def test_where_integer_gradients_are_not_enough_an_int8_head_is_tried_with_them(monkeypatch):
    monkeypatch.setattr("insitu.deploy.budget.TINY", 0)  # float gradients would need less, for so small a network
    options = {"scheme": "last:2", "board": "nrf52840"}
    sram = min(least("cnn1d", **options, grad=grad) for grad in ("s16", "s8"))
    assert need(compiled("cnn1d", **options, grad="s8", head="int8"))[0] < sram
    with pytest.raises(BudgetError) as e:
        compiled("cnn1d", **options, sram=sram - 1)
    assert ways(e.value)[0]["head"] == "int8"
    follow("cnn1d", {**options, "sram": sram - 1}, e.value)


def test_where_float_gradients_need_less_than_integers_they_are_offered():
    options = {"scheme": "last:2", "board": "nrf52840"}
    sram = min(least("cnn1d", **options, grad=grad) for grad in ("s16", "s8"))
    with pytest.raises(BudgetError) as e:
        compiled("cnn1d", **options, sram=sram - 1)
    assert ways(e.value)[0] == {"grad": "f32"}
    follow("cnn1d", {**options, "sram": sram - 1}, e.value)


def test_a_head_too_large_in_float_is_answered_with_one_in_integers():
    options = {"scheme": "head", "board": "nrf52840"}
    sram = need(compiled("cnn1d", **options))[0]
    with pytest.raises(BudgetError) as e:
        compiled("cnn1d", **options, sram=sram - 1)
    assert ways(e.value)[0] == {"head": "int8"}
    follow("cnn1d", {**options, "sram": sram - 1}, e.value)


@pytest.mark.parametrize("board", ["rp2040", "nrf52840"])
def test_on_a_board_with_an_fpu_or_without_gradients_are_integers_and_not_proposed_again(board):
    options = {"scheme": "full", "board": board}
    learner = compiled("cnn1d", **options)
    assert gradients(learner) == "s16" and gradients(compiled("cnn1d", scheme="full")) == "f32"
    sram = least("cnn1d", **options)
    with pytest.raises(BudgetError) as e:
        compiled("cnn1d", **options, sram=sram - 1)
    assert "s16" not in e.value.hint
    follow("cnn1d", {**options, "sram": sram - 1}, e.value)


def test_memory_that_the_board_has_and_was_not_given_is_named():
    options = {"scheme": "head", "board": "nrf52840", "sram": 2048}
    with pytest.raises(BudgetError) as e:
        compiled("cnn1d", **options)
    assert "nrf52840 has that much" in e.value.hint
    follow("cnn1d", options, e.value)


@pytest.mark.parametrize("board", [{}, {"board": "nrf52840"}], ids=["here", "board"])
def test_the_least_that_is_named_is_the_least_of_what_is_short_and_says_how(board):
    with pytest.raises(BudgetError) as e:
        compiled("dense", scheme="head", sram=600, **board)
    assert "even the head alone, with --head int8, needs" in e.value.hint
    heads = [compiled("dense", scheme="head", head=head, **board) for head in ("float", "int8")]
    bytes = [need(learner)[0] for learner in heads]
    assert bytes[1] < bytes[0] and f"{kb(bytes[1])} of SRAM" in e.value.hint


def test_what_is_short_by_a_byte_is_told_to_the_byte():
    most = need(compiled("dense", scheme="full"))[0] - 1
    with pytest.raises(BudgetError, match=f"needs {most + 1:,} B of SRAM, {most:,} B available"):
        compiled("dense", scheme="full", sram=most)


@pytest.fixture
def small(tmp_path) -> str:
    """The profile of a board with 2 KB of SRAM."""
    profile = {**boards()["nrf52840"].to_json(), "name": "small", "sram": {"origin": "0x20000000", "bytes": 2048}}
    (tmp_path / "small.json").write_text(json.dumps(profile))
    return str(tmp_path / "small.json")


def test_a_board_that_is_too_small_is_answered_with_one_that_was_tried(small):
    options = {"scheme": "head", "board": small}
    with pytest.raises(BudgetError, match="small has 2,048 B") as e:
        compiled("cnn1d", **options)
    assert ways(e.value)[0]["board"] in boards()
    follow("cnn1d", options, e.value)


def test_where_no_board_is_large_enough_the_hint_says_so(small, monkeypatch):
    monkeypatch.setattr("insitu.deploy.budget.boards", lambda: {"small": find_board(small)})
    with pytest.raises(BudgetError) as e:
        compiled("cnn1d", scheme="head", board=small)
    assert "no board that insitu knows is large enough" in e.value.hint


# options that reduce what an image of 20x20x3 needs beside itself: less is trained, or gradients are coarser
ROWS = {
    ("last:1", 4000): [{"rows": True}],
    ("full", 4500): [{"grad": "s16", "rows": True}],
    ("last:1", 1500): [{"scheme": "bias:1", "rows": True}, {"scheme": "head", "rows": True}],
}


@pytest.mark.parametrize(("scheme", "sram"), ROWS)
def test_where_the_image_is_too_large_it_is_told_to_arrive_row_by_row(scheme, sram):
    with pytest.raises(BudgetError) as e:
        compiled("camera", scheme=scheme, sram=sram)
    assert ways(e.value) == ROWS[scheme, sram]
    if scheme == "full":
        follow("camera", {"scheme": scheme, "sram": sram}, e.value)


def test_rows_are_not_offered_where_they_come_already_or_cannot_come():
    with pytest.raises(BudgetError) as e:
        compiled("camera", scheme="full", sram=4500, rows=True)
    assert ways(e.value)[0] == {"grad": "s16"}
    with pytest.raises(BudgetError) as e:
        compiled("flat_cnn", scheme="head", sram=300)
    assert "--rows" not in e.value.hint


def test_integer_gradients_come_before_rows_and_these_before_a_head_in_integers():
    head = replace_head(model("camera").graph, 4)
    told = [str(way) for way in coarser(Parts(head, Scheme("head", ())), ["s16", "s8"], [False, True])]
    assert told[:5] == ["--grad s16", "--grad s8", "--rows", "--grad s16 --rows", "--grad s8 --rows"]
    assert all("--head int8" in way for way in told[5:]) and len(told) == 11

"""An image processed frame by frame: the bytes of the whole image, and nothing learned from an incomplete one."""

from functools import cache

import numpy as np
import pytest

from insitu.codegen import emit_program
from insitu.codegen.device import DATA_BYTES
from insitu.devices.frames import DAMAGED, GAP, LABEL, NOT_FINITE, NOT_READY, OK, frame, request
from insitu.devices.host import open_plans, open_program
from insitu.devices.link import LinkDevice
from insitu.devices.process import ProcessChannel, build_firmware, open_process
from insitu.planner import plan_all
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..training.small_nets import int8_net
from .firmware import Lossy, Raw

PREDICT, STEP = 0, 1
SIZE = 5 * 6 * 3 * 4  # bytes of an image: less than a frame, so that pieces of any size can be sent


@cache
def graphs(rows: bool, grad: str = "s16"):
    graph = replace_head(int8_net(), None)
    chosen = read_scheme("last:1", [layer for layer in layers(graph) if layer.name != "head"])
    return train_graphs(graph, chosen, Recipe(rows=rows, grad=grad))


@cache
def program(grad: str = "s16"):
    return emit_program(plan_all(graphs(True, grad), "mcu"))


def step(i: int):
    x = np.random.default_rng(i).normal(size=(1, 5, 6, 3)).astype(np.float32)
    return x, np.array([i % 3], np.int32), np.float32(0.05)


def whole(grad: str = "s16"):
    """The same program with whole images."""
    return open_plans(plan_all(graphs(False, grad), "mcu"))


def same_training(device, host, steps: int = 3) -> None:
    for i in range(steps):
        there, here = device.run("train_step", *step(i)), host.run("train_step", *step(i))
        assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
        x = step(i + 9)[0]
        assert device.run("predict", x)[0].tobytes() == host.run("predict", x)[0].tobytes()
        assert device.save_state() == host.save_state()


def test_steps_over_the_line_equal_those_with_whole_images():
    with open_process(program()) as device:
        same_training(device, whole())
        assert device.interface.rows == {"predict": 0, "train_step": 0}


def test_steps_over_a_line_that_loses_and_damages_frames_are_the_same():
    line = Lossy(ProcessChannel([str(build_firmware(program()))]), seed=3)
    with LinkDevice(line, program(), timeout=0.1, tries=40) as device:
        same_training(device, whole())
    assert line.faults > 3


@pytest.mark.parametrize("board, grad", [("stm32f746", "f32"), ("stm32f746", "s16"), ("rp2040", "s16")])
def test_an_emulated_board_learns_the_same_in_less_memory(board, grad):
    for package in ("unicorn", "elftools", "ziglang"):
        pytest.importorskip(package)
    from insitu.boards import find_board
    from insitu.devices.emulator import emulate
    from insitu.firmware import build_firmware

    firmware = build_firmware(program(grad), find_board(board))
    same_training(emulate(firmware, sram=firmware.sram_bytes), whole(grad))
    _, layers = emulate(firmware).measure("train_step", *step(0))
    assert set(layers) - {"(in and out)"} == {n.name for n in program(grad).plans["train_step"].nodes}
    assert all(layers[name] > 20 for name in ("x.rows", "x.s8", "stem"))
    assert firmware.account.sram["arena"] == program(grad).arena_bytes


# broken images ----------------------------------------------------------------------------------


@pytest.fixture
def raw():
    opened = Raw(ProcessChannel([str(build_firmware(program()))]))
    yield opened
    opened.close()


class Sender:
    """Requests of one step, numbered one after the other."""

    def __init__(self, raw: Raw, start: int = 100):
        self.raw, self.number = raw, start

    def ask(self, kind: str, **fields) -> int:
        self.number += 1
        return self.raw.ask(kind, self.number, **fields).status

    def image(self, start: int, end: int, verb: int = STEP, data: bytes = step(0)[0].tobytes()) -> int:
        return self.ask("write", verb=verb, index=0, offset=start, data=data[start:end])

    def rest(self, label: int = 0) -> list[int]:
        inputs = (np.int32(label), np.float32(0.05))
        return [self.ask("write", verb=STEP, index=i + 1, data=v.tobytes()) for i, v in enumerate(inputs)]

    def state(self) -> bytes:
        size = 16 + program().state_bytes
        parts = []
        for at in range(0, size, DATA_BYTES):
            self.number += 1
            parts.append(self.raw.ask("state_out", self.number, offset=at, count=min(DATA_BYTES, size - at)).data)
        return b"".join(parts)


def learned() -> bytes:
    """The state after one step on the first image."""
    host = open_program(program())
    host.run("train_step", *step(0))
    return host.save_state()


def completes(sender: Sender) -> None:
    """After whatever happened, a whole image is learned from as usual."""
    assert [sender.image(0, 200), sender.image(200, SIZE), *sender.rest(), sender.ask("run", verb=STEP)] == [OK] * 5
    assert sender.state() == learned()


def test_a_missing_frame_is_noticed_and_nothing_is_learned(raw):
    sender = Sender(raw)
    first = sender.state()
    assert [sender.image(0, 100), sender.image(148, SIZE), *sender.rest()] == [OK, GAP, OK, OK]
    assert sender.ask("run", verb=STEP) == NOT_READY
    assert sender.state() == first
    completes(sender)


def test_a_damaged_frame_is_not_taken_and_can_be_sent_again(raw):
    sender = Sender(raw)
    first = sender.state()
    assert sender.image(0, 100) == OK
    damaged = bytearray(frame(request("write", 500, verb=STEP, offset=100, data=bytes(range(1, 90)))))
    damaged[40] ^= 1
    raw.send(bytes(damaged))
    assert raw.answer().status == DAMAGED
    assert sender.state() == first
    assert [sender.image(100, SIZE), *sender.rest(), sender.ask("run", verb=STEP)] == [OK] * 4
    assert sender.state() == learned()


def test_a_frame_that_comes_twice_is_taken_once(raw):
    sender = Sender(raw)
    assert sender.image(0, 100) == OK
    sender.number -= 1  # exactly the same request
    assert sender.image(0, 100) == OK
    assert [sender.image(100, SIZE), *sender.rest(), sender.ask("run", verb=STEP)] == [OK] * 4
    assert sender.state() == learned()


INTERRUPTIONS = {
    "a prediction's image": lambda s: s.image(0, 100, verb=PREDICT),
    "a run of something else": lambda s: s.ask("run", verb=PREDICT),
    "a run": lambda s: s.ask("run", verb=STEP),
    "a state": lambda s: s.ask("state_in", data=open_program(program()).save_state()[:50]),
    "a reset": lambda s: s.ask("reset"),
}


@pytest.mark.parametrize("what", INTERRUPTIONS)
def test_what_comes_between_two_frames_of_an_image_ends_it(raw, what):
    sender = Sender(raw)
    first = sender.state()
    assert sender.image(0, 100) == OK
    INTERRUPTIONS[what](sender)
    assert sender.image(100, SIZE) == GAP
    assert sender.ask("run", verb=STEP) == NOT_READY
    assert sender.state() == first
    completes(sender)


def test_a_wrong_label_after_a_whole_image_changes_nothing(raw):
    sender = Sender(raw)
    first = sender.state()
    assert [sender.image(0, SIZE), *sender.rest(label=3), sender.ask("run", verb=STEP)] == [OK, OK, OK, LABEL]
    assert sender.state() == first
    completes(sender)


def test_a_pixel_that_is_no_number_ends_the_image(raw):
    sender = Sender(raw)
    broken = np.full(90, np.nan, np.float32).tobytes()
    assert [sender.image(0, 100), sender.image(100, 200, data=broken), sender.image(200, SIZE)] == [OK, NOT_FINITE, GAP]
    completes(sender)


def test_numbers_come_in_one_piece(raw):
    sender = Sender(raw)
    assert [sender.image(0, 99), sender.image(0, 100), sender.image(100, 103), sender.image(100, SIZE)] == [
        GAP, OK, GAP, OK]  # fmt: skip
    assert [*sender.rest(), sender.ask("run", verb=STEP)] == [OK] * 3
    assert sender.state() == learned()


def test_a_device_that_is_switched_off_between_two_frames_comes_up_clean():
    first = open_program(program()).save_state()
    for _ in range(2):
        raw = Raw(ProcessChannel([str(build_firmware(program()))]))
        sender = Sender(raw)
        assert sender.state() == first
        assert sender.image(100, SIZE) == GAP  # a client from before the reset continues
        assert sender.image(0, 100) == OK
        raw.close()

"""Sound and pictures that arrive row by row, and a store: a board keeps latents of samples that it never held whole."""

from __future__ import annotations

import subprocess
from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

import torch

import insitu
from insitu.devices.living import NONE
from insitu.errors import DeviceError, GraphError
from insitu.toolchain.compiler import compile_c

from ..preprocess.test_on_a_core import LISTENING, SEEING, network, sounds
from .living import RATE
from .test_same_life import Both

BOARD = {"store": "16K", "max_classes": 5}


@cache
def streamed(kind: str, rows: bool = True, board: str = "nrf52840") -> tuple[insitu.Learner, np.ndarray, np.ndarray]:
    """A learner of three classes, and samples of them."""
    y = np.arange(48) % 3
    if kind == "sound":
        front, x, example = insitu.Audio(**LISTENING), sounds(48).reshape(48, 25, 320, 1), (1, 1, 24, 20)
    else:
        front, example = insitu.Transform(0.5, 0.25, **SEEING, format="rgb565"), (1, 3, 24, 24)
        x = np.random.default_rng(0).integers(0, 256, (48, 46, 60, 2), np.uint8)
    made = insitu.compile(network(example[1]), example=torch.zeros(*example), transform=front, data=(x, y),
                          scheme="last:1", recipe=insitu.Recipe(rows=rows), board=board, **BOARD)  # fmt: skip
    return made, x, y


def arena(kind: str, rows: bool) -> int:
    deployed = streamed(kind, rows)[0].deployed
    assert deployed is not None and deployed.firmware is not None
    return deployed.firmware.account.sram["arena"]


@pytest.mark.parametrize("kind", ["sound", "frames"])
def test_a_streamed_life_has_the_bytes_of_one_on_linux_in_less_memory(kind):
    learner, x, y = streamed(kind)
    with learner.on("host") as here:
        here.deployed = learner.deployed
        both = Both(here)
        assert set(both.device.interface.rows) == {"predict", "encode"}
        for i in range(24):
            both.observe(x[i], int(y[i]) if i % 3 else NONE)
        for id in both.learner.asks(3):
            both.label(id, int(y[id - 1]))
        both.check()
        both.rehearse(12, RATE, partial=True)
        both.check()
        new = both.add_class("new")
        for i in range(24, 30):
            both.observe(x[i][::-1].copy(), new)  # played backwards, or upside down
        both.rehearse(12, RATE, partial=True)
        both.check()
    assert arena(kind, True) < arena(kind, False)


def test_a_streamed_life_survives_a_power_cut():
    learner, x, y = streamed("sound")
    with learner.on("host") as here:
        here.deployed = learner.deployed
        both = Both(here)
        for i in range(12):
            both.observe(x[i], int(y[i]))
        both.rehearse(6, RATE)
        both.observe(x[12], int(y[12]))
        both.device.restart()
        both.check()
        both.observe(x[13], int(y[13]))
        both.check()


def test_a_sample_that_did_not_arrive_whole_is_not_kept():
    learner, x, _ = streamed("sound")
    with learner.on("host") as here:
        here.deployed = learner.deployed
        both = Both(here)
        both.observe(x[0], 0)
        data, link = x[1].tobytes(), both.device.link
        verb = list(both.device.verbs).index("encode")
        label = (0).to_bytes(4, "little")

        def write(at: int, count: int) -> None:
            link.ask("write", verb=verb, index=0, offset=at, data=data[at : at + count])

        write(0, 320)
        with pytest.raises(DeviceError, match="does not have all inputs"):
            link.ask("observe", verb=verb, data=label)
        write(0, 320)
        both.board.slices(1)  # uses the arena: the sample is over
        with pytest.raises(DeviceError, match="does not follow the one before"):
            write(320, 320)
        both.check()
        both.observe(x[1], 1)
        both.check()


def test_rows_and_a_store_need_frozen_layers():
    y = np.arange(12) % 3
    with pytest.raises(GraphError, match="nothing is frozen") as error:
        insitu.compile(network(1), example=torch.zeros(1, 1, 24, 20), scheme="full", precision="float",
                       data=(np.zeros((12, 1, 24, 20), np.float32), y), recipe=insitu.Recipe(rows=True),
                       board="nrf52840", **BOARD)  # fmt: skip
    assert 'scheme="head"' in error.value.hint


# a main loop of one's own -----------------------------------------------------------------------

LOOP = """#include <stdio.h>
#include "net_life.h"

static int16_t sound[{samples}];

int32_t port_read(uint8_t *to, int32_t most)
{{
    (void)to, (void)most;
    return -1;
}}

void port_write(const uint8_t *from, int32_t count)
{{
    (void)from, (void)count;
}}

int main(void)
{{
    uint32_t ids[4];
    net_life_begin();
    (void)fread(sound, sizeof sound, 1, stdin);
    net_observe_begin();
    for (int32_t i = 0; i < {rows}; i++) {{
        (void)net_observe_rows(sound + i * {row}, 1);
    }}
    ids[0] = net_observe_end(0);
    net_observe_begin();
    (void)net_observe_rows(sound, {rows} - 1);
    ids[1] = net_observe_end(0); /* a row is missing */
    ids[2] = net_observe(sound, 0); /* the same sample, whole */
    sound[100] ^= 0x100;
    ids[3] = net_observe(sound, 1);
    printf("%u %u %u %u\\n", (unsigned)ids[0], (unsigned)ids[1], (unsigned)ids[2], (unsigned)ids[3]);
    return 0;
}}
"""


def test_a_loop_of_one_s_own_observes_in_pieces(tmp_path):
    learner, x, _ = streamed("sound", board="stm32l476")  # its store is in SRAM
    learner.write(tmp_path / "net")
    source = tmp_path / "net" / "src"
    (tmp_path / "main.c").write_text(LOOP.format(samples=x[0].size, rows=len(x[0]), row=x[0][0].size))
    files = [str(p) for pattern in ("*.c", "kernels/*/*.c", "device/*.c") for p in sorted(source.glob(pattern))]
    compile_c(["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-I", str(source), *files,
               str(tmp_path / "main.c"), "-o", str(tmp_path / "loop")])  # fmt: skip
    told = subprocess.run([tmp_path / "loop"], input=x[0].tobytes(), stdout=subprocess.PIPE, check=True, text=False)
    assert told.stdout.split() == [b"1", b"0", b"1", b"2"]

"""The firmware behind a pseudo-terminal, as on a serial port of this machine."""

from __future__ import annotations

import os
import subprocess

from insitu.codegen import Program
from insitu.devices.process import build_firmware


class Terminal:
    """A board; `port` is its name."""

    def __init__(self, program: Program):
        self.near, self.far = os.openpty()  # the far end stays open, or the near end would see EOF too early
        self.port = os.ttyname(self.far)
        self.process = subprocess.Popen([str(build_firmware(program))], stdin=self.near, stdout=self.near)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for end in {self.near, self.far} - {-1}:
            os.close(end)
        self.near = self.far = -1

    def unplug(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.near)
        self.near = -1

"""Firmware: a training program linked for a board at its real addresses, with every byte accounted for.

build.py     compile and link: model, kernels, protocol, startup -> an ELF image
linker.py    the linker script: one section per class of bytes
image.py     reads an ELF image
flash.py     what a programmer writes: .bin, .hex, .uf2
stack.py     how deep the stack can get, from the image's own code
account.py   which class every byte of memory belongs to; the sum must equal the image
"""

from insitu.firmware.account import Account, account
from insitu.firmware.build import Firmware, build_firmware
from insitu.firmware.image import Image, read_image

__all__ = ["Account", "Firmware", "Image", "account", "build_firmware", "read_image"]

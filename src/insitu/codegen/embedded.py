"""The constants of a program as the bytes they are: the assembler includes them from a file beside the source.

A compiler reads an array of numbers at 2 to 6 us each, which for the 11 million of a ResNet-18 is more than a minute.
This is only for programs that are built here and now: a folder for a board has the same arrays as plain C
(constants.py), and so has any program if a compiler refuses this one.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from insitu.codegen.constants import Constants

ELF = r"""
#define EMBEDDED(name, align, file, at, bytes) \
    __asm__(".pushsection .rodata." #name ",\"a\",%progbits\n.balign " #align "\n.globl " #name "\n" \
            ".type " #name ", %object\n" #name ":\n.incbin \"" file "\", " #at ", " #bytes "\n" \
            ".size " #name ", " #bytes "\n.popsection\n");
"""
MACHO = r"""
#define EMBEDDED(name, align, file, at, bytes) \
    __asm__(".pushsection __TEXT,__const\n.balign " #align "\n.globl _" #name "\n" \
            "_" #name ":\n.incbin \"" file "\", " #at ", " #bytes "\n.popsection\n");
"""


def embedded_source(constants: Constants, align: int, macro: str = ELF) -> tuple[str, dict[str, bytes]]:
    """The file that defines the constants, and the file of bytes that it includes.

    `align` is the least alignment of an array, `macro` suits the system. The name of the file of bytes says what is in
    it: where a text is the key of a cache, it stands for both.
    """
    parts = [_bytes(array) for _, array, _ in constants.arrays]
    data = b"".join(parts)
    file, lines, at = f"{constants.prefix}_{sha256(data).hexdigest()[:32]}.bin", [], 0
    for (name, array, _), part in zip(constants.arrays, parts):
        lines.append(f'EMBEDDED({name}, {max(align, array.itemsize)}, "{file}", {at}, {len(part)})')
        at += len(part)
    return constants.defined([macro, *lines]), {file: data} if lines else {}


def _bytes(array: np.ndarray) -> bytes:
    return array.tobytes() or bytes(array.itemsize)  # C has no empty arrays

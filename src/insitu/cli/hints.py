"""Hints that name Python arguments, rewritten for the command line. Each such hint is one row of this table."""

from __future__ import annotations

import re

from insitu.errors import Error

SPOKEN = (
    (r'compile\(\.\.\., data=x\) with typical inputs, or precision="float"',
     "--data FILE with typical inputs, or --precision float"),
    (r"compile\(\.\.\., classes=N, data=\(x, y\)\)", "--classes N --data FILE, where FILE has labels"),
    (r"insitu\.compile\(\.\.\., batch=(\d+)\)", r"--batch \1"),
    (r"insitu\.compile\(\.\.\., classes=(\d+)\)", r"--classes \1"),
    (r"class numbers, or insitu\.load\(\.\.\., classes=\[\.\.\.\]\)", "labels that are class numbers"),
    (r"; learner\.add_class\(.*\) adds one", ""),
    (r"make it with insitu\.compile\(\.\.\.\)", "insitu compile MODEL"),
    (r"views=16, or cache=False", "--views 16"),
    (r"model\.quantize\(x\) with typical inputs x", "--data FILE with typical inputs"),
    (r"insitu\.Transform, or scale them", "scale them; or compile and train with --mean 0 --std 1, which takes bytes"),
    (r"give a Transform", "train with --mean and --std"),
    (r"use an example whose first axis is 1; `batch` says how many samples make an update",
     "export it for a batch of 1; --batch says how many samples make an update"),
    (r"np\.savez\(file, x=samples, y=labels\)", "np.savez(FILE, x=samples, y=labels) writes a suitable file"),
)  # fmt: skip


def spoken(hint: str) -> str:
    """The hint with command-line options in place of Python arguments."""
    for python, words in SPOKEN:
        hint = re.sub(python, words, hint)
    return hint


def message(error: Error) -> str:
    """An error as the command line prints it."""
    return f"{type(error).__name__}: {type(error)(error.what, where=error.where, hint=spoken(error.hint))}"

"""Every error insitu raises on purpose.

    Error                 the root: catch this
    ├── ModelError        a model file or object cannot be read: broken, hostile, or foreign
    │   └── Unsupported   it can be read, but uses something insitu does not have (yet)
    ├── GraphError        a graph breaks a rule of its stage; names the value
    ├── DataError         samples have the wrong shape, range or type
    ├── ArgumentError     a call has no argument of this name; a TypeError too
    ├── SchemeError       a scheme cannot be read, or names a layer the model does not have
    ├── BoardError        a board is unknown, or its profile is wrong
    ├── BudgetError       the program does not fit the memory it was given
    ├── DeviceError       a device does not answer, answers wrongly, or runs another program
    └── ToolError         a compiler or an optional package is missing or failed

LearningWarning is no error: training went another way than expected, and the warning says what to do.

Each error says what happened, where, and what to do. The command line prints it without a
traceback and exits with 1; a bug keeps its traceback.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """What went wrong, where (`where`), and what to do about it (`hint`)."""

    def __init__(self, what: str, *, where: str = "", hint: str = ""):
        self.what: str = what
        self.where: str = where
        self.hint: str = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:  # errors cross process borders (the child that reads a .pt2)
        return _remake, (type(self), self.what, self.where, self.hint)


def _remake(kind: type[Error], what: str, where: str, hint: str) -> Error:
    return kind(what, where=where, hint=hint)


class ModelError(Error):
    """A model cannot be read: truncated, malformed, hostile, or not a model at all."""


class Unsupported(ModelError):
    """A model is well formed but uses an op, a type or a setting that insitu does not have."""


class GraphError(Error):
    """A graph breaks a rule of its stage."""


class DataError(Error):
    """Samples do not fit the model: shape, range, type or number."""


class ArgumentError(Error, TypeError):
    """A call has no argument of this name."""


class SchemeError(Error):
    """A scheme cannot be read, or names a layer the model does not have."""


class BoardError(Error):
    """A board is unknown, or its profile is wrong."""


class BudgetError(Error):
    """The program does not fit the memory it was given."""


class DeviceError(Error):
    """A device does not answer, gives an answer that makes no sense, or runs another program."""


class ToolError(Error):
    """A compiler or an optional package is missing, or failed."""


def needs(package: str, extra: str, purpose: str) -> ToolError:
    """The error for an optional package that is not installed."""
    return ToolError(f"{purpose} needs {package}, which is not installed", hint=f'pip install "insitu[{extra}]"')


class LearningWarning(UserWarning):
    """Training went another way than its caller may expect: what happened, and what to do."""

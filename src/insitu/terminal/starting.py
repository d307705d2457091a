"""Ctrl-C while the command `insitu` starts: the process ends at once, since nothing has begun.

Raised inside an import, a KeyboardInterrupt shows a traceback, or becomes an ImportError with a page of advice: numpy's
does. Imported before everything else, so almost nothing is imported here. __main__.py says when Ctrl-C is heard again.
"""

import os
import sys

INTERRUPTED = 130  # the exit status of a program that Ctrl-C has stopped
SIGNALS = __import__("_signal")  # what is built in of `signal`, whose import takes longer than all before it


def end_now(*_: object) -> None:
    os._exit(INTERRUPTED)


def is_command() -> bool:
    """Is this `insitu` or `python -m insitu`, not a program that imports insitu?"""
    name, given = sys.argv[0] if getattr(sys, "argv", None) else "", sys.orig_argv
    own = os.path.basename(name).removesuffix(".exe")  # noqa: PTH119 # pathlib takes 3 ms to import
    return own == "insitu" or (name == "-m" and "insitu" in given[1:3])


def open_streams() -> None:
    """A daemon may start without stdin, stdout and stderr. Without this, the first files that are opened would get
    their numbers, and whatever is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 # as long as the process
    for stream in (sys.stdout, sys.stderr):  # a name that an older encoding does not have is printed as \U...
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")


def begin() -> None:
    """From here on Ctrl-C ends the process, if it would raise KeyboardInterrupt: nohup ignores it."""
    if SIGNALS.getsignal(SIGNALS.SIGINT) is SIGNALS.default_int_handler:
        SIGNALS.signal(SIGNALS.SIGINT, end_now)

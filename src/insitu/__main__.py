"""`python -m insitu`, or `insitu`: the command line."""

import os
import signal
import sys

INTERRUPTED = 130  # the exit status of a program that Ctrl-C has stopped


def main() -> int:
    """Run one verb and return the exit status. While verbs are imported, nothing has begun: Ctrl-C ends it at once.

    Raised inside an import, a KeyboardInterrupt may become an ImportError with a page of advice: numpy's does.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # nohup ignores Ctrl-C
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from insitu import cli

    try:
        signal.signal(signal.SIGINT, before)
        return cli.main()
    except KeyboardInterrupt:  # just before the verb begins, or just after it has ended
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

"""`python -m insitu`, or `insitu`: the command line."""

import signal
import sys

from insitu.terminal.starting import INTERRUPTED, begin, end_now, open_streams


def main() -> int:
    """Run one verb and return the exit status. While verbs are imported, nothing has begun: Ctrl-C ends it at once."""
    begin()
    open_streams()
    from insitu import cli

    try:
        if signal.getsignal(signal.SIGINT) is end_now:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return cli.main()
    except KeyboardInterrupt:  # just before the verb begins, or just after it has ended
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, but Python takes a while to end: the status stands


if __name__ == "__main__":
    sys.exit(main())

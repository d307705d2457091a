"""`python -m insitu`, or `insitu`: the command line."""

import sys

INTERRUPTED = 130  # the exit status of a program that Ctrl-C has stopped


def main() -> int:
    """Run one verb and return the exit status; Ctrl-C ends it without a traceback, also while verbs are imported."""
    try:
        from insitu import cli

        return cli.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

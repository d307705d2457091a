"""`insitu check`."""

HELP = "check"
EXAMPLES = ""


def arguments(parser) -> None: ...


def run(arguments) -> int:
    return 1

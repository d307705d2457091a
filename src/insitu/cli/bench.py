"""`insitu bench`."""

HELP = "bench"
EXAMPLES = ""


def arguments(parser) -> None: ...


def run(arguments) -> int:
    return 1

"""`insitu demo`."""

HELP = "demo"
EXAMPLES = ""


def arguments(parser) -> None: ...


def run(arguments) -> int:
    return 1

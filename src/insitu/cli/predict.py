"""`insitu predict`."""

HELP = "predict"
EXAMPLES = ""


def arguments(parser) -> None: ...


def run(arguments) -> int:
    return 1

"""`insitu quantize`."""

HELP = "quantize"
EXAMPLES = ""


def arguments(parser) -> None: ...


def run(arguments) -> int:
    return 1

"""`insitu run DIR`: train with a board's firmware, emulated or over a serial line, and show what it needs."""

from __future__ import annotations

from pathlib import Path

from insitu.cli.output import say, show
from insitu.cli.values import amount, count, index, rate, target_file

HELP = "train with a board's firmware: emulated here, or on the board itself"
EXAMPLES = """\
  insitu run build/ --data samples.npz --epochs 3        on the emulated board, with your samples
  insitu run build/ --steps 10                           on random samples, to measure a step
  insitu run build/ --on serial:/dev/ttyACM0 --data x.npz  on the board
  insitu run build/ --on qemu --steps 2                  on another emulator, if QEMU is installed
"""


def arguments(parser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="the folder that `insitu compile --board ... -o DIR` wrote"
    )
    parser.add_argument("--on", default="emulator", metavar="WHERE", help="emulator, qemu or serial:PORT (emulator)")
    parser.add_argument("--data", metavar="FILE", help="samples with labels to train on")
    parser.add_argument(
        "--steps", type=count, metavar="N", help="use the first N samples of the data; without --data, N random ones"
    )
    parser.add_argument("--epochs", type=count, default=1, metavar="N", help="(1)")
    parser.add_argument("--rate", type=amount, default=0.01, metavar="R", help="learning rate (0.01)")
    parser.add_argument("--batch", type=count, metavar="N", help="samples per update (default: as compiled)")
    parser.add_argument("--load", type=Path, metavar="FILE", help="start from this state")
    parser.add_argument("--save", type=target_file, metavar="FILE", help="write the state when done")
    parser.add_argument("--limit", type=count, metavar="N", help="most instructions per request, emulated (2e10)")
    parser.add_argument("--timeout", type=rate, metavar="S", help="most seconds per request on qemu or a board (600)")
    parser.add_argument("--seed", type=index, default=0, metavar="N", help="(0)")


def run(arguments) -> int:
    from insitu.deploy.manifest import read_manifest
    from insitu.errors import DataError
    from insitu.files import write_whole
    from insitu.learner.onboard import open_board, run_on

    manifest = read_manifest(arguments.folder)
    if not arguments.data and not arguments.steps:
        raise DataError("nothing to train on", hint="--data FILE, or --steps N for random samples")
    device = open_board(manifest, arguments.on, limit=arguments.limit, timeout=arguments.timeout)
    try:
        if arguments.load:
            device.load_state(_read(arguments.load))
        say(f"{manifest.name} on {manifest.board.name}, {arguments.on}")
        report = run_on(
            device, manifest, data=arguments.data, steps=arguments.steps, epochs=arguments.epochs,
            rate=arguments.rate, batch=arguments.batch, seed=arguments.seed,
        )  # fmt: skip
        if arguments.save:
            write_whole(arguments.save, device.save_state())
    finally:
        device.close()
    written = f"\nwritten to {arguments.save}" if arguments.save else ""
    show(arguments, report.to_text() + written, {**report.to_json(), "output": arguments.save and str(arguments.save)})
    return 0


def _read(path: Path) -> bytes:
    from insitu.errors import DataError

    try:
        return path.read_bytes()
    except OSError as e:
        raise DataError(f"cannot be read: {e.strerror or e}", where=str(path)) from e

"""The options of `insitu fleet`. What its actions do is in fleet.py."""

from __future__ import annotations

from pathlib import Path

from insitu.cli.values import count, index, page_file, rate, share

WHAT = ("simulate", "serve", "join", "gateway", "report")
CODINGS = ("int8", "4bit", "2bit", "ternary")
DEMOS = ("watch",)


def arguments(parser) -> None:
    parser.add_argument("what", choices=WHAT, help="simulate, serve, join, gateway or report")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the learner (.insitu); for report: a .json")
    data = parser.add_argument_group("samples")
    data.add_argument("--data", metavar="FILE", help="simulate: divided among the devices; join: this device's own")
    data.add_argument(
        "--test", metavar="FILE", help="join: samples to test on (default: a fifth of --data, kept apart)"
    )
    data.add_argument("--demo", choices=DEMOS, help="simulate: watches and their wearers, with nothing else at hand")
    data.add_argument("--each", type=Path, nargs="+", default=(), metavar="FILE",
                      help="simulate: in place of --data, a file for each device, or their folder")  # fmt: skip
    data.add_argument("--unlike", type=rate, metavar="A", help="simulate: unlike devices, the smaller the more (0.5)")
    fleet = parser.add_argument_group("fleet")
    fleet.add_argument("--clients", type=count, default=10, metavar="N", help="devices that take part (10)")
    fleet.add_argument("--rounds", type=count, default=3, metavar="N", help="(3)")
    fleet.add_argument("--share", type=share, metavar="S", help="share of the devices in each round (all)")
    fleet.add_argument("--strategy", default="fedavg", metavar="NAME", help="fedavg, fedprox, fedadam, fedmedian, ...")
    fleet.add_argument("--also", type=Path, nargs="+", default=(), metavar="FILE", help="serve: learners of devices "
                       "with other schemes of the same model; simulate: devices have these in turn")  # fmt: skip
    fleet.add_argument("--weight", type=rate, default=3.0, metavar="W", help="serve, simulate: a device counts for at "
                       "most W times the median number of samples (3)")  # fmt: skip
    fleet.add_argument("--keep-last", action="store_true", help="serve, simulate: end with the last round's model, "
                       "also if the devices' tests speak for an earlier one")  # fmt: skip
    fleet.add_argument("--coding", choices=CODINGS, default="int8",
                       help="bits of what join sends, of what serve sends, of both in simulate (int8)")  # fmt: skip
    fleet.add_argument("--personal", default="", metavar="NAMES", help="layers that stay on their device, e.g. head")
    fleet.add_argument("--noise", type=rate, metavar="M", help="differential privacy: noise as a multiple of --clip")
    fleet.add_argument("--clip", type=rate, default=1.0, metavar="C", help="bound on a device's change (1.0)")
    fleet.add_argument("--private", choices=("local", "central"), default="local", help="who adds the noise (local)")
    fleet.add_argument("--epsilon", type=rate, metavar="E", help="join: with --noise, answer no more once all answers "
                       "are worth this much (no limit)")  # fmt: skip
    fleet.add_argument("--secure", action="store_true", help="secure aggregation: the server sees only sums of changes")
    how = parser.add_argument_group("training")
    how.add_argument("--epochs", type=count, metavar="N", help="over a device's samples in each round (1; demo: 5)")
    how.add_argument("--rate", type=rate, metavar="R", help="learning rate (default: each device derives its own)")
    how.add_argument("--own", type=index, metavar="N", help="passes of each device by itself after the last round, "
                     "kept unless its tests say they did harm (as follows from its samples; 0: none)")  # fmt: skip
    how.add_argument("--seed", type=index, default=0, metavar="N", help="(0)")
    how.add_argument("--steps", type=count, metavar="N", help="gateway: of a bout on a board (40)")
    net = parser.add_argument_group("network")
    net.add_argument(
        "--boards", metavar="PLACES", help="gateway: serial:PORT, emulator or qemu, several with commas between"
    )
    net.add_argument("--build", type=Path, metavar="DIR", help="gateway: the folder of the boards' firmware")
    net.add_argument("--superlink", metavar="HOST:PORT", help="join: the address that `insitu fleet serve` printed")
    net.add_argument("--memory", type=Path, metavar="FILE", help="join, gateway: what stays on the device between "
                     "rounds (beside --data, in --build)")  # fmt: skip
    net.add_argument("--port", type=count, metavar="N", help="serve: (a free one)")
    net.add_argument("--wait", type=rate, metavar="S", help="serve: seconds that a device may take to answer (600)")
    net.add_argument("--certificate", type=Path, metavar="FILE", help="serve: the server's; with --key, --authority")
    net.add_argument("--key", type=Path, metavar="FILE", help="serve: the certificate's; join: the device's own")
    net.add_argument("--devices", type=Path, nargs="+", default=(), metavar="KEY",
                     help="serve: public keys of the devices that may join (everybody)")  # fmt: skip
    net.add_argument("--authority", type=Path, metavar="FILE", help="the certificate that signed the server's")
    net.add_argument("--host", metavar="ADDRESS", help="serve: listen here (127.0.0.1; others only with a certificate)")
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", type=Path, metavar="FILE",
                     help="serve, simulate: the learner with the fleet's model; join: with the one that suits this "
                     "device best; report: the page")  # fmt: skip
    out.add_argument("--report", type=page_file, metavar="FILE", help="write a page about the run")

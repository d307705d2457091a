"""`insitu fleet`: devices that learn together, simulated or through Flower's own processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from insitu.cli.output import say, show
from insitu.cli.values import count, index, page_file, rate, saved_file, share

HELP = "devices that learn together without sharing samples: simulate, serve, join (with Flower)"
EXAMPLES = """\
  insitu fleet simulate --demo watch --clients 10                ten watches learn together on this machine
  insitu fleet simulate g.insitu --data x.npz --clients 50 --unlike 0.5   your learner, unlike devices
  insitu fleet simulate g.insitu --each people/*.npz             a file for each device
  insitu fleet serve g.insitu --clients 3 --rounds 10 -o together.insitu   a server; prints the address to join
  insitu fleet join g.insitu --data mine.npz --superlink HOST:PORT         a device; its samples stay with it
  insitu fleet gateway g.insitu --build build --boards serial:/dev/ttyACM0,serial:/dev/ttyACM1 --superlink HOST:PORT
  insitu fleet report together.insitu.json -o fleet.html         a page about a run
"""
CODINGS = ("int8", "4bit", "2bit", "ternary")
DEMOS = ("watch",)


def arguments(parser) -> None:
    parser.add_argument("what", choices=tuple(ACTIONS), help="simulate, serve, join, gateway or report")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the learner (.insitu); for report: a .json")
    data = parser.add_argument_group("samples")
    data.add_argument("--data", metavar="FILE", help="simulate: divided among the devices; join: this device's own")
    data.add_argument("--test", metavar="FILE", help="join: samples to test on (default: those of --data)")
    data.add_argument("--demo", choices=DEMOS, help="simulate: watches and their wearers, with nothing else at hand")
    data.add_argument("--each", type=Path, nargs="+", default=(), metavar="FILE",
                      help="simulate: instead of --data, a file of samples for each device (people/*.npz)")  # fmt: skip
    data.add_argument("--unlike", type=rate, metavar="A", help="simulate: unlike devices, the smaller the more (0.5)")
    fleet = parser.add_argument_group("fleet")
    fleet.add_argument("--clients", type=count, default=10, metavar="N", help="devices that take part (10)")
    fleet.add_argument("--rounds", type=count, default=3, metavar="N", help="(3)")
    fleet.add_argument("--share", type=share, metavar="S", help="share of the devices in each round (all)")
    fleet.add_argument("--strategy", default="fedavg", metavar="NAME", help="fedavg, fedprox, fedadam, fedmedian, ...")
    fleet.add_argument("--coding", choices=CODINGS, default="int8",
                       help="bits of what join sends, of what serve sends, of both in simulate (int8)")  # fmt: skip
    fleet.add_argument("--personal", default="", metavar="NAMES", help="layers that stay on their device, e.g. head")
    fleet.add_argument("--noise", type=rate, metavar="M", help="differential privacy: noise as a multiple of --clip")
    fleet.add_argument("--clip", type=rate, default=1.0, metavar="C", help="bound on a device's change (1.0)")
    fleet.add_argument("--private", choices=("local", "central"), default="local", help="who adds the noise (local)")
    fleet.add_argument("--secure", action="store_true", help="secure aggregation: the server sees only sums of changes")
    how = parser.add_argument_group("training")
    how.add_argument("--epochs", type=count, metavar="N", help="over a device's samples in each round (1; demo: 5)")
    how.add_argument("--rate", type=rate, metavar="R", help="learning rate (default: each device derives its own)")
    how.add_argument("--own", type=index, metavar="N", help="after the last round each device makes N passes by itself "
                     "and is tested again (0; demo: 5)")  # fmt: skip
    how.add_argument("--seed", type=index, default=0, metavar="N", help="(0)")
    how.add_argument("--steps", type=count, metavar="N", help="gateway: of a bout on a board (40)")
    net = parser.add_argument_group("network")
    net.add_argument("--boards", metavar="PLACES", help="gateway: serial:PORT, several with commas between them")
    net.add_argument("--build", type=Path, metavar="DIR", help="gateway: the folder of the boards' firmware")
    net.add_argument("--superlink", metavar="HOST:PORT", help="join: the address that `insitu fleet serve` printed")
    net.add_argument("--memory", type=Path, metavar="FILE", help="join, gateway: what stays on the device between "
                     "rounds (beside --data, in --build)")  # fmt: skip
    net.add_argument("--port", type=count, metavar="N", help="serve: (a free one)")
    net.add_argument("--certificate", type=Path, metavar="FILE", help="serve: the server's; with --key, --authority")
    net.add_argument("--key", type=Path, metavar="FILE", help="serve: the certificate's; join: the device's own")
    net.add_argument("--devices", type=Path, nargs="+", default=(), metavar="KEY",
                     help="serve: public keys of the devices that may join (everybody)")  # fmt: skip
    net.add_argument("--authority", type=Path, metavar="FILE", help="the certificate that signed the server's")
    net.add_argument("--host", metavar="ADDRESS", help="serve: listen here (127.0.0.1; others only with a certificate)")
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", type=Path, metavar="FILE", help="the learner with its model, or the page")
    out.add_argument("--report", type=page_file, metavar="FILE", help="write a page about the run")


def run(arguments) -> int:
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():  # what was started is stopped, as after Ctrl-C
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return ACTIONS[arguments.what](arguments)


def simulated(arguments) -> int:
    from insitu.federated.simulate import Plan, needs_ray, simulate

    needs_ray()
    output = _learner_file(arguments.output) if arguments.output else None
    learner, devices = _demo(arguments) if arguments.demo else _divided(arguments)
    say(f"{len(devices)} devices, {sum(len(d[0][1]) for d in devices)} samples to learn from")
    plan = Plan(
        arguments.rounds,
        arguments.strategy,
        arguments.share or 1.0,
        arguments.coding,
        _names(arguments),
        _noise(arguments),
        _own(arguments),
        _secured(arguments),
    )
    found = simulate(learner, devices, plan, _settings(arguments))
    if output:
        found.learner.save(output)
    return _shown(arguments, found.about, [output] if output else [])


def _divided(arguments):
    from insitu.federated.split import divided

    learner = _learner(arguments)
    if arguments.each:
        return learner, [_of_file(learner, path, arguments.seed) for path in arguments.each]
    if not arguments.data:
        raise _missing("--data", "samples to divide among the devices; or --each FILE FILE ..., or --demo watch")
    data = learner.samples(arguments.data)
    return learner, [_shared(data, part) for part in divided(data, arguments.clients, arguments.seed, arguments.unlike)]


def _of_file(learner, path: Path, seed: int):
    """The samples of a device that has a file of its own."""
    from insitu.federated.split import kept_apart

    data = learner.samples(str(path))
    return _shared(data, kept_apart(data, seed, str(path)))


def _shared(data, part):
    """What a device learns from, and what it is tested on."""
    (x, y), (learn, test) = (data.inputs[0], data.labels), part
    return (x[learn], y[learn]), (x[test], y[test])


def _demo(arguments):
    from insitu.demo.fleet import watches

    return watches(arguments.clients, arguments.seed)


def served(arguments) -> int:
    from insitu.federated.serving import Served, serve

    output = _learner_file(arguments.output or "together.insitu")
    learner = _learner(arguments)
    learner.device.info()  # built before the first device joins
    settings = {**_settings(arguments), "clients": arguments.clients, "rounds": arguments.rounds,
                "strategy": arguments.strategy, "personal": arguments.personal, "coding": arguments.coding,
                "own": _own(arguments), **_private(arguments)}  # fmt: skip
    place = arguments.host, arguments.port, _secure(arguments)
    wanted = Served(arguments.file.resolve(), output.resolve(), settings, *place)
    about = serve(wanted, lambda address: say(f"listening on {address}\n  to join: insitu fleet join "
                                              f"{arguments.file.name} --data FILE --superlink {address}"))  # fmt: skip
    return _shown(arguments, about, [output])


def joined(arguments) -> int:
    from insitu.federated.serving import Joined, join

    if not arguments.superlink or not arguments.data:
        raise _missing("--superlink and --data", "the server's address, and this device's samples")
    learner = _learner(arguments)
    learner.samples(arguments.data)  # wrong samples are found before anything starts
    learner.device.info()  # the program is built here, and never while the fleet waits
    settings = {"learner": str(arguments.file.resolve()), "data": str(Path(arguments.data).resolve()),
                "test": arguments.test and str(Path(arguments.test).resolve()), "coding": arguments.coding,
                "personal": arguments.personal, "memory": _memory(arguments, f"{arguments.data}.memory"),
                **_private(arguments)}  # fmt: skip
    say(f"joining {arguments.superlink}; Ctrl-C leaves")
    join(Joined(arguments.superlink, settings, _secure(arguments)))
    return 0


def stood_in(arguments) -> int:
    from insitu.deploy.manifest import read_manifest
    from insitu.federated.serving import Joined, join

    if not (arguments.superlink and arguments.boards and arguments.build):
        raise _missing("--superlink, --boards or --build", "the server's address, serial ports, the boards' firmware")
    read_manifest(arguments.build)  # a wrong folder is found before anything starts
    _learner(arguments).device.info()
    data = arguments.data and str(Path(arguments.data).resolve())
    settings = {"learner": str(arguments.file.resolve()), "boards": "|".join(arguments.boards.split(",")), "data": data,
                "build": str(arguments.build.resolve()),
                "test": arguments.test and str(Path(arguments.test).resolve()), "steps": arguments.steps,
                "coding": arguments.coding, "personal": arguments.personal,
                "memory": _memory(arguments, arguments.build / "fleet.memory"), **_private(arguments)}  # fmt: skip
    say(f"joining {arguments.superlink} with {len(arguments.boards.split(','))} boards; Ctrl-C leaves")
    join(Joined(arguments.superlink, settings, _secure(arguments)))
    return 0


def _memory(arguments, usual) -> str:
    """Where a device keeps what stays with it between rounds; checked before anything starts."""
    from insitu.files import check_target

    return str(check_target(arguments.memory or usual).resolve())


def _private(arguments) -> dict[str, Any]:
    _secured(arguments)
    noise = {"noise": arguments.noise, "private": arguments.private} if arguments.noise else {}
    clip = {"clip": arguments.clip} if arguments.noise or arguments.secure else {}
    return {**noise, **clip, **({"secure": True} if arguments.secure else {})}


def _secured(arguments) -> float | None:
    """The bound of a change under secure aggregation; what cannot go with it is refused by name."""
    from insitu.errors import DataError

    if not arguments.secure:
        return None
    if arguments.noise and arguments.private == "central":
        raise DataError("--private central needs to see single changes, which --secure hides", hint="--private local")
    if arguments.coding != "int8":
        words = f"--coding {arguments.coding} cannot be summed under masks: --secure has numbers of its own"
        raise DataError(words, hint="without --coding")
    return arguments.clip


def _noise(arguments):
    from insitu.federated.privacy import Noise

    return Noise(arguments.noise, arguments.clip, arguments.private) if arguments.noise else None


def reported(arguments) -> int:
    import json

    from insitu.errors import DataError
    from insitu.reports.fleet import write_fleet_page

    if arguments.file is None:
        raise _missing("FILE", "the .json that `insitu fleet serve` wrote beside its learner")
    try:
        about = json.loads(arguments.file.read_text())
        made = write_fleet_page(about, page_file(str(arguments.output or arguments.file.with_suffix(".html"))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise DataError(f"is not the record of a fleet: {e}", where=str(arguments.file)) from e
    show(arguments, f"written to {made}", {"written": str(made)})
    return 0


ACTIONS = {"simulate": simulated, "serve": served, "join": joined, "gateway": stood_in, "report": reported}


def _learner(arguments):
    from insitu.learner.file import open_learner

    if arguments.file is None:
        raise _missing("FILE", "a learner: insitu train MODEL --data ... -o learner.insitu makes one")
    return open_learner(arguments.file)


def _learner_file(path) -> Path:
    """Where a learner can be written; an error if it cannot."""
    from insitu.errors import DataError
    from insitu.learner.given import kept

    if kept(path) != "learner":
        raise DataError("a learner is written to an .insitu file", where=str(path), hint="together.insitu")
    return saved_file(str(path))


def _missing(what: str, hint: str):
    from insitu.errors import DataError

    return DataError(f"{what} is missing", hint=hint)


def _names(arguments) -> tuple[str, ...]:
    return tuple(filter(None, arguments.personal.split(",")))


def _settings(arguments) -> dict[str, Any]:
    found = {"epochs": arguments.epochs or (5 if arguments.demo else 1), "rate": arguments.rate}
    return {name: value for name, value in found.items() if value is not None}


def _own(arguments) -> int:
    return arguments.own if arguments.own is not None else 5 if arguments.demo else 0


def _secure(arguments):
    from insitu.federated.security import Security

    authority, key = (path and path.resolve() for path in (arguments.authority, arguments.key))
    if arguments.what in ("join", "gateway"):
        return Security(authority=authority, node_key=key).checked()
    nodes = tuple(path.resolve() for path in arguments.devices)
    return Security(arguments.certificate and arguments.certificate.resolve(), key, authority, nodes).checked()


def _shown(arguments, about: dict, written: list) -> int:
    from insitu.reports.fleet_text import told

    if arguments.report:
        from insitu.reports.fleet import write_fleet_page

        written = [*written, write_fleet_page(about, arguments.report)]
    lines = [told(about), *(f"written to {path}" for path in written)]
    show(arguments, "\n".join(lines), {**about, "written": [str(path) for path in written]})
    return 0

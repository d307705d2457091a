"""`insitu fleet`: devices that learn together, simulated or through Flower's own processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from insitu.cli.fleet_options import arguments as arguments
from insitu.cli.output import say, show
from insitu.cli.values import page_file, saved_file
from insitu.cli.watching import kept_by

HELP = "devices that learn together without sharing samples: simulate, serve, join (with Flower)"
EXAMPLES = """\
  insitu fleet simulate --demo watch --clients 10                ten watches learn together on this machine
  insitu fleet simulate g.insitu --data x.npz --clients 50 --unlike 0.5   your learner, unlike devices
  insitu fleet simulate g.insitu --each people/*.npz             a file for each device
  insitu fleet serve g.insitu --clients 3 --rounds 10 -o together.insitu   a server; prints the address to join
  insitu fleet join g.insitu --data mine.npz --superlink HOST:PORT -o mine.insitu   a device; its samples stay with it
  insitu fleet gateway g.insitu --build build --boards serial:/dev/ttyACM0,serial:/dev/ttyACM1 --superlink HOST:PORT
  insitu fleet report together.insitu.json -o fleet.html         a page about a run
"""


def run(arguments) -> int:
    import signal
    import threading

    if arguments.what != "report":
        _needs_flower(arguments.what)
    if arguments.epsilon and not (arguments.noise and arguments.what in ("join", "gateway")):
        raise _conflict("--epsilon limits what a device tells under its own noise", "insitu fleet join ... --noise M")
    if threading.current_thread() is threading.main_thread():  # what was started is stopped, as after Ctrl-C
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return ACTIONS[arguments.what](arguments)


def _needs_flower(what: str) -> None:
    from importlib.util import find_spec

    from insitu.errors import needs

    if find_spec("flwr") is None:
        raise needs("flwr", "flower-sim" if what == "simulate" else "flower", "a fleet")


def simulated(arguments) -> int:
    from insitu.federated.simulate import Plan, needs_ray, simulate

    needs_ray()
    output = _learner_file(arguments.output) if arguments.output else None
    learner, devices = _demo(arguments) if arguments.demo else _divided(arguments)
    say(f"{_many(len(devices), 'device')}, {sum(len(d[0][1]) for d in devices)} samples to learn from")
    plan = Plan(
        arguments.rounds,
        arguments.strategy,
        arguments.share or 1.0,
        arguments.coding,
        _names(arguments),
        _noise(arguments),
        arguments.own,
        _secured(arguments),
        arguments.keep_last,
        arguments.weight,
    )
    found = simulate(learner, devices, plan, _settings(arguments), also=_others(arguments))
    if output:
        kept_by(found.learner.save, output)
    return _shown(arguments, found.about, [output] if output else [])


def _divided(arguments):
    from insitu.federated.split import divided

    learner = _learner(arguments)
    if arguments.each:
        return learner, [_of_file(learner, path, arguments.seed) for path in _files(arguments.each)]
    if not arguments.data:
        raise _missing("--data", "samples to divide among the devices; or --each FILE FILE ..., or --demo watch")
    data = _samples(learner, arguments.data)
    return learner, [_shared(data, part) for part in divided(data, arguments.clients, arguments.seed, arguments.unlike)]


def _samples(learner, path: str):
    """The labelled samples of a file; an error names the file, and speaks of options that `insitu fleet` has."""
    from insitu.errors import DataError

    try:
        return learner.samples(path)
    except DataError as e:
        hint = f"a learner that has them: insitu train MODEL --data ... {e.hint}" if "--classes" in e.hint else e.hint
        raise DataError(e.what, where=e.where or path, hint=hint) from e


def _files(paths) -> list[Path]:
    """A folder of .npz or .csv files stands for all of them."""
    inside = {p: sorted(q for q in p.iterdir() if q.suffix in (".npz", ".csv")) for p in paths if p.is_dir()}
    return [found for path in paths for found in (inside.get(path) or [path])]


def _of_file(learner, path: Path, seed: int):
    """The samples of a device that has a file of its own: its x_test, or every fifth sample, is for the test."""
    from insitu.data import read_held_out
    from insitu.federated.split import kept_apart

    data = _samples(learner, str(path))
    if read_held_out(path, learner.graphs["predict"]) is not None:
        test = learner.samples(str(path), part="test")
        assert test.labels is not None  # checked by samples()
        return (data.inputs[0], data.labels), (test.inputs[0], test.labels)
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
    for learner in (_learner(arguments), *_others(arguments)):
        learner.device.info()  # built before the first device joins
    also = "|".join(str(path.resolve()) for path in arguments.also)
    settings = {**_settings(arguments), "clients": arguments.clients, "rounds": arguments.rounds,
                "strategy": arguments.strategy, "personal": arguments.personal, "coding": arguments.coding,
                "own": arguments.own, "weight": arguments.weight, "also": also, "timeout": arguments.wait,
                "keep_last": int(arguments.keep_last), **_private(arguments)}  # fmt: skip
    place = arguments.host, arguments.port, _secure(arguments)
    wanted = Served(arguments.file.resolve(), output.resolve(), settings, *place)
    if wanted.rounds.exists():
        say(f"note: goes on after the rounds of an earlier run, in {wanted.rounds.name}; remove it to begin anew")
    begins, join = (
        _many(arguments.clients, "device"),
        f"insitu fleet join {arguments.file.name} --data FILE --superlink",
    )
    about = serve(wanted, lambda at: say(f"listening on {at}; begins with {begins}\n  to join: {join} {at}"))
    return _shown(arguments, about, [output])


def joined(arguments) -> int:
    from insitu.federated.serving import Joined, join

    _needed(arguments, superlink="HOST:PORT, as `insitu fleet serve` printed it", data="this device's samples")
    learner = _learner(arguments)
    _samples(learner, arguments.data)  # wrong samples are found before anything starts
    learner.device.info()  # the program is built here, and never while the fleet waits
    settings = {"learner": str(arguments.file.resolve()), "data": str(Path(arguments.data).resolve()),
                "test": arguments.test and str(Path(arguments.test).resolve()), "coding": arguments.coding,
                "personal": arguments.personal, "memory": _memory(arguments, f"{arguments.data}.memory"),
                "own": arguments.own, "output": arguments.output and str(_learner_file(arguments.output).resolve()),
                **_private(arguments)}  # fmt: skip
    say(f"joining {arguments.superlink}; Ctrl-C leaves")
    return _kept(arguments, settings, lambda: join(Joined(arguments.superlink, settings, _secure(arguments))))


def _kept(arguments, settings: dict, take_part) -> int:
    """Take part; a device that leaves early keeps what came so far."""
    from insitu.federated.deployed import keep_model
    from insitu.federated.events import ending

    try:
        found = take_part()
    except KeyboardInterrupt:
        if settings.get("output") and (made := keep_model(settings)):
            say(f"the last model that came is written to {made}")
        raise
    written = [found["written"]] if found.get("written") else []
    lines = [ending(found), *(f"written to {path}" for path in written)]
    show(arguments, "\n".join(lines), {**found.get("scores", {}), "written": written})
    return 0


def stood_in(arguments) -> int:
    from insitu.deploy.manifest import read_manifest
    from insitu.errors import DataError
    from insitu.federated.serving import Joined, join

    if arguments.output:
        raise DataError("boards keep their models themselves: a gateway writes none", where="-o", hint="without -o")
    _needed(arguments, superlink="HOST:PORT, as `insitu fleet serve` printed it",
            boards="where they are: serial:/dev/ttyACM0", build="the folder of their firmware")  # fmt: skip
    read_manifest(arguments.build)  # a wrong folder is found before anything starts
    _learner(arguments).device.info()
    data = arguments.data and str(Path(arguments.data).resolve())
    settings = {"learner": str(arguments.file.resolve()), "boards": "|".join(arguments.boards.split(",")), "data": data,
                "build": str(arguments.build.resolve()),
                "test": arguments.test and str(Path(arguments.test).resolve()), "steps": arguments.steps,
                "coding": arguments.coding, "personal": arguments.personal, "own": arguments.own,
                "memory": _memory(arguments, arguments.build / "fleet.memory"), **_private(arguments)}  # fmt: skip
    say(f"joining {arguments.superlink} with {_many(len(arguments.boards.split(',')), 'board')}; Ctrl-C leaves")
    return _kept(arguments, settings, lambda: join(Joined(arguments.superlink, settings, _secure(arguments))))


def _memory(arguments, usual) -> str:
    """Where a device keeps what stays with it between rounds; checked before anything starts."""
    from insitu.files import check_target

    return str(check_target(arguments.memory or usual).resolve())


def _private(arguments) -> dict[str, Any]:
    _secured(arguments)
    noise = {"noise": arguments.noise, "private": arguments.private} if arguments.noise else {}
    noise |= {"epsilon": arguments.epsilon} if arguments.epsilon else {}
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
        page = str(arguments.output or arguments.file.with_suffix(".html"))
        made = write_fleet_page(about, _as_data_error(page_file, page))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise DataError(f"is not the record of a fleet: {e}", where=str(arguments.file)) from e
    show(arguments, f"written to {made}", {"written": str(made)})
    return 0


ACTIONS = {"simulate": simulated, "serve": served, "join": joined, "gateway": stood_in, "report": reported}


def _learner(arguments):
    from insitu.learner.file import open_learner

    if arguments.file is None:
        raise _missing("FILE", "a learner: insitu train MODEL --data ... -o learner.insitu makes one")
    typical = arguments.data or next(map(str, _files(arguments.each)), "")  # samples for int8, and names of classes
    if arguments.what == "simulate" and typical and arguments.file.suffix != ".insitu":
        return _compiled(arguments.file, typical)
    return open_learner(arguments.file)


def _others(arguments) -> list:
    """The learners of devices with other schemes."""
    from insitu.learner.file import open_learner

    return [open_learner(path) for path in arguments.also]


def _compiled(model: Path, data: str):
    """A model as `insitu train` would begin with it: a simulated fleet needs no file that all devices share."""
    from argparse import ArgumentParser

    from insitu.cli import train
    from insitu.errors import Error

    parser = ArgumentParser()
    train.arguments(parser)
    try:
        learner, _ = train.build(parser.parse_args([str(model), "--data", data]), data)
    except Error as e:
        hint = f"{e.hint}; with such options: insitu train {model.name} ... -o g.insitu, then g.insitu here"
        raise type(e)(e.what, where=e.where, hint=hint if e.hint else "") from e
    return learner


def _learner_file(path) -> Path:
    """Where a learner can be written; an error if it cannot."""
    from insitu.errors import DataError
    from insitu.learner.given import kept

    if kept(path) != "learner":
        raise DataError("a learner is written to an .insitu file", where=str(path), hint="together.insitu")
    return _as_data_error(saved_file, str(path))


def _as_data_error(check, text: str) -> Path:
    """What only an action can check, since the same option means something else to others."""
    from argparse import ArgumentTypeError

    from insitu.errors import DataError

    try:
        return check(text)
    except ArgumentTypeError as e:
        raise DataError(str(e), where="-o") from e


def _missing(what: str, hint: str):
    from insitu.errors import DataError

    return DataError(f"{what} is missing", hint=hint)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _conflict(what: str, hint: str):
    from insitu.errors import DataError

    return DataError(what, hint=hint)


def _needed(arguments, **options: str) -> None:
    """The first of these options that is missing is named."""
    for name, hint in options.items():
        if not getattr(arguments, name):
            raise _missing(f"--{name}", hint)


def _names(arguments) -> tuple[str, ...]:
    return tuple(filter(None, arguments.personal.split(",")))


def _settings(arguments) -> dict[str, Any]:
    found = {"epochs": arguments.epochs or (5 if arguments.demo else 1), "rate": arguments.rate}
    return {name: value for name, value in found.items() if value is not None}


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

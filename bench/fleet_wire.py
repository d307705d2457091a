"""What a fleet puts on the wire, counted by a proxy between a supernode of Flower's and its superlink.

    python -m bench.fleet_wire                watch and mcunet, ours and Flower's FedAvg of the float model
    python -m bench.fleet_wire --coding int8  with the default coding, both ways

Both sides are Flower's own processes on loopback, without TLS. The proxy counts every byte in both directions, by what
was asked; polls and heartbeats depend on how long a round takes and are told apart. Counted are two whole rounds after
the first. The float app sends the arrays of the whole network each way, as Flower's quickstart does, and does not
train: its bytes do not depend on that. mcunet needs ../shared/models.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import insitu
from insitu.federated.coding import CODINGS
from insitu.federated.ports import LOOPBACK
from insitu.federated.processes import Superlink, start_node, write_app
from insitu.federated.security import Security
from insitu.federated.serving import Served, serve
from insitu.learner import Learner
from insitu.terminal.table import table

ROOT = Path(__file__).parent.parent
MODELS = ROOT.parent / "shared" / "models"
ASKED = re.compile(rb"^POST /v1/fleet/([a-z-]+) ")
IDLE = ("send-node-heartbeat", "pull-messages")
FIRST, LAST = 1, 3  # the bytes between the ends of these rounds are counted
FLOAT = '''"""Flower's FedAvg of float arrays, as in its quickstart."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Array, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()


@client.train()
def train(message, context):
    found = RecordDict({"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1})})
    return Message(found, reply_to=message)


@server.main()
def main(grid, context):
    given = context.run_config
    with np.load(given["arrays"]) as data:
        arrays = ArrayRecord({name: Array(data[name]) for name in data.files})

    def note(number, arrays):
        Path(given["output"]).write_text(str(number))

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=1)
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=int(given["rounds"]), evaluate_fn=note)
'''


class Proxy:
    """Passes everything on, and counts it by what a supernode asked for."""

    def __init__(self, target: str):
        host, _, port = target.rpartition(":")
        self.target, self.bytes, self.lock = (host, int(port)), Counter(), threading.Lock()
        self.listening = socket.create_server((LOOPBACK, 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.listening.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            near = self.listening.accept()[0]
            try:
                far, asked = socket.create_connection(self.target), {"now": "?"}
            except OSError:  # a poll after the server's end
                near.close()
                continue
            for source, sink, up in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=(source, sink, up, asked), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, up: bool, asked: dict) -> None:
        try:
            while data := source.recv(1 << 16):
                found = ASKED.match(data) if up else None
                asked["now"] = found[1].decode() if found else asked["now"]
                with self.lock:
                    self.bytes[asked["now"], "up" if up else "down"] += len(data)
                self.note(data)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                each.close()

    def note(self, data: bytes) -> None:
        """For others who want to look at what passes."""

    def snapshot(self) -> Counter:
        with self.lock:
            return Counter(self.bytes)


def between(proxy: Proxy, reached: Callable[[], int], seconds: float = 600) -> dict:
    """The bytes between the ends of two rounds, per round."""
    marks, end = {}, time.monotonic() + seconds
    while LAST not in marks:
        if time.monotonic() > end:
            raise SystemExit("the rounds did not complete")
        marks.setdefault(reached(), proxy.snapshot())
        time.sleep(0.02)
    found = marks[LAST] - marks[FIRST]
    return {f"{name} {way}": n / (LAST - FIRST) for (name, way), n in sorted(found.items())}


def ours(folder: Path, learner: Learner, x: np.ndarray, y: np.ndarray, coding: str) -> dict:
    learner.save(folder / "g.insitu")
    np.savez(folder / "mine.npz", x=x, y=y)
    settings = {"rounds": LAST + 1, "clients": 1, "epochs": 1, "timeout": 600.0, "coding": coding}
    wanted, ready, where = Served(folder / "g.insitu", folder / "out.insitu", settings), threading.Event(), []
    server = threading.Thread(target=serve, args=(wanted, lambda a: (where.append(a), ready.set())), daemon=True)
    server.start()
    ready.wait(120)
    proxy = Proxy(where[0])
    about = {"learner": str(folder / "g.insitu"), "data": str(folder / "mine.npz"), "coding": coding,
             "memory": str(folder / "memory")}  # fmt: skip
    node = start_node(folder / "node", proxy.address, about, Security())
    try:
        found = between(proxy, lambda: rounds_in(wanted.rounds))
        check_replies(wanted.rounds)
        server.join(120)  # its folder must stay until its last round is written
        return found
    finally:
        node.stop()


def check_replies(path: Path) -> None:
    """Bytes of a device that fails count for nothing."""
    with np.load(path) as found:
        history = json.loads(found["history"].tobytes())
    if history["dropped"] or not all(t["replies"] for t in history["traffic"]):
        raise SystemExit(f"replies were dropped: {history['dropped']}")
    print("payloads:", [(t["down"], t["up"]) for t in history["traffic"]])


def rounds_in(path: Path) -> int:
    try:
        with np.load(path) as found:
            return int(found["round"])
    except (OSError, ValueError):
        return 0


def floats(folder: Path, arrays: dict[str, np.ndarray]) -> dict:
    """Flower's FedAvg of these arrays."""
    np.savez(folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
    output = folder / "round"
    with Superlink(folder / "link") as link:
        given = {"arrays": str(folder / "arrays.npz"), "output": str(output), "rounds": LAST + 1}
        app = write_app(folder / "link" / "app", given)
        (app / "insitu_fleet" / "app.py").write_text(FLOAT)
        proxy = Proxy(link.address)
        node = start_node(folder / "node", proxy.address, {}, Security())
        try:
            link.flwr("run", str(app), "fleet")
            found = between(proxy, lambda: written(output))
            finish(lambda: written(output) > LAST)
            return found
        finally:
            node.stop()


def written(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


def finish(over: Callable[[], bool], seconds: float = 60, more: float = 3) -> None:
    """Let the last round end: an app whose device is gone would wait for it after everything else has stopped."""
    end = time.monotonic() + seconds
    while not over() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(more)


def parameters(learner: Learner) -> dict[str, np.ndarray]:
    """Every weight and bias of a network, as float32: those in the state, and those that are fixed."""
    fixed = {name: a for name, a in learner.graphs["predict"].constants.items() if a.dtype in (np.int8, np.int32)}
    state = {n: a for n, a in learner.device.state().items() if n in learner.graphs["predict"].values and a.ndim}
    found = {**fixed, **state}
    return {f"a{i}": np.asarray(a, np.float32) for i, a in enumerate(found.values()) if a.size > 1}


def watch() -> tuple[Learner, np.ndarray, np.ndarray, dict]:
    from insitu.demo.fleet import watches

    learner, devices = watches(10)
    return learner, *devices[0][0], parameters(learner)


def mcunet() -> tuple[Learner, np.ndarray, np.ndarray, dict]:
    rng = np.random.default_rng(0)
    x = np.kron(rng.uniform(-1, 0.99, (8, 8, 8, 3)), np.ones((1, 16, 16, 1))).astype(np.float32)  # coloured squares
    learner = insitu.compile(MODELS / "mcunet-5fps.pkl", classes=10, scheme="mcunet-5fps/49kb")
    return learner, x, np.arange(8), parameters(learner)


NETWORKS = {"watch": watch, "mcunet": mcunet}


def measure(name: str, coding: str = "ternary") -> dict:
    learner, x, y, arrays = NETWORKS[name]()
    learner.device.info()
    found = {"network": name, "coding": coding, "numbers": sum(a.size for a in arrays.values()), "arrays": len(arrays)}
    for way, work in (("ours", lambda f: ours(f, learner, x, y, coding)), ("float", lambda f: floats(f, arrays))):
        with TemporaryDirectory() as folder:
            found[way] = work(Path(folder))
    return found


def busy(found: dict) -> float:
    """Bytes of a round without polls and heartbeats."""
    return sum(n for name, n in found.items() if name.split()[0] not in IDLE)


def shown(rows: list[dict]) -> str:
    lines = []
    for r in rows:
        a, b = busy(r["ours"]), busy(r["float"])
        lines.append((r["network"], r["coding"], f"{r['numbers']:,}", f"{a:,.0f}", f"{b:,.0f}", f"{b / a:.1f}",
                      f"{sum(r['ours'].values()):,.0f}", f"{sum(r['float'].values()):,.0f}"))  # fmt: skip
    head = (
        "network",
        "coding",
        "numbers",
        "ours",
        "FedAvg of floats",
        "times fewer",
        "with polls: ours",
        "floats",
    )
    return table(head, lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help="watch, mcunet")
    parser.add_argument("--coding", choices=CODINGS, default="ternary")
    options = parser.parse_args()
    rows = [measure(name, options.coding) for name in options.networks]
    print(shown(rows))
    for r in rows:
        print(json.dumps(r, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

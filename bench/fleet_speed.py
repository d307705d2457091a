"""200 simulated devices on two cores: rounds a minute and memory, beside PyTorch doing the same in Flower's engine.

    python -m bench.fleet_speed                 200 devices, each way twice in turn; minutes
    python -m bench.fleet_speed --clients 40

Both run the same network on the same windows of the watch data, one pass per round, batch 1, FedAvg over all devices,
in Flower's own simulation engine with two workers: first insitu's deltas with the generated C, then an app as in
Flower's PyTorch quickstart. Each way runs in processes of its own, twice, in turn: other work on the machine then slows
both. Time is that of one round alone (training and averaging, no evaluation), the least and the median of all; memory
the largest sum over all its processes, with shared pages divided among them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from insitu.terminal.table import table

ROOT = Path(__file__).parent.parent
ROUNDS, WORKERS, TURNS = 3, 2, 2


def data(clients: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Eight windows for each device, from all wearers in turn."""
    from insitu.demo.watch import WEARERS, joined, recordings

    all_windows = joined([r.part(0, 12) for n in WEARERS for r in recordings()[n]])
    order = np.random.default_rng(0).permutation(len(all_windows))
    return [(all_windows.x[i], all_windows.y[i]) for i in np.resize(order, (clients, 8))]


def backend() -> dict:
    return {"init_args": {"num_cpus": WORKERS, "log_to_driver": False}, "client_resources": {"num_cpus": 1}}


def ours(clients: int) -> list[tuple[float, float]]:
    """Seconds and CPU seconds of each round, with the generated C."""
    from tempfile import TemporaryDirectory

    from flwr.simulation import run_simulation

    from insitu.demo.fleet import watches
    from insitu.federated.app import client_app
    from insitu.federated.named import strategy_of
    from insitu.federated.simulate import AT_ONCE, Plan, member, written
    from insitu.federated.strategy import Deltas

    learner, parts, plan = watches(1)[0], data(clients), Plan(coding="ternary")
    strategy = Deltas(strategy_of("fedavg", clients), [learner], at_once=AT_ONCE * WORKERS)
    with TemporaryDirectory() as folder:
        written(Path(folder), [learner], [(part, part) for part in parts])
        client = client_app(lambda context: member(folder, int(context.node_config["partition-id"]), plan))
        server, seconds = timed(lambda grid, number, state: our_round(strategy, grid, number))
        run_simulation(server, client, clients, backend_config=backend())  # type: ignore[arg-type]
    return seconds


def our_round(strategy, grid, number: int) -> None:
    from flwr.app import ConfigRecord

    config = ConfigRecord({"rate": 0.001, "epochs": 1, "server-round": number})
    strategy.first = strategy.round(grid, number, strategy.first, config, 3600)
    if strategy.dropped:
        raise SystemExit(f"replies were dropped: {strategy.dropped[:3]}")


def timed(work):
    """A server app that does the rounds, and the list that gets the seconds of each."""
    from flwr.serverapp import ServerApp

    app, seconds = ServerApp(), []

    @app.main()
    def main(grid, context):
        state = {}
        for number in range(ROUNDS + 1):  # the first one starts the workers
            start, spent = time.perf_counter(), cpu(os.getpid())
            work(grid, number, state)
            seconds.append((time.perf_counter() - start, cpu(os.getpid()) - spent))

    return app, seconds


def torchs(clients: int) -> list[tuple[float, float]]:
    """Seconds and CPU seconds of each round, with PyTorch as in Flower's quickstart."""
    from tempfile import TemporaryDirectory

    import torch
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    sys.path.insert(0, str(ROOT / "scripts"))
    from train_watch import Watch

    client, folder = ClientApp(), TemporaryDirectory()
    for i, (x, y) in enumerate(data(clients)):  # files, as for insitu: the engine sends the app with every message
        np.savez(Path(folder.name) / f"{i}.npz", x=x, y=y)

    @client.train()
    def train(message, context):
        torch.set_num_threads(1)
        net, part = Watch(), np.load(Path(folder.name) / f"{context.node_config['partition-id']}.npz")
        x, y = part["x"], part["y"]
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        net.eval()  # batch norm stays as it is, as in the generated C
        optimizer, loss_of, losses = torch.optim.SGD(net.parameters(), 0.001), torch.nn.CrossEntropyLoss(), []
        for i in range(len(x)):
            optimizer.zero_grad()
            loss = loss_of(net(torch.from_numpy(x[i : i + 1])), torch.from_numpy(y[i : i + 1]))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found = {"arrays": ArrayRecord(net.state_dict()),
                 "metrics": MetricRecord({"num-examples": len(x), "train-loss": float(np.mean(losses))})}  # fmt: skip
        return Message(RecordDict(found), reply_to=message)

    strategy = FedAvg(min_train_nodes=clients, min_available_nodes=clients, fraction_evaluate=0.0)

    def round_of(grid, number, state):
        arrays = state.get("arrays") or ArrayRecord(Watch().state_dict())
        messages = strategy.configure_train(number, arrays, ConfigRecord({}), grid)
        state["arrays"], _ = strategy.aggregate_train(number, grid.send_and_receive(messages, timeout=3600))

    server, seconds = timed(round_of)
    run_simulation(server, client, clients, backend_config=backend())  # type: ignore[arg-type]
    return seconds


WAYS = {"insitu": ours, "torch": torchs}


# memory -----------------------------------------------------------------------------------------


def tree(pid: int) -> list[int]:
    """A process and everything that it started, by session as well: Ray's workers have parents of their own."""
    parents = {}
    for entry in Path("/proc").iterdir():
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError, IndexError):
            continue
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def cpu(pid: int) -> float:
    """Seconds of CPU time of a process tree so far."""
    total = 0
    for each in tree(pid):
        try:
            words = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            total += int(words[11]) + int(words[12])
        except (OSError, IndexError):
            continue
    return total / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Bytes of a process tree, shared pages divided among those who share them."""
    total = 0
    for each in tree(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total


def measured(way: str, clients: int) -> dict:
    """One way in a process of its own, with its memory watched."""
    command = [sys.executable, "-m", "bench.fleet_speed", "--way", way, "--clients", str(clients)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    peak, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(3):
            peak[0] = max(peak[0], memory(process.pid))

    threading.Thread(target=watch, daemon=True).start()
    out = process.communicate()[0]
    over.set()
    return {**json.loads(out.strip().splitlines()[-1]), "peak": peak[0]}


def told(runs: list[dict]) -> tuple[str, ...]:
    """Least and median of all rounds but the first of each run, which starts the workers."""
    rounds = np.array([r for run in runs for r in run["seconds"][1:]])
    (fast, low), (each, spent) = rounds.min(0), np.median(rounds, 0)
    return (f"{60 / fast:.1f}, {60 / each:.1f}", f"{fast:.1f}, {each:.1f}", f"{low:.1f}, {spent:.1f}",
            f"{max(run['peak'] for run in runs) / 1e6:.0f}")  # fmt: skip


def about() -> str:
    """The machine, and what ran on it."""
    from importlib.metadata import version

    from insitu.reports.speed import machine

    names = ", ".join(f"{name} {version(name)}" for name in ("flwr", "ray", "torch", "numpy"))
    return f"{machine()['machine']}, {os.cpu_count()} cores; Python {sys.version.split()[0]}, {names}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--way", choices=tuple(WAYS), help="run this way here")
    options = parser.parse_args()
    if options.way:
        seconds = WAYS[options.way](options.clients)
        print(json.dumps({"seconds": seconds}), flush=True)
        return 0
    found = {way: [] for way in WAYS}
    for _ in range(TURNS):
        for way in WAYS:
            found[way].append(measured(way, options.clients))
            print(way, found[way][-1], f"load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print(about())
    rows = [(way, *told(found[way])) for way in WAYS]
    head = (f"{options.clients} devices", "rounds a minute", "s a round", "CPU s a round", "peak MB")
    print(table(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

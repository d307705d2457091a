"""Transfer learning of int8 networks on photos, through the generated C: one Run in, its test accuracy out.

The frozen layers run once for every view of every photo (`remember`), and their outputs are kept in files, cut where
the longest of our schemes begins. A scheme that begins later runs the layers in between once more, in memory. Training
from there gives the same bytes as training from pixels. accuracy.py lists the runs, and what they should reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import cos, pi
from pathlib import Path

import numpy as np

from bench import photos
from bench.photos import SOURCES, TESTS, Photos
from insitu.devices.device import Updates
from insitu.devices.host import HostDevice, open_plans
from insitu.errors import DataError
from insitu.files import cache_folder
from insitu.graph import Graph, drop_unused
from insitu.importers.checkpoint.read import read_checkpoint
from insitu.learner.average import Mean
from insitu.ops.update import COUNTERS
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import Scheme, fit, parse_scheme, read_scheme
from insitu.toolchain.cache import key_of
from insitu.training.head import replace_head
from insitu.training.prefix import Split, split
from insitu.training.train import Recipe, train_graphs

MODEL = "mcunet-5fps"
EARLIEST = {MODEL: f"{MODEL}/99kb", "mbv2-w0.35": "bias:26", "proxyless-w0.3": "bias:30"}  # where the files are cut
RATES = {"head": 0.4, "bias:22": 0.1, f"{MODEL}/49kb": 0.1, f"{MODEL}/99kb": 0.05}  # at a batch of 64
VIEWS = 4  # of each held-out photo, where settings are chosen
FULL_BATCH = 64  # a smaller batch has a proportionally smaller rate
Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One training run: what is trained, on which data, and how the weights are kept."""

    data: str
    scheme: str
    arithmetic: str = "residual"
    batch: int = 1
    seed: int = 0
    clip: float | None = None
    clip_kind: str | None = None
    choose: str = "magnitude"
    features: str = "pool"  # the layer whose output the head reads
    rate: float | None = None  # at a batch of 64; None: the rate in RATES
    epochs: int | None = None
    limit: int | None = None  # photos to train and to test on, for a quick look
    grad: str = "f32"  # how gradients of int8 layers are kept
    head_init: str = "zero"  # a uniformly drawn head makes sparse schemes much worse with few samples
    choosing: bool = False  # to choose settings: learn half of the training photos, test on views of the other half
    model: str = MODEL
    smoothing: float = 0.0  # of labels
    schedule: str = "cosine"  # or constant
    average: int = 0  # epochs at the end whose states are averaged

    @property
    def name(self) -> str:
        return f"{self.data} {self.scheme} {self.arithmetic} batch {self.batch}"

    @property
    def full_rate(self) -> float:
        return RATES[self.scheme] if self.rate is None else self.rate


# graphs -----------------------------------------------------------------------------------------


def checkpoint(model: str = MODEL) -> Path:
    path = photos.folder("models") / f"{model}.pkl"
    if not path.is_file():
        raise DataError("no such file", where=str(path), hint="set INSITU_TEST_FILES to a folder with `models`")
    return path


def cut(run: Run) -> Split:
    """The run's training graphs and the frozen layers before them."""
    graph = read_checkpoint(checkpoint(run.model))
    graph = replace_head(graph, SOURCES[run.data].classes, after=run.features, init=run.head_init, seed=run.seed)
    scheme = scheme_of(run.scheme, graph)
    recipe = Recipe(arithmetic=run.arithmetic, clip=run.clip, clip_kind=run.clip_kind, seed=run.seed,
                    grad=run.grad, smoothing=run.smoothing)  # fmt: skip
    graphs = train_graphs(graph, scheme, recipe, accumulate=run.batch > 1, choose=run.choose)
    found = split(graphs, graphs["predict"].inputs)
    if found is None:
        raise DataError("no layer is frozen, so no outputs can be kept", where=run.scheme)
    return found


def scheme_of(text: str, graph: Graph) -> Scheme:
    """A scheme by its name, or by its lines."""
    known = [layer for layer in layers(graph) if layer.name != "head"]
    return fit(parse_scheme(text, "given"), known) if "\n" in text else read_scheme(text, known)


def earliest(data: str, model: str = MODEL) -> Graph:
    """From pixels to the values that are kept in files."""
    return cut(Run(data, EARLIEST[model], model=model)).prefix


def between(first: Graph, later: Graph) -> Graph | None:
    """From the outputs of one prefix to those of a later one; None if they are the same."""
    if [v.name for v in first.outputs] == [v.name for v in later.outputs]:
        return None
    made = {v.name for n in first.nodes for v in n.outputs}
    nodes = tuple(n for n in later.nodes if n.outputs[0].name not in made)
    return drop_unused(replace(later, inputs=first.outputs, nodes=nodes))


def opened(**graphs: Graph) -> HostDevice:
    return open_plans({verb: plan(g) for verb, g in graphs.items()})


# kept outputs -----------------------------------------------------------------------------------

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Kept:
    """Files with the outputs of the frozen layers: [photo, view, ...], one file per value."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]

    def arrays(self, part: str) -> Arrays:
        return tuple(np.load(path, mmap_mode="r") for path in getattr(self, part))


def remember(data: str, seed: int, jobs: int, limit: int | None = None, model: str = MODEL,
             views: int | None = None) -> Kept:  # fmt: skip
    """Run the frozen layers on every view, on several cores; existing files are used again."""
    prefix, source = earliest(data, model), SOURCES[data]
    stamp = (str(prefix), checkpoint(model).read_bytes(), photos.path_of(data).read_bytes(), photos.VERSION)
    where = cache_folder() / "accuracy" / key_of(*stamp, f"{seed} {limit}{f' {views}' if views else ''}")
    where.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", views or source.views), ("test", len(TESTS))):
        if not (where / f"{part}.done").exists():
            _fill(data, part, count, seed, limit, where, jobs, prefix)
            (where / f"{part}.done").touch()
    paths = {part: tuple(where / f"{part}.{v.name}.npy" for v in prefix.outputs) for part in ("train", "test")}
    return Kept(**paths)


def part_of(data: str, part: str, limit: int | None) -> Photos:
    train, test = photos.read(data)
    return (train if part == "train" else test).first(limit)


def _fill(data, part, views, seed, limit, where: Path, jobs: int, prefix: Graph) -> None:
    count = len(part_of(data, part, limit))
    for v in prefix.outputs:
        shape = (count, views, *v.shape)
        np.lib.format.open_memmap(where / f"{part}.{v.name}.npy", "w+", v.type.numpy, shape)
    work = partial(_fill_range, data, part, views, seed, limit, where, prefix)
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(work, [range(count * j // jobs, count * (j + 1) // jobs) for j in range(jobs)]))


def _fill_range(data, part, views, seed, limit, where: Path, prefix: Graph, chosen: range) -> None:
    found, device = part_of(data, part, limit), opened(predict=prefix)
    outputs = [np.load(where / f"{part}.{v.name}.npy", mmap_mode="r+") for v in device.outputs]
    for i in chosen:
        seen = photos.train_views(found, i, views, seed) if part == "train" else photos.test_views(found, i)
        results = device.run("predict", as_input(np.stack(seen)))
        for out, result in zip(outputs, results):
            out[i] = result.reshape(out[i].shape)


def as_input(pixels: np.ndarray) -> np.ndarray:
    """The checkpoint counts in units of 2/255 around middle grey."""
    return (pixels.astype(np.int16) - 128).astype(np.int8)


def carry_on(graph: Graph | None, arrays: Arrays) -> Arrays:
    """The outputs of a later prefix, from those of an earlier one."""
    if graph is None:
        return arrays
    device = opened(predict=graph)
    shape = arrays[0].shape[:2]
    made = device.run("predict", *(np.ascontiguousarray(a).reshape(-1, *a.shape[3:]) for a in arrays))
    return tuple(m.reshape(*shape, *v.shape) for m, v in zip(made, device.outputs))


# training ---------------------------------------------------------------------------------------


def train(run: Run, kept: Kept, say: Say = lambda line: None) -> dict:
    """Train, then test on the views A and B; returns all results."""
    start = time.perf_counter()
    found = cut(run)
    device, way = opened(**found.rest), between(earliest(run.data, run.model), found.prefix)
    epochs = SOURCES[run.data].epochs if run.epochs is None else run.epochs
    rows = carry_on(way, tuple(r[:, : max(epochs, VIEWS)] for r in kept.arrays("train")))
    labels = part_of(run.data, "train", run.limit).labels
    learned, held = halves(labels) if run.choosing else (np.arange(len(labels)), None)
    rows, others = tuple(r[learned] for r in rows) if run.choosing else rows, rows
    losses, mean = [], Mean(run.average)
    for epoch in range(epochs):
        losses.append(_epoch(run, device, rows, labels[learned], epoch, epochs))
        mean.add(device, epochs - 1 - epoch)
        say(f"{run.name}: epoch {epoch + 1}/{epochs}, loss {losses[-1]:.4f}, {time.perf_counter() - start:.0f} s")
    if held is not None:
        scores = test(device, tuple(r[held, :VIEWS] for r in others), labels[held], tuple(map(str, range(VIEWS))))
        scores = {"held": round(float(np.mean([*scores.values()])), 2)}
    else:
        scores = test(device, carry_on(way, kept.arrays("test")), part_of(run.data, "test", run.limit).labels)
    counters = dict(zip(COUNTERS, map(int, device.state()["counters"])))
    seconds = round(time.perf_counter() - start, 1)
    return {**asdict(run), "rate": run.full_rate, **scores, "loss": losses[-1] if losses else None, "losses": losses,
            "updates": epochs * -(-len(labels) // run.batch) * updates_a_step(found), **counters,
            "seconds": seconds}  # fmt: skip


def updates_a_step(found: Split) -> int:
    """How many parameters one step updates: each may be clipped."""
    graph = found.rest["apply" if "apply" in found.rest else "train_step"]
    return sum(node.op.name.startswith("sgd") for node in graph.nodes)


def _epoch(run: Run, device: HostDevice, rows: Arrays, labels: np.ndarray, epoch: int, epochs: int) -> float:
    """The mean loss."""
    order, view = np.random.default_rng((run.seed, epoch)).permutation(len(labels)), epoch % rows[0].shape[1]
    arrays, rates = (*(r[:, view, 0] for r in rows), labels), rates_of(run, epoch, epochs, len(order))
    losses = device.train(Updates(arrays, order.tolist(), rates, run.batch, threads=1)).losses
    return float(losses.mean(dtype=np.float64))


def rates_of(run: Run, epoch: int, epochs: int, count: int) -> list[float]:
    """One epoch of warm-up, then half a cosine down to zero, or nothing more."""
    top, each = run.full_rate * run.batch / FULL_BATCH, -(-count // run.batch)

    def rate(step: int) -> float:
        if step < each or run.schedule == "constant":
            return min(1.0, (step + 1) / each)
        return 0.5 * (1 + cos(pi * (step - each) / max(1, (epochs - 1) * each)))

    return [top * rate(epoch * each + i) for i in range(each)]


def halves(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every other photo of each class, and the rest."""
    order = np.argsort(labels, kind="stable")
    return np.sort(order[::2]), np.sort(order[1::2])


def test(device: HostDevice, rows: Arrays, labels: np.ndarray, names=tuple(TESTS)) -> dict[str, float]:
    """Top-1 in %, for each kind of view of these photos."""
    scores = {}
    for view, name in enumerate(names):
        (logits,) = device.run("predict", *(np.ascontiguousarray(r[:, view]).reshape(-1, *r.shape[3:]) for r in rows))
        scores[name] = round(100 * float((logits.argmax(1) == labels).mean()), 2)
    return scores

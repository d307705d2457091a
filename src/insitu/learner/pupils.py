"""The programs that learn on this machine, beside the one that predicts: predictions never see half an update.

One is a twin of the learner's program, or the same program for whole batches. If the first layers are frozen, the
program is also cut where they end: their outputs are computed once per sample (or once per view of it), and the rest
learns from them, with the same bytes in a fraction of the time. On a board, the program that predicts also learns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from insitu.data import Samples
from insitu.devices.device import Device
from insitu.devices.host import HostDevice, open_plans
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.learner.feed import Augment, Feed, Source, plain, predict_all
from insitu.learner.here import follow, open_here, plan_here
from insitu.learner.together import STEP, faster_together
from insitu.planner import plan
from insitu.terminal.progress import Report
from insitu.terminal.wording import either
from insitu.training.prefix import split

if TYPE_CHECKING:
    from insitu.learner.owner import Owner


@dataclass
class Pupils:
    """Those that were needed so far."""

    batch: int = 1  # samples that they take at once, by these graphs
    graphs: dict[str, Graph] | None = None
    whole: HostDevice | None = None  # learns from samples
    cut: Cut | None = None
    whole_only: bool = False  # is it known that nothing can be cut?


@dataclass(frozen=True, eq=False)
class Cut:
    """A program cut where its frozen layers end."""

    frozen: HostDevice
    rest: HostDevice  # learns from their outputs
    predict: Graph  # from their outputs to the network's


@dataclass(frozen=True, eq=False)
class Views:
    """How samples come to a device that learns."""

    augment: Augment | None = None
    count: int | None = None  # fixed changes of each sample; None: new ones every epoch
    cache: bool | None = None  # keep the outputs of the frozen layers? None: if they are fixed
    seed: int = 0

    @property
    def fixed(self) -> bool:
        return self.augment is None or self.count is not None

    @property
    def cached(self) -> bool:
        return self.fixed if self.cache is None else self.cache


def feed_of(learner: Owner, data: Samples, views: Views, batch: int, report: Report) -> Feed:
    """These samples and the device that learns from them: what the frozen layers make of them, if that can be kept."""
    labels, here = data.labels, isinstance(learner.device, HostDevice)
    assert labels is not None  # checked by samples()
    _check(views, here)
    source = replace(plain(data.inputs), augment=views.augment, views=views.count, seed=views.seed)
    if here:
        take_together(learner, batch)
    cut = cut_of(learner) if here and views.cached else None
    if cut is None:
        return Feed(learning(learner), source, labels)
    cut.rest.load_arrays(learner.device.state())
    return Feed(cut.rest, Source(predict_all(cut.frozen, source, report, "frozen layers")), labels, cached=True)


def _check(views: Views, here: bool) -> None:
    if views.cache and not here:
        raise DataError("outputs of frozen layers can only be kept on the host", hint="train it there")
    if views.cache and not views.fixed:
        raise DataError(
            "outputs can only be kept of fixed views",
            hint=either(shell="--views 16", python="views=16, or cache=False"),
        )


def take_together(learner: Owner, batch: int) -> None:
    """From now on, programs that learn here take this many samples at once, if they can."""
    if batch != learner._pupils.batch:
        adds_up = "accumulate" in learner.graphs
        graphs = learner.parts.batch_graphs(batch) if learner.parts and adds_up else None
        learner._pupils = Pupils(batch, graphs)


def learning(learner: Owner) -> Device:
    """The device to learn on, in the learner's state; on this machine another one than the learner's own."""
    device, pupils = learner.device, learner._pupils
    if not isinstance(device, HostDevice):
        return device
    if pupils.whole is None:
        graphs = faster_together(pupils.graphs or {})
        pupils.whole = open_here(plan_here(graphs)) if STEP in graphs else device.twin()
    follow(pupils.whole, device)
    return pupils.whole


def cut_of(learner: Owner) -> Cut | None:
    """The program cut where the frozen layers end; None if nothing is frozen."""
    pupils = learner._pupils
    if pupils.cut is None and not pupils.whole_only:
        graphs = pupils.graphs or learner.graphs
        parts = None if learner.parts and learner.parts.at_once else split(graphs, graphs["predict"].inputs)
        if parts is None or not parts.by_sample:
            pupils.whole_only = True
            return None
        rest = {verb: plan(g) for verb, g in faster_together(parts.rest).items()}
        pupils.cut = Cut(open_plans({"predict": plan(parts.prefix)}), open_plans(rest), parts.rest["predict"])
    return pupils.cut


def take_over(learner: Owner, feed: Feed) -> None:
    """Copy what was learned, on a twin or on the rest of the network, to the device that predicts."""
    whole = learner._pupils.whole
    if feed.units:
        learner.device.load_arrays(feed.units.out_of(feed.device.state()))
    elif feed.cached:
        learner.device.load_arrays(feed.device.state())
    elif isinstance(learner.device, HostDevice) and whole is not None:
        follow(learner.device, whole)

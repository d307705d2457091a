"""The whole compiler as one function, one line per stage: from your model to a program that learns.

Each stage is a folder of its own and knows nothing of the others; this file passes results from one to the next.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from insitu.boards import Board
from insitu.data import Samples, as_samples, by_name
from insitu.data.arguments import byte_count, whole
from insitu.deploy import Deployment, Limits, limits_of, usual_gradients
from insitu.deploy.auto import choose
from insitu.deploy.budget import check_budget
from insitu.deploy.finding import Point, find
from insitu.devices.host import open_host
from insitu.errors import BudgetError, DataError, LearningWarning, ModelError
from insitu.graph import Graph, build, drop_unused
from insitu.graph.graph import Builder
from insitu.importers import load as load_graph
from insitu.importers.keras.compiled import BATCH as KERAS_BATCH
from insitu.importers.keras.compiled import Compiled, compiled
from insitu.learner import Learner
from insitu.learner.contributions import SECONDS
from insitu.learner.contributions import measure as measure_gains
from insitu.learner.feed import plain, predict_all
from insitu.learner.given import given_samples
from insitu.learner.model import Model
from insitu.learner.own_head import own_or_new
from insitu.ops.activation import sigmoid
from insitu.ops.linear import linear_s8
from insitu.ops.norm import batch_norm
from insitu.ops.quant import dequantize
from insitu.planner import Plan
from insitu.preprocess import Audio, Motion, Transform, fuse_transform
from insitu.proof import Certificate, certify, drawn
from insitu.proof.folder import is_folder, prove_folder
from insitu.quantizer import fold
from insitu.quantizer.columns import with_even_columns
from insitu.quantizer.fold import is_int8
from insitu.quantizer.rounding import WORDS as ROUNDINGS
from insitu.quantizer.rounding import with_rounding
from insitu.quantizer.untrained import is_untrained
from insitu.schemes.contribution import Contribution
from insitu.schemes.ladder import ladder
from insitu.schemes.layers import layers, leading
from insitu.schemes.scheme import Scheme, read_scheme
from insitu.schemes.search import HEAD as HEAD_ALONE
from insitu.terminal import colour
from insitu.terminal.progress import bar, stage
from insitu.training.classes import choose_classes
from insitu.training.head import HEAD, prototypes, replace_head, reserve_head, with_head
from insitu.training.integer_head import integer_head
from insitu.training.parts import Parts
from insitu.training.train import Recipe, has_targets

Front = Transform | Audio | Motion  # what raw samples go through first
PRECISIONS = ("int8", "float")
CONSTANT = "all calibration samples are the same: the int8 network will fit no others. Give typical inputs as data"
UNTRAINED = (
    "the weights are random initial ones, so int8 gets room for them to grow; "
    'precision="float" with Recipe(optimizer="adam") usually learns more'
)
MOST_FLOAT = (
    4096  # weights of a last layer that becomes float: an autoencoder's would take four times its flash and SRAM
)
ROOM = 4.0  # times the ranges of an untrained network
AUTO = "auto"  # the scheme: as much as fits (schemes/ladder.py) of a model that keeps its classes, else the head
LAST = {"last:4": 4, "last:2": 2, "last:1": 1}
UNTRAINED_SCHEMES = ("full", *LAST, HEAD)  # the first that fits
LADDER = "auto:ladder"  # as much as fits of any model
MEASURED = "auto:measured"  # what brings most, by short trainings on the samples (learner/contributions.py)
OWN = "own"  # head_init: the model's own classifier


def compile(model: Any, *, example: Any = None, classes: int | Sequence[str] | None = None, data: Any = None,
            scheme: str = "auto", precision: str = "int8", batch: int | None = None, head: str = "float",
            head_after: str | None = None, head_init: str | None = None, rounding: str | None = None,
            recipe: Recipe | None = None, board: str | Board = "host", sram: int | str | None = None,
            flash: int | str | None = None, prefer: str = "balance", transform: Front | None = None,
            seed: int = 0, dump: str | Path | None = None, max_classes: int | None = None,
            store: int | str | None = None) -> Learner:  # fmt: skip
    """A learner on the host: `fit`, `evaluate`, `predict`, and the C program behind them.

    model       a path, a torch module (with `example`), a Keras model, an insitu Model or Graph
    classes     the classes of the new head: their names, or how many. None: those of labelled `data`, if the model does
                not know them; else the model's own classifier stays, in float
    data        samples, to calibrate a float model for int8 and for head_init="prototypes"
    head        the classifier's arithmetic: float (default) or int8
    rounding    of int8 results: "litert" gives the bytes of LiteRT's reference kernels, "single" (what we quantise
                ourselves) is faster and agrees with XNNPACK; None: as the model has it
    head_init   of a new head: zero, uniform or prototypes; "own" keeps the model's. None: zero; but names for as many
                classes as the model has unnamed outputs keep its own head, unless labelled `data` shows that it guesses
    scheme      what is trained: head, full, last:6, bias:22, ladder:40, a published name, a file. "auto:ladder": as
                much as fits half of the board's SRAM, or `sram`, in the order of what usually brings most per byte; fit
                then decides whether more than the head learns. "auto" is the same for a model that keeps its classes,
                and the head if they are new. "auto:measured" finds out with the labelled `data` what brings most, in
                minutes (docs/schemes.md)
    batch       1 (default): one update per sample; more: gradients are added up and applied once per batch. A float
                network with batch norm that is trained in full takes the whole batch at once and learns its statistics;
                otherwise the statistics are frozen. For a compiled Keras model in float the default is 32, as in Keras
    recipe      loss and optimizer; None: those that a Keras model was compiled with, else cross-entropy and SGD
    transform   what raw samples go through first, as part of the graph: Transform (pixels), Audio (int16
                sound) or Motion (readings of a sensor)
    board       a name (`insitu boards`) or a profile.json: the program is linked for this board, and must fit; it
                still runs here; `on("emulator")` or `on("serial:PORT")` of the learner runs it there
    sram, flash the bytes the program may use (262144, or "256K": K is 1,024); a BudgetError says what does not fit
    prefer      on a board: the fewest instructions within `sram`, or within half of the board's ("balance") or all of
                it ("speed"); or the least memory ("memory")
    dump        a folder that gets one text file per stage
    max_classes the head has room for this many classes: `add_class` takes the next row, nothing is compiled again
    store       on a board: bytes ("64K") for samples that the program keeps itself, in flash where insitu can write the
                board's, else in SRAM. The board then collects, learns in bouts and survives power cuts (docs/living.md)
    """
    seed = whole(seed, "seed")
    sram, flash = byte_count(sram, "sram"), byte_count(flash, "flash")
    say = Dump(dump)
    if head not in PRECISIONS:
        raise DataError(f"head is {head!r}, which is unknown", hint=" or ".join(PRECISIONS))
    limits = limits_of(board, sram, flash, prefer, byte_count(store, "store"))
    taken = None if recipe else compiled(model)
    recipe, said = recipe_of(taken, recipe, precision)
    recipe = with_gradients(recipe, limits)
    batch = whole(_usual_batch(taken, precision, limits) if batch is None else batch, "batch", 1)
    with stage("reading the model"):
        g = say("1-loaded", load(model, _example(model, example, data)))
    g = _bare(g, taken)
    g = say("2-input", transform.applied_to(g) if transform else g)
    samples = None if data is None else as_samples(data, g, targets=has_targets(recipe))
    chosen = choose_classes(g, classes, samples, head_init == OWN)
    if head_init is None and head_after is None:
        chosen = own_or_new(g, chosen, samples)
    untrained = not is_int8(g) and is_untrained(g)
    fresh = chosen.count is not None or head_init not in (None, OWN) or head_after is not None
    later = "" if scheme != AUTO or untrained else _head_alone(store, max_classes, fresh, has_targets(recipe))
    scheme = HEAD if later else LADDER if scheme == AUTO and not untrained else scheme
    schemes = UNTRAINED_SCHEMES if scheme == AUTO else [scheme]
    with stage("calibrating"):
        g = say("3-numerics", to_precision(g, precision, samples, schemes[0], batch))
    g = new_head(g, chosen.count, samples and by_name(samples, chosen.names), recipe, head_after, head_init, seed)
    columns = g.columns or (samples.columns if samples else ())
    g = with_room(replace(g, classes=chosen.names, columns=columns), max_classes, head)
    g = rounded(integer_head(g) if head == "int8" else g, rounding)
    say("4-head", g)
    if later and head_of(g) is None:
        schemes = ["last:1"]  # of a model that is trained towards targets: it has no classifier
    why = ""
    if scheme in (LADDER, MEASURED):
        parts = Parts(g, HEAD_ALONE, recipe, batch, has_statistics(g), head_of(g))
        table = measured(parts, samples, seed=seed) if scheme == MEASURED else None
        parts, graphs, deployed, why = highest_rung(parts, limits, table)
    else:
        parts, graphs, deployed = _first_that_fits(g, schemes, recipe, batch, limits)
    say("5-scheme", parts.scheme)
    say("6-training", graphs)
    room = UNTRAINED if untrained and precision == "int8" and schemes != [HEAD] else ""
    told = [*said, chosen.note, room, _scheme_note(schemes, parts.scheme.name)]
    notes = sum(map(_told, told), ()) + _untrained(g) + ((later,) if later else ())
    notes += (why,) if why else ()
    notes += (deployed.note,) if deployed and deployed.note else ()
    learner = Learner(graphs, parts=parts, notes=notes, deployed=deployed)
    if dump:
        say("7-plan", deployed.program.plans if deployed else learner.plans)
    return learner


def _example(model: Any, example: Any, data: Any) -> Any:
    """For a torch module without an example, the first of the samples, if they are an array."""
    x = data[0] if isinstance(data, tuple) and data else data
    module = any(kind.__module__.startswith("torch.nn") for kind in type(model).__mro__)
    if example is not None or not module or not hasattr(x, "shape") or not len(x):
        return example
    return np.asarray(x[:1], np.float32)


def _first_that_fits(graph: Graph, schemes: Sequence[str], recipe: Recipe, batch: int,
                     limits: Limits) -> tuple[Parts, dict[str, Graph], Deployment | None]:  # fmt: skip
    """The program of the first scheme that fits the board; the error is that of the last one."""
    known = trainable(graph)
    schemes = [name for name in schemes if len(schemes) == 1 or LAST.get(name, 0) < len(known)]
    for i, name in enumerate(schemes):
        parts = Parts(graph, read_scheme(name, known), recipe, batch, has_statistics(graph), head_of(graph))
        with stage("gradients and updates"):
            graphs = parts.graphs()
        try:
            return parts, graphs, check_budget(parts, graphs, limits)
        except BudgetError:
            if i + 1 == len(schemes):
                raise
    raise AssertionError("there is always a scheme")


def _scheme_note(schemes: Sequence[str], name: str) -> str:
    """What to say of a scheme that was chosen for an untrained model."""
    if len(schemes) == 1:
        return ""
    if name == HEAD:
        return "the model is untrained, and only its head fits the board: it will learn little. More --sram helps"
    what = "all its layers are" if name == schemes[0] else "as many layers as fit the board are"
    return f"the model is untrained: {what} trained, not only its head (scheme={name!r})"


def _head_alone(store: int | str | None, max_classes: int | None, fresh: bool, targets: bool) -> str:
    """Why only the head is trained if nobody asked for more; a note for the learner, not for the terminal. Where the
    model's answers are new, the trials of fit cannot tell yet whether other layers should learn too (docs/schemes.md).
    """
    reasons = {
        "a store keeps most samples of what the head sees": store is not None,
        "classes are added later": max_classes is not None,
        "its classes are new": fresh,
        "it learns targets": targets,
    }
    why = next((why for why, holds in reasons.items() if holds), "")
    return f"scheme auto: the head, because {why}; --scheme auto:ladder trains as much as fits" if why else ""


def search(model: Any, *, board: str = "host", sram: int | str | None = None, flash: int | str | None = None,
           instructions: int = 0, gains: Contribution | None = None, measure: float | None = None,
           kept: Path | None = None, recipe: Recipe | None = None, **options: Any) -> list[Point]:  # fmt: skip
    """The best schemes for a model, from the least memory to all that is allowed: a front of memory against gain.

    Takes the arguments of `compile` but `scheme`. `sram` defaults to all of the board's, `instructions` limits a step,
    `gains` is a table of what each part brings; None: what the structure of the network lets expect (schemes/ladder.py)
    `measure` seconds are spent on short trainings with labelled `data` that fill such a table; the file `kept` collects
    their results, so that an interrupted measurement goes on (learner/contributions.py)
    """
    limits = limits_of(board, byte_count(sram, "sram"), byte_count(flash, "flash"), "memory")
    recipe = with_gradients(recipe or Recipe(), limits)
    parts = compile(model, scheme="full", recipe=recipe, **options).parts
    assert parts is not None
    found = trainable(parts.forward)
    if measure is not None:
        data = options.get("data")
        samples = None if data is None else as_samples(data, parts.forward, targets=has_targets(recipe))
        gains = measured(parts, samples, measure, kept, options.get("seed", 0))
    return find(parts, found, limits, gains or ladder(found), instructions)


def measured(parts: Parts, samples: Samples | None, seconds: float = SECONDS, kept: Path | None = None,
             seed: int = 0) -> Contribution:  # fmt: skip
    """What each part of the network brings on these samples."""
    if samples is None or samples.labels is None:
        raise DataError("measuring what a layer brings needs labelled samples", hint="give each sample its class")
    known = given_samples(parts.forward, parts.recipe.loss, samples)
    with bar() as report:
        return measure_gains(
            parts, trainable(parts.forward), known, seconds=seconds, path=kept, seed=seed, report=report
        )


def prove(model: Any, *, example: Any = None, classes: int | None = None, data: Any = None, scheme: str = "full",
          precision: str = "int8", batch: int = 1, head: str = "float", head_after: str | None = None,
          recipe: Recipe | None = None, steps: int = 5, seed: int = 0) -> Certificate:  # fmt: skip
    """The gradient certificate of the training program that `compile` would make. Takes the arguments of `compile`.

    `.ok` says whether everything holds, `.broken` what does not. Without `data`, samples are drawn at random.
    The head starts from random weights: with zeros, no gradient would reach the layers before it. The model may also be
    a board's folder: its program is proved as it will be flashed, and the certificate is written into the folder.
    """
    if isinstance(model, str | Path) and is_folder(model):
        return prove_folder(model, data, steps, seed)
    recipe = recipe or Recipe()
    g = load(model, example)
    samples = drawn(g, seed) if data is None else as_samples(data, g, targets=has_targets(recipe))
    g = to_precision(g, precision, samples, scheme, batch)
    g = new_head(g, classes, samples, recipe, head_after, "uniform", seed)
    g = integer_head(g) if head == "int8" else g
    parts = Parts(g, read_scheme(scheme, trainable(g)), recipe, batch, has_statistics(g), head_of(g))
    return certify(parts, samples, scheme, steps, seed)


# stages -----------------------------------------------------------------------------------------


def recipe_of(taken: Compiled | None, recipe: Recipe | None, precision: str) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe: the user's own, or that of a compiled Keras model, or the usual one; and notes about it."""
    if recipe is not None or taken is None:
        return recipe or Recipe(), ()
    if precision == "float":
        return Recipe(**taken.fields), taken.notes
    kept = {name: taken.fields[name] for name in ("loss", "decay", "smoothing") if name in taken.fields}
    plain = taken.fields.get("optimizer") == "sgd"  # only then does its rate mean the same
    if plain:
        return Recipe(**kept, rate=taken.fields["rate"], clip=taken.fields["clip"] or Recipe().clip), taken.notes
    note = f'int8 weights are updated by SGD, at a rate that fit finds; precision="float" keeps {taken.name}'
    return Recipe(**kept), (f"Keras: {note}", *taken.notes)


def _usual_batch(taken: Compiled | None, precision: str, limits: Limits) -> int:
    """One sample per update; as many as Keras takes for its own rate, in float on this machine."""
    return KERAS_BATCH if taken and "rate" in taken.fields and precision == "float" and not limits.board else 1


def _bare(graph: Graph, taken: Compiled | None) -> Graph:
    """The graph without a last sigmoid, which is part of the loss binary_cross_entropy."""
    node = graph.producer.get(graph.outputs[0].name)
    part_of_loss = taken is not None and taken.fields.get("loss") == "binary_cross_entropy" and not taken.logits
    if not part_of_loss or node is None or node.op is not sigmoid:
        return graph
    return drop_unused(replace(graph, outputs=(node.inputs[0], *graph.outputs[1:])))


def with_gradients(recipe: Recipe, limits: Limits) -> Recipe:
    """The recipe with the kind of gradients filled in."""
    return replace(recipe, grad=recipe.grad or usual_gradients(limits.board))


def load(model, example=None) -> Graph:
    """The graph of a model, for one sample at a time."""
    graph = model.graph if isinstance(model, Model) else load_graph(model, example)
    if any(v.shape[:1] != (1,) for v in graph.inputs):
        raise ModelError(
            f"takes {graph.inputs[0].type}, but must take one sample at a time",
            where=graph.name,
            hint="use an example whose first axis is 1; `batch` says how many samples make an update",
        )
    return graph


def to_precision(graph: Graph, precision: str, samples: Samples | None, scheme: str, batch: int = 1) -> Graph:
    """The graph in the arithmetic it will be trained in; an int8 graph stays int8."""
    if precision not in PRECISIONS:
        raise DataError(f"precision is {precision!r}, which is unknown", hint=" or ".join(PRECISIONS))
    if is_int8(graph):
        return fuse_transform(graph)
    if precision == "float":
        whole = scheme == "full" and (batch > 1 or not has_statistics(graph))
        return graph if whole else fold(graph)  # frozen statistics fold away
    if samples is None:
        raise DataError(
            "converting a float model to int8 needs samples",
            where=graph.name,
            hint='compile(..., data=x) with typical inputs, or precision="float"',
        )
    if all(len(x) > 1 and (x == x[:1]).all() for x in samples.inputs):
        warnings.warn(CONSTANT, LearningWarning, stacklevel=3)
    pairs = samples.inputs[0] if len(samples.inputs) == 1 else list(zip(*samples.inputs))
    room = ROOM if scheme != HEAD and is_untrained(graph) else 1.0
    graph = with_even_columns(fold(graph), samples.inputs[0])
    return fuse_transform(Model(graph).quantize(pairs, room=room).graph)


def rounded(graph: Graph, rounding: str | None) -> Graph:
    """The graph with this rounding of int8 results; None: as it is."""
    if rounding is not None and rounding not in ROUNDINGS:
        raise DataError(f"rounding is {rounding!r}, which is unknown", hint=" or ".join(ROUNDINGS))
    return with_rounding(graph, rounding) if rounding and is_int8(graph) else graph


def has_statistics(graph: Graph) -> bool:
    """Does the graph still have a batch norm, whose statistics are learned over a batch?"""
    return any(n.op is batch_norm for n in graph.nodes)


def new_head(graph: Graph, classes, samples: Samples | None, recipe: Recipe, after, init: str | None,
             seed: int) -> Graph:  # fmt: skip
    """The graph with its classifier replaced; a model trained towards targets keeps its output, in float if it can."""
    if recipe.loss in ("mse", "binary_cross_entropy") and classes is None and after is None:
        return replace_head(graph, None) if ends_in_linear(graph) else float_output(graph)
    first = "zero" if init in (None, OWN, "prototypes") else init
    made = replace_head(graph, classes, after=after, init=first, seed=seed)
    if init != "prototypes":
        return made
    if samples is None or samples.labels is None or classes is None:
        raise DataError("prototypes are means of labelled samples", hint="compile(..., classes=N, data=(x, y))")
    if samples.labels.min() < 0 or samples.labels.max() >= classes:
        raise DataError(f"labels go up to {samples.labels.max()}, but there are only {classes} classes")
    return with_head(made, *prototypes(features_of(made, samples), samples.labels, classes))


def with_room(graph: Graph, most: int | None, head: str) -> Graph:
    """The graph with rows of the head for classes that are added later."""
    if most is None:
        return graph
    most = whole(most, "max_classes", graph.outputs[0].shape[-1])
    if HEAD not in graph.producer or head != "float":
        raise DataError("only a float head has room for more classes", hint='head="float", or no max_classes')
    return reserve_head(graph, most)


def features_of(graph: Graph, samples: Samples) -> np.ndarray:
    """The head's input for each sample."""
    body = drop_unused(replace(graph, outputs=(graph.producer[HEAD].inputs[0],)))
    return predict_all(open_host(body), plain(samples.inputs))[0][:, 0]


def ends_in_linear(graph: Graph) -> bool:
    """Is the output that of a small int8 linear layer? Its range would limit which targets can be reached."""
    node = graph.producer.get(graph.outputs[0].name)
    if node is not None and node.op is dequantize:
        node = graph.producer.get(node.inputs[0].name)
    if node is None or node.op is not linear_s8 or len(graph.outputs) > 1:
        return False
    small = node.inputs[1].type.size <= MOST_FLOAT
    return small and node.attrs["lo"] < node.output.type.zero  # else a ReLU is part of it


def float_output(graph: Graph) -> Graph:
    """The graph with a float output."""
    out = graph.outputs[0]
    if out.dtype != "s8":
        return graph
    builder = Builder.of(graph)
    with build(builder):
        return builder.graph(dequantize(out, name=f"{out.name}.f32"))


def trainable(graph: Graph):
    """The layers a scheme may name: all that lead to the loss, except the head."""
    leads = leading(graph)
    return [layer for layer in layers(graph) if layer.name != HEAD and layer.name in leads]


def highest_rung(
    parts: Parts, limits: Limits, table: Contribution | None = None
) -> tuple[Parts, dict[str, Graph], Deployment | None, str]:
    """The program that trains as much as fits, and a note about what that is; an error if nothing does."""
    with stage("choosing what to train"):
        rungs = list(choose(parts, trainable(parts.forward), limits, table))
    for rung in rungs[:-1]:
        with suppress(BudgetError):
            return *_within(replace(parts, scheme=rung.scheme), limits, hints=False), rung.note
    return *_within(replace(parts, scheme=rungs[-1].scheme), limits), rungs[-1].note


def _within(parts: Parts, limits: Limits, hints: bool = True) -> tuple[Parts, dict[str, Graph], Deployment | None]:
    with stage("gradients and updates"):
        graphs = parts.graphs()
    return parts, graphs, check_budget(parts, graphs, limits, hints)


def head_of(graph: Graph) -> str | None:
    return HEAD if HEAD in graph.producer else None


def _told(note: str) -> tuple[str, ...]:
    if note:
        colour.say(f"note: {note}")
    return (note,) if note else ()


def _untrained(graph: Graph) -> tuple[str, ...]:
    if len(graph.outputs) == 1:
        return ()
    first, *others = (v.name for v in graph.outputs)
    note = f"the loss is computed from {first}: what leads only to {', '.join(others)} is not trained"
    colour.say(f"note: {note}")
    return (note,)


# dump -------------------------------------------------------------------------------------------


class Dump:
    """Writes the result of a stage to a text file, if there is a folder, and returns the result."""

    def __init__(self, folder: str | Path | None):
        self.folder = Path(folder) if folder else None
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, stage: str, made):
        if self.folder:
            (self.folder / f"{stage}.txt").write_text(described(made))
        return made


def described(made: Graph | Scheme | Plan | Mapping) -> str:
    if isinstance(made, Mapping):
        return "\n".join(f"# {name}\n{described(part)}\n" for name, part in made.items())
    if isinstance(made, Plan):
        from insitu.reports.memory import memory_map

        return memory_map(made).to_text()
    return str(made)

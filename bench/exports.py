"""Are exported int8 files equal to our integers? Five models, 200 realistic inputs each, every int8 tensor.

    python -m bench.exports                          a Markdown table; exit status 1 if a claim of docs/exports.md fails
    python -m bench.exports --only kws --samples 20  a part of it

Each model is compiled to int8 with each rounding and trained (last:2, 24 steps); then the exported files run:

    LiteRT reference     rounding="litert", LiteRT's reference kernels      claim: every value equal
    LiteRT XNNPACK       rounding="single", the default of phones           claim: equal, if we chose the scales
    ONNX exact, on, off  rounding="single", onnxruntime's optimisations     claim: every value equal
    ONNX QDQ             the same as plain QDQ                              no claim: float sums differ

mcunet comes with its scales, so XNNPACK is not claimed for it. Inputs are those of tests/inputs.py: photos and speech,
every fifth smooth noise; the models calibrate and train on other samples than they are compared on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import insitu
from bench.photos import ROOT
from insitu.exporters.learned import learned_graph
from insitu.exporters.litert.runtime import Runtime
from insitu.exporters.litert.translate import translate as litert_file
from insitu.exporters.onnx import Session
from insitu.exporters.onnx.translate import translate as onnx_file
from insitu.graph import Graph, evaluate
from insitu.training.train import Recipe

STEPS, RATE = 24, 0.001
FILES = {"kws": "kws_dscnn", "vww": "vww_mbv1", "resnet8": "ic_resnet8", "ad01": "ad01"}  # of mlperf-tiny, in float
INPUTS = {"resnet8": "ic", "mcunet-5fps": "photos"}  # model -> its inputs, if they have another name
GIVEN = "mcunet-5fps"  # its scales came with the model
MODELS = (*FILES, GIVEN)
WAYS = ("LiteRT reference", "LiteRT XNNPACK", "ONNX exact, on", "ONNX exact, off", "ONNX QDQ")
Values = Callable[[tuple[np.ndarray, ...]], dict[str, np.ndarray]]  # one sample -> int8 values by name


@dataclass
class Count:
    """int8 values that were compared, and those that differ."""

    tensors: int
    compared: int = 0
    different: int = 0


def shared(kind: str):
    import os
    from pathlib import Path

    return Path(os.environ.get("INSITU_TEST_FILES", ROOT.parent / "shared")) / kind


def inputs(model: str, count: int, split: str) -> np.ndarray:
    from tests.inputs import photos, realistic_inputs

    name = INPUTS.get(model, model)
    if name != "photos":
        return realistic_inputs(name, count, shared("data"), split)
    return (photos(128, 255)(count, shared("data"), split) - 128).round().clip(-128, 127).astype(np.int8)


def trained(model: str, rounding: str) -> insitu.Learner:
    """int8, and trained for a few steps."""
    x = inputs(model, STEPS, "train")
    mse, given = model == "ad01", model == GIVEN
    source = shared("models") / ("mcunet-5fps.pkl" if given else f"mlperf-tiny/{FILES[model]}_fp32.tflite")
    recipe = {"recipe": Recipe(loss="mse")} if mse else {}
    made = insitu.compile(source, data=x, scheme="last:2", rounding=rounding, classes=4 if given else None, **recipe)
    made.fit(x, x if mse else np.arange(STEPS) % (made.classes or 1), epochs=1, rate=1e-6 if mse else RATE)
    return made


def litert(graph: Graph, kernels: str) -> tuple[list[str], Values]:
    made = litert_file(graph)
    runtime = Runtime(made.file.data(), kernels, keep=True)
    names = [n for n in made.tensors if n not in graph.constants and graph.values[n].dtype == "s8"]

    def values(sample: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        runtime.run(*sample)
        return {name: runtime.tensor(made.tensors[name]) for name in names}

    return names, values


def onnx(graph: Graph, exact: bool, optimise: bool) -> tuple[list[str], Values]:
    made = onnx_file(graph, exact=exact)
    session, names = Session(made, optimise), [v.name for v in graph.inputs]
    return list(made.tensors), lambda sample: session.run(dict(zip(names, sample)))


def runs(graph: Graph, rounding: str) -> dict[str, tuple[list[str], Values]]:
    if rounding == "litert":
        return {"LiteRT reference": litert(graph, "reference")}
    return {
        "LiteRT XNNPACK": litert(graph, "XNNPACK"), "ONNX exact, on": onnx(graph, True, True),
        "ONNX exact, off": onnx(graph, True, False), "ONNX QDQ": onnx(graph, False, True),
    }  # fmt: skip


def measured(model: str, samples: int) -> Iterator[tuple[str, Count]]:
    """Every way of this model."""
    x = inputs(model, samples, "test")
    for rounding in ("litert", "single"):
        graph = learned_graph(trained(model, rounding))
        ways = runs(graph, rounding)
        counts = {way: Count(len(names)) for way, (names, _) in ways.items()}
        for i in range(samples):
            sample = (x[i : i + 1],)
            want = evaluate(graph, *sample, keep=True)
            for way, (names, values) in ways.items():
                got = values(sample)
                counts[way].compared += sum(want[n].size for n in names)
                counts[way].different += sum(int((got[n] != want[n]).sum()) for n in names)
        yield from counts.items()


def failed(model: str, way: str, count: Count) -> bool:
    """Is it against what docs/exports.md claims?"""
    free = way == "ONNX QDQ" or (way == "LiteRT XNNPACK" and model == GIVEN)
    return not free and (count.different > 0 or not count.compared)


def cell(count: Count) -> str:
    return f"{count.different:,} of {count.compared:,}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=MODELS, action="append", help="a model (all of them)")
    parser.add_argument("--samples", type=int, default=200)
    given = parser.parse_args(arguments)
    wrong = []
    print(f"| different int8 values | {' | '.join(WAYS)} |\n|---{'|---' * len(WAYS)}|", flush=True)
    for model in given.only or MODELS:
        print(f"running {model}", file=sys.stderr)
        found = dict(measured(model, given.samples))
        wrong += [f"{model}: {way}" for way in WAYS if failed(model, way, found[way])]
        print(f"| {model} | {' | '.join(cell(found[way]) for way in WAYS)} |", flush=True)
    print(f"against the claims: {', '.join(wrong)}" if wrong else "every claim holds", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

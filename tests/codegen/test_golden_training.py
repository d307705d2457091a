"""A training step as stored in tests/codegen/golden: stripes and tiles, rows and groups, and the files of a device.

A change of the generated C shows as a diff there, for the review.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from insitu.codegen import Program, emit_program
from insitu.codegen.device import emit_device, main_source
from insitu.graph import Graph, check, parse
from insitu.planner import plan_all
from insitu.planner.spent import spent, spent_text
from insitu.schemes.scheme import Scheme, Update
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

GOLDEN = Path(__file__).parent / "golden"
TEXT = """\
graph watch(%x: s8[1x32x32x3; s=0.0078125 z=-1]) -> (%scores)
  %stem.weight = const s8[8x3x3x3; s=0.0078125 z=0] @stem.weight
  %stem.bias = const s32[8] @stem.bias
  %widen.weight = const s8[24x1x1x8; s=0.0078125 z=0] @widen.weight
  %widen.bias = const s32[24] @widen.bias
  %reduce.weight = const s8[3x3x24; s=0.0078125 z=0] @reduce.weight
  %reduce.bias = const s32[24] @reduce.bias
  %expand.weight = const s8[48x1x1x24; s=0.0078125 z=0] @expand.weight
  %expand.bias = const s32[48] @expand.bias
  %depth.weight = const s8[3x3x48; s=0.0078125 z=0] @depth.weight
  %depth.bias = const s32[48] @depth.bias
  %project.weight = const s8[24x1x1x48; s=0.0078125 z=0] @project.weight
  %project.bias = const s32[24] @project.bias
  %head.weight = const s8[4x24; s=0.0078125 z=0] @head.weight
  %head.bias = const s32[4] @head.bias
  %stem = conv2d_s8(%x, %stem.weight, %stem.bias, padding=[1, 1, 1, 1], stride=[2, 2], lo=-128) : \
s8[1x16x16x8; s=0.0234375 z=-128]
  %widen = conv2d_s8(%stem, %widen.weight, %widen.bias, lo=-128) : s8[1x16x16x24; s=0.0234375 z=-128]
  %reduce = depthwise2d_s8(%widen, %reduce.weight, %reduce.bias, padding=[1, 1, 1, 1], stride=[4, 4], lo=-128) : \
s8[1x4x4x24; s=0.0234375 z=-128]
  %expand = conv2d_s8(%reduce, %expand.weight, %expand.bias, lo=-128) : s8[1x4x4x48; s=0.0234375 z=-128]
  %depth = depthwise2d_s8(%expand, %depth.weight, %depth.bias, padding=[1, 1, 1, 1], lo=-128) : \
s8[1x4x4x48; s=0.0234375 z=-128]
  %project = conv2d_s8(%depth, %project.weight, %project.bias) : s8[1x4x4x24; s=0.0390625 z=3]
  %skip = add_s8(%reduce, %project) : s8[1x4x4x24; s=0.046875 z=-20]
  %pool = mean_s8(%skip, axes=[1, 2], keepdims=false) : s8[1x24; s=0.03125 z=-20]
  %head = linear_s8(%pool, %head.weight, %head.bias) : s8[1x4; s=0.0625 z=0]
  %scores = dequantize(%head) : f32[1x4]
"""
BLOCK = Scheme("block", (Update("expand", True, Fraction(1, 2)), Update("depth"), Update("project")))
# folder -> does the image arrive by rows, and what must a step of it have to be worth keeping
PROGRAMS = {"tiles": (False, ("in stripes", "in tiles")), "rows": (True, ("in stripes", "in groups"))}


@cache
def network() -> Graph:
    """Weights computed by a formula: the same on every machine."""
    found = re.findall(r"const (s8|s32)\[([\dx]+).*?\] @(\S+)", TEXT)
    return replace_head(check(parse(TEXT, {name: counted(dtype, shape) for dtype, shape, name in found}), "int8"), 4)


def counted(dtype: str, shape: str) -> np.ndarray:
    sizes = [int(n) for n in shape.split("x")]
    steps = np.arange(np.prod(sizes)).reshape(sizes)
    return (steps * 37 % 255 - 127).astype(np.int8) if dtype == "s8" else (steps * 97 % 2001 - 1000).astype(np.int32)


@cache
def program(name: str) -> Program:
    graphs = train_graphs(network(), BLOCK, Recipe(grad="s16", rows=PROGRAMS[name][0]))
    return emit_program(plan_all(graphs, "mcu"), "watch")


def written(name: str) -> dict[str, str]:
    """The files of a program except its weights; tests/codegen/test_golden.py has a sample of those."""
    return {file: text for file, text in program(name).files.items() if not file.startswith("watch_weights")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_training_step_is_the_golden_one(name, golden):
    files = written(name)
    for file, text in files.items():
        golden(GOLDEN / name / file, text)
    assert {p.name for p in (GOLDEN / name).iterdir()} == set(files)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_golden_step_has_what_it_is_kept_for(name):
    done = spent_text(spent(program(name).plans["train_step"]))
    assert all(word in done for word in PROGRAMS[name][1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_files_of_a_device_are_the_golden_ones(name, golden):
    files = {**emit_device(program(name)), "main.c": main_source("watch")}
    for file, text in files.items():
        golden(GOLDEN / f"{name}_device" / file, text)
    assert {p.name for p in (GOLDEN / f"{name}_device").iterdir()} == set(files)

"""One small int8 program, as stored in tests/codegen/golden: a change of the generated C shows as a diff there."""

from pathlib import Path

import numpy as np

from insitu.codegen import emit_program
from insitu.graph import check, parse
from insitu.planner import plan

GOLDEN = Path(__file__).parent / "golden"
TEXT = """\
graph small(%x: s8[1x5x5x1; s=0.5 z=-3]) -> (%scores)
  %features.0.weight = const s8[3x3x3x1; s=[0.5,0.25,0.125] z=0 axis=0] @features.0.weight
  %features.0.bias = const s32[3] [100, -20, 3]
  %head.weight = const s8[2x3; s=0.25 z=0] [1, -2, 3, -4, 5, -6]
  %head.bias = const s32[2] [7, -8]
  %features.0 = conv2d_s8(%x, %features.0.weight, %features.0.bias, stride=[2, 2], padding=[1, 1, 1, 1], lo=-128) : \
s8[1x3x3x3; s=0.75 z=-128]
  %pool = mean_s8(%features.0, axes=[1, 2], keepdims=false) : s8[1x3; s=0.5 z=-128]
  %head = linear_s8(%pool, %head.weight, %head.bias) : s8[1x2; s=0.5 z=10]
  %scores = dequantize(%head) : f32[1x2]
"""


def small_plan():
    weights = (np.arange(27) * 11 % 255 - 127).astype(np.int8).reshape(3, 3, 3, 1)
    return plan(check(parse(TEXT, {"features.0.weight": weights}), "int8"))


def test_the_generated_program_is_the_golden_one(golden):
    files = emit_program(small_plan(), "small").files
    for name, text in files.items():
        golden(GOLDEN / name, text)
    assert {p.name for p in GOLDEN.glob("small*")} == set(files)


def test_the_same_plan_gives_the_same_bytes():
    assert emit_program(small_plan(), "small").files == emit_program(small_plan(), "small").files

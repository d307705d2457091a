"""Kernels for microcontrollers on an emulated core: with its own instructions and in plain C, the bytes of the host."""

from functools import cache

import numpy as np
import pytest

from insitu.graph import evaluate

from ..each import each
from .case_library import _joined, all_bound, case_programs, library
from .test_mcu import LABELS

pytest.importorskip("unicorn")
pytest.importorskip("ziglang")
pytest.importorskip("elftools")

from bench.bare_cortex import Machine, build
from bench.mcu_kernels import measure

SHARED = ("add_s8", "sub_s8", "mask_grad", "bias_grad", "bias_grad_block", "linear_s8", "mean_s8", "merge_channels",
          "depthwise2d_dx_block", "depthwise2d_dw_block", "add_block", "expand_block", "to_block", "reshape",
          "sgd_residual_block_s8", "sgd_bias_block_s32", "conv2d_parts_s8", "linear_parts_s8",
          "depthwise2d_over_s8")  # fmt: skip
CASES = (*LABELS, *(n for n in all_bound() if n.partition(":")[0] in SHARED and n not in LABELS))
BUILDS = {
    "m7": ("m7", ("-O2",)),
    "m7 plain": ("m7", ("-O2", "-DINSITU_SCALAR")),
    "m4 small": ("m4", ("-Os",)),
    "m0": ("m0", ("-Os",)),
}


@cache
def machine(name: str):
    """Every case that uses a microcontroller's own instructions or kernels, in one image."""
    core, flags = BUILDS[name]
    programs = case_programs("mcu", CASES)
    return programs, Machine(build(tuple(programs.values()), core, flags, _joined))


@pytest.mark.parametrize("name", BUILDS)
def test_an_emulated_core_gives_the_bytes_of_the_host(name):
    programs, core = machine(name)

    def claim(label: str) -> None:
        bound = all_bound()[label]
        core.write("bench_arena", np.full(programs[label].arena_bytes, 0xA5, np.uint8))
        got = core.outputs(programs[label], "predict", *bound.feeds)
        want = library("scalar", "host")[label].predict(*bound.feeds)
        for a, b in zip(got, want if isinstance(want, tuple) else (want,)):
            if a.dtype == np.float32 and not any(i.dtype == "s8" for i in bound.graph.nodes[0].inputs):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())
            else:
                assert a.tobytes() == b.tobytes()

    each(CASES, claim)


@pytest.mark.parametrize("name", BUILDS)
def test_a_step_of_any_size_from_any_weight_is_what_numpy_says(name):
    """From steps of zero to steps that saturate all weights; a quarter of the weights are at their limits."""
    label = "sgd_residual_block_s8: hardly moves"
    programs, core = machine(name)
    graph, (w, r, dw, e, *others) = all_bound()[label].graph, all_bound()[label].feeds
    rng = np.random.default_rng(1)
    for exponent in range(-44, 14, 3):
        ends = np.where(rng.random(w.shape) < 0.25, rng.choice(np.array([-128, -127, 126, 127], np.int8), w.shape), w)
        sums = rng.integers(-(2**31), 2**31, dw.shape) >> rng.choice([0, 11, 19, 28, 31], (len(dw), 1))
        fed = ends, r, sums.astype(np.int32), np.full_like(e, exponent), *others
        got, want = core.outputs(programs[label], "predict", *fed), evaluate(graph, *fed)
        assert [a.tobytes() for a in got] == [np.asarray(b).tobytes() for b in want], exponent


def test_a_training_step_takes_less_than_half_of_what_the_published_engine_needs(shared_models):
    """mcunet-5fps/49kb on a Cortex-M7: published are 106.4 M instructions per step, 65.0 M of them for inference."""
    made = measure("mcunet-5fps/49kb", "m7", ["-O2"])
    (_, inference, same_logits), (_, step, same_loss) = made["verbs"]["predict"], made["verbs"]["train_step"]
    assert same_logits and same_loss and made["state"], "not the host's bytes"
    assert step < 106_400_000 / 2
    assert inference < 65_000_000 / 2

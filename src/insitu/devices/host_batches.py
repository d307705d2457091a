"""C that makes a program's steps batch by batch: it gathers the samples of a batch, and calls `train_step`.

It is built with the program on a host. Python takes a while for each batch, and lets the processor wait for samples
that are far away; here the next ones are asked for early. Not part of a program that is exported. host_training.py
prepares its arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from insitu.codegen import Program
from insitu.devices.device import STEP
from insitu.graph import Value

SOURCE = """\
/* {prefix}_train_step for one batch after the other, with samples from anywhere. */
#include <string.h>

#include "{prefix}.h"

/* an argument: at `at` for the first batch, `step` bytes further for each next one. If `from` is not 0, samples of
 * `size` bytes are copied there first, and lie `apart` bytes from one another */
typedef struct {{
    int64_t at, step, from, apart, size;
}} batch_place;

enum {{ BATCH_AHEAD = 2, BATCH_LINE = 64 }}; /* samples that are asked for early; bytes of a cache line */

static void batch_ask(const unsigned char *sample, int64_t size)
{{
    for (int64_t k = 0; k < size; k += BATCH_LINE) {{
        __builtin_prefetch(sample + k);
    }}
}}

static void *batch_argument(const batch_place *p, const int64_t *rows, int64_t batch, int64_t b)
{{
    unsigned char *to = (unsigned char *)(intptr_t)(p->at + b * p->step);
    const unsigned char *from = (const unsigned char *)(intptr_t)p->from;
    for (int64_t i = 0; from && i < batch; i++) {{
        if (i + BATCH_AHEAD < batch) {{
            batch_ask(from + rows[i + BATCH_AHEAD] * p->apart, p->size);
        }}
        memcpy(to + i * p->size, from + rows[i] * p->apart, (size_t)p->size);
    }}
    return to;
}}

void {prefix}_train_batches({prefix}_state *state, unsigned char *arena, const batch_place *p, const float *rates,
                            const int64_t *rows, int64_t batch, int64_t count)
{{
    for (int64_t b = 0; b < count; b++, rows += batch) {{
        {prefix}_train_step({arguments});
    }}
}}
"""
Place = tuple[int, int, int, int, int]  # a batch_place


def batches_source(program: Program) -> dict[str, str]:
    """The file to be built with this program; none if it does not learn from samples side by side."""
    step = program.plans.get(STEP)
    if step is None or not program.state or not takes_batches(step.graph.inputs):
        return {}
    graph, found, place = step.graph, ["state", "arena"], 0
    for v in (*graph.inputs, *graph.outputs):
        scalar = not v.shape and v in graph.inputs
        found.append("rates[b]" if scalar else f"batch_argument(p + {place}, rows, batch, b)")
        place += not scalar
    text = SOURCE.format(prefix=program.prefix, arguments=", ".join(found))
    return {f"{program.prefix}_batches.c": text}


def takes_batches(inputs: Sequence[Value]) -> bool:
    """Are these samples, labels and one rate, for several samples?"""
    *arrays, rate = inputs
    return all(v.shape[:1] > (1,) for v in arrays) and not rate.shape and rate.dtype == "f32"


def train_batches(program: Program, library: ctypes.CDLL, state: np.ndarray, arena: np.ndarray,
                  places: Sequence[Place], rates: Sequence[float], order: np.ndarray, batch: int) -> None:  # fmt: skip
    """Make the steps of these batches."""
    table, order = np.array(places, np.int64), np.ascontiguousarray(order, np.int64)
    with np.errstate(over="ignore"):  # the C refuses a rate that is not finite
        own = np.asarray(rates, np.float32)
    call = getattr(library, f"{program.prefix}_train_batches")
    call.argtypes, call.restype = [*[ctypes.c_void_p] * 5, ctypes.c_int64, ctypes.c_int64], None
    addresses = (a.ctypes.data for a in (state, arena, table, own, order))
    call(*addresses, batch, len(order) // batch)

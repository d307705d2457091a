"""The published schemes: all compile, within the memory that the published engine needs, close to the lower bound."""

import pytest

from bench.schemes import measure
from insitu.schemes.published import PUBLISHED

PUBLISHED_ENGINE = 189_800  # its arena for mcunet-5fps/49kb


def test_the_paper_s_scheme_takes_less_than_the_published_engine(shared_models):
    row = measure("mcunet-5fps/49kb", shared_models)
    assert row.arena_bytes <= 170_000 < PUBLISHED_ENGINE
    assert row.lower_bound_bytes >= 163_840  # no order needs less: two maps of the 64x64 stage are alive together


@pytest.mark.parametrize("scheme", PUBLISHED)
def test_the_arena_is_within_half_a_percent_of_the_lower_bound(scheme, shared_models):
    row = measure(scheme, shared_models)
    assert row.best_bound_bytes <= row.lower_bound_bytes <= row.arena_bytes
    assert row.gap <= 0.005
    assert row.trained_biases

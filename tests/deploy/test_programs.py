"""The programs of the same graphs: the last word about the least memory does not depend on what was planned before."""

import numpy as np

import insitu
from insitu.deploy.programs import Programs

from ..models import families


def test_the_least_memory_is_the_same_after_a_goal_that_could_not_be_reached():
    module, (example,) = families()["mobilenet_v3"]
    data = np.random.default_rng(0).normal(size=(4, *example.shape[1:])).astype(np.float32)
    options = {"classes": 3, "scheme": "last:3", "recipe": insitu.Recipe(grad="s16")}
    graphs = insitu.compile(module, example=example, data=data, **options).graphs
    least = Programs(graphs).lowered_to(0).arena_bytes
    for goal in (int(0.95 * least), int(0.9 * least)):
        programs = Programs(graphs)
        assert goal < least <= programs.lowered_to(goal).arena_bytes
        assert programs.lowered_to(0).arena_bytes == least

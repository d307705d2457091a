"""Samples divided among simulated devices."""

import numpy as np
import pytest

from insitu.data import Samples
from insitu.errors import DataError
from insitu.federated.split import divided, kept_apart


def samples(count: int = 200) -> Samples:
    return Samples((np.zeros((count, 1, 3), np.float32),), np.arange(count) % 5)


@pytest.mark.parametrize("unlike", [None, 0.05, 1.0, 100.0])
def test_every_sample_is_on_one_device_to_learn_from_or_to_test_on(unlike):
    parts = divided(samples(), 12, seed=1, unlike=unlike)
    assert len(parts) == 12 and all(len(learn) and len(test) for learn, test in parts)
    assert sorted(np.concatenate([i for part in parts for i in part])) == list(range(200))


def test_unlike_devices_have_fewer_classes():
    labels = np.arange(200) % 5

    def kinds(unlike):
        return np.mean([len(np.unique(labels[learn])) for learn, _ in divided(samples(), 10, 0, unlike)])

    assert kinds(0.1) < kinds(1.0) < kinds(None)


def test_too_few_samples_are_refused():
    with pytest.raises(DataError, match="too few for 12 devices"):
        divided(samples(20), 12)


def test_a_device_with_a_file_of_its_own_keeps_a_fifth_for_its_test():
    learn, test = kept_apart(Samples((np.zeros((11, 2), np.float32),), np.zeros(11, np.int64)))
    assert len(test) == 2 and sorted([*learn, *test]) == list(range(11))
    learn, test = kept_apart(Samples((np.zeros((1, 2), np.float32),), np.zeros(1, np.int64)))
    assert list(learn) == [0] and len(test) == 0  # a single sample is to learn from
    with pytest.raises(DataError, match="a.npz: a device needs a sample"):
        kept_apart(Samples((np.zeros((0, 2), np.float32),), np.zeros(0, np.int64)), where="a.npz")

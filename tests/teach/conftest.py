"""Recordings and a table to teach."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def motion(tmp_path_factory):
    """Recordings of two channels: three frequencies, one folder each."""
    root, rng = tmp_path_factory.mktemp("motion"), np.random.default_rng(0)
    for name, speed in {"slow": 0.05, "quick": 0.2, "shaky": 0.6}.items():
        (root / name).mkdir()
        for k in range(8):
            t = np.arange(rng.integers(200, 300)) + rng.uniform(0, 100)
            x = np.stack([9 + np.sin(speed * t), 100 * np.cos(speed * t)], 1) + rng.normal(0, 0.1, (len(t), 2))
            np.savetxt(root / name / f"{k}.csv", x, delimiter=",", fmt="%.4f")
    return root


@pytest.fixture(scope="session")
def iris(tmp_path_factory):
    data = pytest.importorskip("sklearn.datasets").load_iris()
    path = tmp_path_factory.mktemp("table") / "iris.csv"
    rows = [",".join([*map(str, x), data.target_names[y]]) for x, y in zip(data.data, data.target)]
    path.write_text("\n".join(["a,b,c,d,label", *rows]))
    return path

"""The model families, from torch to int8: close to the float network, int8 throughout."""

import numpy as np
import pytest

from insitu.quantizer import calibrate, fallbacks, fold, quantize
from tests.quantizer.nets import run, samples, sqnr

pytest.importorskip("torch")

# ops without an int8 kernel, per family
FLOAT = {"flat_cnn": ["log_softmax"]}


@pytest.mark.parametrize(
    "name",
    ["mobilenet_v2", "mobilenet_v3", "resnet8", "resnet18", "ds_cnn", "cnn1d", "mlp", "autoencoder", "flat_cnn"],
)
def test_a_family_survives_folding_and_int8(name):
    from tests.models import imported

    g = imported(name)
    folded = fold(g)
    assert not {n.op.name for n in folded.nodes} & {"batch_norm", "dropout", "mul", "add"} - _wanted(name)
    data = samples(g, 100)
    q = quantize(folded, calibrate(folded, data))
    assert [n.op.name for n in fallbacks(q)] == FLOAT.get(name, [])
    fresh = samples(g, 20, seed=2)
    wanted = run(g, fresh)
    assert np.abs(run(folded, fresh) - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert sqnr(wanted, run(q, fresh)) > 25


def _wanted(name: str) -> set[str]:
    """Residual additions and the products of squeeze-excite are not leftovers of batch_norm."""
    return {"add", "mul"} if name.startswith(("mobilenet", "resnet")) else set()

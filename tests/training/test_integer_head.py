"""A head in int8: the same classifier, smaller, and it learns."""

import numpy as np
import pytest

import insitu
from insitu.demo import TARGET, digits
from insitu.errors import GraphError
from insitu.training.integer_head import integer_head


@pytest.fixture(scope="module")
def data():
    pytest.importorskip("sklearn")
    return digits()


def test_an_int8_head_predicts_what_the_float_one_does(data):
    float_head = insitu.compile(TARGET, data=data.x_train[:200], scheme="head")
    int8_head = insitu.compile(TARGET, data=data.x_train[:200], scheme="head", head="int8")
    a, b = (m.predict(data.x_test[:100]).argmax(1) for m in (float_head, int8_head))
    assert (a == b).mean() >= 0.97
    assert int8_head.info()["state_bytes"] < float_head.info()["state_bytes"]


def test_an_int8_head_learns(data):
    learner = insitu.compile(TARGET, data=data.x_train[:200], scheme="last:2", head="int8")
    flipped = data.x_train[:300][..., ::-1]
    before = learner.evaluate(data.x_test[..., ::-1], data.y_test)["accuracy"]
    learner.fit(flipped, data.y_train[:300], epochs=8, rate=0.05)
    assert learner.evaluate(data.x_test[..., ::-1], data.y_test)["accuracy"] > before + 0.3


def test_float_features_are_refused_by_name(data):
    learner = insitu.compile(TARGET, precision="float", scheme="head")
    with pytest.raises(GraphError, match="computed in float"):
        integer_head(learner.parts.forward)


def test_an_unknown_arithmetic_is_refused():
    with pytest.raises(insitu.DataError, match="head is 'int4'"):
        insitu.compile(TARGET, data=np.zeros((1, 1, 8, 8), np.float32), head="int4")

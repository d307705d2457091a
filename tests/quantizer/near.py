"""A graph converted to int8, and whether it is close to the float graph."""

from insitu.quantizer import calibrate, quantize
from tests.quantizer.nets import run, samples, sqnr


def quantised(graph, data=None, **options):
    return quantize(graph, calibrate(graph, data or samples(graph, 100), method="minmax"), **options)


def agrees(graph, decibels=28.0, **options):
    """The int8 graph, after checking that it is this close to the float graph on fresh data."""
    q = quantised(graph, **options)
    fresh = samples(graph, 40, seed=2)
    assert sqnr(run(graph, fresh), run(q, fresh)) > decibels
    return q

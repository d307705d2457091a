"""The gradient certificate: a program's gradients, updates and plan against independent computations of each."""

from insitu.proof.certificate import Certificate
from insitu.proof.certify import certify
from insitu.proof.source import drawn

__all__ = ["Certificate", "certify", "drawn"]

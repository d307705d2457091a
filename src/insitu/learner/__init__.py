"""A model that learns on a device: train it, measure it, and keep what it learned."""

from insitu.learner.history import History
from insitu.learner.learner import Learner

__all__ = ["History", "Learner"]

"""insitu trains neural networks where their data is. This is the whole public interface."""

import insitu.ops  # noqa: F401  fills the registry
from insitu.data import Samples, split
from insitu.data.augment import Augment
from insitu.errors import (
    BoardError,
    BudgetError,
    DataError,
    DeviceError,
    Error,
    GraphError,
    ModelError,
    ToolError,
    Unsupported,
)
from insitu.graph import Graph, Type
from insitu.learner import History, Learner
from insitu.learner.model import Model, load
from insitu.pipeline import compile, prove
from insitu.preprocess import Transform
from insitu.training.train import Recipe

__version__ = "0.1.0"
__all__ = [
    "Augment",
    "BoardError",
    "BudgetError",
    "DataError",
    "DeviceError",
    "Error",
    "Graph",
    "GraphError",
    "History",
    "Learner",
    "Model",
    "ModelError",
    "Recipe",
    "Samples",
    "ToolError",
    "Transform",
    "Type",
    "Unsupported",
    "compile",
    "load",
    "prove",
    "split",
]

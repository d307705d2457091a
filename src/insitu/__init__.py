"""insitu trains neural networks where their data is. This is the whole public interface."""

import insitu.ops  # noqa: F401  fills the registry
from insitu.errors import BudgetError, DataError, Error, GraphError, ModelError, ToolError, Unsupported
from insitu.graph import Graph, Type, check
from insitu.model import Model, load

__version__ = "0.1.0"
__all__ = [
    "BudgetError",
    "DataError",
    "Error",
    "Graph",
    "GraphError",
    "Model",
    "ModelError",
    "ToolError",
    "Type",
    "Unsupported",
    "check",
    "load",
]

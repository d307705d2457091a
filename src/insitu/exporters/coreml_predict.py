"""The learned model as a Core ML model for inference alone; coreml/ has the updatable kind and all of the work."""

from insitu.exporters.coreml.export import check
from insitu.exporters.coreml.export import write_inference as write

__all__ = ["check", "write"]

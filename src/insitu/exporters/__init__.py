"""What was learned, for other frameworks: LiteRT, Core ML, ONNX, PyTorch. docs/exports.md has examples and limits."""

from insitu.exporters.dispatch import Exported, export, into
from insitu.exporters.formats import FORMATS

__all__ = ["FORMATS", "Exported", "export", "into"]

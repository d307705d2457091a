"""The learner as a Core ML model that an app on Apple's systems can update (`MLUpdateTask`). docs/exports-coreml.md"""

from insitu.exporters.coreml.export import check, write

__all__ = ["check", "write"]

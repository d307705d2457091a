"""A LiteRT model that goes on learning: signatures train, infer, save and restore, of builtin operators only.

The training step is insitu's own, translated op by op (table.py); nothing is differentiated again. See
docs/exports-litert-train.md.
"""

from insitu.exporters.litert_train.export import check, write

__all__ = ["check", "write"]

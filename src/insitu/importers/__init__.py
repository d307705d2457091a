"""From a foreign model to a graph. One file a format, one table a file."""

from insitu.importers.dispatch import load

__all__ = ["load"]

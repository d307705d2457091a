"""From a foreign model to a graph. One folder per format, one table of ops per format."""

from insitu.importers.dispatch import load

__all__ = ["load"]

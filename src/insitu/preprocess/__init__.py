"""Preprocessing of raw samples before the first layer: declared once, as part of the graph."""

from insitu.preprocess.image import Transform, fuse_transform

__all__ = ["Transform", "fuse_transform"]

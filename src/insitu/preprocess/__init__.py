"""Preprocessing of raw samples before the first layer: declared once, as part of the graph."""

from insitu.preprocess.audio import Audio
from insitu.preprocess.image import Transform, fuse_transform

__all__ = ["Audio", "Transform", "fuse_transform"]

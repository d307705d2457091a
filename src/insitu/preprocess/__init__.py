"""Preprocessing of raw samples before the first layer: declared once, as part of the graph."""

from insitu.preprocess.audio import Audio
from insitu.preprocess.image import Transform, fuse_transform
from insitu.preprocess.motion import Motion

__all__ = ["Audio", "Motion", "Transform", "fuse_transform"]

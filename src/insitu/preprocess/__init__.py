"""What happens to raw samples before the first layer: declared once, part of the graph."""

from insitu.preprocess.image import Transform, fuse_transform

__all__ = ["Transform", "fuse_transform"]

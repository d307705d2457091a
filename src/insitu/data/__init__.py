"""The user's samples as the arrays a program takes: read, checked, split, augmented. Also checks of arguments."""

from insitu.data.augment import Augment
from insitu.data.camera import to_camera
from insitu.data.labels import by_name, check_labels
from insitu.data.reading import read_held_out, read_samples
from insitu.data.samples import Samples, fit, split
from insitu.data.taking import as_inputs, as_samples, to_classify

__all__ = [
    "Augment",
    "Samples",
    "as_inputs",
    "as_samples",
    "by_name",
    "check_labels",
    "fit",
    "read_held_out",
    "read_samples",
    "split",
    "to_camera",
    "to_classify",
]

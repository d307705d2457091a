"""The user's samples as the arrays a program takes: read, checked, split, augmented. Also checks of arguments."""

from insitu.data.augment import Augment
from insitu.data.reading import as_samples, read_held_out, read_samples
from insitu.data.samples import Samples, check_labels, fit, split

__all__ = ["Augment", "Samples", "as_samples", "check_labels", "fit", "read_held_out", "read_samples", "split"]

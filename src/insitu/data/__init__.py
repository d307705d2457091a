"""Samples a user has, as arrays a program takes: read, checked, split and augmented; and arguments a user gives."""

from insitu.data.augment import Augment
from insitu.data.reading import as_samples, read_held_out, read_samples
from insitu.data.samples import Samples, check_labels, fit, split

__all__ = ["Augment", "Samples", "as_samples", "check_labels", "fit", "read_held_out", "read_samples", "split"]

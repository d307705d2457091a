"""The zoo: named models and data sets, where they are published, under which licence, and what their bytes must be.

entries.py   the table
cache.py     where the files lie (INSITU_CACHE/zoo), finding and checking them, what to do where one is missing

Nothing is downloaded: a file comes into the cache by hand, with `insitu zoo add FILE`, and is known by its sha256.
"""

from insitu.zoo.cache import add, find, state_of, zoo_folder
from insitu.zoo.entries import ENTRIES, Entry

__all__ = ["ENTRIES", "Entry", "add", "find", "state_of", "zoo_folder"]

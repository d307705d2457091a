"""The zoo: named models and data sets, where they are published, their licence, and their checksums.

entries.py   the table
cache.py     where the files are (INSITU_CACHE/zoo), finding and checking them, what to do if one is missing

Nothing is downloaded: the user adds a file to the cache with `insitu zoo add FILE`. It is recognised by its sha256.
"""

from insitu.zoo.cache import add, find, state_of, zoo_folder
from insitu.zoo.entries import ENTRIES, Entry

__all__ = ["ENTRIES", "Entry", "add", "find", "state_of", "zoo_folder"]

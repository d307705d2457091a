"""The zoo: named models and data sets, where they are published, their licence, and their checksums.

entries.py   the table
cache.py     where the files are (INSITU_CACHE/zoo), finding and checking them, what to do if one is missing
fetch.py     `insitu zoo get NAME`: a download that resumes, from the publisher or a mirror

Nothing is downloaded unless the user asks for it. `insitu zoo add FILE` takes a file that is here already; it is
recognised by its sha256.
"""

from insitu.zoo.cache import add, find, state_of, zoo_folder
from insitu.zoo.entries import ENTRIES, Entry
from insitu.zoo.fetch import get

__all__ = ["ENTRIES", "Entry", "add", "find", "get", "state_of", "zoo_folder"]

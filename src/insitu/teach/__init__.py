"""`insitu teach FOLDER`: from a folder of examples to a network that has learned them, with nothing else to choose.

material.py     what the folder contains: photos, recordings, or a table; its classes; what is kept for the test
backbones.py    networks that know photos already, the most accurate first; each takes one line
scratch.py      networks for tables and recordings, which start from nothing
examples.py     the examples in the form that a network takes
teach.py        the steps, one line each
result.py       what came of it: the learner, and how it does on the test
"""

from insitu.teach.result import Taught
from insitu.teach.teach import teach

__all__ = ["Taught", "teach"]

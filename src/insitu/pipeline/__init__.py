"""The whole compiler as one function, one line per stage: from your model to a program that learns.

    compiling    compile(): the stages in their order
    network      the forward network: loaded, in its arithmetic, with its head
    recipes      how it learns, if the user does not say
    choosing     what is trained: the scheme, or as much as fits
    notes, dump  what is said about it
    proving      prove(), by the same stages
    searching    search(): which schemes are best for a board

Each stage is a folder of its own and knows nothing of the others; the modules here pass results from one to the next.
"""

from insitu.pipeline.choosing import measured
from insitu.pipeline.compiling import compile
from insitu.pipeline.network import has_statistics, head_of, load, new_head, to_precision
from insitu.pipeline.proving import prove
from insitu.pipeline.searching import search
from insitu.training.parts import trainable

__all__ = [
    "compile", "has_statistics", "head_of", "load", "measured", "new_head", "prove", "search", "to_precision",
    "trainable",
]  # fmt: skip

"""How a written file's results compare with the learner's own, as numbers and words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from insitu.training.train import Recipe

FAR = 0.25  # a file whose outputs are further off than this share of the largest is wrong, whatever its rounding
CLASSES = ("cross_entropy", "soft_cross_entropy")  # losses of learners that answer with a class


@dataclass(frozen=True)
class Comparison:
    """A written file, run beside the learner on the same samples."""

    by: str = ""  # who ran the file
    samples: int = 0
    same_answers: int | None = 0  # samples with the same likeliest class; None if outputs are no classes
    worst: float = 0.0  # difference of an output, as a share of the largest
    values: int = 0  # int8 values that were compared, in all layers; none in a float file
    unequal: int = 0
    steps: int = 0  # between the two int8 values that differ most
    why: str = ""  # the first of them, and its reason

    def output(self, got: np.ndarray, want: np.ndarray, first: bool = True) -> Comparison:
        """With an output as well; the first one has the classes."""
        same = int(np.argmax(got) == np.argmax(want)) if first else 0
        return replace(self, worst=max(self.worst, distance(got, want)), same_answers=(self.same_answers or 0) + same,
                       samples=self.samples + first)  # fmt: skip

    def inside(self, got: np.ndarray, want: np.ndarray) -> Comparison:
        """With the int8 values of a layer as well."""
        off = np.abs(np.asarray(got, np.int16) - np.asarray(want, np.int16))
        return replace(self, values=self.values + off.size, unequal=self.unequal + int(np.count_nonzero(off)),
                       steps=max(self.steps, int(off.max(initial=0))))  # fmt: skip

    def of(self, recipe: Recipe) -> Comparison:
        """Without answers, if this recipe's outputs are no classes."""
        return self if recipe.loss in CLASSES else replace(self, same_answers=None)

    @property
    def words(self) -> str:
        """One sentence: first what matters to whoever uses the file."""
        if not self.unequal:
            inside = f"all {self.values:,} int8 values equal, " if self.values else ""
            return f"{inside}{self._outputs}" + ("" if self.values else f", on {self._count}")
        same = "" if self.same_answers is None else f"the same answer for {self.same_answers:,} of {self._count}, "
        steps = f"{self.steps} step{'s' * (self.steps != 1)}"
        inside = f"inside, {_percent(self.unequal / self.values)} of the int8 values are rounded differently"
        first = f" (first in {self.why})" if self.why else ""
        return f"{same}{self._outputs}; {inside}, by at most {steps}{first}"

    @property
    def _count(self) -> str:
        return f"{self.samples:,} sample{'' if self.samples == 1 else 's'}"

    @property
    def _outputs(self) -> str:
        return f"outputs within {_percent(self.worst)} of the largest" if self.worst else "outputs equal"

    def __str__(self) -> str:
        return f"{self.by}: {self.words}"


def _percent(part: float) -> str:
    return f"{part:.1%}" if part >= 0.0005 else f"{part:.0e}"


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, as a share of the largest number wanted."""
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(b), initial=0.0), 1e-6))

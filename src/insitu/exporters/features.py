"""What to say if a graph begins with features of ours, which no other format has."""

from __future__ import annotations

from collections.abc import Collection

from insitu.ops.motion import fir
from insitu.ops.pixels import pixels, yuv420
from insitu.ops.sound import cepstrum, log_mel, spectrum

OURS = {op.name for op in (spectrum, log_mel, cepstrum, fir, pixels, yuv420)}
HINT = "only the C program computes features itself; or export a model that was compiled without its transform"


def hint_about(missing: Collection[str], usual: str = "") -> str:
    """The hint for ops that cannot be written."""
    return HINT if OURS & set(missing) else usual

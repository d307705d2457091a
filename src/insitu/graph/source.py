"""What the numbers of a first input are, so that files can be read for it: sound of some rate, a camera's pixels."""

from __future__ import annotations

from dataclasses import dataclass

RGB = "rgb"
UNIT, BYTES = (0.0, 1.0), (0.0, 255.0)  # ranges of pixels


@dataclass(frozen=True)
class Source:
    """Where raw samples come from."""

    rate: int | None = None  # of sound: samples per second
    camera: str = RGB  # the bytes of a pixel
    overlap: float = 0.5  # of recordings: the share of its readings that a window has in common with the next
    pixels: tuple[float, float] = UNIT  # the range that pixels of 0 to 255 are scaled to, for a float input

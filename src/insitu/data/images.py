"""An image file as the pixels that an input takes: its size, layout and channels, or the bytes of a camera.

Folders and labels are read elsewhere (reading.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from insitu.data.camera import to_camera
from insitu.errors import DataError, needs
from insitu.graph import Value
from insitu.graph.source import RGB
from insitu.ops.pixels import PLANAR

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp", ".gif", ".tif", ".tiff")
GREYS = ("1", "L", "LA", "F")  # what Pillow calls images without colours, and WIDE ones
WIDE = "I"  # what Pillow calls images of more than 8 bits per pixel begins with it


def read_image(path: Path, value: Value, camera: str = RGB) -> tuple[np.ndarray, tuple[int, int]]:
    """The image as float32 0..255 in the size, layout and channels of the input, or as the bytes of
    its camera; and its original size.
    """
    try:
        from PIL import Image
    except ImportError:
        raise needs("pillow", "images", "reading images") from None
    height, width, channels, first = layout(value, camera)
    try:
        image = _of_bytes(Image.open(path)).convert("L" if channels == 1 else "RGB")
    except Image.DecompressionBombError as e:
        most = (Image.MAX_IMAGE_PIXELS or 0) * 2
        raise DataError(f"has more than {most:,} pixels", where=str(path), hint="make the image smaller") from e
    except (OSError, ValueError, SyntaxError) as e:
        why = getattr(e, "strerror", None)  # Pillow's own errors have none
        raise DataError(f"cannot be read: {why}" if why else "is not an image, or is damaged", where=str(path)) from e
    pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)).reshape(height, width, channels)
    pixels = to_camera(pixels, camera).astype(np.float32)
    return (pixels.transpose(2, 0, 1) if first else pixels), image.size


def picture_sizes(files: Iterable[Path]) -> tuple[np.ndarray, bool]:
    """Width and height of every picture that can be opened [pictures, 2], and whether all of them are grey."""
    try:
        from PIL import Image
    except ImportError:
        raise needs("pillow", "images", "reading images") from None
    sizes, modes = [], set()
    for file in files:
        try:
            with Image.open(file) as image:  # reads only the beginning of the file
                sizes.append(image.size)
                modes.add(image.mode)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            continue  # named by whoever reads it
    grey = all(mode in GREYS or mode.startswith(WIDE) for mode in modes)
    return np.array(sizes, np.int64).reshape(-1, 2), grey


def _of_bytes(image: Any) -> Any:
    """The image the right way up, its pixels 0..255; those of a 16-bit image are divided by 257, not cut off at 255."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if not image.mode.startswith(WIDE):  # I, I;16, I;16B
        return image
    return Image.fromarray((np.asarray(image).astype(np.float64) / 257).round().clip(0, 255).astype(np.uint8))


def layout(value: Value, camera: str = RGB) -> tuple[int, int, int, bool]:
    """(height, width, channels, whether channels come first) of the images that an input takes."""
    if camera != RGB:
        rows, width = value.shape[1:3]
        return (2 * rows // 3 if camera in PLANAR else rows), width, 3, False
    if value.type.rank != 4 or not {1, 3} & {value.shape[1], value.shape[3]}:
        raise DataError(f"input {value.name} is {value.type}, not an image with one or three channels")
    first = value.shape[3] not in (1, 3)
    _, a, b, c = value.shape
    return (b, c, a, True) if first else (a, b, c, False)

"""From a float graph to an int8 one: fold it, calibrate it, quantize it."""

from insitu.quantizer.calibrate import Ranges, calibrate
from insitu.quantizer.fold import fold, is_int8
from insitu.quantizer.int8 import fallbacks, quantize, reference

__all__ = ["Ranges", "calibrate", "fallbacks", "fold", "is_int8", "quantize", "reference"]

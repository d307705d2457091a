"""`insitu demo`: a small real network through every stage there is. Its network is digits.onnx, beside this file.

The network was trained by scripts/train_demo.py; the data come with scikit-learn. Nothing is downloaded.
"""

from insitu.demo.digits import TARGET, Digits, digits
from insitu.demo.run import Demo, run_demo

__all__ = ["TARGET", "Demo", "Digits", "digits", "run_demo"]

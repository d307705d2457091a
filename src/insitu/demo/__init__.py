"""The code of `insitu demo`, and small real data and networks for documents and examples. Nothing is downloaded.

watch.py     smartwatch motion, by wearer; networks/ has one network per wearer, trained without that wearer
lesson.py    how a watch learns its wearer
run.py       the demo: compile, train in the firmware of an emulated board, measure; page.py and device.py serve it
vision.py    the same with photos, if the zoo's cache has them
digits.py    scikit-learn's digits and a network for them (digits.onnx), for the README and the tour
"""

from insitu.demo.digits import TARGET, Digits, digits

__all__ = ["TARGET", "Digits", "digits"]

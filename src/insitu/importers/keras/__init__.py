"""Keras 3 models, through its torch backend."""

"""Layers in stripes of rows: a value inside has a buffer of a few rows and never exists whole."""

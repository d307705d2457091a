"""Rewrites of a training graph, one file per pass: the same results with less to compute or to keep."""

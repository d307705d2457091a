"""Ways to need less memory for the same bytes, one file (or folder) each. lower.py decides when they are tried."""

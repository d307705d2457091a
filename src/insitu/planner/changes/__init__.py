"""Ways to need less memory for the same bytes, a file (or a folder) each. When they are tried is said in lower.py."""

"""Clean-up after an import: whatever the format, the same network gives the same graph."""
